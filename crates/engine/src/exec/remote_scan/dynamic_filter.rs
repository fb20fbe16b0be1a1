//! Dynamic filters: scans that wait for the build-side keys of joins above them.

use std::sync::Arc;

use pushdowndb_contract::{Expr, Result};

use super::RemoteScanExec;
use crate::context::QueryContext;
use crate::exec::key_predicate;
use crate::exec::key_predicate::KeyFilterOutcome;
use crate::plan::explanation::Explanation;
use crate::plan::join_keys::{BuildKeys, KeyFilter};
use crate::plan::placement::{Choice, Route};
use crate::plan::scan_plan::{ScanPlan, WithoutKeys};
use crate::settings::{HighestLevel, Side};
use crate::strategies::filter;

impl RemoteScanExec {
    /// Returns the same scan, filtered also by `filters`, whose keys come from `keys`.
    pub(crate) fn with_key_filters(&self, filters: Vec<KeyFilter>, keys: &Arc<BuildKeys>) -> Result<Self> {
        let (mut plan, mut context) = (self.plan.clone(), self.context.clone());
        plan.key_filters.extend(filters);
        context.join_keys.insert(keys.id(), Arc::clone(keys));
        self.in_place_with(plan, context)
    }

    /// Returns the same scan with `explanation`, the decision about a join, added for EXPLAIN.
    pub(crate) fn with_join(&self, explanation: Explanation) -> Self {
        let mut scan = self.clone();
        scan.decisions.joins.push(Arc::new(explanation));
        scan
    }

    pub(crate) fn joins(&self) -> &[Arc<Explanation>] {
        &self.decisions.joins
    }

    /// Returns whether the scan yields all rows that pass its filter, so that further filters
    /// commute with it.
    pub(crate) fn yields_rows(&self) -> bool {
        self.plan.aggregate.is_none() && self.plan.limit.is_none() && self.plan.top_k.is_none()
    }

    /// Returns the same scan at level `none`, where everything is read plainly.
    pub(crate) fn read_plainly(&self) -> Result<Self> {
        let mut context = self.context.clone();
        context.options.level = HighestLevel::None;
        self.in_place_with(self.plan.clone(), context)
    }

    pub(crate) fn shown_keys(&self) -> String {
        let schema = &self.fragment.schema;
        let shown = |filter: &KeyFilter| format!("{} of {}", filter.key.display(schema), filter.of);
        let keys: Vec<String> = self.plan.key_filters.iter().map(shown).collect();
        if keys.is_empty() { String::new() } else { format!(", keys=[{}]", keys.join(", ")) }
    }

    /// Waits for the join keys and returns the scan with a predicate in place of its key filters;
    /// `None` if no row can match.
    pub(crate) async fn with_dynamic_filter(&self, query: &QueryContext) -> Result<Option<Self>> {
        let plain = ScanPlan { key_filters: vec![], ..self.plan.clone() };
        let exact = plain.aggregate.is_some();
        let options = &self.context.options;
        let filters = &self.plan.key_filters;
        let keys: Vec<_> = filters.iter().map(|filter| self.context.keys_of(filter)).collect();
        let route = filter::route(&self.fragment, &self.placement().capability, options, Side::Auto).ok();
        let (outcome, explanations) =
            key_predicate::resolve(filters, &keys, &self.fragment, exact, route, &self.placement().capability, options)
                .await?;
        self.note_keys().await;
        query.meter.strategy(format!("{}: join by {}", self.plan.name, explanations.join("; ")));
        let keys = match outcome {
            KeyFilterOutcome::NoRows => return Ok(None),
            KeyFilterOutcome::Predicate(None) => None,
            KeyFilterOutcome::Predicate(Some(keys)) => Expr::and_opt(plain.predicate.clone(), Some(keys)),
        };
        let filtered = keys.map(|keys| {
            let without_keys =
                WithoutKeys { predicate: self.fragment.predicate.clone(), rows: self.cardinality().rows() };
            self.in_place(ScanPlan { predicate: Some(keys), without_keys: Some(without_keys), ..plain.clone() })
        });
        // Plain reads evaluate key predicates too. On S3 Select, the key predicate is dropped
        // unless storage evaluates all of it.
        let is_of_use = |scan: &Self| route != Some(Route::Select) || matches!(scan.choice(), Choice::Storage { .. });
        let scan = match filtered.transpose()?.filter(is_of_use) {
            Some(scan) => scan,
            None => self.in_place(plain)?,
        };
        Ok(Some(scan))
    }

    /// Records the key counts of the build sides as feedback.
    pub(crate) async fn note_keys(&self) {
        let Some(statistics) = &self.context.statistics else { return };
        for filter in &self.plan.key_filters {
            if let (Some(keys), Some(side)) = (self.context.keys_of(filter).key_count(filter.index).await, filter.side)
            {
                statistics.feedback().note_keys(side, keys);
            }
        }
    }
}

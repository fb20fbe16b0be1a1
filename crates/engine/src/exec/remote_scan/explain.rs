//! EXPLAIN output of scans.

use std::fmt;
use std::sync::Arc;

use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use pushdowndb_contract::{Expr, Level, Output};

use super::RemoteScanExec;
use super::placement::Sampling;
use crate::plan::explanation::Explanation;
use crate::plan::placement::{Choice, Route};
use crate::plan::split_sample::WHOLE;
use crate::settings::Side;
use crate::strategies::filter;
use crate::strategies::index::IndexChoice;

/// Maximum characters of a filter in the output; longer filters are cut.
const MAX_FILTER_CHARS: usize = 500;

impl RemoteScanExec {
    /// Describes the placement in one line, for EXPLAIN and the query's report.
    pub(crate) fn explanation(&self) -> String {
        let schema = &self.fragment.schema;
        if let Some(Sampling { top_k, sample, .. }) = &self.placement().sampling {
            let (k, key) = (top_k.k, top_k.key.display(schema));
            let order = if top_k.order.descending { "DESC" } else { "ASC" };
            let route = filter::route(&self.fragment, &self.placement().capability, &self.context.options, Side::Auto);
            let level = route.map_or(Level::None, Route::level);
            return format!(
                "level={level} ({}), top-k=[{k} by {key} {order}], first a sample of {} rows for the bound, \
                 filter=[{}]",
                self.placement().capability.profile.name(),
                sample.rows,
                self.fragment.predicate.as_ref().map_or("none".to_owned(), |p| p.display(schema).to_string()),
            );
        }
        let filter = |predicate: &Option<Expr>| match predicate {
            // A Bloom filter in SQL is long.
            Some(predicate) => match predicate.display(schema).to_string() {
                long if long.len() > MAX_FILTER_CHARS => long.chars().take(MAX_FILTER_CHARS).chain(['…']).collect(),
                short => short,
            },
            None => "none".to_owned(),
        };
        if let Some(lookup) = self.placement().index.lookup() {
            return format!("{}, filter=[{}]", lookup.explanation(schema), filter(&self.fragment.predicate));
        }
        let what = |output: &Output| match output {
            Output::Rows(columns) => {
                let names: Vec<_> = columns.iter().map(|c| c.name.as_str()).collect();
                format!("columns=[{}]", names.join(", "))
            }
            Output::Aggregate { groups, calls } => {
                let calls: Vec<_> = calls.iter().map(|c| c.name.as_str()).collect();
                let keys: Vec<_> = groups.iter().map(|key| key.expr.display(schema).to_string()).collect();
                match keys.as_slice() {
                    [] => format!("aggregates=[{}]", calls.join(", ")),
                    keys => format!("groups=[{}], aggregates=[{}]", keys.join(", "), calls.join(", ")),
                }
            }
        };
        match &self.placement().choice {
            Choice::Compute(why) => {
                let aggregates = match &self.fragment.output {
                    Output::Rows(_) => String::new(),
                    output => format!("engine: {}, ", what(output)),
                };
                let reads = self.placement().plain_reads.map(|reads| format!(", {} reads at once", reads.at_once()));
                let reads = reads.unwrap_or_default();
                let why = self.decisions.reads_plainly.filter(|_| why == filter::ASKED).unwrap_or(why);
                format!("level=none ({why}{reads}), {aggregates}filter=[{}]", filter(&self.fragment.predicate))
            }
            Choice::Storage { request, exact, route } => {
                let what = what(&request.output);
                let residual = if *exact { "none".to_owned() } else { filter(&self.fragment.predicate) };
                let limit = request.limit.map(|n| format!(", limit={n}")).unwrap_or_default();
                let level = route.level();
                let order =
                    self.placement().live_top_k.as_ref().map(|live| format!(", top-k=[{}]", live.display(schema)));
                let limit = order.unwrap_or(limit);
                format!(
                    "level={level} ({}{}), storage: {what}, filter=[{}]{limit}, residual=[{residual}]",
                    self.placement().capability.profile.name(),
                    self.shown_endpoints(),
                    filter(&request.predicate),
                )
            }
        }
    }
}

impl RemoteScanExec {
    /// Formats the number of stores that hold the table, or of nodes in the fleet, for EXPLAIN.
    /// Returns an empty string if there is one store and no fleet.
    fn shown_endpoints(&self) -> String {
        match (&self.context.fleet, self.context.backend.stores()) {
            (_, stores @ 2..) => format!(", {stores} stores"),
            (Some(fleet), _) => format!(", {} nodes", fleet.len()),
            (None, _) => String::new(),
        }
    }

    /// Returns the decision about the filter. Returns `None` if an operator above decided where the
    /// scan runs and no index was considered.
    fn filter_explanation(&self) -> Option<Explanation> {
        let is_noted = self.decisions.above.is_some() || self.placement().note.is_some();
        let chosen_above = !self.decisions.joins.is_empty() || is_noted || self.plan.aggregate.is_some();
        if chosen_above && matches!(self.placement().index.verdict, IndexChoice::None) {
            return None;
        }
        filter::explanation(
            &self.plan,
            &self.context,
            &self.fragment,
            &self.placement().capability,
            &self.placement().choice,
            &self.placement().index.verdict,
        )
    }

    fn details(&self) -> String {
        format!("{}{}{}", self.explanation(), self.shown_keys(), self.shown_reuse())
    }

    /// Format, objects, splits and placement.
    pub(crate) fn summary(&self) -> String {
        let (format, objects, splits) = (self.fragment.format.name(), self.plan.objects.len(), self.splits());
        format!("{format}, {objects} objects, {splits} splits, {}", self.details())
    }

    /// Returns all decisions about the scan: its own and those of operators above.
    pub(crate) fn explanations(&self) -> Vec<Arc<Explanation>> {
        let own = self.filter_explanation().map(Arc::new);
        let note = self.placement().note.clone().or_else(|| self.decisions.above.clone());
        self.decisions.joins.iter().cloned().chain(own).chain(note).collect()
    }
}

impl DisplayAs for RemoteScanExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match kind {
            DisplayFormatType::TreeRender => write!(f, "{}\n{}", self.plan.name, self.details()),
            _ => {
                let (name, format, objects) = (&self.plan.name, self.fragment.format.name(), self.plan.objects.len());
                write!(f, "RemoteScanExec: {name} ({format}, {objects} objects, {} splits), ", self.splits())?;
                if let Some(sample) = self.plan.sample {
                    write!(f, "a sample of {} %, ", sample.share as f64 * 100.0 / WHOLE as f64)?;
                }
                f.write_str(&self.details())?;
                self.explanations().iter().try_for_each(|explanation| write!(f, ", {explanation}"))
            }
        }
    }
}

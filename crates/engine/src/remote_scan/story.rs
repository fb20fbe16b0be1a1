//! What EXPLAIN and the report say of a scan.

use std::fmt;
use std::sync::Arc;

use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use pushdown::{Expr, Level, Output};

use super::{RemoteScanExec, Sampling};
use crate::profile::Measures;
use crate::settings::Side;
use crate::strategies::decision::Story;
use crate::strategies::filter::{self, Choice, Route};
use crate::strategies::index::Verdict;

/// Filters are told up to so many characters.
const LONGEST_STORY: usize = 500;

impl RemoteScanExec {
    /// One line on what is pushed, for EXPLAIN and the report.
    pub(super) fn story(&self) -> String {
        let schema = &self.fragment.schema;
        if let Some(Sampling { top_k, sample, .. }) = &self.sampling {
            let (k, key) = (top_k.k, top_k.key.display(schema));
            let order = if top_k.order.descending { "DESC" } else { "ASC" };
            let route = filter::route(&self.fragment, &self.capability, &self.spec.options, Side::Auto);
            let level = route.map_or(Level::None, Route::level);
            return format!(
                "level={level} ({}), top-k=[{k} by {key} {order}], first a sample of {} rows for the bound, \
                 filter=[{}]",
                self.capability.profile.name(),
                sample.rows,
                self.fragment.predicate.as_ref().map_or("none".to_owned(), |p| p.display(schema).to_string()),
            );
        }
        let filter = |predicate: &Option<Expr>| match predicate {
            // A Bloom filter in SQL is long.
            Some(predicate) => match predicate.display(schema).to_string() {
                long if long.len() > LONGEST_STORY => long.chars().take(LONGEST_STORY).chain(['…']).collect(),
                short => short,
            },
            None => "none".to_owned(),
        };
        if let Some(lookup) = self.index.lookup() {
            return format!("{}, filter=[{}]", lookup.story(schema), filter(&self.fragment.predicate));
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
        match &self.choice {
            Choice::Compute(why) => {
                let aggregates = match &self.fragment.output {
                    Output::Rows(_) => String::new(),
                    output => format!("engine: {}, ", what(output)),
                };
                format!("level=none ({why}), {aggregates}filter=[{}]", filter(&self.fragment.predicate))
            }
            Choice::Storage { request, exact, route } => {
                let what = what(&request.output);
                let residual = if *exact { "none".to_owned() } else { filter(&self.fragment.predicate) };
                let limit = request.limit.map(|n| format!(", limit={n}")).unwrap_or_default();
                let level = route.level();
                let order = self.live.as_ref().map(|live| format!(", top-k=[{}]", live.display(schema)));
                let limit = order.unwrap_or(limit);
                format!(
                    "level={level} ({}), storage: {what}, filter=[{}]{limit}, residual=[{residual}]",
                    self.capability.profile.name(),
                    filter(&request.predicate),
                )
            }
        }
    }
}

impl RemoteScanExec {
    /// How it was chosen where rows are filtered, unless an operator above chose for it.
    fn filter_story(&self) -> Option<Story> {
        let chosen_above = !self.spec.joins.is_empty() || self.spec.note.is_some() || self.spec.aggregate.is_some();
        if chosen_above && matches!(self.index.verdict, Verdict::None) {
            return None;
        }
        filter::story(&self.spec, &self.fragment, &self.capability, &self.choice, &self.index.verdict)
    }

    fn told(&self) -> String {
        format!("{}{}{}", self.story(), self.shown_keys(), self.shown_reuse())
    }

    /// What it scans, where, and what storage does of it.
    pub(crate) fn summary(&self) -> String {
        let (format, objects, splits) = (self.fragment.format.name(), self.spec.objects.len(), self.splits());
        format!("{format}, {objects} objects, {splits} splits, {}", self.told())
    }

    /// What it was expected to cost as it was chosen to run, by what was chosen last; without a choice only as far as
    /// the caps need to know.
    pub(crate) fn expected(&self) -> Measures {
        if self.reuses() {
            return Measures { bytes: Some(0), requests: Some(0), ..Measures::default() };
        }
        if let Some(estimate) = self.stories().last().and_then(|story| story.estimate) {
            return estimate.into();
        }
        let usage = self.estimate();
        let (bytes, requests) = (Some(usage.bytes_network), Some(usage.requests.total()));
        Measures { bytes, requests, ..Measures::default() }
    }

    /// All that was chosen for it, by itself and by the operators above.
    pub(crate) fn stories(&self) -> Vec<Arc<Story>> {
        let own = self.filter_story().map(Arc::new);
        self.spec.joins.iter().cloned().chain(own).chain(self.spec.note.clone()).collect()
    }
}

impl DisplayAs for RemoteScanExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match kind {
            DisplayFormatType::TreeRender => write!(f, "{}\n{}", self.spec.name, self.told()),
            _ => {
                let (name, format, objects) = (&self.spec.name, self.fragment.format.name(), self.spec.objects.len());
                write!(f, "RemoteScanExec: {name} ({format}, {objects} objects, {} splits), ", self.splits())?;
                f.write_str(&self.told())?;
                self.stories().iter().try_for_each(|story| write!(f, ", {story}"))
            }
        }
    }
}

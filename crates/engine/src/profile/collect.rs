//! Collecting a profile from a plan.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::config::{ConfigExtension, ExtensionOptions};
use datafusion::physical_plan::metrics::{MetricValue, MetricsSet};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use pushdowndb_cost::Usage;

use super::{Decision, LookedUp, Measures, Operator, Profile, Scan};
use crate::context::QueryContext;
use crate::exec::group_by::GroupByExec;
use crate::exec::remote_scan::RemoteScanExec;
use crate::plan::estimate::Estimate;
use crate::plan::explanation::Explanation;
use crate::settings::PushdownOptions;

/// Operators that only move or observe rows.
const PLUMBING: [&str; 5] =
    ["CoalescePartitionsExec", "CooperativeExec", "SharedRowsScopeExec", "BuildKeysExec", "RepartitionExec"];

/// A started plan, and what else a profile needs.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) statement: Arc<str>,
    /// The usage before the plan started.
    pub(crate) planning: Usage,
    /// The number of rows of the plan, if the result of the statement has other rows.
    pub(crate) rows: Option<Arc<AtomicU64>>,
}

impl Ran {
    /// Returns the profile so far.
    pub(crate) fn profile(&self, query: &QueryContext) -> Profile {
        let mut usage = query.usage();
        if let Some(rows) = &self.rows {
            usage.rows = rows.load(Ordering::Relaxed);
        }
        let mut root = operator(&self.plan, query, &StatisticsContext::new());
        root.actual.rows.get_or_insert(usage.rows);
        let settings = query
            .options
            .entries()
            .into_iter()
            .map(|entry| (format!("{}.{}", PushdownOptions::PREFIX, entry.key), entry.value.unwrap_or_default()));
        Profile {
            statement: self.statement.to_string(),
            settings: settings.collect(),
            root,
            planning: self.planning.clone(),
            bill: query.bill(&usage),
            usage,
        }
    }
}

fn operator(plan: &Arc<dyn ExecutionPlan>, query: &QueryContext, statistics: &StatisticsContext) -> Operator {
    let children = plan.children().into_iter().map(|child| operator(child, query, statistics)).collect();
    let statistics = statistics.compute(plan.as_ref(), &StatisticsArgs::new());
    let estimated_rows = statistics.ok().and_then(|all| all.num_rows.get_value().copied());
    let estimated = Measures { rows: estimated_rows.map(|rows| rows as u64), ..Measures::default() };
    if let Some(scan) = plan.downcast_ref::<RemoteScanExec>() {
        return Operator { children, ..scanned(scan, estimated, query) };
    }
    let metrics = plan.metrics().unwrap_or_default();
    let line = displayable(plan.as_ref()).one_line().to_string();
    let explanations = plan.downcast_ref::<GroupByExec>().map(|groups| vec![groups.explanation()]);
    Operator {
        title: in_words(plan.name()),
        detail: detail(&line, plan.name()),
        is_plumbing: PLUMBING.contains(&plan.name()),
        estimated,
        actual: Measures {
            rows: metrics.output_rows().map(|rows| rows as u64),
            seconds: metrics.elapsed_compute().map(|nanos| nanos as f64 / 1e9),
            spilled: metrics.spilled_bytes().filter(|bytes| *bytes > 0).map(|bytes| bytes as u64),
            ..Measures::default()
        },
        scan: None,
        decisions: explanations.unwrap_or_default().into_iter().map(decision).collect(),
        children,
    }
}

fn scanned(scan: &RemoteScanExec, estimated: Measures, query: &QueryContext) -> Operator {
    let usage = scan.counters().usage();
    let usage = Usage { cores: query.meter.usage().cores, ..usage };
    let plan = scan.plan();
    Operator {
        title: format!("Scan of {}", plan.name),
        detail: scan.summary(),
        is_plumbing: false,
        estimated: Measures { rows: estimated.rows, ..scan.expected() },
        actual: Measures {
            rows: Some(usage.rows),
            bytes: Some(usage.bytes_network),
            requests: Some(usage.requests.total()),
            seconds: Some(usage.wall_s),
            usd: Some(query.bill(&usage).total()),
            spilled: None,
        },
        decisions: scan.explanations().iter().map(|explanation| decision(explanation)).collect(),
        scan: Some(Scan {
            table: plan.name.clone(),
            object_bytes: scan.bytes(),
            objects: plan.objects.len() as u64,
            usage,
            looked_up: scan.metrics().as_ref().and_then(looked_up),
        }),
        children: vec![],
    }
}

fn looked_up(metrics: &MetricsSet) -> Option<LookedUp> {
    let sum = |name: &str| metrics.sum_by_name(name).map_or(0, |value: MetricValue| value.as_usize() as u64);
    let looked_up = LookedUp { rows: sum("index_rows"), objects: sum("index_objects"), unused: sum("index_unused") };
    (looked_up != LookedUp { rows: 0, objects: 0, unused: 0 }).then_some(looked_up)
}

fn decision(explanation: &Explanation) -> Decision {
    let remark = explanation.remark.as_ref().map(|remark| format!(", {remark}")).unwrap_or_default();
    Decision {
        operator: explanation.operator.to_owned(),
        taken: explanation.taken.to_owned(),
        estimate: explanation.estimate.map(Measures::from),
        why: format!("{}{remark}", explanation.why),
        losers: explanation
            .alternatives
            .iter()
            .map(|(name, estimate)| ((*name).to_owned(), (*estimate).into()))
            .collect(),
        refused: explanation.refused.iter().map(|(name, why)| ((*name).to_owned(), why.clone())).collect(),
    }
}

impl RemoteScanExec {
    /// Returns the estimate of the last decision about the scan, or else the estimate that caps
    /// use.
    fn expected(&self) -> Measures {
        if self.reuses() {
            return Measures { bytes: Some(0), requests: Some(0), ..Measures::default() };
        }
        if let Some(estimate) = self.explanations().last().and_then(|explanation| explanation.estimate) {
            return estimate.into();
        }
        let usage = self.estimate();
        let (bytes, requests) = (Some(usage.bytes_network), Some(usage.requests.total()));
        Measures { bytes, requests, ..Measures::default() }
    }
}

impl From<Estimate> for Measures {
    fn from(estimate: Estimate) -> Self {
        let Estimate { bytes, requests, seconds, usd } = estimate;
        Self { bytes: Some(bytes), requests: Some(requests), seconds: Some(seconds), usd: Some(usd), ..Self::default() }
    }
}

/// Returns the name of an operator in words: `HashJoinExec` is `Hash join`.
fn in_words(name: &str) -> String {
    let mut words = String::new();
    let name = name.split('(').next().unwrap_or(name);
    for letter in name.strip_suffix("Exec").unwrap_or(name).chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
            words.extend(letter.to_lowercase());
        } else {
            words.push(letter);
        }
    }
    words
}

/// Returns the rest of an operator's line, after its name.
fn detail(line: &str, name: &str) -> String {
    let line = line.trim();
    line.strip_prefix(name).unwrap_or(line).trim_start_matches(':').trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words() {
        assert_eq!(in_words("HashJoinExec"), "Hash join");
        assert_eq!(in_words("DataSinkExec"), "Data sink");
    }

    #[test]
    fn details_are_what_follows_the_name() {
        assert_eq!(detail("FilterExec: a@1 = 2\n", "FilterExec"), "a@1 = 2");
        assert_eq!(detail("CrossJoinExec\n", "CrossJoinExec"), "");
    }
}

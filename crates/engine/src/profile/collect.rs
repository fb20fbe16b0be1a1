//! A profile from a plan that ran.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::config::{ConfigExtension, ExtensionOptions};
use datafusion::physical_plan::metrics::{MetricValue, MetricsSet};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use pushdowndb_cost::Usage;

use super::{Decision, LookedUp, Measures, Operator, Profile, Scan};
use crate::query::QueryContext;
use crate::remote_scan::RemoteScanExec;
use crate::settings::PushdownOptions;
use crate::strategies::decision::Story;
use crate::strategies::estimate::Estimate;
use crate::strategies::group_by::GroupByExec;

/// Operators that move rows between threads, or watch them go by.
const PLUMBING: [&str; 5] =
    ["CoalescePartitionsExec", "CooperativeExec", "KeptScopeExec", "KeyTapExec", "RepartitionExec"];

/// A plan on its way, and what a profile needs besides.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) statement: Arc<str>,
    /// What was used before it ran.
    pub(crate) planning: Usage,
    /// The rows that came out, where those of the result are others.
    pub(crate) rows: Option<Arc<AtomicU64>>,
}

impl Ran {
    /// What it did so far.
    pub(crate) fn profile(&self, query: &QueryContext) -> Profile {
        let mut usage = query.meter.usage();
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
    let stories = plan.downcast_ref::<GroupByExec>().map(|groups| vec![groups.story()]);
    Operator {
        title: in_words(plan.name()),
        detail: detail(&line, plan.name()),
        is_plumbing: PLUMBING.contains(&plan.name()),
        estimated,
        actual: Measures {
            rows: metrics.output_rows().map(|rows| rows as u64),
            seconds: metrics.elapsed_compute().map(|nanos| nanos as f64 / 1e9),
            ..Measures::default()
        },
        scan: None,
        decisions: stories.unwrap_or_default().into_iter().map(decision).collect(),
        children,
    }
}

fn scanned(scan: &RemoteScanExec, estimated: Measures, query: &QueryContext) -> Operator {
    let usage = scan.tally().usage();
    let usage = Usage { cores: query.meter.usage().cores, ..usage };
    let spec = scan.spec();
    Operator {
        title: format!("Scan of {}", spec.name),
        detail: scan.summary(),
        is_plumbing: false,
        estimated: Measures { rows: estimated.rows, ..scan.expected() },
        actual: Measures {
            rows: Some(usage.rows),
            bytes: Some(usage.bytes_network),
            requests: Some(usage.requests.total()),
            seconds: Some(usage.wall_s),
            usd: Some(query.bill(&usage).total()),
        },
        decisions: scan.stories().iter().map(|story| decision(story)).collect(),
        scan: Some(Scan {
            table: spec.name.clone(),
            object_bytes: scan.bytes(),
            objects: spec.objects.len() as u64,
            usage,
            looked_up: scan.metrics().as_ref().and_then(looked_up),
        }),
        children: vec![],
    }
}

fn looked_up(metrics: &MetricsSet) -> Option<LookedUp> {
    let sum = |name: &str| metrics.sum_by_name(name).map_or(0, |value: MetricValue| value.as_usize() as u64);
    let told = LookedUp { rows: sum("index_rows"), objects: sum("index_objects"), unused: sum("index_unused") };
    (told != LookedUp { rows: 0, objects: 0, unused: 0 }).then_some(told)
}

fn decision(story: &Story) -> Decision {
    let remark = story.remark.as_ref().map(|remark| format!(", {remark}")).unwrap_or_default();
    Decision {
        operator: story.operator.to_owned(),
        taken: story.taken.to_owned(),
        estimate: story.estimate.map(Measures::from),
        why: format!("{}{remark}", story.why),
        losers: story.losers.iter().map(|(name, estimate)| ((*name).to_owned(), (*estimate).into())).collect(),
        refused: story.refused.iter().map(|(name, why)| ((*name).to_owned(), why.clone())).collect(),
    }
}

impl From<Estimate> for Measures {
    fn from(estimate: Estimate) -> Self {
        let Estimate { bytes, requests, seconds, usd } = estimate;
        Self { rows: None, bytes: Some(bytes), requests: Some(requests), seconds: Some(seconds), usd: Some(usd) }
    }
}

/// `HashJoinExec` is a hash join.
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

/// What the line says besides the name.
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

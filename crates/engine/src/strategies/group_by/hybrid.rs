//! Hybrid: storage aggregates the large groups, the engine the many small ones (PushdownDB, Section VI-B).
//!
//! ```text
//! phase 1   SELECT g … over 1 % of the bytes              the large groups of the sample
//! phase 2   SELECT SUM(CASE WHEN g = 1 THEN v END), …     of the large groups
//!           SELECT g, v … WHERE g NOT IN (1, …)           of all others, grouped by the engine
//! ```
//!
//! The sample decides only what is cheap: a group that it never saw is among the others. The paper reads the first
//! 1 %; here the sample is spread over the table, because neighbouring rows are often alike.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use pushdown::Result;

use super::keys::{self, Group, Seen};
use super::{Costs, SAMPLED_SHARE};
use crate::query::QueryContext;
use crate::remote_scan::{PartialAggregate, RemoteScanExec};
use crate::settings::GroupByStrategy;
use crate::strategies::top_k::Sample;

/// A group with less than one in so many rows is small: its CASE for every row costs more than its rows.
pub(super) const SMALL: u64 = 100;

/// Fewer rows tell nothing about sizes.
const LEAST_ROWS: u64 = 20;

/// Phase 1: the groups of a sample.
pub(super) async fn groups(
    rows: &RemoteScanExec,
    wanted: &PartialAggregate,
    query: &Arc<QueryContext>,
    context: &Arc<TaskContext>,
) -> Result<Seen> {
    let columns = keys::columns(&wanted.groups);
    let all = rows.figures().scanned();
    let sample = Sample { rows: ((all * SAMPLED_SHARE) as u64).max(1), share: SAMPLED_SHARE };
    let sampled = rows.sampled(&columns, sample, query, context)?;
    keys::count(&wanted.groups, &columns, &wanted.schema, sampled).await
}

/// Those of the seen groups that storage shall aggregate: all large ones if a setting asked for it, else as many as
/// make it fastest, perhaps none.
pub(super) fn large(seen: Seen, rows: &RemoteScanExec, wanted: &PartialAggregate) -> Vec<Group> {
    let total = seen.rows;
    if total < LEAST_ROWS {
        return vec![];
    }
    let asked = rows.spec().options.large_groups;
    if asked > 0 {
        return seen.groups.into_iter().take(asked).collect();
    }
    let mut large: Vec<Group> =
        seen.groups.into_iter().take_while(|group| group.rows.saturating_mul(SMALL) >= total).collect();
    if rows.spec().options.group_by == GroupByStrategy::Auto {
        let costs = Costs::of(rows, Some(wanted));
        let mut tail = total;
        let mut estimates = vec![costs.hybrid(wanted, 0, 1.0)];
        for (count, group) in (1u64..).zip(&large) {
            tail = tail.saturating_sub(group.rows);
            estimates.push(costs.hybrid(wanted, count, tail as f64 / total as f64));
        }
        large.truncate(costs.scan.model().best(&estimates).unwrap_or(0));
    }
    large
}

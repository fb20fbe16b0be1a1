//! Hybrid group-by: storage aggregates large groups, the engine the small ones (PushdownDB, Section
//! VI-B).
//!
//! ```text
//! phase 1   SELECT g … over 1 % of the bytes              the large groups of the sample
//! phase 2   SELECT SUM(CASE WHEN g = 1 THEN v END), …     of the large groups
//!           SELECT g, v … WHERE g NOT IN (1, …)           of all others, grouped by the engine
//! ```
//!
//! The sample affects only the cost: a group missing from it is grouped by the engine. The paper
//! samples the first 1 % of the table; this sample is spread over the table, because neighboring
//! rows are often alike.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use pushdowndb_contract::Result;

use super::keys;
use super::keys::{Group, GroupCounts};
use crate::context::QueryContext;
use crate::exec::remote_scan::RemoteScanExec;
use crate::plan::partial_aggregate::PartialAggregate;
use crate::settings::GroupByStrategy;
use crate::strategies::group_by::{Costs, LARGE_GROUP_INVERSE_SHARE, SAMPLE_SHARE};
use crate::strategies::top_k::Sample;

/// Minimum rows of a usable sample.
const MIN_SAMPLE_ROWS: u64 = 20;

/// Phase 1: counts the groups of a sample.
pub(crate) async fn groups(
    rows: &RemoteScanExec,
    wanted: &PartialAggregate,
    query: &Arc<QueryContext>,
    context: &Arc<TaskContext>,
) -> Result<GroupCounts> {
    let columns = keys::columns(&wanted.groups);
    let all = rows.cardinality().scanned();
    let sample = Sample { rows: ((all * SAMPLE_SHARE) as u64).max(1), share: SAMPLE_SHARE };
    let sampled = rows.sampled(&columns, sample, query, context)?;
    keys::count(&wanted.groups, &columns, &wanted.schema, sampled).await
}

/// Selects the groups that storage aggregates. The setting `large_groups` fixes their number if it
/// is not 0. Otherwise they are the groups above a minimum share of the rows, of which the strategy
/// `auto` keeps as many of the largest as minimize the estimate. The result may be empty.
pub(crate) fn large(counted: GroupCounts, rows: &RemoteScanExec, wanted: &PartialAggregate) -> Vec<Group> {
    let total = counted.rows;
    if total < MIN_SAMPLE_ROWS {
        return vec![];
    }
    let asked = rows.context().options.large_groups;
    if asked > 0 {
        return counted.groups.into_iter().take(asked).collect();
    }
    let mut large: Vec<Group> = counted
        .groups
        .into_iter()
        .take_while(|group| group.rows.saturating_mul(LARGE_GROUP_INVERSE_SHARE) >= total)
        .collect();
    if rows.context().options.group_by == GroupByStrategy::Auto {
        let costs = Costs::of(rows.placed(), Some(wanted));
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

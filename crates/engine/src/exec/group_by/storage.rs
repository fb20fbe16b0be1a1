//! Group-by in S3 Select: storage aggregates every group that occurs (PushdownDB, Section VI-A).
//!
//! ```text
//! phase 1   SELECT g … WHERE filter                     the engine takes the distinct keys
//! phase 2   SELECT SUM(CASE WHEN g = 1 THEN v END), …   one row per split and request
//! ```
//!
//! This strategy is best with few groups, since storage evaluates a CASE per row, aggregate and
//! group, and phase 1 returns a key per row. If phase 1 finds too many groups, execution continues
//! as in the hybrid strategy.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use pushdowndb_contract::Result;

use super::keys;
use super::keys::GroupCounts;
use crate::error::from_datafusion;
use crate::exec::remote_scan::RemoteScanExec;
use crate::plan::partial_aggregate::PartialAggregate;
use crate::plan::scan_plan::ScanPlan;

/// Phase 1: counts all groups.
pub(crate) async fn groups(
    rows: &RemoteScanExec,
    wanted: &PartialAggregate,
    context: &Arc<TaskContext>,
) -> Result<GroupCounts> {
    let columns = keys::columns(&wanted.groups);
    let scan =
        rows.with_plan(ScanPlan { projection: columns.clone(), ..rows.plan().clone() })?.without_note().first_phase();
    let partitions = 0..scan.properties().output_partitioning().partition_count();
    let streams = partitions.map(|partition| scan.execute(partition, Arc::clone(context)));
    let streams = streams.collect::<datafusion::common::Result<_>>().map_err(from_datafusion)?;
    keys::count(&wanted.groups, &columns, &wanted.schema, (scan.schema(), keys::merged(streams))).await
}

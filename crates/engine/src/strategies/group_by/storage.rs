//! Storage at S3 Select: every group that occurs is asked for (PushdownDB, Section VI-A).
//!
//! ```text
//! phase 1   SELECT g … WHERE filter                     the engine takes the distinct keys
//! phase 2   SELECT SUM(CASE WHEN g = 1 THEN v END), …   one row per split and request
//! ```
//!
//! It wins with few groups: each costs storage a CASE per row and aggregate, and phase 1 sends a key for every row.
//! Where more groups occur than [`MOST_GROUPS`], storage aggregates the large ones and the engine the others, as in hybrid.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use pushdown::Result;

use super::keys::{self, Seen};
use crate::error::from_datafusion;
use crate::remote_scan::{PartialAggregate, RemoteScanExec, ScanSpec};

/// The most groups that are asked for.
pub(super) const MOST_GROUPS: usize = 2048;

/// Phase 1: all groups.
pub(super) async fn groups(
    rows: &RemoteScanExec,
    wanted: &PartialAggregate,
    context: &Arc<TaskContext>,
) -> Result<Seen> {
    let columns = keys::columns(&wanted.groups);
    let scan =
        rows.with_spec(ScanSpec { projection: columns.clone(), note: None, ..rows.spec().clone() })?.first_phase();
    let partitions = 0..scan.properties().output_partitioning().partition_count();
    let streams = partitions.map(|partition| scan.execute(partition, Arc::clone(context)));
    let streams = streams.collect::<datafusion::common::Result<_>>().map_err(from_datafusion)?;
    keys::count(&wanted.groups, &columns, &wanted.schema, (scan.schema(), keys::merged(streams))).await
}

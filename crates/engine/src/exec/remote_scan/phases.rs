//! Phases that run before a scan delivers its rows.
//!
//! Each phase determines something about the scan and returns a scan with one phase fewer. Once no
//! phase is left, [`super::workers`] delivers the rows. All partitions share the scan that a phase
//! returns, since they divide its splits.
//!
//! ```text
//! phase          finds                                   leaves
//! bound          the k-th key of a sample                a filter in place of the top-k
//! join keys      the keys of build sides                 a filter in place of the key filters
//! index look-up  the locations of the rows that pass     a scan of these, or one without an index
//! ```

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::EmptyRecordBatchStream;
use futures::FutureExt;
use pushdowndb_contract::{Error, Result};

use super::RemoteScanExec;
use super::placement::Sampling;
use crate::context::QueryContext;
use crate::error::to_datafusion;
use crate::exec::partition_scan::PartitionScan;
use crate::strategies::index::Lookup;

#[derive(Clone, Copy, Debug)]
enum Phase<'a> {
    Bound(&'a Sampling),
    BuildKeys,
    IndexLookup(&'a Lookup),
}

impl RemoteScanExec {
    /// Returns the next phase, or `None` if the scan can deliver rows.
    fn phase(&self) -> Option<Phase<'_>> {
        if let Some(sampling) = &self.placement().sampling {
            return Some(Phase::Bound(sampling));
        }
        if !self.plan.key_filters.is_empty() {
            return Some(Phase::BuildKeys);
        }
        self.placement().index.pending().map(Phase::IndexLookup)
    }

    /// Runs `phase` once for all partitions and returns the resulting scan, or `None` if it has no
    /// rows.
    async fn after(
        &self,
        phase: Phase<'_>,
        query: &Arc<QueryContext>,
        context: &TaskContext,
    ) -> Result<Option<Arc<Self>>> {
        let run = || async {
            let next = match phase {
                Phase::Bound(sampling) => Some(self.bounded(sampling, query, context).await?),
                Phase::BuildKeys => self.with_dynamic_filter(query).await?,
                Phase::IndexLookup(lookup) => Some(self.located(lookup, query, context).boxed().await?),
            };
            Ok(next.map(|next| Arc::new(self.counting(next))))
        };
        self.next.get_or_try_init(run).await.cloned()
    }

    /// Returns the rows of `partition`: reused from another scan if possible, otherwise delivered
    /// after all phases.
    pub(super) fn start(
        &self,
        partition: usize,
        query: Arc<QueryContext>,
        context: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        if self.reuse.is_none() && self.phase().is_none() && self.context.begins_at_once() {
            return self.deliver(partition, query).map_err(to_datafusion);
        }
        let scan = self.clone();
        let rows = async move {
            if let Some(reuse) = &scan.reuse
                && let Some(rows) = scan.read_shared_rows(reuse, partition, &query).await
            {
                return rows.map_err(to_datafusion);
            }
            let mut scan = Arc::new(scan);
            while let Some(phase) = scan.phase() {
                match scan.after(phase, &query, &context).await.map_err(to_datafusion)? {
                    // The next scan has at most the planned number of partitions.
                    Some(next) if partition < next.partition_count() => scan = next,
                    _ => return Ok(Box::pin(EmptyRecordBatchStream::new(Arc::clone(&scan.schema))) as _),
                }
            }
            scan.deliver(partition, query).map_err(to_datafusion)
        };
        Ok(self.stream(rows))
    }

    /// Scans the splits of `partition`, after all phases.
    fn deliver(&self, partition: usize, query: Arc<QueryContext>) -> Result<SendableRecordBatchStream> {
        let partitions = &self.placement().partitions;
        if partitions.len() > self.partition_count() {
            return Err(Error::internal("a scan has splits in partitions that are not executed"));
        }
        let splits = partitions.get(partition).cloned().unwrap_or_default();
        query.meter.strategy(format!("{}: {}", self.plan.name, self.explanation()));
        PartitionScan::start(self, query, splits, partition)
    }
}

/// Returns the context of the query that `context` belongs to, or an error if there is none.
pub(super) fn query_of(context: &TaskContext) -> DfResult<Arc<QueryContext>> {
    let query = context.session_config().get_extension::<QueryContext>();
    query.ok_or_else(|| DataFusionError::Internal("a scan outside of a query".to_owned()))
}

//! Keys of a join's build side, passed to the scans of its probe side as a dynamic filter.
//!
//! A hash join reads its build side to the end before it polls the probe side. [`BuildKeysExec`]
//! passes the build rows through and collects their keys; once all its partitions have ended,
//! [`BuildKeys`] delivers them to the waiting scans. A partition dropped before its end marks the
//! keys unknown, so no scan waits forever.
//!
//! ```text
//! HashJoinExec ──────────────────┐
//! ├ RepartitionExec              │ probe
//! │ └ BuildKeysExec ─ BuildKeys ─┼──► RemoteScanExec keys=[o_custkey of c_custkey]
//! │   └ build side               │
//! ```

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::compute::filter;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result as DfResult;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use futures::{Stream, StreamExt};

use super::pass_through::{PassThroughExec, RowObserver};
use crate::error::to_datafusion;
use crate::plan::join_keys::{BuildKeys, Keys};

pub(crate) type BuildKeysExec = PassThroughExec<KeyCollector>;

impl BuildKeysExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, exprs: Vec<Arc<dyn PhysicalExpr>>, keys: Arc<BuildKeys>) -> Self {
        Self::of(input, KeyCollector { exprs, keys, is_whole: false })
    }

    pub(crate) fn keys(&self) -> &Arc<BuildKeys> {
        &self.watcher().keys
    }

    /// Returns the key expressions over the input's columns.
    pub(crate) fn key_exprs(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.watcher().exprs
    }

    /// Returns the same operator over `input`, for a distributed plan in which every process reads
    /// all rows of the build side.
    pub(crate) fn over_whole(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self::of(input, KeyCollector { is_whole: true, ..self.watcher().clone() })
    }

    /// Returns whether every process that runs this operator has all rows of the build side.
    pub(crate) fn is_over_whole(&self) -> bool {
        self.watcher().is_whole
    }
}

/// [`RowObserver`] that collects the join keys of the rows.
#[derive(Clone, Debug)]
pub(crate) struct KeyCollector {
    /// Key expressions over the input's columns.
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    keys: Arc<BuildKeys>,
    /// Whether every process of a distributed plan has all rows of the build side, rather than a
    /// part.
    is_whole: bool,
}

impl RowObserver for KeyCollector {
    const NAME: &'static str = "BuildKeysExec";

    fn shown(&self) -> String {
        let keys: Vec<String> = self.exprs.iter().map(ToString::to_string).collect();
        format!("keys=[{}]", keys.join(", "))
    }

    fn exprs(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.exprs
    }

    fn watch(
        &self,
        rows: SendableRecordBatchStream,
        partition: usize,
        partitions: usize,
        context: &TaskContext,
    ) -> SendableRecordBatchStream {
        let consumer = MemoryConsumer::new(format!("BuildKeysExec[{partition}]"));
        Box::pin(CollectorStream {
            collecting: Some(Collecting {
                collected: Keys::new(&self.keys.types, self.keys.nulls_match),
                exprs: self.exprs.clone(),
                nulls_match: self.keys.nulls_match,
                reservation: consumer.register(context.memory_pool()),
            }),
            keys: Arc::clone(&self.keys),
            partitions,
            input: rows,
        })
    }
}

struct CollectorStream {
    input: SendableRecordBatchStream,
    /// `None` once the partition has ended or collection was given up.
    collecting: Option<Collecting>,
    keys: Arc<BuildKeys>,
    partitions: usize,
}

struct Collecting {
    collected: Keys,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    nulls_match: bool,
    reservation: MemoryReservation,
}

impl Collecting {
    fn push(&mut self, batch: &RecordBatch) -> DfResult<()> {
        let keys = self.exprs.iter().map(|expr| expr.evaluate(batch)?.into_array(batch.num_rows()));
        let keys: Vec<ArrayRef> = keys.collect::<DfResult<_>>()?;
        let nulls =
            keys.iter().fold(None, |nulls, keys| NullBuffer::union(nulls.as_ref(), keys.logical_nulls().as_ref()));
        // A row with a NULL key matches nothing.
        let complete = nulls.filter(|nulls| nulls.null_count() > 0 && !self.nulls_match);
        let complete = complete.map(|nulls| BooleanArray::new(nulls.into_inner(), None));
        let keys: Vec<ArrayRef> = match &complete {
            Some(complete) => keys.iter().map(|keys| filter(keys, complete)).collect::<Result<_, _>>()?,
            None => keys,
        };
        for (set, keys) in self.collected.sets.iter_mut().zip(&keys) {
            set.push(keys).map_err(to_datafusion)?;
        }
        if let Some(tuples) = &mut self.collected.tuples {
            tuples.push(&keys).map_err(to_datafusion)?;
        }
        if self.reservation.try_resize(self.collected.memory_bytes()).is_err() {
            self.collected.give_up();
            self.reservation.free();
        }
        Ok(())
    }
}

impl Stream for CollectorStream {
    type Item = DfResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.input.poll_next_unpin(cx);
        match &polled {
            Poll::Ready(Some(Ok(batch))) => {
                if self.collecting.is_some() && !self.keys.are_worth(batch.num_rows()) {
                    self.collecting = None;
                    self.keys.give_up();
                }
                if let Some(collecting) = &mut self.collecting {
                    collecting.push(batch)?;
                }
            }
            Poll::Ready(None) => {
                if let Some(Collecting { collected, reservation, .. }) = self.collecting.take() {
                    self.keys.deliver(collected, reservation, self.partitions);
                }
            }
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }
}

impl RecordBatchStream for CollectorStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

impl Drop for CollectorStream {
    fn drop(&mut self) {
        if self.collecting.is_some() {
            self.keys.give_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::join_keys::Outcome;
    use arrow::array::Int64Array;
    use arrow::datatypes::DataType;
    use arrow::datatypes::{Field, Schema};
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_plan::collect;

    use super::*;

    #[tokio::test]
    async fn keys_of_too_many_rows_are_not_waited_for() {
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
        let batch = |first: i64| {
            let keys = Arc::new(Int64Array::from_iter_values(first..first + 100));
            RecordBatch::try_new(Arc::clone(&schema), vec![keys]).unwrap()
        };
        for (max_rows, known) in [(300, true), (299, false)] {
            let keys = Arc::new(BuildKeys::new(vec![DataType::Int64], false));
            keys.want(10);
            keys.want(max_rows);
            let batches = [batch(0), batch(100), batch(200)].to_vec();
            let input = MemorySourceConfig::try_new_exec(&[batches], Arc::clone(&schema), None).unwrap();
            let tap = BuildKeysExec::new(input, vec![Arc::new(Column::new("k", 0))], Arc::clone(&keys));
            let passed = collect(Arc::new(tap), Arc::default()).await.unwrap();
            assert_eq!(passed.iter().map(RecordBatch::num_rows).sum::<usize>(), 300);
            let distinct = match keys.outcome().await {
                Outcome::Known(keys) => keys.sets[0].distinct(),
                Outcome::Pending | Outcome::Unknown => None,
            };
            assert_eq!(distinct, known.then_some(300));
        }
    }
}

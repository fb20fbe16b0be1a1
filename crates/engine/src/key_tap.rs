//! The keys of a join's build side, on their way from there to the scans of its probe side.
//!
//! A hash join reads its build side to the end before it asks the probe side for a row. [`KeyTapExec`] passes the
//! rows of the build side on and collects their keys; when all of its partitions have ended, [`JoinKeys`] tells
//! them to whoever waits. A partition that is dropped before its end makes the keys unknown, so that nobody waits for
//! what never comes.
//!
//! ```text
//! HashJoinExec ──────────────┐
//! ├ RepartitionExec          │ probe
//! │ └ KeyTapExec ─ JoinKeys ─┼──► RemoteScanExec keys=[o_custkey of c_custkey]
//! │   └ build side           │
//! ```

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::compute::filter;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result as DfResult;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use futures::{Stream, StreamExt};
use tokio::sync::watch;

use crate::error::to_datafusion;
use crate::strategies::join::{KeySet, TupleSet};
use crate::watch::{WatchExec, Watcher};

/// The keys of one join, once its build side was read.
#[derive(Debug)]
pub(crate) struct JoinKeys {
    /// The type of each key.
    types: Vec<DataType>,
    /// NULL is equal to NULL.
    nulls_match: bool,
    /// Of more rows they are not worth collecting to any of the scans that wait; how many there were so far.
    most_rows: AtomicUsize,
    rows: AtomicUsize,
    collected: Mutex<Collected>,
    outcome: watch::Sender<Outcome>,
}

/// What is known of a join's keys.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// The build side has not ended yet.
    Pending,
    /// Its keys.
    Known(Arc<Keys>),
    /// It will not be read to its end.
    Unknown,
}

/// The keys of a build side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    /// For each key of the join.
    pub(crate) sets: Vec<KeySet>,
    /// Where there are several, also together.
    pub(crate) tuples: Option<TupleSet>,
}

impl Keys {
    fn new(types: &[DataType], nulls_match: bool) -> Self {
        let sets = types.iter().cloned().map(KeySet::new).collect();
        Self { sets, tuples: if nulls_match { None } else { TupleSet::new(types) } }
    }

    fn merge(&mut self, more: Self) {
        self.sets.iter_mut().zip(more.sets).for_each(|(all, more)| all.merge(more));
        if let (Some(all), Some(more)) = (&mut self.tuples, more.tuples) {
            all.merge(more);
        }
    }

    /// The join itself needs the memory more.
    fn give_up(&mut self) {
        self.sets.iter_mut().for_each(KeySet::give_up);
        self.tuples.iter_mut().for_each(TupleSet::give_up);
    }

    fn memory_bytes(&self) -> usize {
        let tuples = self.tuples.as_ref().map_or(0, TupleSet::memory_bytes);
        self.sets.iter().map(KeySet::memory_bytes).sum::<usize>() + tuples
    }
}

#[derive(Debug, Default)]
struct Collected {
    partitions: usize,
    keys: Option<Keys>,
    /// Holds the memory of the sets for as long as they are kept.
    reservations: Vec<MemoryReservation>,
}

impl JoinKeys {
    pub(crate) fn new(types: Vec<DataType>, nulls_match: bool) -> Self {
        let outcome = watch::Sender::new(Outcome::Pending);
        let (most_rows, rows) = Default::default();
        Self { types, nulls_match, most_rows, rows, collected: Mutex::default(), outcome }
    }

    /// A scan waits for them unless the build side has more rows.
    pub(crate) fn want(&self, most_rows: usize) {
        self.most_rows.fetch_max(most_rows, Ordering::Relaxed);
    }

    /// Whether they are still worth collecting after so many rows more.
    fn are_worth(&self, more: usize) -> bool {
        let rows = self.rows.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        rows <= self.most_rows.load(Ordering::Relaxed)
    }

    /// Whether a NULL of the probe side may match.
    pub(crate) fn nulls_match(&self) -> bool {
        self.nulls_match
    }

    /// The type of one of them.
    pub(crate) fn type_of(&self, index: usize) -> Option<&DataType> {
        self.types.get(index)
    }

    /// How many keys the join has.
    pub(crate) fn count(&self) -> usize {
        self.types.len()
    }

    /// Waits until the build side has ended, one way or the other.
    pub(crate) async fn outcome(&self) -> Outcome {
        let mut outcome = self.outcome.subscribe();
        let ended = outcome.wait_for(|outcome| !matches!(outcome, Outcome::Pending)).await;
        ended.map_or(Outcome::Unknown, |outcome| outcome.clone())
    }

    /// How many distinct ones of a key the build side had, or rows where it had too many; `None` if it was not read to its end.
    pub(crate) async fn seen(&self, index: usize) -> Option<usize> {
        match self.outcome().await {
            Outcome::Known(keys) => keys.sets.get(index).map(|set| set.distinct().unwrap_or(set.rows())),
            Outcome::Pending | Outcome::Unknown => None,
        }
    }

    /// One of `partitions` partitions has ended.
    fn deliver(&self, keys: Keys, reservation: MemoryReservation, partitions: usize) {
        let mut collected = self.collected.lock().unwrap_or_else(PoisonError::into_inner);
        collected.partitions += 1;
        collected.reservations.push(reservation);
        match &mut collected.keys {
            None => collected.keys = Some(keys),
            Some(all) => all.merge(keys),
        }
        if collected.partitions == partitions {
            let keys = Arc::new(collected.keys.take().unwrap_or_default());
            self.outcome.send_if_modified(|outcome| {
                let pending = matches!(outcome, Outcome::Pending);
                if pending {
                    *outcome = Outcome::Known(keys);
                }
                pending
            });
        }
    }

    fn give_up(&self) {
        self.outcome.send_replace(Outcome::Unknown);
    }
}

/// Passes rows through and collects their keys.
pub(crate) type KeyTapExec = WatchExec<KeyTap>;

impl KeyTapExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, exprs: Vec<Arc<dyn PhysicalExpr>>, keys: Arc<JoinKeys>) -> Self {
        Self::of(input, KeyTap { exprs, keys })
    }

    /// What it collects.
    pub(crate) fn keys(&self) -> &Arc<JoinKeys> {
        &self.watcher().keys
    }
}

/// Collects keys.
#[derive(Clone, Debug)]
pub(crate) struct KeyTap {
    /// The keys, over the input's columns.
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    keys: Arc<JoinKeys>,
}

impl Watcher for KeyTap {
    const NAME: &'static str = "KeyTapExec";

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
        let consumer = MemoryConsumer::new(format!("KeyTapExec[{partition}]"));
        Box::pin(TapStream {
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

struct TapStream {
    input: SendableRecordBatchStream,
    /// Gone once the partition has ended.
    collecting: Option<Collecting>,
    keys: Arc<JoinKeys>,
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
        // A row with a NULL among its keys matches nothing.
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

impl Stream for TapStream {
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

impl RecordBatchStream for TapStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

impl Drop for TapStream {
    fn drop(&mut self) {
        if self.collecting.is_some() {
            self.keys.give_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
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
        for (most_rows, known) in [(300, true), (299, false)] {
            let keys = Arc::new(JoinKeys::new(vec![DataType::Int64], false));
            keys.want(10);
            keys.want(most_rows);
            let batches = [batch(0), batch(100), batch(200)].to_vec();
            let input = MemorySourceConfig::try_new_exec(&[batches], Arc::clone(&schema), None).unwrap();
            let tap = KeyTapExec::new(input, vec![Arc::new(Column::new("k", 0))], Arc::clone(&keys));
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

//! Rows of one scan that later scans of the same query reuse.
//!
//! [`SharedRows::tee`] passes the rows of a scan on and buffers them. They become available once
//! all partitions of the scan have ended. They are given up if they exceed the memory limit, if the
//! scan fails, or if it is dropped before its end; each reader then scans the table itself. A
//! reader below the probe side of a join may start before the rows are available, and waits. A
//! [`SharedRowsScopeExec`] at the end of the build side bounds the wait (decision 19).

pub(crate) mod scope;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result as DfResult;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use pushdowndb_scan::{compact, slice_bytes};
use tokio::sync::{Notify, OnceCell};

use crate::error::to_datafusion;

pub(crate) use scope::SharedRowsScopeExec;

/// Maximum bytes of the buffered rows of one scan.
const MAX_SHARED_BYTES: usize = 64 * 1024 * 1024;

/// Maximum share of a query's memory for shared rows, 1 / `MEMORY_DIVISOR`; joins and groups need
/// the rest.
const MEMORY_DIVISOR: usize = 32;

#[derive(Debug)]
pub(crate) struct SharedRows {
    /// Number of the scan, for EXPLAIN.
    number: usize,
    state: Mutex<State>,
    /// Notified when the rows are complete or given up.
    settled: Notify,
}

#[derive(Debug)]
enum State {
    Collecting(Collecting),
    Complete(Rows),
    GivenUp,
}

#[derive(Debug, Default)]
struct Rows {
    batches: Vec<RecordBatch>,
    bytes: usize,
    reservation: Option<MemoryReservation>,
}

#[derive(Debug)]
struct Collecting {
    rows: Rows,
    /// Whether each partition has started.
    begun: Vec<bool>,
    /// Number of partitions that have not ended.
    open: usize,
    max_bytes: usize,
}

impl SharedRows {
    /// Creates the rows of scan `number` with `partitions` partitions, which are empty at first.
    pub(crate) fn new(number: usize, partitions: usize) -> Self {
        let begun = vec![false; partitions];
        let collecting = Collecting { rows: Rows::default(), begun, open: partitions, max_bytes: MAX_SHARED_BYTES };
        Self { number, state: Mutex::new(State::Collecting(collecting)), settled: Notify::new() }
    }

    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Returns all rows if the scan has ended, or `None` if the rows are given up. While the scan
    /// is running, waits for its end if `waits` is true, and returns `None` otherwise.
    async fn complete(&self, waits: bool) -> Option<Vec<RecordBatch>> {
        loop {
            // Registered before the check, so that no notification is missed.
            let settled = self.settled.notified();
            match &*self.state.lock() {
                State::Complete(rows) => return Some(rows.batches.clone()),
                State::Collecting(_) if waits => {}
                State::Collecting(_) | State::GivenUp => return None,
            }
            settled.await;
        }
    }

    /// Returns `rows`, the rows of `partition`, and buffers them as they pass.
    pub(crate) fn tee(
        self: &Arc<Self>,
        rows: SendableRecordBatchStream,
        partition: usize,
        context: &TaskContext,
    ) -> SendableRecordBatchStream {
        self.change(|mut collecting| {
            let begun = collecting.begun.get_mut(partition)?;
            // A second run would duplicate the rows.
            if std::mem::replace(begun, true) {
                return None;
            }
            if let MemoryLimit::Finite(all) = context.memory_pool().memory_limit() {
                collecting.max_bytes = MAX_SHARED_BYTES.min(all / MEMORY_DIVISOR);
            }
            let consumer = || MemoryConsumer::new("SharedRows").register(context.memory_pool());
            collecting.rows.reservation.get_or_insert_with(consumer);
            Some(State::Collecting(collecting))
        });
        Box::pin(SharedRowsWriter { rows, shared: Arc::clone(self), ended: false })
    }

    /// Applies `change` if rows are still being collected. If it returns `None`, the rows are given
    /// up.
    fn change(&self, change: impl FnOnce(Collecting) -> Option<State>) {
        let mut state = self.state.lock();
        *state = match std::mem::replace(&mut *state, State::GivenUp) {
            State::Collecting(collecting) => change(collecting).unwrap_or(State::GivenUp),
            done => done,
        };
        if !matches!(*state, State::Collecting(_)) {
            self.settled.notify_waiters();
        }
    }

    fn push(&self, batch: &RecordBatch) -> DfResult<()> {
        let batch = compact(batch).map_err(to_datafusion)?;
        self.change(|mut collecting| {
            let rows = &mut collecting.rows;
            rows.bytes += batch.columns().iter().map(slice_bytes).sum::<usize>();
            let fits = rows.bytes <= collecting.max_bytes && rows.reservation.as_mut()?.try_resize(rows.bytes).is_ok();
            rows.batches.push(batch);
            fits.then_some(State::Collecting(collecting))
        });
        Ok(())
    }

    fn end(&self) {
        self.change(|collecting| {
            let open = collecting.open.saturating_sub(1);
            Some(match open {
                0 => State::Complete(collecting.rows),
                open => State::Collecting(Collecting { open, ..collecting }),
            })
        });
    }

    /// Drops the buffered rows and buffers no more; each reader then scans the table itself.
    fn give_up(&self) {
        self.change(|_| None);
    }
}

/// Reader of another scan's rows. Either all partitions of the reading scan reuse the rows, or none
/// does. The decision is made once, since the other scan may end after some partitions have
/// started.
#[derive(Clone, Debug)]
pub(crate) struct SharedRowsReader {
    shared: Arc<SharedRows>,
    waits: bool,
    taken: Arc<OnceCell<Option<Vec<RecordBatch>>>>,
}

impl SharedRowsReader {
    /// Creates a reader of `shared`. If `waits` is true, a [`SharedRowsScopeExec`] must bound the
    /// wait.
    pub(crate) fn of(shared: Arc<SharedRows>, waits: bool) -> Self {
        Self { shared, waits, taken: Arc::default() }
    }

    /// Number of the scan, for EXPLAIN.
    pub(crate) fn number(&self) -> usize {
        self.shared.number()
    }

    /// Returns all rows, if they were complete at the first call, or at the end of its wait.
    pub(crate) async fn rows(&self) -> Option<&[RecordBatch]> {
        self.taken.get_or_init(|| self.shared.complete(self.waits)).await.as_deref()
    }
}

struct SharedRowsWriter {
    rows: SendableRecordBatchStream,
    shared: Arc<SharedRows>,
    ended: bool,
}

impl Stream for SharedRowsWriter {
    type Item = DfResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.rows.poll_next_unpin(context);
        match &polled {
            Poll::Ready(Some(Ok(batch))) => self.shared.push(batch)?,
            Poll::Ready(Some(Err(_))) => self.shared.give_up(),
            Poll::Ready(None) if !self.ended => {
                self.ended = true;
                self.shared.end();
            }
            Poll::Ready(None) | Poll::Pending => {}
        }
        polled
    }
}

impl RecordBatchStream for SharedRowsWriter {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

impl Drop for SharedRowsWriter {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.give_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::DataFusionError;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::{poll, stream};

    use super::*;

    type Items = Vec<DfResult<RecordBatch>>;

    fn batch(first: i64, rows: i64) -> RecordBatch {
        let values = Int64Array::from_iter_values(first..first + rows);
        RecordBatch::try_from_iter([("k", Arc::new(values) as _)]).unwrap()
    }

    fn partition(shared: &Arc<SharedRows>, partition: usize, items: Items) -> SendableRecordBatchStream {
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
        let rows = Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(items)));
        shared.tee(rows, partition, &TaskContext::default())
    }

    async fn count(shared: &SharedRows) -> Option<usize> {
        shared.complete(true).await.map(|batches| batches.iter().map(RecordBatch::num_rows).sum())
    }

    #[tokio::test]
    async fn rows_are_there_once_all_partitions_have_ended() {
        let shared = Arc::new(SharedRows::new(1, 2));
        let (one, two) = (partition(&shared, 0, vec![Ok(batch(0, 3))]), partition(&shared, 1, vec![Ok(batch(3, 4))]));
        assert_eq!(one.count().await, 1);
        let mut waiting = pin!(count(&shared));
        assert!(poll!(&mut waiting).is_pending(), "the second partition is under way");
        assert_eq!(two.count().await, 1);
        assert_eq!((waiting.await, count(&shared).await), (Some(7), Some(7)));
    }

    #[tokio::test]
    async fn waiting_readers_are_woken_when_rows_are_given_up() {
        let shared = Arc::new(SharedRows::new(1, 1));
        let rows = partition(&shared, 0, vec![Ok(batch(0, 3))]);
        let mut waiting = pin!(count(&shared));
        assert!(poll!(&mut waiting).is_pending());
        drop(rows);
        assert_eq!(waiting.await, None);
    }

    #[tokio::test]
    async fn partitions_take_the_rows_together_or_not_at_all() {
        let shared = Arc::new(SharedRows::new(1, 1));
        let [early, late] = [(); 2].map(|()| SharedRowsReader::of(Arc::clone(&shared), false));
        assert!(early.rows().await.is_none(), "the first partition reads for itself");
        assert_eq!(partition(&shared, 0, vec![Ok(batch(0, 3))]).count().await, 1);
        assert!(early.clone().rows().await.is_none(), "and so does the second");
        assert_eq!(late.rows().await.map(<[RecordBatch]>::len), Some(1));
    }

    #[tokio::test]
    async fn incomplete_rows_are_given_up() {
        let failed = || Err(DataFusionError::Internal("broken".to_owned()));
        let large = MAX_SHARED_BYTES as i64 / 8 / 2;
        let cases: [(Items, usize); 3] = [
            (vec![Ok(batch(0, 3)), failed()], 2),
            // Dropped before the end.
            (vec![Ok(batch(0, 3)), Ok(batch(3, 3))], 1),
            (vec![Ok(batch(0, large)), Ok(batch(0, large)), Ok(batch(0, 1))], 3),
        ];
        for (items, taken) in cases {
            let shared = Arc::new(SharedRows::new(1, 1));
            let mut rows = partition(&shared, 0, items);
            for _ in 0..taken {
                assert!(rows.next().await.is_some());
            }
            drop(rows);
            assert_eq!(count(&shared).await, None);
        }
        let shared = Arc::new(SharedRows::new(1, 2));
        for _ in 0..2 {
            assert_eq!(partition(&shared, 0, vec![Ok(batch(0, 3))]).count().await, 1);
        }
        assert_eq!(count(&shared).await, None, "one partition twice is not two partitions");
    }
}

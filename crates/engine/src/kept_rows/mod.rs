//! Rows of one scan that later scans of the same query take instead of reading them again.
//!
//! [`KeptRows::keep`] passes the rows of a scan on and keeps them. Once all of its partitions have ended, the rows are there for
//! whoever asks. They are given up if they take too much memory, if the scan fails, or if nobody wants it to its end: who asks then
//! reads for himself. Who may ask before one or the other has happened waits for it: below the side of a join that is read to its end
//! first, of which a [`KeptScopeExec`] tells the end (decision 19).

mod scope;

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result as DfResult;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use futures::{Stream, StreamExt};
use pushdowndb_scan::{compact, slice_bytes};
use tokio::sync::{Notify, OnceCell};

use crate::error::to_datafusion;
pub(crate) use scope::KeptScopeExec;

/// Rows that take more memory are not kept.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// Nor are those that take more than this share of the memory that a query has: its joins and groups need it.
const SHARE: usize = 32;

/// The rows of one scan.
#[derive(Debug)]
pub(crate) struct KeptRows {
    /// Which scan's, for people.
    number: usize,
    state: Mutex<State>,
    /// Told when they are complete, or given up.
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
    /// Holds their memory.
    reservation: Option<MemoryReservation>,
}

#[derive(Debug)]
struct Collecting {
    rows: Rows,
    /// Of each partition, whether it has begun.
    begun: Vec<bool>,
    /// How many have not ended.
    open: usize,
    /// How many bytes the rows may have.
    most_bytes: usize,
}

impl KeptRows {
    /// Of a scan of so many partitions.
    pub(crate) fn new(number: usize, partitions: usize) -> Self {
        let begun = vec![false; partitions];
        let collecting = Collecting { rows: Rows::default(), begun, open: partitions, most_bytes: MOST_BYTES };
        Self { number, state: Mutex::new(State::Collecting(collecting)), settled: Notify::new() }
    }

    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// All the rows, if the scan has come to its end, or once it has for who `waits`; `None` if they are given up.
    async fn complete(&self, waits: bool) -> Option<Vec<RecordBatch>> {
        loop {
            // From here on nothing that is told is missed.
            let settled = self.settled.notified();
            match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
                State::Complete(rows) => return Some(rows.batches.clone()),
                State::Collecting(_) if waits => {}
                State::Collecting(_) | State::GivenUp => return None,
            }
            settled.await;
        }
    }

    /// The rows of a partition of the scan, which are kept on their way.
    pub(crate) fn keep(
        self: &Arc<Self>,
        rows: SendableRecordBatchStream,
        partition: usize,
        context: &TaskContext,
    ) -> SendableRecordBatchStream {
        self.change(|mut collecting| {
            let begun = collecting.begun.get_mut(partition)?;
            // A partition that runs once more would bring its rows twice.
            if std::mem::replace(begun, true) {
                return None;
            }
            if let MemoryLimit::Finite(all) = context.memory_pool().memory_limit() {
                collecting.most_bytes = MOST_BYTES.min(all / SHARE);
            }
            let consumer = || MemoryConsumer::new("KeptRows").register(context.memory_pool());
            collecting.rows.reservation.get_or_insert_with(consumer);
            Some(State::Collecting(collecting))
        });
        Box::pin(Keeping { rows, kept: Arc::clone(self), ended: false })
    }

    /// Goes on while rows are collected; with `None` they are given up.
    fn change(&self, change: impl FnOnce(Collecting) -> Option<State>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
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
            let fits = rows.bytes <= collecting.most_bytes && rows.reservation.as_mut()?.try_resize(rows.bytes).is_ok();
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

    /// Not all rows will come.
    fn give_up(&self) {
        self.change(|_| None);
    }
}

/// One scan that takes the rows of another. All of its partitions take them or none does: between two of them the other scan may
/// come to its end.
#[derive(Clone, Debug)]
pub(crate) struct Taking {
    kept: Arc<KeptRows>,
    waits: bool,
    taken: Arc<OnceCell<Option<Vec<RecordBatch>>>>,
}

impl Taking {
    /// Who `waits` has to be told by a [`KeptScopeExec`] that waiting is over.
    pub(crate) fn of(kept: Arc<KeptRows>, waits: bool) -> Self {
        Self { kept, waits, taken: Arc::default() }
    }

    /// Which scan's rows, for people.
    pub(crate) fn number(&self) -> usize {
        self.kept.number()
    }

    /// All the rows, as they were there when this was asked first; `None` if they were not.
    pub(crate) async fn rows(&self) -> Option<&[RecordBatch]> {
        self.taken.get_or_init(|| self.kept.complete(self.waits)).await.as_deref()
    }
}

struct Keeping {
    rows: SendableRecordBatchStream,
    kept: Arc<KeptRows>,
    ended: bool,
}

impl Stream for Keeping {
    type Item = DfResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.rows.poll_next_unpin(context);
        match &polled {
            Poll::Ready(Some(Ok(batch))) => self.kept.push(batch)?,
            Poll::Ready(Some(Err(_))) => self.kept.give_up(),
            Poll::Ready(None) if !self.ended => {
                self.ended = true;
                self.kept.end();
            }
            Poll::Ready(None) | Poll::Pending => {}
        }
        polled
    }
}

impl RecordBatchStream for Keeping {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        if !self.ended {
            self.kept.give_up();
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

    fn partition(kept: &Arc<KeptRows>, partition: usize, items: Items) -> SendableRecordBatchStream {
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
        let rows = Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(items)));
        kept.keep(rows, partition, &TaskContext::default())
    }

    async fn count(kept: &KeptRows) -> Option<usize> {
        kept.complete(true).await.map(|batches| batches.iter().map(RecordBatch::num_rows).sum())
    }

    #[tokio::test]
    async fn rows_are_there_once_all_partitions_have_ended() {
        let kept = Arc::new(KeptRows::new(1, 2));
        let (first, second) = (partition(&kept, 0, vec![Ok(batch(0, 3))]), partition(&kept, 1, vec![Ok(batch(3, 4))]));
        assert_eq!(first.count().await, 1);
        let mut waiting = pin!(count(&kept));
        assert!(poll!(&mut waiting).is_pending(), "the second partition is under way");
        assert_eq!(second.count().await, 1);
        assert_eq!((waiting.await, count(&kept).await), (Some(7), Some(7)));
    }

    #[tokio::test]
    async fn who_waits_hears_that_nothing_comes() {
        let kept = Arc::new(KeptRows::new(1, 1));
        let rows = partition(&kept, 0, vec![Ok(batch(0, 3))]);
        let mut waiting = pin!(count(&kept));
        assert!(poll!(&mut waiting).is_pending());
        drop(rows);
        assert_eq!(waiting.await, None);
    }

    #[tokio::test]
    async fn partitions_take_the_rows_together_or_not_at_all() {
        let kept = Arc::new(KeptRows::new(1, 1));
        let [early, late] = [(); 2].map(|()| Taking::of(Arc::clone(&kept), false));
        assert!(early.rows().await.is_none(), "the first partition reads for itself");
        assert_eq!(partition(&kept, 0, vec![Ok(batch(0, 3))]).count().await, 1);
        assert!(early.clone().rows().await.is_none(), "and so does the second");
        assert_eq!(late.rows().await.map(<[RecordBatch]>::len), Some(1));
    }

    #[tokio::test]
    async fn what_is_not_whole_is_given_up() {
        let failed = || Err(DataFusionError::Internal("broken".to_owned()));
        let large = MOST_BYTES as i64 / 8 / 2;
        let cases: [(Items, usize); 3] = [
            (vec![Ok(batch(0, 3)), failed()], 2),
            // Dropped before its end.
            (vec![Ok(batch(0, 3)), Ok(batch(3, 3))], 1),
            (vec![Ok(batch(0, large)), Ok(batch(0, large)), Ok(batch(0, 1))], 3),
        ];
        for (items, taken) in cases {
            let kept = Arc::new(KeptRows::new(1, 1));
            let mut rows = partition(&kept, 0, items);
            for _ in 0..taken {
                assert!(rows.next().await.is_some());
            }
            drop(rows);
            assert_eq!(count(&kept).await, None);
        }
        let kept = Arc::new(KeptRows::new(1, 2));
        for _ in 0..2 {
            assert_eq!(partition(&kept, 0, vec![Ok(batch(0, 3))]).count().await, 1);
        }
        assert_eq!(count(&kept).await, None, "one partition twice is not two partitions");
    }
}

//! Merging of sorted rows from memory and files, up to a key.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_common::Result;
use datafusion_execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion_physical_plan::sorts::streaming_merge::StreamingMergeBuilder;
use futures::Stream;
use parking_lot::Mutex;

use super::keys::Key;
use super::run::{Piece, Run};
use super::setup::Setup;
use super::share::Share;

/// Sorted rows that are read up to a key, and later on from that key.
pub(super) struct Source {
    rest: Rest,
    /// Rows of the last batch that lie above the key up to which it was read.
    head: Option<RecordBatch>,
    /// The last key of the piece that was read last, and its memory, which the next read releases.
    piece: Option<(Key, Share)>,
    /// Memory for reading, in addition to the pieces. It is released at the end.
    cursor: Option<Share>,
    /// The number of rows that were not returned yet.
    rows: usize,
}

enum Rest {
    Pieces(VecDeque<Piece>),
    File(SendableRecordBatchStream),
    Done,
}

impl Source {
    /// Creates a source for the rows of `run`.
    pub(super) fn from_run(run: Run) -> Self {
        let rows = run.rows();
        Self { rest: Rest::Pieces(run.pieces), head: None, piece: None, cursor: Some(run.cursor), rows }
    }

    /// Creates a source for a spilled file of `rows` rows, read by `stream`, which needs the memory
    /// `cursor`.
    pub(super) fn from_file(stream: SendableRecordBatchStream, rows: usize, cursor: Share) -> Self {
        Self { rest: Rest::File(stream), head: None, piece: None, cursor: Some(cursor), rows }
    }

    /// Returns whether all rows have been returned.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.rest, Rest::Done) && self.head.is_none()
    }

    /// Returns the number of rows that were not returned yet.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the remaining rows in memory as a run; `None` for a file, or if no row remains.
    pub(super) fn into_run(self) -> Option<Run> {
        let (Rest::Pieces(mut pieces), Some(cursor)) = (self.rest, self.cursor) else {
            return None;
        };
        if let (Some(batch), Some((last, memory))) = (self.head, self.piece) {
            pieces.push_front(Piece { batch, last, memory });
        }
        (!pieces.is_empty()).then_some(Run { pieces, cursor })
    }

    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        bound: Option<&Key>,
        setup: &Setup,
    ) -> Poll<Result<Option<RecordBatch>>> {
        let batch = loop {
            if let Some(batch) = self.head.take() {
                break batch;
            }
            let next = match &mut self.rest {
                Rest::Pieces(pieces) => pieces.pop_front().map(|piece| {
                    self.piece = Some((piece.last, piece.memory));
                    piece.batch
                }),
                Rest::File(stream) => ready!(stream.as_mut().poll_next(context)?),
                Rest::Done => None,
            };
            match next {
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => break batch,
                None => {
                    // The file is deleted when its stream is dropped.
                    (self.rest, self.piece, self.cursor) = (Rest::Done, None, None);
                    return Poll::Ready(Ok(None));
                }
            }
        };
        let rows = match bound {
            Some(bound) => setup.keys.count_up_to(&batch, bound)?,
            None => batch.num_rows(),
        };
        if rows < batch.num_rows() {
            self.head = Some(batch.slice(rows, batch.num_rows() - rows));
        }
        self.rows = self.rows.saturating_sub(rows);
        Poll::Ready(Ok((rows > 0).then(|| batch.slice(0, rows))))
    }
}

/// A source that several merges read, one after the other.
pub(super) type SharedSource = Arc<Mutex<Source>>;

/// A stream of the rows of `source` with keys up to and including `bound`.
struct Bounded {
    source: SharedSource,
    bound: Option<Key>,
    setup: Arc<Setup>,
    ended: bool,
}

impl Stream for Bounded {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let next = ready!(self.source.lock().poll_next(context, self.bound.as_ref(), &self.setup)).transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        Poll::Ready(next)
    }
}

impl RecordBatchStream for Bounded {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.setup.schema)
    }
}

/// Merges the rows of `sources` with keys up to and including `bound`, in batches of `batch_rows`
/// rows. Expects at least one source.
///
/// The memory for this must already be reserved: that of pieces and cursors by the sources, that of
/// the output by the caller.
pub(super) fn merge<'a>(
    setup: &Arc<Setup>,
    sources: impl Iterator<Item = &'a SharedSource>,
    bound: Option<&Key>,
    batch_rows: usize,
) -> Result<SendableRecordBatchStream> {
    let streams = sources
        .map(|source| {
            Box::pin(Bounded {
                source: Arc::clone(source),
                bound: bound.cloned(),
                setup: Arc::clone(setup),
                ended: false,
            }) as SendableRecordBatchStream
        })
        .collect();
    StreamingMergeBuilder::new()
        .with_streams(streams)
        .with_schema(Arc::clone(&setup.schema))
        .with_expressions(&setup.ordering)
        .with_metrics(setup.baseline.intermediate())
        .with_batch_size(batch_rows)
        .with_round_robin_tie_breaker(false)
        .with_reservation(setup.reserved_before())
        .build()
}

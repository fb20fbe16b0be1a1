//! Row groups one after the other, the next fetched while the rows of one are decoded.

use ::parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use ::parquet::arrow::async_reader::ParquetRecordBatchStream;
use ::parquet::errors::{ParquetError, Result};
use arrow::array::RecordBatch;
use tokio_util::task::AbortOnDropHandle;

use super::chunks::Chunks;

type Stream = Box<ParquetRecordBatchStream<Chunks>>;
type Fetched = Result<Option<ParquetRecordBatchReader>>;

/// The rows of a Parquet object. Holds at most two row groups, as they are stored.
pub(crate) struct RowGroups {
    /// The row group that is decoded, and whether any of its rows were asked for yet.
    current: Option<(ParquetRecordBatchReader, bool)>,
    next: Next,
}

enum Next {
    Waiting(Stream),
    Fetching(AbortOnDropHandle<(Stream, Fetched)>),
    Ended,
}

impl RowGroups {
    pub(crate) fn new(stream: ParquetRecordBatchStream<Chunks>) -> Self {
        Self { current: None, next: Next::Waiting(Box::new(stream)) }
    }

    /// The next rows, maybe none of them. Needs a Tokio runtime.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some((rows, begun)) = &mut self.current {
                // Not before the second batch: a LIMIT is often satisfied by the first.
                if *begun {
                    self.next.fetch();
                }
                *begun = true;
                match rows.next() {
                    Some(batch) => return Ok(Some(batch?)),
                    None => self.current = None,
                }
            }
            match self.next.fetched().await? {
                Some(rows) => self.current = Some((rows, false)),
                None => return Ok(None),
            }
        }
    }
}

impl Next {
    /// Starts fetching in the background.
    fn fetch(&mut self) {
        *self = match std::mem::replace(self, Self::Ended) {
            Self::Waiting(mut stream) => Self::Fetching(AbortOnDropHandle::new(tokio::spawn(async move {
                let fetched = stream.next_row_group().await;
                (stream, fetched)
            }))),
            other => other,
        };
    }

    async fn fetched(&mut self) -> Fetched {
        self.fetch();
        let Self::Fetching(task) = self else { return Ok(None) };
        let (stream, fetched) = match task.await {
            Ok(done) => done,
            // The library panics on some damaged files; the caller takes that for damage, here as there.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(error) => return Err(ParquetError::External(Box::new(error))),
            },
        };
        *self = if matches!(fetched, Ok(Some(_))) { Self::Waiting(stream) } else { Self::Ended };
        fetched
    }
}

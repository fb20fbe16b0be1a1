//! Row groups one after the other, the next fetched while the rows of one are decoded.
//!
//! Fetching evaluates the predicate on the columns it reads, so it is work that whoever runs the scan may want to
//! account for: the task is theirs to start ([`Spawner`]).

use ::parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use ::parquet::arrow::async_reader::ParquetRecordBatchStream;
use ::parquet::errors::{ParquetError, Result};
use arrow::array::RecordBatch;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use super::chunks::Chunks;
use crate::Spawner;

type Stream = Box<ParquetRecordBatchStream<Chunks>>;
type Fetched = Result<Option<ParquetRecordBatchReader>>;

/// The rows of a Parquet object. Holds at most two row groups, as they are stored.
pub(crate) struct RowGroups {
    /// The row group that is decoded, and whether any of its rows were asked for yet.
    current: Option<(ParquetRecordBatchReader, bool)>,
    next: Next,
    spawner: Spawner,
}

enum Next {
    Waiting(Stream),
    Fetching(AbortOnDropHandle<()>, oneshot::Receiver<(Stream, Fetched)>),
    Ended,
}

impl RowGroups {
    pub(crate) fn new(stream: ParquetRecordBatchStream<Chunks>, spawner: Spawner) -> Self {
        Self { current: None, next: Next::Waiting(Box::new(stream)), spawner }
    }

    /// The next rows, maybe none of them. Needs a Tokio runtime.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some((rows, begun)) = &mut self.current {
                // Not before the second batch: a LIMIT is often satisfied by the first.
                if *begun {
                    self.next.fetch(&self.spawner);
                }
                *begun = true;
                match rows.next() {
                    Some(batch) => return Ok(Some(batch?)),
                    None => self.current = None,
                }
            }
            match self.next.fetched(&self.spawner).await? {
                Some(rows) => self.current = Some((rows, false)),
                None => return Ok(None),
            }
        }
    }
}

impl Next {
    /// Starts fetching in the background.
    fn fetch(&mut self, spawner: &Spawner) {
        *self = match std::mem::replace(self, Self::Ended) {
            Self::Waiting(mut stream) => {
                let (done, result) = oneshot::channel();
                let task = spawner.spawn(async move {
                    let fetched = stream.next_row_group().await;
                    // Nobody waits for it if the scan was dropped.
                    drop(done.send((stream, fetched)));
                });
                Self::Fetching(task, result)
            }
            other => other,
        };
    }

    async fn fetched(&mut self, spawner: &Spawner) -> Fetched {
        self.fetch(spawner);
        let Self::Fetching(task, result) = self else { return Ok(None) };
        let (stream, fetched) = match result.await {
            Ok(done) => done,
            // The library panics on some damaged files; the caller takes that for damage, here as there.
            Err(gone) => match task.await.map_err(tokio::task::JoinError::try_into_panic) {
                Err(Ok(panic)) => std::panic::resume_unwind(panic),
                Err(Err(error)) => return Err(ParquetError::External(Box::new(error))),
                Ok(()) => return Err(ParquetError::External(Box::new(gone))),
            },
        };
        *self = if matches!(fetched, Ok(Some(_))) { Self::Waiting(stream) } else { Self::Ended };
        fetched
    }
}

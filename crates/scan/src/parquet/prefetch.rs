//! Prefetching: the next row group is fetched while rows of the current one are decoded. Cached row
//! groups are not prefetched, since a second one would only take memory.
//!
//! Fetching includes the evaluation of the predicate, so it runs on a task of the [`Spawner`],
//! which accounts for its CPU time. If all scans share one thread, such a task would let scans of
//! other requests run in between, which evict this scan from the CPU's caches. The scan then does
//! the fetching itself, and only requests bytes in advance.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use pushdowndb_contract::{Error, Result};
use tokio::sync::oneshot;

use crate::counters::ScanCounters;
use crate::parquet::row_group::{Groups, RowGroupSlice};
use crate::parquet::row_group_output::RowGroupOutput;
use crate::runtime::interrupt::{Task, check_interrupt};
use crate::runtime::spawner::Spawner;
use crate::runtime::time_slice::TimeSlice;

/// The rows of a row group, and its counters. They are added to those of the scan only when the
/// rows are consumed, since prefetching depends on the page cache.
type Opened = (Result<Option<RowGroupOutput>>, ScanCounters);

async fn open(groups: &Groups, part: RowGroupSlice) -> Opened {
    let counters = ScanCounters::default();
    (groups.open(part, &counters).await, counters)
}

/// The rows of a Parquet object. Holds the stored bytes of one row group or slice, and of the next
/// one.
pub(crate) struct Prefetch {
    groups: Arc<Groups>,
    waiting: VecDeque<RowGroupSlice>,
    /// The row group that is being decoded, and whether any of its rows were consumed.
    current: Option<(RowGroupOutput, bool)>,
    next: Option<Fetching>,
    /// Starts tasks that fetch. With `None`, the scan fetches by itself.
    spawner: Option<Spawner>,
    slice: TimeSlice,
}

enum Fetching {
    Task {
        task: Task<()>,
        result: oneshot::Receiver<Opened>,
    },
    /// A fetch that is done, or that waits for bytes and continues when it is polled.
    Begun(BoxFuture<'static, Opened>),
}

impl Prefetch {
    pub(crate) fn new(groups: Groups, parts: Vec<RowGroupSlice>, spawner: Option<Spawner>) -> Self {
        let (groups, waiting, slice) = (Arc::new(groups), parts.into(), TimeSlice::default());
        Self { groups, waiting, current: None, next: None, spawner, slice }
    }

    /// Returns the next rows. Must be called inside a Tokio runtime.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            check_interrupt()?;
            if let Some((rows, begun)) = &mut self.current {
                // The next row group is fetched only with the second batch, since the first one
                // often satisfies a LIMIT.
                if std::mem::replace(begun, true) && self.next.is_none() && self.groups.are_waited_for() {
                    let part = self.waiting.pop_front();
                    self.next = part.map(|part| Fetching::begin(&self.groups, part, self.spawner.as_ref()));
                }
                match rows.next()? {
                    Some(batch) => return Ok(Some(batch)),
                    None => self.current = None,
                }
            }
            // Cached row groups never wait, and there may be no rows for a long time.
            self.slice.others().await;
            let (rows, counted) = if let Some(next) = self.next.take() {
                next.wait().await?
            } else if let Some(part) = self.waiting.pop_front() {
                open(&self.groups, part).await
            } else {
                return Ok(None);
            };
            self.groups.chunks.counters.add(counted);
            self.current = rows?.map(|rows| (rows, false));
        }
    }
}

impl Fetching {
    fn begin(groups: &Arc<Groups>, part: RowGroupSlice, spawner: Option<&Spawner>) -> Self {
        let groups = Arc::clone(groups);
        let mut opened = async move { open(&groups, part).await }.boxed();
        match spawner {
            None => {
                let all = (&mut opened).now_or_never();
                Self::Begun(all.map_or(opened, |all| ready(all).boxed()))
            }
            Some(spawner) => {
                let (done, result) = oneshot::channel();
                // The scan may have been dropped meanwhile.
                let task = spawner.spawn(async move { drop(done.send(opened.await)) });
                Self::Task { task, result }
            }
        }
    }

    async fn wait(self) -> Result<Opened> {
        let (task, result) = match self {
            Self::Begun(opened) => return Ok(opened.await),
            Self::Task { task, result } => (task, result),
        };
        match result.await {
            Ok(opened) => Ok(opened),
            // The library panics on some damaged files. The caller reports that as damage, as it
            // does for its own panics.
            Err(_) => match task.await.map_err(tokio::task::JoinError::try_into_panic) {
                Err(Ok(panic)) => std::panic::resume_unwind(panic),
                Err(Err(error)) => Err(Error::internal("the task that reads a row group ended").with_source(error)),
                Ok(()) => Err(Error::internal("the task that reads a row group gave no answer")),
            },
        }
    }
}

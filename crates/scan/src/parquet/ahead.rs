//! Row groups one after the other, the next one fetched while the rows of one are decoded, unless they need not be waited
//! for: then a second one would only take memory.
//!
//! Fetching evaluates the predicate on the columns it reads, so it is work that whoever runs the scan may want to
//! account for: the task is theirs to start ([`Spawner`]). Where one thread does all of it, tasks would only let scans of other
//! requests come between, and those take the place of this one in the caches: then the scan fetches by itself, and no more is
//! done ahead than to ask for the bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use pushdown::{Error, Result};
use tokio::sync::oneshot;

use super::group_rows::GroupRows;
use super::groups::{GroupPart, Groups};
use crate::interrupt::{Task, check_interrupt};
use crate::{ScanCounters, Spawner, TimeSlice};

/// The rows of a row group, and what was counted for them, which is counted for the scan as soon as they are asked for: what
/// is read ahead depends on what the page cache has.
type Opened = (Result<Option<GroupRows>>, ScanCounters);

async fn open(groups: &Groups, part: GroupPart) -> Opened {
    let counters = ScanCounters::default();
    (groups.open(part, &counters).await, counters)
}

/// The rows of a Parquet object. Holds one row group or part of one, as it is stored, and the next.
pub(super) struct RowGroups {
    groups: Arc<Groups>,
    waiting: VecDeque<GroupPart>,
    /// The row group that is decoded, and whether any of its rows were asked for yet.
    current: Option<(GroupRows, bool)>,
    next: Option<Fetching>,
    /// Starts tasks that fetch; without it the scan does.
    spawner: Option<Spawner>,
    slice: TimeSlice,
}

enum Fetching {
    Task {
        task: Task<()>,
        result: oneshot::Receiver<Opened>,
    },
    /// Is done, or waits for bytes and goes on when it is waited for.
    Begun(BoxFuture<'static, Opened>),
}

impl RowGroups {
    pub(super) fn new(groups: Groups, parts: Vec<GroupPart>, spawner: Option<Spawner>) -> Self {
        let (groups, waiting, slice) = (Arc::new(groups), parts.into(), TimeSlice::default());
        Self { groups, waiting, current: None, next: None, spawner, slice }
    }

    /// The next rows. Needs a Tokio runtime.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            check_interrupt()?;
            if let Some((rows, begun)) = &mut self.current {
                // Not before the second batch: a LIMIT is often satisfied by the first.
                if std::mem::replace(begun, true) && self.next.is_none() && self.groups.are_waited_for() {
                    let part = self.waiting.pop_front();
                    self.next = part.map(|part| Fetching::begin(&self.groups, part, self.spawner.as_ref()));
                }
                match rows.next()? {
                    Some(batch) => return Ok(Some(batch)),
                    None => self.current = None,
                }
            }
            // Of what is at hand nothing is waited for, and there may be no rows to give for long.
            self.slice.others().await;
            let (rows, counted) = if let Some(next) = self.next.take() {
                next.wait().await?
            } else if let Some(part) = self.waiting.pop_front() {
                open(&self.groups, part).await
            } else {
                return Ok(None);
            };
            self.groups.counters().add(counted);
            self.current = rows?.map(|rows| (rows, false));
        }
    }
}

impl Fetching {
    fn begin(groups: &Arc<Groups>, part: GroupPart, spawner: Option<&Spawner>) -> Self {
        let groups = Arc::clone(groups);
        let mut opened = async move { open(&groups, part).await }.boxed();
        match spawner {
            None => {
                let all = (&mut opened).now_or_never();
                Self::Begun(all.map_or(opened, |all| ready(all).boxed()))
            }
            Some(spawner) => {
                let (done, result) = oneshot::channel();
                // Nobody waits for it if the scan was dropped.
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
            // The library panics on some damaged files; the caller takes that for damage, here as there.
            Err(_) => match task.await.map_err(tokio::task::JoinError::try_into_panic) {
                Err(Ok(panic)) => std::panic::resume_unwind(panic),
                Err(Err(error)) => Err(Error::internal("the task that reads a row group ended").with_source(error)),
                Ok(()) => Err(Error::internal("the task that reads a row group gave no answer")),
            },
        }
    }
}

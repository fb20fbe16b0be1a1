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
use tokio_util::task::AbortOnDropHandle;

use super::group_rows::GroupRows;
use super::groups::{Groups, Part};
use crate::Spawner;

type Fetched = Result<Option<GroupRows>>;

/// The rows of a Parquet object. Holds one row group or part of one, as it is stored, and the next.
pub(super) struct RowGroups {
    groups: Arc<Groups>,
    waiting: VecDeque<Part>,
    /// The row group that is decoded, and whether any of its rows were asked for yet.
    current: Option<(GroupRows, bool)>,
    next: Option<Fetching>,
    /// Starts tasks that fetch; without it the scan does.
    spawner: Option<Spawner>,
}

enum Fetching {
    Task {
        task: AbortOnDropHandle<()>,
        result: oneshot::Receiver<Fetched>,
    },
    /// Is done, or waits for bytes and goes on when it is waited for.
    Begun(BoxFuture<'static, Fetched>),
}

impl RowGroups {
    pub(super) fn new(groups: Groups, parts: Vec<Part>, spawner: Option<Spawner>) -> Self {
        Self { groups: Arc::new(groups), waiting: parts.into(), current: None, next: None, spawner }
    }

    /// The next rows. Needs a Tokio runtime.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
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
            let rows = if let Some(next) = self.next.take() {
                next.wait().await?
            } else if let Some(part) = self.waiting.pop_front() {
                self.groups.open(part).await?
            } else {
                return Ok(None);
            };
            self.current = rows.map(|rows| (rows, false));
        }
    }
}

impl Fetching {
    fn begin(groups: &Arc<Groups>, part: Part, spawner: Option<&Spawner>) -> Self {
        let groups = Arc::clone(groups);
        let mut fetched = async move { groups.open(part).await }.boxed();
        match spawner {
            None => {
                let all = (&mut fetched).now_or_never();
                Self::Begun(all.map_or(fetched, |all| ready(all).boxed()))
            }
            Some(spawner) => {
                let (done, result) = oneshot::channel();
                // Nobody waits for it if the scan was dropped.
                let task = spawner.spawn(async move { drop(done.send(fetched.await)) });
                Self::Task { task, result }
            }
        }
    }

    async fn wait(self) -> Fetched {
        let (task, result) = match self {
            Self::Begun(fetched) => return fetched.await,
            Self::Task { task, result } => (task, result),
        };
        match result.await {
            Ok(fetched) => fetched,
            // The library panics on some damaged files; the caller takes that for damage, here as there.
            Err(_) => match task.await.map_err(tokio::task::JoinError::try_into_panic) {
                Err(Ok(panic)) => std::panic::resume_unwind(panic),
                Err(Err(error)) => Err(Error::internal("the task that reads a row group ended").with_source(error)),
                Ok(()) => Err(Error::internal("the task that reads a row group gave no answer")),
            },
        }
    }
}

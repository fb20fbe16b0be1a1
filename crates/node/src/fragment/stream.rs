//! The answer: events in the order of the work, signs of life while there are none, the bill, the end.
//!
//! The work runs on a task of its own and is at most a few frames ahead of the client, so a slow client slows it and
//! memory stays bounded. A client that goes away ends it.

use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use arrow::array::RecordBatch;
use bytes::Bytes;
use futures::stream;
use pushdown::wire::{Failure, RouteStats};
use pushdown::{Error, ErrorKind};
use pushdowndb_scan::slice_bytes;
use pushdowndb_select::RouteEvent;
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::{sleep, timeout};

use super::batches::BatchWriter;
use super::splits::{Scanning, SplitEvent};
use super::{Body, Desk, failure};
use crate::silence::Silence;

/// Frames between the work and the socket.
const FRAMES_AHEAD: usize = 2;

/// Requests at a time that keep a core busy whose scans wait for another server.
const DISTANT_AT_ONCE: u32 = 4;

/// The client is gone, or has been told of a failure after which nothing comes.
pub(super) struct Gone;

/// Runs the work on a task of its own. It may take so long, a client that reads slowly included.
pub(super) fn start<W>(desk: Desk, patience: Duration, work: impl FnOnce(Out) -> W + Send + 'static) -> Body
where
    W: Future<Output = Result<(), Gone>> + Send + 'static,
{
    let (events, mut receiver) = channel::<Bytes>(FRAMES_AHEAD);
    // Not with the task: one that computes cannot be dropped, and the workers have tasks of their own.
    let (end, keep_alive) = (desk.turn.end_on_drop(), desk.limits.select_keep_alive);
    let task = desk.turn.bill().spawn(async move {
        let gone = events.clone();
        let out = Out { events: events.clone(), desk, returned: 0, scanned: 0 };
        tokio::select! {
            done = work(out) => drop(done),
            () = sleep(patience) => {
                let message = format!("the work took more than {} s", patience.as_secs());
                let late = RouteEvent::Failed(Failure { kind: ErrorKind::Unavailable, message });
                // If there is no room for it, the missing End event says the same.
                if let Ok(bytes) = late.to_bytes() {
                    drop(events.try_send(bytes));
                }
            }
            () = gone.closed() => tracing::debug!("the client of a fragment went away"),
        }
    });
    // Work that computes for long has no time for signs of life.
    let mut silence = Silence::new(keep_alive);
    let cont = RouteEvent::Cont.to_bytes().unwrap_or_default();
    Box::pin(stream::poll_fn(move |cx| {
        // They live with the stream: with the stream dropped, the work ends.
        let _work = (&task, &end);
        silence.unless(receiver.poll_recv(cx), cx, || cont.clone())
    }))
}

/// Where events go.
pub(super) struct Out {
    events: Sender<Bytes>,
    pub desk: Desk,
    /// Bytes of batches or ranges sent so far.
    returned: u64,
    /// Bytes read for ranges so far; what splits read they count themselves.
    pub scanned: u64,
}

impl Out {
    pub async fn send(&mut self, event: RouteEvent) -> Result<(), Gone> {
        let bytes = event.to_bytes().map_err(|error| {
            tracing::error!(%error, "an event that cannot be sent");
            Gone
        })?;
        if let RouteEvent::Batch { bytes, .. } | RouteEvent::Range { bytes, .. } = &event {
            self.returned += bytes.len() as u64;
        }
        self.events.send(bytes).await.map_err(|_| Gone)
    }

    /// Waits for what comes next, with signs of life meanwhile.
    pub async fn wait<T>(&mut self, next: impl Future<Output = T>) -> Result<T, Gone> {
        let mut next = pin!(next);
        loop {
            match timeout(self.desk.limits.select_keep_alive, &mut next).await {
                Ok(next) => return Ok(next),
                Err(_) => self.send(RouteEvent::Cont).await?,
            }
        }
    }

    /// Sends bytes as events of a bounded size.
    pub async fn send_cut(&mut self, mut bytes: Bytes, event: impl Fn(Bytes) -> RouteEvent) -> Result<(), Gone> {
        let most = self.desk.limits.fragment_frame_bytes.max(1);
        while !bytes.is_empty() {
            let piece = bytes.split_to(most.min(bytes.len()));
            self.send(event(piece)).await?;
        }
        Ok(())
    }

    /// Ends the answer with an error.
    pub async fn fail(&mut self, error: &Error) -> Result<(), Gone> {
        self.send(RouteEvent::Failed(failure(error))).await?;
        Err(Gone)
    }

    /// Ends the answer. What the work took is told but for the time of these last steps.
    pub async fn finish(&mut self, figures: RouteStats) -> Result<(), Gone> {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let spent = self.desk.record.spent_so_far();
        let (cores, scanning) = self.desk.scans.load();
        // One more than there are cores, so that the next is there when an answer ends; and scans of another server's bytes wait
        // for these most of the time.
        let at_once = if self.desk.objects.store.is_distant() { cores * DISTANT_AT_ONCE } else { cores + 1 };
        let stats = RouteStats {
            bytes_returned: self.returned,
            cpu_ns: ns(spent.cpu),
            busy_ns: ns(spent.busy),
            cores,
            scanning,
            at_once,
            ..figures
        };
        self.send(RouteEvent::Stats(stats)).await?;
        self.send(RouteEvent::End).await
    }
}

/// However the answer ended, what was read for it and what it returned is counted.
impl Drop for Out {
    fn drop(&mut self) {
        self.desk.counting.scanned.fetch_add(self.scanned, Relaxed);
        self.desk.counting.returned.fetch_add(self.returned, Relaxed);
        self.desk.record.scanned(self.scanned, self.returned);
    }
}

/// Pieces of a batch of about so many bytes are encoded at once.
const PIECE_BYTES: usize = 16 << 20;

/// The batch in pieces, between which a client that has left is noticed.
fn in_pieces(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> + '_ {
    let (rows, bytes) = (batch.num_rows(), batch.columns().iter().map(slice_bytes).sum::<usize>());
    let at_once = (rows / bytes.div_ceil(PIECE_BYTES).max(1)).max(1);
    (0..rows).step_by(at_once).map(move |at| batch.slice(at, at_once.min(rows - at)))
}

/// Answers with the rows of splits.
pub(super) async fn scan(mut out: Out, mut scanning: Scanning, mut writer: BatchWriter) -> Result<(), Gone> {
    loop {
        match out.wait(scanning.next()).await? {
            Some(SplitEvent::Batch(split, batch)) => {
                for piece in in_pieces(&batch) {
                    match writer.write(&piece) {
                        Ok((dictionaries, bytes)) => {
                            out.send_cut(bytes, |bytes| RouteEvent::Batch { split, dictionaries, bytes }).await?;
                        }
                        Err(error) => return out.fail(&error).await,
                    }
                }
            }
            Some(SplitEvent::End(split, stats)) => out.send(RouteEvent::SplitEnd { split, stats }).await?,
            Some(SplitEvent::Failed(split, failure)) => out.send(RouteEvent::SplitFailed { split, failure }).await?,
            None if scanning.open > 0 => {
                let ended = || Error::internal("a scan ended before its splits");
                let why = out.desk.turn.bill().check().err().unwrap_or_else(ended);
                return out.fail(&why).await;
            }
            None => return out.finish(scanning.figures()).await,
        }
        // Encoding never waits; others get their turn here.
        tokio::task::yield_now().await;
    }
}

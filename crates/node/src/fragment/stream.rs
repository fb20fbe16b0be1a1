//! The response stream: events in the order of the work, keep-alives, statistics, the end.
//!
//! The work runs on its own task, at most a few frames ahead of the client: a slow client slows it
//! down and memory stays bounded. A disconnect ends it.

use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use arrow::array::RecordBatch;
use bytes::Bytes;
use futures::stream;
use pushdowndb_contract::wire::{Failure, RouteEvent, RouteStats};
use pushdowndb_contract::{Error, ErrorKind};
use pushdowndb_scan::slice_bytes;
use pushdowndb_select::frame;
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::{sleep, timeout};

use super::batches::BatchWriter;
use super::context::{Body, RequestContext, failure};
use super::splits::{SplitEvent, SplitScanner};
use crate::scans::KeepAlive;
use crate::telemetry::nanos;

/// Frames buffered between the work and the socket.
const FRAMES_AHEAD: usize = 2;

/// Concurrent requests that keep a core busy if the bytes come from another server.
const REMOTE_REQUESTS_PER_CORE: u32 = 4;

/// The client is gone, or the response has ended with a failure.
pub(super) struct Ended;

/// Runs `work` on its own task, for at most `max_time`, including the time of a client that reads
/// slowly.
pub(super) fn start<W>(
    context: RequestContext,
    max_time: Duration,
    work: impl FnOnce(EventSender) -> W + Send + 'static,
) -> Body
where
    W: Future<Output = Result<(), Ended>> + Send + 'static,
{
    let (events, mut receiver) = channel::<Bytes>(FRAMES_AHEAD);
    // Dropping `end` cancels the work. The task must not own it: a task that is computing cannot be
    // dropped, and the workers run on tasks of their own.
    let (end, keep_alive) = (context.permit.cancel_on_drop(), context.limits.select_keep_alive);
    let task = context.permit.account().spawn(async move {
        let gone = events.clone();
        let out = EventSender { events: events.clone(), context, returned: 0, scanned: 0 };
        tokio::select! {
            done = work(out) => drop(done),
            () = sleep(max_time) => {
                let message = format!("the work took more than {} s", max_time.as_secs());
                let late = RouteEvent::Failed(Failure { kind: ErrorKind::Unavailable, message });
                // If the channel is full, the client learns the same from the missing End event.
                if let Ok(bytes) = frame(&late) {
                    drop(events.try_send(bytes));
                }
            }
            () = gone.closed() => tracing::debug!("the client of a fragment went away"),
        }
    });
    // Sends keep-alives while the work is busy computing and sends none itself.
    let mut keep_alives = KeepAlive::new(keep_alive);
    let cont = frame(&RouteEvent::Cont).unwrap_or_default();
    Box::pin(stream::poll_fn(move |cx| {
        // Both live as long as the stream; dropping it ends the work.
        let _work = (&task, &end);
        keep_alives.poll_or(receiver.poll_recv(cx), cx, || cont.clone())
    }))
}

/// The sending side of a response.
pub(super) struct EventSender {
    events: Sender<Bytes>,
    pub context: RequestContext,
    /// Bytes of batches or ranges sent so far.
    returned: u64,
    /// Bytes read for ranges so far; splits count their own.
    pub scanned: u64,
}

impl EventSender {
    pub async fn send(&mut self, event: RouteEvent) -> Result<(), Ended> {
        let bytes = frame(&event).map_err(|error| {
            tracing::error!(%error, "an event that cannot be sent");
            Ended
        })?;
        if let RouteEvent::Batch { bytes, .. } | RouteEvent::Range { bytes, .. } = &event {
            self.returned += bytes.len() as u64;
        }
        self.events.send(bytes).await.map_err(|_| Ended)
    }

    /// Waits for `next`, sending keep-alives meanwhile.
    pub async fn wait_for<T>(&mut self, next: impl Future<Output = T>) -> Result<T, Ended> {
        let mut next = pin!(next);
        loop {
            match timeout(self.context.limits.select_keep_alive, &mut next).await {
                Ok(next) => return Ok(next),
                Err(_) => self.send(RouteEvent::Cont).await?,
            }
        }
    }

    /// Sends `bytes` as events of bounded size.
    pub async fn send_in_frames(&mut self, mut bytes: Bytes, event: impl Fn(Bytes) -> RouteEvent) -> Result<(), Ended> {
        let most = self.context.limits.fragment_frame_bytes.max(1);
        while !bytes.is_empty() {
            let piece = bytes.split_to(most.min(bytes.len()));
            self.send(event(piece)).await?;
        }
        Ok(())
    }

    /// Ends the response with an error.
    pub async fn fail(&mut self, error: &Error) -> Result<(), Ended> {
        self.send(RouteEvent::Failed(failure(error))).await?;
        Err(Ended)
    }

    /// Ends the response with its statistics.
    pub async fn finish(&mut self, figures: RouteStats) -> Result<(), Ended> {
        let spent = self.context.record.thread_time();
        let (cores, scanning) = self.context.scans.load();
        // Recommends one request more than there are cores, so that the next request is there when
        // a response ends; scans of another server's bytes spend most of their time waiting, so
        // more of them fit.
        let at_once = if self.context.objects.store.is_remote() { cores * REMOTE_REQUESTS_PER_CORE } else { cores + 1 };
        let stats = RouteStats {
            bytes_returned: self.returned,
            cpu_ns: nanos(spent.cpu),
            busy_ns: nanos(spent.busy),
            cores,
            scanning,
            at_once,
            ..figures
        };
        self.send(RouteEvent::Stats(stats)).await?;
        self.send(RouteEvent::End).await
    }
}

/// Counts what was read and returned, however the response ended.
impl Drop for EventSender {
    fn drop(&mut self) {
        self.context.counting.scanned.fetch_add(self.scanned, Relaxed);
        self.context.counting.returned.fetch_add(self.returned, Relaxed);
        self.context.record.scanned(self.scanned, self.returned);
    }
}

/// Batches are encoded in pieces of about this many bytes.
const ENCODE_PIECE_BYTES: usize = 16 << 20;

/// Cuts a batch into pieces, between which a disconnect is noticed.
fn in_pieces(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> + '_ {
    let (rows, bytes) = (batch.num_rows(), batch.columns().iter().map(slice_bytes).sum::<usize>());
    let at_once = (rows / bytes.div_ceil(ENCODE_PIECE_BYTES).max(1)).max(1);
    (0..rows).step_by(at_once).map(move |at| batch.slice(at, at_once.min(rows - at)))
}

/// Sends the rows of the splits.
pub(super) async fn scan(
    mut out: EventSender,
    mut scanning: SplitScanner,
    mut writer: BatchWriter,
) -> Result<(), Ended> {
    loop {
        match out.wait_for(scanning.next()).await? {
            Some(SplitEvent::Batch(split, batch)) => {
                for piece in in_pieces(&batch) {
                    match writer.write(&piece) {
                        Ok((dictionaries, bytes)) => {
                            out.send_in_frames(bytes, |bytes| RouteEvent::Batch { split, dictionaries, bytes }).await?;
                        }
                        Err(error) => return out.fail(&error).await,
                    }
                }
            }
            Some(SplitEvent::End(split, stats)) => out.send(RouteEvent::SplitEnd { split, stats }).await?,
            Some(SplitEvent::Failed(split, failure)) => out.send(RouteEvent::SplitFailed { split, failure }).await?,
            None if scanning.open > 0 => {
                let ended = || Error::internal("a scan ended before its splits");
                let why = out.context.permit.account().check().err().unwrap_or_else(ended);
                return out.fail(&why).await;
            }
            None => return out.finish(scanning.figures()).await,
        }
        // Encoding never waits, so yield to other tasks.
        tokio::task::yield_now().await;
    }
}

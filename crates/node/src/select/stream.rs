//! The event stream: rows in frames, keep-alives, statistics, the end.
//!
//! The scan runs on its own task, at most two frames ahead of the client: a slow client slows it
//! down and memory stays bounded. A disconnect ends it.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use arrow::array::RecordBatch;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use pushdowndb_contract::{Compression, Error, Format};
use pushdowndb_scan::{ScanCounters, TimeSlice};
use s3s::dto::{
    ContinuationEvent, EndEvent, Progress, ProgressEvent, RecordsEvent, SelectObjectContentEvent,
    SelectObjectContentEventStream, Stats, StatsEvent,
};
use s3s::{S3Result, s3_error};
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::errors;
use super::rows::{RowRules, Rows};
use crate::scans::{KeepAlive, ScanPermit};
use crate::telemetry::LiveCounters;

/// Frames buffered between the scan and the socket.
const FRAMES_AHEAD: usize = 2;

type Event = S3Result<SelectObjectContentEvent>;

/// A response in progress.
pub(super) struct ResponseStream {
    pub batches: BoxStream<'static, pushdowndb_contract::Result<RecordBatch>>,
    pub rules: RowRules,
    pub format: Format,
    pub counters: Arc<ScanCounters>,
    pub counting: Arc<LiveCounters>,
    /// Whether the client asked for Progress frames.
    pub progress: bool,
    /// Whether a Progress frame was sent.
    pub reported: bool,
    /// Whether any frame was sent.
    pub begun: bool,
    pub frame_bytes: usize,
    pub keep_alive: Duration,
    /// Maximum time of the scan, including that of a client that reads slowly.
    pub max_time: Duration,
    /// Bytes of rows sent so far.
    pub returned: AtomicU64,
    pub permit: ScanPermit,
}

/// The client is gone, or the response has ended with an error.
struct Ended;

impl ResponseStream {
    /// Runs the scan on its own task. If the scan fails within `first` and before the first frame,
    /// returns its error.
    pub async fn start(self, first: Duration) -> S3Result<SelectObjectContentEventStream> {
        let (events, mut receiver) = channel::<Event>(FRAMES_AHEAD);
        let keep_alive = self.keep_alive;
        // Dropping `end` cancels the scan. The task must not own it: a task that is computing
        // cannot be dropped.
        let end = self.permit.cancel_on_drop();
        let task = self.permit.account().spawn(async move {
            let gone = events.clone();
            let max_time = self.max_time;
            tokio::select! {
                done = self.run(&events) => drop(done),
                () = sleep(max_time) => {
                    let late = s3_error!(RequestTimeout, "the scan took more than {} s", max_time.as_secs());
                    // If the channel is full, the client learns the same from the missing End
                    // frame.
                    drop(events.try_send(Err(late)));
                }
                () = gone.closed() => tracing::debug!("the client of a Select request went away"),
            }
        });
        let first = match timeout(first, receiver.recv()).await {
            Ok(Some(Err(error))) => return Err(error),
            Ok(event) => event,
            Err(_) => None,
        };
        // Sends keep-alives while the scan is busy computing and sends none itself; without them a
        // disconnect would go unnoticed.
        let mut keep_alives = KeepAlive::new(keep_alive);
        let rest = stream::poll_fn(move |cx| {
            // Both live as long as the stream; dropping it ends the work.
            let _work = (&task, &end);
            keep_alives.poll_or(receiver.poll_recv(cx), cx, || Ok(SelectObjectContentEvent::Cont(ContinuationEvent {})))
        });
        Ok(SelectObjectContentEventStream::new(stream::iter(first).chain(rest)))
    }

    async fn run(mut self, events: &Sender<Event>) -> Result<(), Ended> {
        self.rows(events).await?;
        if self.progress && !self.reported {
            self.report(events).await?;
        }
        let (scanned, processed, returned) = self.figures();
        let details = Stats { bytes_scanned: scanned, bytes_processed: processed, bytes_returned: returned };
        send(events, Ok(SelectObjectContentEvent::Stats(StatsEvent { details: Some(details) }))).await?;
        send(events, Ok(SelectObjectContentEvent::End(EndEvent {}))).await
    }

    /// Sends all rows. If the scan fails, sends its error and ends the stream.
    async fn rows(&mut self, events: &Sender<Event>) -> Result<(), Ended> {
        let mut frame = Vec::new();
        let mut tick = interval(self.keep_alive);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tick.tick().await;
        let mut slice = TimeSlice::default();
        loop {
            let batch = tokio::select! {
                batch = self.batches.next() => batch,
                _ = tick.tick() => {
                    self.sign_of_life(events, &mut frame).await?;
                    continue;
                }
            };
            let Some(batch) = batch else { return self.send_rows(events, &mut frame).await };
            let mut rows = match batch.and_then(|batch| Rows::new(&batch, &self.rules)) {
                Ok(rows) => rows,
                Err(error) => return self.fail(events, &mut frame, &error).await,
            };
            loop {
                let more = match rows.fill(&self.rules, &mut frame, self.frame_bytes) {
                    Ok(more) => more,
                    Err(error) => return self.fail(events, &mut frame, &error).await,
                };
                if !more && frame.len() < self.frame_bytes {
                    break;
                }
                self.send_rows(events, &mut frame).await?;
                tick.reset();
            }
            // Encoding never waits, so yield to other tasks.
            slice.others().await;
        }
    }

    /// Ends the response with an error. The rows in `frame` are sent before it only if the response
    /// has begun; otherwise the error is the whole response.
    async fn fail(&mut self, events: &Sender<Event>, frame: &mut Vec<u8>, error: &Error) -> Result<(), Ended> {
        if self.begun {
            self.send_rows(events, frame).await?;
        }
        send(events, Err(errors::of_scan(error, &self.format))).await?;
        Err(Ended)
    }

    async fn sign_of_life(&mut self, events: &Sender<Event>, frame: &mut Vec<u8>) -> Result<(), Ended> {
        self.begun = true;
        if self.progress {
            self.report(events).await?;
        }
        if frame.is_empty() {
            send(events, Ok(SelectObjectContentEvent::Cont(ContinuationEvent {}))).await
        } else {
            self.send_rows(events, frame).await
        }
    }

    async fn report(&mut self, events: &Sender<Event>) -> Result<(), Ended> {
        self.reported = true;
        let (scanned, processed, returned) = self.figures();
        let details = Progress { bytes_scanned: scanned, bytes_processed: processed, bytes_returned: returned };
        send(events, Ok(SelectObjectContentEvent::Progress(ProgressEvent { details: Some(details) }))).await
    }

    async fn send_rows(&mut self, events: &Sender<Event>, frame: &mut Vec<u8>) -> Result<(), Ended> {
        if frame.is_empty() {
            return Ok(());
        }
        self.begun = true;
        self.returned.fetch_add(frame.len() as u64, Relaxed);
        let payload = Bytes::from(mem::replace(frame, Vec::with_capacity(self.frame_bytes + self.frame_bytes / 8)));
        send(events, Ok(SelectObjectContentEvent::Records(RecordsEvent { payload: Some(payload) }))).await
    }

    fn scanned(&self) -> u64 {
        self.counters.bytes_scanned.load(Relaxed)
    }

    /// Bytes scanned, processed and returned, as S3 reports them.
    fn figures(&self) -> (Option<i64>, Option<i64>, Option<i64>) {
        let figure = |count: u64| i64::try_from(count).ok();
        let processed = match self.format.compression() {
            Compression::None => self.scanned(),
            _ => self.counters.bytes_processed.load(Relaxed),
        };
        (figure(self.scanned()), figure(processed), figure(self.returned.load(Relaxed)))
    }
}

/// Counts what was read and returned, however the response ended.
impl Drop for ResponseStream {
    fn drop(&mut self) {
        self.counting.scanned.fetch_add(self.scanned(), Relaxed);
        self.counting.returned.fetch_add(self.returned.load(Relaxed), Relaxed);
        self.permit.account().add_bytes(self.scanned(), self.returned.load(Relaxed));
    }
}

async fn send(events: &Sender<Event>, event: Event) -> Result<(), Ended> {
    events.send(event).await.map_err(|_| Ended)
}

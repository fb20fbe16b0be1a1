//! The event stream: rows in frames, signs of life while there are none, the bill, the end.
//!
//! The scan runs on its own task and is at most two frames ahead of the client, so a slow client slows the
//! scan and memory stays bounded. A client that goes away ends the scan.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use arrow::array::RecordBatch;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use pushdown::Format;
use pushdowndb_scan::ScanCounters;
use s3s::S3Result;
use s3s::dto::{
    ContinuationEvent, EndEvent, Progress, ProgressEvent, RecordsEvent, SelectObjectContentEvent,
    SelectObjectContentEventStream, Stats, StatsEvent,
};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::{MissedTickBehavior, interval};

use super::errors;
use super::rows::{RowWriter, Rows};
use crate::counters::Counting;

/// Frames between the scan and the socket.
const FRAMES_AHEAD: usize = 2;

type Event = S3Result<SelectObjectContentEvent>;

/// An answer under way.
pub(super) struct Answer {
    pub batches: BoxStream<'static, pushdown::Result<RecordBatch>>,
    pub writer: RowWriter,
    pub format: Format,
    pub counters: Arc<ScanCounters>,
    pub counting: Arc<Counting>,
    pub progress: bool,
    pub frame_bytes: usize,
    pub keep_alive: Duration,
    /// Bytes of rows sent so far.
    pub returned: AtomicU64,
    pub _turn: OwnedSemaphorePermit,
}

/// The client is gone.
struct Gone;

impl Answer {
    /// Runs the scan on a task of its own.
    pub fn start(self) -> SelectObjectContentEventStream {
        let (events, mut receiver) = channel::<Event>(FRAMES_AHEAD);
        tokio::spawn(async move {
            let gone = events.clone();
            tokio::select! {
                done = self.run(&events) => drop(done),
                () = gone.closed() => tracing::debug!("the client of a Select request went away"),
            }
        });
        SelectObjectContentEventStream::new(stream::poll_fn(move |cx| receiver.poll_recv(cx)))
    }

    async fn run(mut self, events: &Sender<Event>) -> Result<(), Gone> {
        self.rows(events).await?;
        let (scanned, returned) = self.figures();
        let details = Stats { bytes_scanned: scanned, bytes_processed: scanned, bytes_returned: returned };
        send(events, Ok(SelectObjectContentEvent::Stats(StatsEvent { details: Some(details) }))).await?;
        send(events, Ok(SelectObjectContentEvent::End(EndEvent {}))).await
    }

    /// Sends all rows. A scan that fails sends its error and counts as a client that wants no more.
    async fn rows(&mut self, events: &Sender<Event>) -> Result<(), Gone> {
        let mut frame = Vec::new();
        let mut tick = interval(self.keep_alive);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tick.tick().await;
        loop {
            let batch = tokio::select! {
                batch = self.batches.next() => batch,
                _ = tick.tick() => {
                    self.sign_of_life(events, &mut frame).await?;
                    continue;
                }
            };
            let rows = match batch {
                None => return self.send_rows(events, &mut frame).await,
                Some(batch) => batch.and_then(|batch| Rows::new(&batch, &self.writer)),
            };
            let mut rows = match rows {
                Ok(rows) => rows,
                Err(error) => {
                    self.send_rows(events, &mut frame).await?;
                    send(events, Err(errors::of_scan(&error, &self.format))).await?;
                    return Err(Gone);
                }
            };
            while rows.fill(&self.writer, &mut frame, self.frame_bytes) || frame.len() >= self.frame_bytes {
                self.send_rows(events, &mut frame).await?;
                tick.reset();
            }
            // Encoding never waits; others get their turn here.
            tokio::task::yield_now().await;
        }
    }

    async fn sign_of_life(&mut self, events: &Sender<Event>, frame: &mut Vec<u8>) -> Result<(), Gone> {
        if self.progress {
            let (scanned, returned) = self.figures();
            let details = Progress { bytes_scanned: scanned, bytes_processed: scanned, bytes_returned: returned };
            send(events, Ok(SelectObjectContentEvent::Progress(ProgressEvent { details: Some(details) }))).await?;
        }
        if frame.is_empty() {
            send(events, Ok(SelectObjectContentEvent::Cont(ContinuationEvent {}))).await
        } else {
            self.send_rows(events, frame).await
        }
    }

    async fn send_rows(&mut self, events: &Sender<Event>, frame: &mut Vec<u8>) -> Result<(), Gone> {
        if frame.is_empty() {
            return Ok(());
        }
        self.returned.fetch_add(frame.len() as u64, Relaxed);
        let payload = Bytes::from(mem::replace(frame, Vec::with_capacity(self.frame_bytes + self.frame_bytes / 8)));
        send(events, Ok(SelectObjectContentEvent::Records(RecordsEvent { payload: Some(payload) }))).await
    }

    fn scanned(&self) -> u64 {
        self.counters.bytes_scanned.load(Relaxed)
    }

    /// Bytes scanned and returned, as S3 writes them.
    fn figures(&self) -> (Option<i64>, Option<i64>) {
        (i64::try_from(self.scanned()).ok(), i64::try_from(self.returned.load(Relaxed)).ok())
    }
}

/// However the answer ended, what it cost is counted.
impl Drop for Answer {
    fn drop(&mut self) {
        self.counting.scanned.fetch_add(self.scanned(), Relaxed);
        self.counting.returned.fetch_add(self.returned.load(Relaxed), Relaxed);
    }
}

async fn send(events: &Sender<Event>, event: Event) -> Result<(), Gone> {
    events.send(event).await.map_err(|_| Gone)
}

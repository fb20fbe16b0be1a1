//! Reads everything in the background, to find damage while there may still be another copy.
//!
//! One thread reads object after object at a bounded rate and verifies every block, however
//! recently it was verified; damage is logged and counted. It also backfills the checksums of
//! objects of earlier versions (see `checksum_backfill`), at its own rate and even if scrubbing is
//! off. Index records are verified on the way, and index pages as far as they are not cached. The
//! page cache of the kernel is left as it was.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::checksum_backfill::{ChecksumBackfill, ETAG_MISMATCH, has_trailer, segments};
use super::state::{LocalState, ScrubProgress};
use crate::store::fault::Damaged;
use crate::store::index::record::ObjectRecord;
use crate::store::index::walk::{Backfilled, WalkedObject};
use crate::store::object::data::ObjectData;
use crate::store::{Result, StoreError, now_ms};

/// Delay before the first pass.
const INITIAL_DELAY: Duration = Duration::from_secs(1);

/// Minimum duration of a pass.
const MIN_PASS_TIME: Duration = Duration::from_secs(1);

/// Objects that are looked up per batch.
const BATCH_OBJECTS: usize = 100;

/// Bytes per read.
const READ_BYTES: usize = 1 << 20;

/// Cost of an object in addition to its bytes, in bytes: looking it up and opening its file take as
/// long as reading this much.
const OBJECT_COST_BYTES: u64 = 64 << 10;

/// Maximum rate at which the backfill reads objects without checksums, in bytes per second.
const BACKFILL_BYTES_PER_S: u64 = 64 << 20;

/// The scrub thread. It ends with the last clone of the store.
#[derive(Debug)]
pub(super) struct Scrubber {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Scrubber {
    /// Starts the thread.
    pub fn start(shared: &Arc<LocalState>, bytes_a_second: u64) -> Result<Self> {
        let (stop, stopped) = channel();
        let figures = Arc::clone(&shared.scrubbed);
        let shared = Arc::downgrade(shared);
        let worker = Worker { shared, stopped, figures, rate: bytes_a_second, owed: Duration::ZERO };
        let thread = thread::Builder::new().name("pushdowndb-scrub".to_owned()).spawn(move || worker.run());
        let thread = thread.map_err(StoreError::io("cannot start the scrub"))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// A scrubber without a thread.
    pub fn none() -> Self {
        Self { stop: None, thread: None }
    }
}

impl Drop for Scrubber {
    fn drop(&mut self) {
        drop(self.stop.take());
        // Waits for the thread, which releases the store within one step: a store that is opened
        // again must not find itself still open.
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

struct Worker {
    /// Upgraded for one step at a time.
    shared: Weak<LocalState>,
    stopped: Receiver<()>,
    figures: Arc<ScrubProgress>,
    rate: u64,
    owed: Duration,
}

/// The pass ends, since the store is being closed.
struct Stop;

impl Worker {
    fn run(mut self) {
        if self.sleep(INITIAL_DELAY).is_err() {
            return;
        }
        loop {
            let began = Instant::now();
            match self.pass() {
                Err(Stop) => return,
                Ok(true) => {
                    self.figures.last_pass_s.store(now_ms() / 1000, Relaxed);
                    // Without scrubbing, one pass ensures that every object has checksums.
                    if self.rate == 0 {
                        return;
                    }
                }
                Ok(false) => {}
            }
            if self.sleep(MIN_PASS_TIME.saturating_sub(began.elapsed())).is_err() {
                return;
            }
        }
    }

    /// Reads every object. Returns whether the pass reached the end.
    fn pass(&mut self) -> std::result::Result<bool, Stop> {
        let mut after: Option<(String, String)> = None;
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let batch = self.shared()?.index.objects_after(after.as_ref(), BATCH_OBJECTS);
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    tracing::warn!(%error, "the scrub cannot read the index");
                    self.sleep(Duration::from_secs(60))?;
                    return Ok(false);
                }
            };
            let Some(last) = batch.last() else { return Ok(true) };
            after = Some((last.bucket.clone(), last.key.clone()));
            let mut backfilled = Vec::new();
            for object in batch {
                backfilled.extend(self.object(object, &mut buffer)?);
            }
            if let Err(error) = self.shared()?.index.store_backfilled(&backfilled) {
                tracing::warn!(%error, "cannot keep checksums of objects; the next pass makes them again");
            }
        }
    }

    fn object(&mut self, object: WalkedObject, buffer: &mut [u8]) -> std::result::Result<Option<Backfilled>, Stop> {
        let WalkedObject { bucket, key, record } = object;
        let (location, shared) = (format!("s3://{bucket}/{key}"), self.shared()?);
        let verifier = Arc::clone(shared.reading.verifier());
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                verifier.report(&location, None, error.to_string());
                return Ok(None);
            }
        };
        let is_due = ChecksumBackfill::is_due(&record);
        if !is_due && self.rate == 0 {
            return Ok(None);
        }
        let id = record.segments.first().map(|segment| segment.id);
        if record.damaged {
            verifier.report(&location, id, ETAG_MISMATCH.to_owned());
            return Ok(None);
        }
        let rate = if is_due { self.rate.max(BACKFILL_BYTES_PER_S) } else { self.rate };
        self.spend(OBJECT_COST_BYTES, rate)?;
        let data = match shared.data(&bucket, &key, &record, &shared.reading.without_interval()) {
            Ok(Some(data)) => data,
            // Replaced meanwhile, or its file is missing.
            Ok(None) => {
                if shared.index.object(&bucket, &key).is_ok_and(|now| now.segments == record.segments) {
                    verifier.report(&location, id, "its data file is missing".to_owned());
                }
                return Ok(None);
            }
            Err(error) => {
                verifier.report(&location, id, error.to_string());
                return Ok(None);
            }
        };
        drop(shared);
        let mut backfill = is_due.then(|| ChecksumBackfill::new(&record));
        match self.read(&data, &record, buffer, rate, &mut backfill)? {
            Ok(()) => {}
            Err(error) => {
                // Damage was reported already when it was found.
                if Damaged::in_error(&error).is_none() {
                    verifier.report(&location, id, format!("it cannot be read: {error}"));
                }
                return Ok(None);
            }
        }
        let Some(backfill) = backfill else { return Ok(None) };
        let Some(files) = backfill.finish() else {
            verifier.report(&location, id, ETAG_MISMATCH.to_owned());
            return Ok(Some(Backfilled { bucket, key, before: record.segments, after: None }));
        };
        let shared = self.shared()?;
        for (segment, all) in &files {
            if has_trailer(segment.sums, all)
                && let Err(error) = shared.files.append_checksums(segment, all)
            {
                tracing::debug!(location, %error, "cannot keep the checksums of an object");
                return Ok(None);
            }
        }
        Ok(Some(Backfilled { bucket, key, before: record.segments, after: Some(segments(&files)) }))
    }

    /// Reads an object file by file.
    fn read(
        &mut self,
        data: &ObjectData,
        record: &ObjectRecord,
        buffer: &mut [u8],
        rate: u64,
        backfill: &mut Option<ChecksumBackfill<'_>>,
    ) -> std::result::Result<std::io::Result<()>, Stop> {
        let mut at = 0;
        for segment in &record.segments {
            let end = at + segment.size;
            while at < end {
                let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
                let Some(step) = buffer.get_mut(..length) else { break };
                if let Err(error) = data.read_uncached(at, step) {
                    return Ok(Err(error));
                }
                if let Some(backfill) = backfill {
                    backfill.update(step);
                }
                at += length as u64;
                self.figures.bytes.fetch_add(length as u64, Relaxed);
                self.spend(length as u64, rate)?;
            }
            if let Some(backfill) = backfill {
                backfill.end_file(*segment);
            }
        }
        Ok(Ok(()))
    }

    /// Sleeps as long as `bytes` take at `rate`. Short sleeps are accumulated.
    fn spend(&mut self, bytes: u64, rate: u64) -> std::result::Result<(), Stop> {
        self.owed += Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
        if self.owed < Duration::from_millis(20) {
            return Ok(());
        }
        let began = Instant::now();
        self.sleep(self.owed)?;
        self.owed = self.owed.saturating_sub(began.elapsed());
        Ok(())
    }

    fn sleep(&self, time: Duration) -> std::result::Result<(), Stop> {
        match self.stopped.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            _ => Err(Stop),
        }
    }

    fn shared(&self) -> std::result::Result<Arc<LocalState>, Stop> {
        self.shared.upgrade().ok_or(Stop)
    }
}

//! Reading everything behind the store's back, to find rot while there may still be another copy.
//!
//! One thread reads object after object at a given rate and compares every block, however lately it was compared; what
//! is wrong is logged and counted. It also makes the checksums of objects of earlier versions (see `adopt`), at a rate of
//! its own and whether or not there is a scrub. Records of the index are read on the way, and so are its pages as far as
//! they are not in memory. What was not in the kernel's cache before is not left there.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::adopt::{self, Adoption, NOT_THE_ETAG};
use super::data::ObjectData;
use super::local::Shared;
use super::record::ObjectRecord;
use super::sums::Damaged;
use super::walk::{Adopted, Walked};
use super::{Result, StoreError, now_ms};

/// After the start, and before the first pass.
const PATIENCE: Duration = Duration::from_secs(1);

/// A pass takes at least as long.
const LEAST_PASS: Duration = Duration::from_secs(1);

/// Objects that are looked up at once.
const BATCH: usize = 100;

/// Bytes that are read at once.
const STEP: usize = 1 << 20;

/// What an object costs besides its bytes, as bytes: to look it up and to open its file takes as long as to read them.
const LEAST_BYTES: u64 = 64 << 10;

/// As much is read in a second of objects that have no checksums yet, in bytes.
const ADOPTED_BYTES: u64 = 64 << 20;

/// How far the scrub is.
#[derive(Debug, Default)]
pub(super) struct ScrubFigures {
    /// Bytes that were read.
    pub bytes: AtomicU64,
    /// When the last pass over everything ended, in seconds since 1970.
    pub last_pass_s: AtomicU64,
}

/// The thread that scrubs. It ends with the last clone of the store.
#[derive(Debug)]
pub(super) struct Scrub {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Scrub {
    /// Starts it.
    pub fn start(shared: &Arc<Shared>, bytes_a_second: u64) -> Result<Self> {
        let (stop, stopped) = channel();
        let figures = Arc::clone(&shared.scrubbed);
        let shared = Arc::downgrade(shared);
        let worker = Worker { shared, stopped, figures, rate: bytes_a_second, owed: Duration::ZERO };
        let thread = thread::Builder::new().name("pushdowndb-scrub".to_owned()).spawn(move || worker.run());
        let thread = thread.map_err(StoreError::io("cannot start the scrub"))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// None.
    pub fn none() -> Self {
        Self { stop: None, thread: None }
    }
}

impl Drop for Scrub {
    fn drop(&mut self) {
        drop(self.stop.take());
        // It lets go of the store within a step; whoever opens it again must not find it open.
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

struct Worker {
    /// Held for a step at a time.
    shared: Weak<Shared>,
    stopped: Receiver<()>,
    figures: Arc<ScrubFigures>,
    rate: u64,
    owed: Duration,
}

/// The store is being closed.
struct Stop;

impl Worker {
    fn run(mut self) {
        if self.sleep(PATIENCE).is_err() {
            return;
        }
        loop {
            let began = Instant::now();
            match self.pass() {
                Err(Stop) => return,
                Ok(true) => {
                    self.figures.last_pass_s.store(now_ms() / 1000, Relaxed);
                    // Without a scrub there was only to see that every object has checksums.
                    if self.rate == 0 {
                        return;
                    }
                }
                Ok(false) => {}
            }
            if self.sleep(LEAST_PASS.saturating_sub(began.elapsed())).is_err() {
                return;
            }
        }
    }

    /// Looks at every object; tells whether it came to the end.
    fn pass(&mut self) -> std::result::Result<bool, Stop> {
        let mut after: Option<(String, String)> = None;
        let mut buffer = vec![0; STEP];
        loop {
            let batch = self.shared()?.index.objects_after(after.as_ref(), BATCH);
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
            let mut adopted = Vec::new();
            for object in batch {
                adopted.extend(self.object(object, &mut buffer)?);
            }
            if let Err(error) = self.shared()?.index.adopt(&adopted) {
                tracing::warn!(%error, "cannot keep checksums of objects; the next pass makes them again");
            }
        }
    }

    fn object(&mut self, object: Walked, buffer: &mut [u8]) -> std::result::Result<Option<Adopted>, Stop> {
        let Walked { bucket, key, record } = object;
        let (location, shared) = (format!("s3://{bucket}/{key}"), self.shared()?);
        let verifier = Arc::clone(shared.reading.verifier());
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                verifier.report(&location, None, error.to_string());
                return Ok(None);
            }
        };
        let is_due = Adoption::is_due(&record);
        if !is_due && self.rate == 0 {
            return Ok(None);
        }
        let id = record.segments.first().map(|segment| segment.id);
        if record.damaged {
            verifier.report(&location, id, NOT_THE_ETAG.to_owned());
            return Ok(None);
        }
        let rate = if is_due { self.rate.max(ADOPTED_BYTES) } else { self.rate };
        self.spend(LEAST_BYTES, rate)?;
        let data = match shared.data(&bucket, &key, &record, &shared.reading.of_a_scrub()) {
            Ok(Some(data)) => data,
            // Replaced meanwhile, or else its file is missing.
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
        let mut adoption = is_due.then(|| Adoption::new(&record));
        match self.read(&data, &record, buffer, rate, &mut adoption)? {
            Ok(()) => {}
            Err(error) => {
                // Damage was reported where it was found.
                if Damaged::in_error(&error).is_none() {
                    verifier.report(&location, id, format!("it cannot be read: {error}"));
                }
                return Ok(None);
            }
        }
        let Some(adoption) = adoption else { return Ok(None) };
        let Some(files) = adoption.finish() else {
            verifier.report(&location, id, NOT_THE_ETAG.to_owned());
            return Ok(Some(Adopted { bucket, key, before: record.segments, after: None }));
        };
        let shared = self.shared()?;
        for (segment, all) in &files {
            if adopt::are_behind(segment.sums, all)
                && let Err(error) = shared.files.keep_sums(segment, all)
            {
                tracing::debug!(location, %error, "cannot keep the checksums of an object");
                return Ok(None);
            }
        }
        Ok(Some(Adopted { bucket, key, before: record.segments, after: Some(adopt::segments(&files)) }))
    }

    /// Reads all of an object, file by file.
    fn read(
        &mut self,
        data: &ObjectData,
        record: &ObjectRecord,
        buffer: &mut [u8],
        rate: u64,
        adoption: &mut Option<Adoption<'_>>,
    ) -> std::result::Result<std::io::Result<()>, Stop> {
        let mut at = 0;
        for segment in &record.segments {
            let end = at + segment.size;
            while at < end {
                let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
                let Some(step) = buffer.get_mut(..length) else { break };
                if let Err(error) = data.read_aside(at, step) {
                    return Ok(Err(error));
                }
                if let Some(adoption) = adoption {
                    adoption.update(step);
                }
                at += length as u64;
                self.figures.bytes.fetch_add(length as u64, Relaxed);
                self.spend(length as u64, rate)?;
            }
            if let Some(adoption) = adoption {
                adoption.end_file(*segment);
            }
        }
        Ok(Ok(()))
    }

    /// Waits as long as so many bytes may take.
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

    fn shared(&self) -> std::result::Result<Arc<Shared>, Stop> {
        self.shared.upgrade().ok_or(Stop)
    }
}

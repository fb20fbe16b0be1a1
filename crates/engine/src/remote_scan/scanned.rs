//! What a scan has scanned, and what that teaches the statistics: how much of it storage reads, how many rows pass, and what a
//! byte takes a core.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use pushdown::Format;

use super::Figures;
use super::run::Run;
use crate::backends::{ScannedKind, is_scan};
use crate::statistics::{Core, Seen};

/// Of fewer bytes it is what surrounds the scan that takes the time.
const TIMED_BYTES: u64 = 4 * 1024 * 1024;

/// What was scanned.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    /// Bytes of the splits that storage scanned by fragments, and how many of them it reads.
    asked: AtomicU64,
    read: AtomicU64,
    /// Bytes of all splits that are done, and the rows that came of them.
    done: AtomicU64,
    rows: AtomicU64,
    /// Bytes of text that the engine scanned, those of the values that it made of them, and nanoseconds of its cores.
    plain: AtomicU64,
    plain_values: AtomicU64,
    plain_ns: AtomicU64,
    /// Whether it was told how long it took.
    is_timed: AtomicBool,
}

impl Scanned {
    /// Splits of so many bytes are done.
    pub(super) fn done(&self, bytes: u64) {
        self.done.fetch_add(bytes, Relaxed);
    }

    fn figures(&self) -> [u64; 4] {
        let Self { asked, read, done, rows, .. } = self;
        [asked, read, done, rows].map(|count| count.load(Relaxed))
    }

    /// Seconds that a byte took the engine, if it was the scan that took them.
    fn plain_byte_s(&self) -> Option<f64> {
        let [bytes, values, ns] = [&self.plain, &self.plain_values, &self.plain_ns].map(|count| count.load(Relaxed));
        byte_s(bytes, values, Duration::from_nanos(ns).as_secs_f64())
    }
}

/// Seconds that a byte took, if it was the scan that took them.
fn byte_s(scanned: u64, returned: u64, seconds: f64) -> Option<f64> {
    (scanned >= TIMED_BYTES && is_scan(scanned, returned) && seconds > 0.0).then(|| seconds / scanned as f64)
}

impl Run {
    /// Remembers how much storage reads for the same and how many rows pass, once all of the table was scanned. Keys of joins are
    /// others each time, as is what is known of the first rows.
    pub(super) fn note_scanned(&self) {
        let [asked, read, done, rows] = self.scanned.figures();
        let bytes = self.spec.objects.iter().map(|object| object.size).sum();
        let changes = self.spec.without_keys.is_some() || self.live.is_some() || self.spec.limit.is_some();
        let Some(statistics) = self.spec.statistics.as_ref().filter(|_| self.delivers && !changes && bytes > 0) else {
            return;
        };
        if asked == bytes {
            statistics.seen().note(&self.fragment, bytes, read as f64 / asked as f64);
        }
        if done == bytes && self.spec.aggregate.is_none() && self.first.is_none() {
            let expected = Figures::of(&self.spec, &self.fragment).rows();
            statistics.seen().note_rows(&self.fragment, bytes, rows, expected);
        }
        if done == bytes {
            self.note_times(statistics.seen(), asked == bytes, bytes);
        }
    }

    /// Remembers what a byte took of a scan of so many bytes that was little else; whether all of them were scanned `by_storage`.
    fn note_times(&self, seen: &Seen, by_storage: bool, bytes: u64) {
        let is_scan = ScannedKind::shown_by(&self.fragment).is_some() && self.first.is_none() && !self.looks_up;
        // The last two partitions may have ended together.
        if !is_scan || self.scanned.is_timed.swap(true, Relaxed) {
            return;
        }
        let usage = self.tally.meter().usage();
        let (scanned, returned) = (usage.bytes_scanned_by_fragments, usage.bytes_returned_by_fragments);
        // What storage passed over of text shows no speed.
        if by_storage
            && (scanned >= bytes || self.fragment.format == Format::Parquet)
            && let Some(byte_s) = byte_s(scanned, returned, usage.storage_cpu_s)
        {
            seen.note_byte_s(&self.fragment, Core::Storage, byte_s);
        }
        if let Some(byte_s) = self.scanned.plain_byte_s() {
            seen.note_byte_s(&self.fragment, Core::Engine, byte_s);
        }
    }

    /// The engine scanned so many bytes of text, and made so many bytes of values of them.
    pub(super) fn scanned_plainly(&self, bytes: u64, values: u64, busy: Duration) {
        self.scanned.plain.fetch_add(bytes, Relaxed);
        self.scanned.plain_values.fetch_add(values, Relaxed);
        self.scanned.plain_ns.fetch_add(u64::try_from(busy.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        self.spec.backend.engine_scanned(bytes, values, busy);
    }

    /// Counts a split of so many bytes that storage has scanned, of which it read so many, and need not read so many again.
    pub(super) fn scanned(&self, bytes: u64, read: u64, ruled_out: u64) {
        // What it has learned just now it uses the next time. What it should have known it may have forgotten.
        let is_news = self.read_before.is_none_or(|share| share >= 1.0);
        let read = if is_news { read.min(bytes.saturating_sub(ruled_out)) } else { read };
        self.scanned.asked.fetch_add(bytes, Relaxed);
        self.scanned.read.fetch_add(read.min(bytes), Relaxed);
    }

    /// Counts rows that the scan yields.
    pub(super) fn sent(&self, rows: u64) {
        self.scanned.rows.fetch_add(rows, Relaxed);
    }
}

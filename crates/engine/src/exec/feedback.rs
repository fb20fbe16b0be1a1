//! Records what finished scans measured for later plans: bytes read, rows passed, and core seconds
//! per byte.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use pushdowndb_contract::Format;

use super::partition_scan::PartitionScan;
use super::scan_progress::s_per_byte;
use crate::cost::cardinality::Cardinality;
use crate::endpoints::profile::Kind;
use crate::statistics::{Core, QueryFeedback};

impl PartitionScan {
    /// Records the share of bytes that storage read, and the number of rows that passed, after a
    /// scan of the whole table. Scans with join keys, a live top-k, a limit or a sample are
    /// excluded, since their results differ from run to run.
    pub(crate) fn note_scanned(&self) {
        let [pushed, read, done, rows] = self.progress.figures();
        let bytes = self.plan.objects.iter().map(|object| object.size).sum();
        let changes = self.plan.without_keys.is_some() || self.live_top_k.is_some() || self.plan.limit.is_some();
        let changes = changes || self.plan.sample.is_some();
        let Some(statistics) = self.context.statistics.as_ref().filter(|_| self.feeds_plan && !changes && bytes > 0)
        else {
            return;
        };
        if pushed == bytes {
            statistics.feedback().note(&self.fragment, bytes, read as f64 / pushed as f64);
        }
        if done == bytes && self.plan.aggregate.is_none() && self.top_k_fragment.is_none() {
            let expected = Cardinality::of(&self.plan, &self.context, &self.fragment).rows();
            statistics.feedback().note_rows(&self.fragment, bytes, rows, expected);
        }
        if done == bytes {
            self.note_times(statistics.feedback(), pushed == bytes, bytes);
        }
    }

    /// Records the seconds per byte of a scan of `bytes` bytes, if it did little but scan.
    /// `by_storage` is whether storage scanned all of them.
    fn note_times(&self, feedback: &QueryFeedback, by_storage: bool, bytes: u64) {
        let is_scan = Kind::shown_by(&self.fragment).is_some() && self.top_k_fragment.is_none() && !self.looks_up;
        // Two partitions may end at the same time; only one records.
        if !is_scan || self.progress.is_timed.swap(true, Relaxed) {
            return;
        }
        let usage = self.counters.meter().usage();
        let (scanned, returned) = (usage.bytes_scanned_by_fragments, usage.bytes_returned_by_fragments);
        // Text that storage skipped says nothing about its speed.
        if by_storage
            && (scanned >= bytes || self.fragment.format == Format::Parquet)
            && let Some(s_per_byte) = s_per_byte(scanned, returned, usage.storage_cpu_s)
        {
            feedback.note_s_per_byte(&self.fragment, Core::Storage, s_per_byte);
        }
        if let Some(s_per_byte) = self.progress.plain_s_per_byte() {
            feedback.note_s_per_byte(&self.fragment, Core::Engine, s_per_byte);
        }
    }

    /// Counts `bytes` bytes of text that the engine scanned in the core time `busy`, and `values`,
    /// the bytes of the values parsed from it.
    pub(crate) fn scanned_plainly(&self, bytes: u64, values: u64, busy: Duration) {
        self.progress.plain.fetch_add(bytes, Relaxed);
        self.progress.plain_values.fetch_add(values, Relaxed);
        self.progress.plain_ns.fetch_add(u64::try_from(busy.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        self.context.backend.engine_scanned(bytes, values, busy);
    }

    /// Counts a split of `bytes` bytes that storage scanned. Storage read `read` bytes of it, and
    /// zones rule out `ruled_out` bytes from now on.
    pub(crate) fn scanned(&self, bytes: u64, read: u64, ruled_out: u64) {
        // The first scan builds zones for the next one; a later scan may rebuild evicted ones.
        let is_news = self.read_before.is_none_or(|share| share >= 1.0);
        let read = if is_news { read.min(bytes.saturating_sub(ruled_out)) } else { read };
        self.progress.pushed.fetch_add(bytes, Relaxed);
        self.progress.read.fetch_add(read.min(bytes), Relaxed);
    }

    pub(crate) fn sent(&self, rows: u64) {
        self.progress.rows.fetch_add(rows, Relaxed);
    }
}

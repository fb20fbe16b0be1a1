//! Feedback of finished scans to the statistics: bytes read, rows passed, core seconds per byte.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use pushdowndb_contract::Format;

use super::partition_scan::PartitionScan;
use super::scan_progress::s_per_byte;
use crate::cost::cardinality::Cardinality;
use crate::endpoints::profile::Kind;
use crate::statistics::{Core, QueryFeedback};

impl PartitionScan {
    /// Records the share of bytes read by storage, and the passing rows, after a scan of the whole
    /// table. Join keys, a live top-k or a limit change each time: such scans are excluded.
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

    /// Records seconds per byte of a scan of `bytes` bytes that did little else; `by_storage` means
    /// that storage scanned all of them.
    fn note_times(&self, feedback: &QueryFeedback, by_storage: bool, bytes: u64) {
        let is_scan = Kind::shown_by(&self.fragment).is_some() && self.top_k_fragment.is_none() && !self.looks_up;
        // Two partitions may end at once.
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

    /// Counts `bytes` of text scanned by the engine into `values` bytes of values.
    pub(crate) fn scanned_plainly(&self, bytes: u64, values: u64, busy: Duration) {
        self.progress.plain.fetch_add(bytes, Relaxed);
        self.progress.plain_values.fetch_add(values, Relaxed);
        self.progress.plain_ns.fetch_add(u64::try_from(busy.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        self.context.backend.engine_scanned(bytes, values, busy);
    }

    /// Counts a split of `bytes` bytes; storage read `read`, and zones now rule out `ruled_out`.
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

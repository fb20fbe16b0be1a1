//! What one scan of a plan did, all its phases and partitions together; kept while it runs, shared by all its copies.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use pushdowndb_cost::{Meter, Usage};

/// Counts for one scan.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Beside the query's meter. Plans are copied often before one of them runs: made when first needed.
    meter: OnceLock<Arc<Meter>>,
    rows: AtomicU64,
    /// From the first request to what happened last.
    span: Mutex<Option<(Instant, Instant)>>,
}

impl Tally {
    /// Where the scan's traffic is counted.
    pub(crate) fn meter(&self) -> &Arc<Meter> {
        self.meter.get_or_init(Arc::default)
    }

    /// Rows went to the operator above.
    pub(crate) fn rows(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// The scan is at work.
    pub(crate) fn busy(&self) {
        let now = Instant::now();
        let mut span = self.span.lock().unwrap_or_else(PoisonError::into_inner);
        *span = Some((span.map_or(now, |(begin, _)| begin), now));
    }

    /// What it did so far: rows, traffic, storage's work, and seconds from its first request to its last row. The
    /// engine's CPU time is not told apart by scans.
    pub(crate) fn usage(&self) -> Usage {
        let span = *self.span.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = self.meter.get().map(|meter| meter.usage()).unwrap_or_default();
        Usage {
            wall_s: span.map_or(0.0, |(begin, end)| (end - begin).as_secs_f64()),
            cpu_s: 0.0,
            rows: self.rows.load(Ordering::Relaxed),
            ..counted
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_that_never_ran_did_nothing() {
        assert_eq!(Tally::default().usage(), Usage::default());
    }

    #[test]
    fn time_is_from_the_first_to_the_last() {
        let tally = Tally::default();
        tally.busy();
        tally.rows(2);
        tally.meter().received(10);
        let before = tally.usage();
        assert_eq!((before.rows, before.bytes_network, before.wall_s), (2, 10, 0.0));
        tally.busy();
        tally.rows(1);
        let after = tally.usage();
        assert!(after.rows == 3 && after.wall_s > 0.0, "{after:?}");
    }
}

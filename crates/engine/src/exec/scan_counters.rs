//! Counters of one scan of a plan, over all its phases and partitions; shared by all its copies.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use pushdowndb_cost::{Meter, Usage};

#[derive(Debug, Default)]
pub(crate) struct ScanCounters {
    /// Traffic of this scan, which the query's meter counts too. Created on first use, since plans
    /// are copied often.
    meter: OnceLock<Arc<Meter>>,
    rows: AtomicU64,
    /// First and last activity.
    span: Mutex<Option<(Instant, Instant)>>,
}

impl ScanCounters {
    pub(crate) fn meter(&self) -> &Arc<Meter> {
        self.meter.get_or_init(Arc::default)
    }

    /// Counts rows passed to the operator above.
    pub(crate) fn rows(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Records activity.
    pub(crate) fn busy(&self) {
        let now = Instant::now();
        let mut span = self.span.lock();
        *span = Some((span.map_or(now, |(begin, _)| begin), now));
    }

    /// Usage so far: rows, traffic, storage's work, and seconds from the first request to the last
    /// row. CPU time of the engine is not measured per scan.
    pub(crate) fn usage(&self) -> Usage {
        let span = *self.span.lock();
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
        assert_eq!(ScanCounters::default().usage(), Usage::default());
    }

    #[test]
    fn time_is_from_the_first_to_the_last() {
        let counters = ScanCounters::default();
        counters.busy();
        counters.rows(2);
        counters.meter().received(10);
        let before = counters.usage();
        assert_eq!((before.rows, before.bytes_network, before.wall_s), (2, 10, 0.0));
        counters.busy();
        counters.rows(1);
        let after = counters.usage();
        assert!(after.rows == 3 && after.wall_s > 0.0, "{after:?}");
    }
}

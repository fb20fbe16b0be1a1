//! The counters that the metrics show.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::histogram::Histogram;

/// Upper bounds of the buckets of the duration of queries, in seconds.
const DURATION_BUCKETS_S: [f64; 11] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 600.0];

/// Counters since the start.
#[derive(Debug)]
pub(crate) struct Counters {
    /// Connections that were accepted.
    pub connections: AtomicU64,
    /// Connections that were refused: too many, no TLS, not authenticated.
    pub refused: AtomicU64,
    /// Rows that were sent.
    pub rows: AtomicU64,
    /// Bytes that queries moved from storage.
    pub network_bytes: AtomicU64,
    /// Queries by outcome: `ok`, or the code of the error.
    outcomes: Mutex<BTreeMap<&'static str, u64>>,
    /// The cost of all queries, in millionths of a dollar.
    micro_dollars: AtomicU64,
    /// Durations of queries, from their start to their last row.
    pub durations: Histogram,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            connections: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            network_bytes: AtomicU64::new(0),
            outcomes: Mutex::default(),
            micro_dollars: AtomicU64::new(0),
            durations: Histogram::new(DURATION_BUCKETS_S),
        }
    }
}

impl Counters {
    /// Counts a query that has ended, with its rows sent, bytes moved and cost.
    pub fn query(&self, outcome: &'static str, time: Duration, rows: u64, bytes: u64, dollars: f64) {
        *self.outcomes.lock().entry(outcome).or_default() += 1;
        self.durations.observe(time.as_secs_f64());
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.network_bytes.fetch_add(bytes, Ordering::Relaxed);
        // The cast is lossless enough: costs are small and never negative.
        self.micro_dollars.fetch_add((dollars * 1e6).round() as u64, Ordering::Relaxed);
    }

    /// The numbers of queries by outcome.
    pub fn outcomes(&self) -> BTreeMap<&'static str, u64> {
        self.outcomes.lock().clone()
    }

    /// The cost of all queries, in dollars.
    pub fn dollars(&self) -> f64 {
        self.micro_dollars.load(Ordering::Relaxed) as f64 / 1e6
    }
}

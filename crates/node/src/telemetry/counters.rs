//! Counters of a node since its start, and gauges of its current state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

/// A snapshot of the counters.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Bytes written to sockets, including heads.
    pub bytes_sent: u64,
    /// Bytes read from sockets, including heads.
    pub bytes_received: u64,
    /// Bytes that S3 Select and fragments read from objects.
    pub bytes_scanned: u64,
    /// Bytes of rows that S3 Select and fragments returned, without framing.
    pub bytes_returned: u64,
    /// Splits of fragment requests for whose object zones were cached.
    pub zone_hits: u64,
    /// Authorized requests by S3 operation (`GetObject`, `SelectObjectContent`, …).
    pub requests: BTreeMap<String, u64>,
    /// Answered requests by S3 operation and HTTP status, including refused ones.
    pub answers: BTreeMap<(String, u16), u64>,
    /// Open connections.
    pub connections: u64,
    /// Requests whose response has not been sent yet.
    pub requests_in_flight: u64,
}

impl Counters {
    /// The number of requests of an S3 operation.
    pub fn requests_of(&self, operation: &str) -> u64 {
        self.requests.get(operation).copied().unwrap_or(0)
    }
}

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct LiveCounters {
    pub sent: AtomicU64,
    pub received: AtomicU64,
    pub scanned: AtomicU64,
    pub returned: AtomicU64,
    pub zone_hits: AtomicU64,
    pub connections: AtomicU64,
    pub in_flight: AtomicU64,
    /// Responses that the client did not read to the end.
    pub cut_off: AtomicU64,
    /// Responses that the node could not finish.
    pub failed: AtomicU64,
    /// The number of entries is bounded by the number of S3 operations.
    requests: Mutex<BTreeMap<String, u64>>,
    /// The number of entries is bounded by the numbers of S3 operations and HTTP statuses.
    answers: Mutex<BTreeMap<(String, u16), u64>>,
}

impl LiveCounters {
    pub fn request(&self, operation: &str) {
        let mut requests = self.requests.lock();
        match requests.get_mut(operation) {
            Some(count) => *count += 1,
            None => {
                requests.insert(operation.to_owned(), 1);
            }
        }
    }

    pub fn answer(&self, operation: &str, status: u16) {
        let mut answers = self.answers.lock();
        *answers.entry((operation.to_owned(), status)).or_insert(0) += 1;
    }

    pub fn read(&self) -> Counters {
        Counters {
            bytes_sent: self.sent.load(Relaxed),
            bytes_received: self.received.load(Relaxed),
            bytes_scanned: self.scanned.load(Relaxed),
            bytes_returned: self.returned.load(Relaxed),
            zone_hits: self.zone_hits.load(Relaxed),
            requests: self.requests.lock().clone(),
            answers: self.answers.lock().clone(),
            connections: self.connections.load(Relaxed),
            requests_in_flight: self.in_flight.load(Relaxed),
        }
    }
}

/// Increments a gauge for as long as it lives.
#[derive(Debug)]
pub(crate) struct Gauge {
    counting: Arc<LiveCounters>,
    which: fn(&LiveCounters) -> &AtomicU64,
}

impl Gauge {
    pub fn new(counting: &Arc<LiveCounters>, which: fn(&LiveCounters) -> &AtomicU64) -> Self {
        which(counting).fetch_add(1, Relaxed);
        Self { counting: Arc::clone(counting), which }
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        (self.which)(&self.counting).fetch_sub(1, Relaxed);
    }
}

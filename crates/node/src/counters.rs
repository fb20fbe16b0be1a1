//! What a node has done since it started.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// A reading of the counters.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Bytes written to sockets, heads included.
    pub bytes_sent: u64,
    /// Bytes read from sockets, heads included.
    pub bytes_received: u64,
    /// Bytes that S3 Select read from objects.
    pub bytes_scanned: u64,
    /// Bytes of rows that S3 Select returned, without framing.
    pub bytes_returned: u64,
    /// Authorised requests by S3 operation (`GetObject`, `SelectObjectContent`, …).
    pub requests: BTreeMap<String, u64>,
}

impl Counters {
    /// How many requests named this S3 operation.
    pub fn requests_of(&self, operation: &str) -> u64 {
        self.requests.get(operation).copied().unwrap_or(0)
    }
}

/// The counters while they count.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    pub sent: AtomicU64,
    pub received: AtomicU64,
    pub scanned: AtomicU64,
    pub returned: AtomicU64,
    /// Bounded by the number of S3 operations.
    requests: Mutex<BTreeMap<String, u64>>,
}

impl Counting {
    pub fn request(&self, operation: &str) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        match requests.get_mut(operation) {
            Some(count) => *count += 1,
            None => {
                requests.insert(operation.to_owned(), 1);
            }
        }
    }

    pub fn read(&self) -> Counters {
        Counters {
            bytes_sent: self.sent.load(Relaxed),
            bytes_received: self.received.load(Relaxed),
            bytes_scanned: self.scanned.load(Relaxed),
            bytes_returned: self.returned.load(Relaxed),
            requests: self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

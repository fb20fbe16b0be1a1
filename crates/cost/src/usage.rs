//! The usage of a query: a snapshot of a meter, or an estimate made before the query runs.

use std::fmt;

use serde::Serialize;

use crate::requests::Requests;
use crate::units;

/// The usage of a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// Seconds from start to the last row.
    pub wall_s: f64,
    /// CPU seconds of the engine.
    pub cpu_s: f64,
    /// CPU seconds that storage spent on fragments. (S3 Select is charged by bytes scanned
    /// instead.)
    pub storage_cpu_s: f64,
    /// Rows in the result.
    pub rows: u64,
    /// Bytes that storage reports to have scanned for S3 Select requests and fragments.
    pub bytes_scanned: u64,
    /// Bytes that storage reports to have returned as results of S3 Select requests and fragments.
    pub bytes_returned: u64,
    /// The bytes of `bytes_scanned` that fragments scanned; `storage_cpu_s` is charged for them.
    pub bytes_scanned_by_fragments: u64,
    /// The bytes of `bytes_returned` that fragments returned; `storage_cpu_s` is charged for them.
    pub bytes_returned_by_fragments: u64,
    /// Bytes over the network, both ways.
    pub bytes_network: u64,
    /// The bytes of `bytes_network` that were sent to storage, which are free of egress charges.
    pub bytes_sent: u64,
    /// Requests sent to storage.
    pub requests: Requests,
    /// Failed requests: without an answer, with an incomplete one, or throttled.
    pub requests_failed: u64,
    /// Fall-backs to plain reads after storage failed.
    pub fall_backs: u64,
    /// The pushed operations, and fall-backs with their reasons.
    pub strategies: Vec<String>,
    /// Cores of the engine.
    pub cores: f64,
    /// Data that did not fit into memory.
    pub spill: Spill,
}

/// Data that a query spilled because it did not fit into memory. Requests and bytes to an object
/// store are included in the other counters of the query's [`Usage`], too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spill {
    /// Bytes written to the local disk.
    pub disk_bytes: u64,
    /// Bytes written to an object store.
    pub remote_bytes: u64,
    /// Bytes read back from disk and object store.
    pub read_bytes: u64,
    /// Parts written.
    pub parts: u64,
    /// Seconds that operators waited for parts to be written or read.
    pub waited_s: f64,
}

impl Spill {
    /// Returns the bytes written, to disk and object store.
    pub fn bytes(&self) -> u64 {
        self.disk_bytes + self.remote_bytes
    }
}

impl fmt::Display for Spill {
    /// `1.20 GB to disk in 150 parts, 1.20 GB read back, 310 ms waited`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = [("to disk", self.disk_bytes), ("to the object store", self.remote_bytes)];
        for (number, (place, bytes)) in places.iter().filter(|(_, bytes)| *bytes > 0).enumerate() {
            let separator = if number > 0 { ", " } else { "" };
            write!(f, "{separator}{} {place}", units::bytes(*bytes))?;
        }
        let (parts, read) = (units::counted(self.parts, "part"), units::bytes(self.read_bytes));
        write!(f, " in {parts}, {read} read back, {} waited", units::seconds(self.waited_s))
    }
}

//! The usage of a query: a snapshot of a meter, or an estimate made before the query runs.

use crate::requests::Requests;

/// The usage of a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// Seconds from start to the last row.
    pub wall_s: f64,
    /// CPU seconds of the engine.
    pub cpu_s: f64,
    /// CPU seconds that storage spent on fragments. S3 Select is charged by bytes scanned instead.
    pub storage_cpu_s: f64,
    /// Rows in the result.
    pub rows: u64,
    /// Bytes that storage reports to have scanned for S3 Select requests and fragments.
    pub bytes_scanned: u64,
    /// Bytes that storage reports to have returned as results of S3 Select requests and fragments.
    pub bytes_returned: u64,
    /// The part of `bytes_scanned` of fragments, paid by `storage_cpu_s`.
    pub bytes_scanned_by_fragments: u64,
    /// The part of `bytes_returned` of fragments, paid by `storage_cpu_s`.
    pub bytes_returned_by_fragments: u64,
    /// Bytes over the network, both ways.
    pub bytes_network: u64,
    /// The part of `bytes_network` sent to storage, free of egress charges.
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
}

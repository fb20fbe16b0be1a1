//! Requests of the fragment route: how many splits each has.

use crate::settings::Objective;

/// Maximum bytes of a request's splits for objective `latency`. Requests are smaller if workers
/// would be idle otherwise.
pub(crate) const MAX_REQUEST_BYTES: u64 = 64 * 1024 * 1024;

/// Minimum bytes of a request; smaller requests cost more than their parallelism saves.
const MIN_REQUEST_BYTES: u64 = 8 * 1024 * 1024;

/// Maximum splits of one request; their rows are buffered together.
pub(crate) const MAX_REQUEST_SPLITS: usize = 64;

/// Returns the target bytes per request, if `workers` requests at a time scan `total` bytes.
pub(crate) fn request_bytes(total: u64, workers: u64, objective: Objective) -> u64 {
    match objective {
        Objective::Latency => total.div_ceil(workers.max(1)).clamp(MIN_REQUEST_BYTES, MAX_REQUEST_BYTES),
        // Each request is billed, and one alone keeps all cores of storage busy.
        Objective::Cost => total,
    }
}

/// Target number of requests per worker if other stores have replicas of the objects. These stores
/// take over requests that a slow store has not begun.
const REPLICATED_REQUESTS: u64 = 8;

/// Minimum bytes of a request for objects with replicas.
const MIN_REPLICATED_BYTES: u64 = 512 * 1024;

/// Returns the target bytes per request for objects with replicas.
pub(crate) fn replicated_request_bytes(total: u64, workers: u64) -> u64 {
    total.div_ceil(workers.max(1) * REPLICATED_REQUESTS).clamp(MIN_REPLICATED_BYTES, MAX_REQUEST_BYTES)
}

/// Estimates the number of requests for `total` bytes in `splits` splits. Each of `partitions`
/// partitions sends requests of its own.
pub(crate) fn count_requests(total: u64, splits: u64, workers: u64, partitions: u64, objective: Objective) -> u64 {
    let by_bytes = total.div_ceil(request_bytes(total, workers, objective).max(1));
    by_bytes.max(splits.div_ceil(MAX_REQUEST_SPLITS as u64)).max(partitions).clamp(1, splits.max(1))
}

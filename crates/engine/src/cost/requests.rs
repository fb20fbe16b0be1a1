//! Requests of the fragment route: how many splits go into one.

use crate::settings::Objective;

/// Target bytes of one request's splits for objective `latency`; fewer where workers would be idle.
pub(crate) const MAX_REQUEST_BYTES: u64 = 64 * 1024 * 1024;

/// Minimum bytes of a request; smaller ones cost more than their parallelism saves.
const MIN_REQUEST_BYTES: u64 = 8 * 1024 * 1024;

/// Maximum splits of one request, whose rows are held back together.
pub(crate) const MAX_REQUEST_SPLITS: usize = 64;

/// Target bytes per request, for `total` bytes scanned by `workers` requests at a time.
pub(crate) fn request_bytes(total: u64, workers: u64, objective: Objective) -> u64 {
    match objective {
        Objective::Latency => total.div_ceil(workers.max(1)).clamp(MIN_REQUEST_BYTES, MAX_REQUEST_BYTES),
        // Each request is billed, and one alone keeps all cores of storage busy.
        Objective::Cost => total,
    }
}

/// Requests of a worker whose splits other stores hold, too: these take over what a slow one has not
/// begun.
const REPLICATED_REQUESTS: u64 = 8;

/// Minimum bytes of such a request.
const MIN_REPLICATED_BYTES: u64 = 512 * 1024;

/// Target bytes per request where objects have replicas.
pub(crate) fn replicated_request_bytes(total: u64, workers: u64) -> u64 {
    total.div_ceil(workers.max(1) * REPLICATED_REQUESTS).clamp(MIN_REPLICATED_BYTES, MAX_REQUEST_BYTES)
}

/// Estimates the requests for `total` bytes in `splits` splits; each partition sends its own.
pub(crate) fn count_requests(total: u64, splits: u64, workers: u64, partitions: u64, objective: Objective) -> u64 {
    let by_bytes = total.div_ceil(request_bytes(total, workers, objective).max(1));
    by_bytes.max(splits.div_ceil(MAX_REQUEST_SPLITS as u64)).max(partitions).clamp(1, splits.max(1))
}

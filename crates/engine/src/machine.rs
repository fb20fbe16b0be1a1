//! Default limits that are derived from this machine.

use pushdowndb_scan::{container_memory_bytes, machine_memory_bytes};

/// Returns 70 % of the memory of the machine or of the container, whichever is less; 4 GiB if both
/// are unknown.
pub(crate) fn default_memory_bytes() -> usize {
    machine_memory_bytes().into_iter().chain(container_memory_bytes()).min().map_or(4 << 30, |bytes| bytes / 10 * 7)
}

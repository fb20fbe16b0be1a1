//! Memory, CPU time and descriptors of this process, as the kernel reports them.

use std::fs;
use std::time::Duration;

use pushdowndb_scan::{container_memory_bytes, machine_memory_bytes, proc_bytes};

/// The resident memory of the process, in bytes, if the system reports it.
pub(crate) fn resident_bytes() -> Option<usize> {
    proc_bytes(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// A quarter of the machine's memory or half of the container's, whichever is less, from 512 MiB to
/// 16 GiB.
pub(crate) fn default_memory_bytes() -> usize {
    const MIN_BYTES: usize = 512 << 20;
    const MAX_BYTES: usize = 16 << 30;
    let machine = machine_memory_bytes().map(|bytes| bytes / 4);
    let container = container_memory_bytes().map(|bytes| bytes / 2);
    let own = machine.into_iter().chain(container).min().unwrap_or(MIN_BYTES * 2);
    own.clamp(MIN_BYTES, MAX_BYTES)
}

/// Statistics of the process.
pub(crate) struct ProcessStats {
    /// CPU time, in seconds.
    pub cpu_s: f64,
    pub resident_bytes: u64,
    /// Open file descriptors.
    pub files: usize,
    pub threads: u64,
}

/// Reads the statistics of this process, where there is `/proc`.
pub(crate) fn process_stats() -> Option<ProcessStats> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let field = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let cpu = nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID).ok()?;
    Some(ProcessStats {
        cpu_s: Duration::from(cpu).as_secs_f64(),
        resident_bytes: field("VmRSS:")? * 1024,
        files: fs::read_dir("/proc/self/fd").ok()?.count(),
        threads: field("Threads:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_and_within_bounds() {
        assert!((512 << 20..=16 << 30).contains(&default_memory_bytes()));
        assert!(resident_bytes().is_none_or(|bytes| bytes > 1 << 20));
    }
}

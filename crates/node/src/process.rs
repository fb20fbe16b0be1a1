//! Memory, CPU time and descriptors of this process, as the kernel reports them.

use std::fs;
use std::time::Duration;

/// The resident memory of the process, in bytes, if the system reports it.
pub(crate) fn resident_bytes() -> Option<usize> {
    kib_after(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// The value of the line of a `/proc` file that begins with `name`, in bytes.
fn kib_after(text: &str, name: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse::<usize>().ok()?.checked_mul(1024)
}

/// A quarter of the machine's memory or half of the container's, whichever is less, from 512 MiB to
/// 16 GiB.
pub(crate) fn default_memory_bytes() -> usize {
    const MIN_BYTES: usize = 512 << 20;
    const MAX_BYTES: usize = 16 << 30;
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| kib_after(&text, "MemTotal:"));
    let machine = machine.map(|bytes| bytes / 4);
    let container = container_memory_bytes().map(|bytes| bytes / 2);
    let own = machine.into_iter().chain(container).min().unwrap_or(MIN_BYTES * 2);
    own.clamp(MIN_BYTES, MAX_BYTES)
}

/// The smallest memory limit of the control groups of the process, version 2 or 1.
fn container_memory_bytes() -> Option<usize> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut files = vec!["/sys/fs/cgroup/memory/memory.limit_in_bytes".to_owned()];
    for line in groups.lines() {
        let mut path = line.strip_prefix("0::").unwrap_or_default().trim_end_matches('/');
        while !path.is_empty() {
            files.push(format!("/sys/fs/cgroup{path}/memory.max"));
            path = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        }
    }
    files.push("/sys/fs/cgroup/memory.max".to_owned());
    let limit = |file: String| fs::read_to_string(file).ok()?.trim().parse::<usize>().ok();
    files.into_iter().filter_map(limit).filter(|bytes| *bytes > 0).min()
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

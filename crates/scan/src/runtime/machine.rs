//! The memory of the machine, and of the container in which the process runs.

use std::fs;

/// Returns the memory of the machine in bytes; `None` if the system does not report it.
pub fn machine_memory_bytes() -> Option<usize> {
    proc_bytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

/// Returns the smallest memory limit of the process's control groups (version 2 or 1), in bytes.
pub fn container_memory_bytes() -> Option<usize> {
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

/// Returns the value in bytes of the line that begins with `name`. `text` is a file of `/proc` with
/// values in kibibytes.
pub fn proc_bytes(text: &str, name: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse::<usize>().ok()?.checked_mul(1024)
}

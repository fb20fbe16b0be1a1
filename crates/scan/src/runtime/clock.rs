//! CPU time of threads.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Returns the CPU time of the current thread, including the kernel; zero if the system does not
/// report it.
pub fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

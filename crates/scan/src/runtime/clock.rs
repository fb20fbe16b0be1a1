//! CPU time of threads.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// CPU time of the current thread, kernel included; zero where the system does not report it.
pub fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

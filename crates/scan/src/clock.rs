//! What a scan takes of a core.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// What this thread has spent on a core so far, in the kernel included; zero where the system does not tell.
pub fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

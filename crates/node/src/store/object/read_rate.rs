//! A limit on the bytes per second that are read from the disks of a store.
//!
//! Reads are served in the order of their requests, as by a single disk. With a limit, no data
//! counts as cached by the kernel, whose page cache would be faster than the disk that is
//! simulated.

use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How far reads may run ahead of the rate after a pause.
const MAX_AHEAD: Duration = Duration::from_millis(20);

/// A token bucket for reads.
#[derive(Debug)]
pub(crate) struct ReadRate {
    bytes_per_s: u64,
    /// When the bytes granted so far will have been read at this rate.
    passed: Mutex<Instant>,
}

impl ReadRate {
    /// Creates a limit of `bytes_per_s`; returns `None` for 0, which means no limit.
    pub fn new(bytes_per_s: u64) -> Option<Self> {
        (bytes_per_s > 0).then(|| Self { bytes_per_s, passed: Mutex::new(Instant::now()) })
    }

    /// Waits as long as reading `bytes` at this rate takes. Blocks.
    pub fn pass(&self, bytes: usize) {
        let wait = self.wait(bytes, Instant::now());
        if !wait.is_zero() {
            thread::sleep(wait);
        }
    }

    /// The time that a read of `bytes`, requested at `now`, has to wait.
    fn wait(&self, bytes: usize, now: Instant) -> Duration {
        let time = Duration::from_secs_f64(bytes as f64 / self.bytes_per_s as f64);
        let mut passed = self.passed.lock();
        let begins = now.checked_sub(MAX_AHEAD).map_or(*passed, |earliest| earliest.max(*passed));
        *passed = begins + time;
        passed.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_pass_one_after_the_other_at_the_rate() {
        assert!(ReadRate::new(0).is_none());
        let rate = ReadRate::new(1_000_000).unwrap();
        let now = Instant::now() + Duration::from_secs(1);
        assert_eq!(rate.wait(20_000, now), Duration::ZERO, "20 ms ahead after a rest");
        assert_eq!(rate.wait(500_000, now), Duration::from_millis(500));
        assert_eq!(rate.wait(500_000, now), Duration::from_secs(1), "behind the other");
        let later = now + Duration::from_millis(900);
        assert_eq!(rate.wait(100_000, later), Duration::from_millis(200));
        assert_eq!(rate.wait(0, later + Duration::from_secs(60)), Duration::ZERO);
    }
}

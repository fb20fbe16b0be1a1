//! A bound on the bytes a second that are read from the disks of a store.
//!
//! Reads wait for their turn in the order in which they ask, as at one disk. With a bound, nothing
//! counts as cached by the kernel: its page cache would be faster than the disk that is meant.

use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How far reads may be ahead of the rate after a rest.
const MAX_AHEAD: Duration = Duration::from_millis(20);

/// A token bucket for reads.
#[derive(Debug)]
pub(crate) struct ReadRate {
    bytes_per_s: u64,
    /// When the bytes that were granted so far have passed.
    passed: Mutex<Instant>,
}

impl ReadRate {
    /// A bound of `bytes_per_s`; `None` if that is 0, which is no bound.
    pub fn new(bytes_per_s: u64) -> Option<Self> {
        (bytes_per_s > 0).then(|| Self { bytes_per_s, passed: Mutex::new(Instant::now()) })
    }

    /// Waits until `bytes` have passed at this rate. Blocks.
    pub fn pass(&self, bytes: usize) {
        let wait = self.wait(bytes, Instant::now());
        if !wait.is_zero() {
            thread::sleep(wait);
        }
    }

    /// The time until `bytes` that are asked for at `now` have passed.
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

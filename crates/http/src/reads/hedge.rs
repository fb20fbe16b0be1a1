//! When a read that takes longer than others is sent a second time.

use std::time::Duration;

/// Reads whose duration must be known before one is sent again.
const LEAST_READS: u64 = 16;

/// Reads for each one that may be sent again: more than that means that the endpoint is slow, not a
/// read.
const READS_FOR_EACH_HEDGE: u64 = 16;

/// The least time that a read is waited for: below it, a busy machine looks like a slow server.
const LEAST_PATIENCE: Duration = Duration::from_millis(100);

/// How long reads take, and how many were sent again.
///
/// Mean and deviation are smoothed, and the time that is waited is formed of them, as TCP does it
/// with round-trip times (RFC 6298, Section 2).
#[derive(Debug, Default)]
pub(super) struct Durations {
    mean_s: f64,
    deviation_s: f64,
    reads: u64,
    hedges: u64,
}

impl Durations {
    /// Counts a read that took `took`.
    pub(super) fn note(&mut self, took: Duration) {
        let took_s = took.as_secs_f64();
        if self.reads == 0 {
            (self.mean_s, self.deviation_s) = (took_s, took_s / 2.0);
        } else {
            self.deviation_s += ((self.mean_s - took_s).abs() - self.deviation_s) / 4.0;
            self.mean_s += (took_s - self.mean_s) / 8.0;
        }
        self.reads += 1;
    }

    /// Returns how long a read may take before it is sent again, if that is known.
    pub(super) fn patience(&self) -> Option<Duration> {
        let expected = Duration::from_secs_f64(self.mean_s + 4.0 * self.deviation_s);
        (self.reads >= LEAST_READS).then(|| expected.max(LEAST_PATIENCE))
    }

    /// Returns whether one more read may be sent again, and counts it.
    pub(super) fn take_hedge(&mut self) -> bool {
        let may = (self.hedges + 1) * READS_FOR_EACH_HEDGE <= self.reads;
        self.hedges += u64::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_takes_much_longer_is_sent_again_and_few_are() {
        let mut durations = Durations::default();
        for n in 0..LEAST_READS {
            assert_eq!(durations.patience(), None);
            durations.note(Duration::from_millis(200 + 10 * (n % 3)));
        }
        let patience = durations.patience().unwrap();
        assert!((Duration::from_millis(210)..Duration::from_millis(300)).contains(&patience), "{patience:?}");
        assert_eq!([durations.take_hedge(), durations.take_hedge()], [true, false]);
        for _ in 0..3 * READS_FOR_EACH_HEDGE {
            durations.note(Duration::from_millis(1));
        }
        assert_eq!(durations.patience(), Some(LEAST_PATIENCE));
        assert_eq!(std::iter::repeat_with(|| durations.take_hedge()).take(10).filter(|taken| *taken).count(), 3);
    }
}

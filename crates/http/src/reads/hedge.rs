//! Hedged reads: when a slow read is sent a second time.

use std::time::Duration;

/// The minimum number of measured reads before a read may be hedged.
const LEAST_READS: u64 = 16;

/// At most one in this number of reads is hedged. If more are slow, the endpoint is slow and not a
/// single read.
const READS_FOR_EACH_HEDGE: u64 = 16;

/// The minimum time before a read is hedged. Below it, a busy client looks like a slow server.
const LEAST_PATIENCE: Duration = Duration::from_millis(100);

/// Statistics of how long reads take, and the number of hedged reads.
///
/// Mean and deviation are smoothed and combined to a timeout as TCP does with round-trip times (RFC
/// 6298, Section 2).
#[derive(Debug, Default)]
pub(super) struct Durations {
    mean_s: f64,
    deviation_s: f64,
    reads: u64,
    hedges: u64,
}

impl Durations {
    /// Adds a read with the duration `took` to the statistics.
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

    /// Returns the time after which a read is hedged; `None` before [`LEAST_READS`] reads.
    pub(super) fn patience(&self) -> Option<Duration> {
        let expected = Duration::from_secs_f64(self.mean_s + 4.0 * self.deviation_s);
        (self.reads >= LEAST_READS).then(|| expected.max(LEAST_PATIENCE))
    }

    /// Returns whether one more read may be hedged; if so, counts it as hedged.
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

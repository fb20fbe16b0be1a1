//! Measures rates over the time in which transfers or scans are in progress. Several transfers
//! share a link, and several scans share storage's cores, so their bytes count together.

use std::time::{Duration, Instant};

/// Minimum duration and bytes of a window: a smaller one shows latency rather than bandwidth.
const MIN_WINDOW: Duration = Duration::from_millis(100);
const MIN_WINDOW_BYTES: u64 = 1024 * 1024;

/// Minimum bytes of a short window that give a lower bound on the rate; fewer may all have been in
/// a buffer.
const MIN_SHORT_BYTES: u64 = 256 * 1024;

/// Minimum bytes, requested while nothing else was in progress, that give a certain lower bound on
/// the rate.
const MIN_CERTAIN_BYTES: u64 = 4 * 1024 * 1024;

/// What transfers or scans did while at least one was in progress.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) active: u32,
    since: Instant,
    /// When the window's first bytes were requested, if nothing was in progress then.
    asked: Option<Instant>,
    pub(crate) bytes: u64,
    /// Whether storage also ran scans for this process while the window was open.
    pub(crate) beside_scans: bool,
    /// The time that transfers were open, summed over all of them.
    open: Duration,
    /// The part of `open` in which they waited for bytes.
    waited: Duration,
    /// The CPU time of all cores that storage reports; `None` if it reports none.
    pub(crate) worked: Option<Duration>,
    /// The time up to which `open` is counted.
    counted: Instant,
}

impl Default for Window {
    fn default() -> Self {
        let now = Instant::now();
        let none = Duration::ZERO;
        Self {
            active: 0,
            since: now,
            asked: None,
            bytes: 0,
            beside_scans: false,
            open: none,
            waited: none,
            worked: None,
            counted: now,
        }
    }
}

/// The rate that a window showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Observation {
    pub(crate) bytes_per_s: f64,
    pub(crate) bytes: u64,
    /// Whether the engine mostly waited for bytes. Otherwise the engine was the slower side, and
    /// the rate is a lower bound.
    pub(crate) waited: bool,
    /// Whether storage also scanned for this process.
    pub(crate) beside_scans: bool,
    /// A lower bound on the rate, whichever side was slower.
    pub(crate) certain_bytes_per_s: Option<f64>,
}

impl Window {
    /// Counts a transfer or scan that begins. It was requested at `asked`.
    pub(crate) fn begin(&mut self, asked: Instant, now: Instant) {
        if self.active == 0 {
            *self = Self { since: now, counted: now, asked: Some(asked), ..Self::default() };
        }
        self.count(now);
        self.active += 1;
    }

    /// Adds bytes, for which the engine waited `waited`. If the window is large enough, returns
    /// what it showed and begins the next.
    pub(crate) fn add(&mut self, bytes: u64, waited: Duration, now: Instant) -> Option<Observation> {
        self.count(now);
        self.bytes += bytes;
        self.waited += waited;
        let seen = self.seen(now)?;
        *self = Self { active: self.active, since: now, counted: now, ..Self::default() };
        Some(seen)
    }

    /// Counts a transfer or scan that ends. If it was the last, returns what the window showed.
    pub(crate) fn end(&mut self, now: Instant) -> Option<Observation> {
        self.count(now);
        self.active = self.active.saturating_sub(1);
        (self.active == 0).then(|| self.seen(now)).flatten()
    }

    fn count(&mut self, now: Instant) {
        self.open += now.saturating_duration_since(self.counted) * self.active;
        self.counted = now;
    }

    fn seen(&self, now: Instant) -> Option<Observation> {
        let passed = now.saturating_duration_since(self.since);
        // Without reported CPU time, the time that passed counts. CPU time leaves out waiting for
        // the reader, but on several cores it may exceed the time that passed.
        let worked = self.worked.filter(|worked| *worked > Duration::ZERO);
        let took = worked.map_or(passed, |worked| worked.min(passed));
        ((worked.is_some() || passed >= MIN_WINDOW) && self.bytes >= MIN_WINDOW_BYTES)
            .then(|| self.shown(took.as_secs_f64(), self.waited * 2 >= self.open, now))
    }

    /// Returns the lower bound on the rate that a short window shows.
    pub(crate) fn at_least(&self, now: Instant) -> Option<Observation> {
        let passed = now.saturating_duration_since(self.since).as_secs_f64();
        (self.bytes >= MIN_SHORT_BYTES && passed > 0.0).then(|| self.shown(passed, false, now))
    }

    fn shown(&self, seconds: f64, waited: bool, now: Instant) -> Observation {
        let since_asked = self.asked.map(|asked| now.saturating_duration_since(asked).as_secs_f64());
        let since_asked = since_asked.filter(|passed| *passed > 0.0 && self.bytes >= MIN_CERTAIN_BYTES);
        let bytes = self.bytes as f64;
        let certain_bytes_per_s = since_asked.map(|passed| bytes / passed);
        Observation {
            bytes_per_s: bytes / seconds,
            bytes: self.bytes,
            waited,
            beside_scans: self.beside_scans,
            certain_bytes_per_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn transfers_that_share_a_link_are_measured_together() {
        let start = Instant::now();
        let mut window = Window::default();
        window.begin(start, start);
        window.begin(start, start);
        assert_eq!(window.add(10_000_000, SECOND / 20, start + SECOND / 20), None, "too short");
        let seen = window.add(10_000_000, SECOND, start + SECOND).unwrap();
        assert_eq!(
            seen,
            Observation {
                bytes_per_s: 20e6,
                bytes: 20_000_000,
                waited: true,
                beside_scans: false,
                certain_bytes_per_s: Some(20e6)
            }
        );
        let seen = window.add(10_000_000, SECOND, start + SECOND * 2).unwrap();
        assert_eq!(
            (seen.bytes_per_s, seen.certain_bytes_per_s),
            (10e6, None),
            "some of it may have been asked for before"
        );
    }

    #[test]
    fn nothing_is_learned_from_idle_time() {
        let start = Instant::now();
        let mut window = Window::default();
        window.begin(start, start);
        assert_eq!(window.end(start + SECOND), None, "no bytes");
        window.begin(start + SECOND * 60, start + SECOND * 60);
        let seen = window.add(2_000_000, SECOND, start + SECOND * 61).unwrap();
        assert_eq!(seen.bytes_per_s, 2e6, "the minute between does not count");
    }
}

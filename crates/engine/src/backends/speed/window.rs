//! What was seen while something was under way: several transfers share one link, and several scans storage's cores, so
//! their bytes count together.

use std::time::{Duration, Instant};

/// A window that is shorter, or has fewer bytes, tells more about latency than about bandwidth.
const WINDOW: Duration = Duration::from_millis(100);
const WINDOW_BYTES: u64 = 1024 * 1024;

/// Fewer bytes may all have been in a buffer.
const SHORT_BYTES: u64 = 256 * 1024;

/// So many that were asked for when nothing was under way show how fast the network is at least.
const SURE_BYTES: u64 = 4 * 1024 * 1024;

/// What was seen while something was under way.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) active: u32,
    since: Instant,
    /// When the first bytes were asked for, if nothing was under way then.
    asked: Option<Instant>,
    pub(super) bytes: u64,
    /// Whether storage scanned for us meanwhile.
    pub(super) beside_scans: bool,
    /// The time that transfers were open, and what of it they waited, summed over all of them.
    open: Duration,
    waited: Duration,
    /// What storage says that it worked, on all cores; `None` if it does not tell.
    pub(super) worked: Option<Duration>,
    /// Up to when `open` is counted.
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

/// What a window showed: bytes a second, and whether the other side was what took the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) bytes_s: f64,
    pub(super) bytes: u64,
    pub(super) waited: bool,
    /// Whether storage scanned for us meanwhile.
    pub(super) beside_scans: bool,
    /// It surely does so many bytes a second, whoever waited for whom.
    pub(super) surely: Option<f64>,
}

impl Window {
    pub(super) fn begin(&mut self, asked: Instant, now: Instant) {
        if self.active == 0 {
            *self = Self { since: now, counted: now, asked: Some(asked), ..Self::default() };
        }
        self.count(now);
        self.active += 1;
    }

    pub(super) fn add(&mut self, bytes: u64, waited: Duration, now: Instant) -> Option<Seen> {
        self.count(now);
        self.bytes += bytes;
        self.waited += waited;
        let seen = self.seen(now)?;
        *self = Self { active: self.active, since: now, counted: now, ..Self::default() };
        Some(seen)
    }

    pub(super) fn end(&mut self, now: Instant) -> Option<Seen> {
        self.count(now);
        self.active = self.active.saturating_sub(1);
        (self.active == 0).then(|| self.seen(now)).flatten()
    }

    fn count(&mut self, now: Instant) {
        self.open += now.saturating_duration_since(self.counted) * self.active;
        self.counted = now;
    }

    fn seen(&self, now: Instant) -> Option<Seen> {
        let passed = now.saturating_duration_since(self.since);
        // Some of the time storage may have waited for who takes its rows. Of several cores it works longer than passes.
        let worked = self.worked.filter(|worked| *worked > Duration::ZERO);
        let took = worked.map_or(passed, |worked| worked.min(passed));
        ((worked.is_some() || passed >= WINDOW) && self.bytes >= WINDOW_BYTES)
            .then(|| self.shown(took.as_secs_f64(), self.waited * 2 >= self.open, now))
    }

    /// What a window that is too short to tell a rate tells: the rate is no less.
    pub(super) fn at_least(&self, now: Instant) -> Option<Seen> {
        let passed = now.saturating_duration_since(self.since).as_secs_f64();
        (self.bytes >= SHORT_BYTES && passed > 0.0).then(|| self.shown(passed, false, now))
    }

    fn shown(&self, seconds: f64, waited: bool, now: Instant) -> Seen {
        let since_asked = self.asked.map(|asked| now.saturating_duration_since(asked).as_secs_f64());
        let since_asked = since_asked.filter(|passed| *passed > 0.0 && self.bytes >= SURE_BYTES);
        let bytes = self.bytes as f64;
        let surely = since_asked.map(|passed| bytes / passed);
        Seen { bytes_s: bytes / seconds, bytes: self.bytes, waited, beside_scans: self.beside_scans, surely }
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
            Seen { bytes_s: 20e6, bytes: 20_000_000, waited: true, beside_scans: false, surely: Some(20e6) }
        );
        let seen = window.add(10_000_000, SECOND, start + SECOND * 2).unwrap();
        assert_eq!((seen.bytes_s, seen.surely), (10e6, None), "some of it may have been asked for before");
    }

    #[test]
    fn nothing_is_learned_from_idle_time() {
        let start = Instant::now();
        let mut window = Window::default();
        window.begin(start, start);
        assert_eq!(window.end(start + SECOND), None, "no bytes");
        window.begin(start + SECOND * 60, start + SECOND * 60);
        let seen = window.add(2_000_000, SECOND, start + SECOND * 61).unwrap();
        assert_eq!(seen.bytes_s, 2e6, "the minute between does not count");
    }
}

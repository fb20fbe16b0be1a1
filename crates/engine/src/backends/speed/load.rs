//! What storage's cores are busy with: scans of ours, and of others.

use std::time::{Duration, Instant};

/// What a node says of its load is true for so long.
const LOADED: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Load {
    /// Scans of ours that are under way, and the most at a time since there were none.
    ours: (u32, u32),
    /// Requests of others that our node scanned for, and when it said so.
    others: Option<(u32, Instant)>,
}

impl Load {
    /// A scan of ours begins.
    pub(super) fn begin(&mut self) {
        let (now, most) = self.ours;
        let now = now.saturating_add(1);
        self.ours = (now, if now == 1 { 1 } else { most.max(now) });
    }

    /// A scan of ours is over.
    pub(super) fn end(&mut self) {
        self.ours.0 = self.ours.0.saturating_sub(1);
    }

    pub(super) fn scans_for_us(&self) -> bool {
        self.ours.0 > 0
    }

    /// Our node says for how many requests it scans. What it says is a little old when we come to read it: those of ours that
    /// ended since count as ours.
    pub(super) fn told(&mut self, scanning: u32) {
        self.others = Some((scanning.saturating_sub(self.ours.1), Instant::now()));
    }

    /// The share of so many cores that others leave us: each has its own.
    pub(super) fn left_of(&self, cores: f64) -> f64 {
        match self.others.filter(|(_, said)| said.elapsed() < LOADED) {
            Some((others, _)) => cores / (cores + f64::from(others)),
            None => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_scans_for_others_has_less_for_us() {
        let mut load = Load::default();
        load.begin();
        load.told(1);
        assert_eq!(load.left_of(2.0), 1.0, "that one is ours");
        load.told(3);
        assert_eq!(load.left_of(2.0), 0.5, "two others beside us on two cores");
    }
}

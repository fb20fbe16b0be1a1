//! Concurrent scans at a node: those of this process, and of other clients.

use std::time::{Duration, Instant};

/// Time for which a node's report about other requests is used.
const MAX_REPORT_AGE: Duration = Duration::from_secs(5);

/// Scans in progress at a node.
#[derive(Debug, Default)]
pub(crate) struct OtherRequests {
    own: u32,
    /// The maximum of `own` since it was last zero.
    most_own: u32,
    /// The number of requests of other clients that the node scanned for, and the time of its
    /// report.
    others: Option<(u32, Instant)>,
}

impl OtherRequests {
    /// Counts a scan of this process that begins.
    pub(crate) fn begin(&mut self) {
        self.own = self.own.saturating_add(1);
        self.most_own = if self.own == 1 { 1 } else { self.most_own.max(self.own) };
    }

    /// Counts a scan of this process that ends.
    pub(crate) fn end(&mut self) {
        self.own = self.own.saturating_sub(1);
    }

    pub(crate) fn has_own(&self) -> bool {
        self.own > 0
    }

    /// Records the node's report of the number of requests that it scans for. Own scans that ended
    /// after the report was written still count as own.
    pub(crate) fn reported(&mut self, scanning: u32, now: Instant) {
        self.others = Some((scanning.saturating_sub(self.most_own), now));
    }

    /// Returns the share of `cores` that other clients leave, if this process has one request per
    /// core.
    pub(crate) fn available_share(&self, cores: f64, now: Instant) -> f64 {
        let is_recent = |at: &Instant| now.saturating_duration_since(*at) < MAX_REPORT_AGE;
        match self.others.filter(|(_, at)| is_recent(at)) {
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
        let (mut load, now) = (OtherRequests::default(), Instant::now());
        load.begin();
        load.reported(1, now);
        assert_eq!(load.available_share(2.0, now), 1.0, "that one is ours");
        load.reported(3, now);
        assert_eq!(load.available_share(2.0, now), 0.5, "two others beside us on two cores");
        assert_eq!(load.available_share(2.0, now + MAX_REPORT_AGE), 1.0, "that was long ago");
    }
}

//! What a strategy would cost, before it runs: the models of PushdownDB (Sections II-B and IV to VII), kept simple.
//!
//! A phase of a strategy takes as long as its slowest part: storage that scans, the network, or the engine. Phases
//! follow each other, so their estimates are added. The rates are those of one core with its share of the paper's
//! network (10 Gb/s for 32 cores); they need to be right only as ratios.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Add;

use pushdowndb_cost::{PriceBook, Requests, Usage};

/// Seconds that differ by less than this factor are the same, as far as the models can tell.
const ERROR: f64 = 1.3;

/// Bytes a second that reach one core of the engine.
const NETWORK_BYTES_S: f64 = 40e6;

/// Bytes a second of text that one core decodes.
const ENGINE_BYTES_S: f64 = 300e6;

/// Bytes a second that storage scans for a query.
const STORAGE_BYTES_S: f64 = 300e6;

/// What a strategy, or a phase of one, would cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Estimate {
    /// Over the network.
    pub(crate) bytes: u64,
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    /// By the session's price book.
    pub(crate) usd: f64,
}

/// The work of one phase.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    /// Over the network, and scanned and returned by S3 Select.
    pub(crate) bytes_network: u64,
    pub(crate) bytes_scanned: u64,
    pub(crate) bytes_returned: u64,
    pub(crate) requests: Requests,
    /// Seconds of storage besides its scanning.
    pub(crate) storage_s: f64,
    /// Seconds of the engine besides its decoding of what it receives.
    pub(crate) engine_s: f64,
}

impl Estimate {
    /// Of one phase.
    pub(crate) fn of(work: &Work, prices: &PriceBook) -> Self {
        let network = work.bytes_network as f64 / NETWORK_BYTES_S;
        let engine = work.bytes_network as f64 / ENGINE_BYTES_S + work.engine_s;
        let storage = work.bytes_scanned as f64 / STORAGE_BYTES_S + work.storage_s;
        let seconds = network.max(engine).max(storage);
        // Work at the fragment route is paid by its time, that of S3 Select by its bytes.
        let at_fragment = work.requests.fragment > 0;
        let usage = Usage {
            wall_s: seconds,
            cores: 1.0,
            storage_cpu_s: if at_fragment { storage } else { 0.0 },
            bytes_scanned: if at_fragment { 0 } else { work.bytes_scanned },
            bytes_returned: if at_fragment { 0 } else { work.bytes_returned },
            bytes_network: work.bytes_network,
            requests: work.requests,
            ..Usage::default()
        };
        let usd = prices.bill(&usage).total();
        Self { bytes: work.bytes_network, requests: work.requests.total(), seconds, usd }
    }
}

impl Add for Estimate {
    type Output = Self;

    /// One phase after the other.
    fn add(self, next: Self) -> Self {
        Self {
            bytes: self.bytes + next.bytes,
            requests: self.requests + next.requests,
            seconds: self.seconds + next.seconds,
            usd: self.usd + next.usd,
        }
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = self.bytes as f64 / 1e6;
        write!(f, "{megabytes:.1} MB, {} requests, {:.2} s, {:.6} $", self.requests, self.seconds, self.usd)
    }
}

/// Which of these to take: of all within [`ERROR`] times the fewest seconds the one with the fewest bytes, because
/// estimates that differ by less than their error are the same. `None` of none.
pub(crate) fn best(estimates: &[Estimate]) -> Option<usize> {
    let fewest = estimates.iter().map(|estimate| estimate.seconds).min_by(f64::total_cmp)?;
    let near = estimates.iter().enumerate().filter(|(_, estimate)| estimate.seconds <= fewest * ERROR);
    near.min_by(|(_, a), (_, b)| (a.bytes, a.seconds).partial_cmp(&(b.bytes, b.seconds)).unwrap_or(Ordering::Equal))
        .map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_bytes_win_where_seconds_are_nearly_the_same() {
        let estimate = |seconds, bytes| Estimate { seconds, bytes, ..Estimate::default() };
        assert_eq!(best(&[estimate(0.25, 10), estimate(0.26, 2), estimate(0.34, 1)]), Some(1));
        assert_eq!(best(&[estimate(1.0, 10), estimate(0.5, 20)]), Some(1), "half the time");
        assert_eq!(best(&[estimate(1.2, 5), estimate(1.0, 5)]), Some(1));
        assert_eq!(best(&[]), None);
    }

    #[test]
    fn a_phase_is_as_slow_as_its_slowest_part_and_phases_add_up() {
        let prices = PriceBook::named_or_path("paper").expect("a shipped book");
        let requests = Requests { select: 2, ..Requests::default() };
        let work = Work { bytes_network: 4_000_000, bytes_scanned: 600_000_000, requests, ..Work::default() };
        let scan = Estimate::of(&work, &prices);
        assert_eq!((scan.bytes, scan.requests, scan.seconds), (4_000_000, 2, 2.0));
        assert!(scan.usd > 600e6 / 1e9 * prices.scan_usd_per_gb, "the scan and more: {scan}");
        let both = scan + Estimate::of(&Work { bytes_network: 80_000_000, ..Work::default() }, &prices);
        assert_eq!((both.bytes, both.requests, both.seconds), (84_000_000, 2, 4.0));
    }
}

//! What an endpoint is believed to do, before anything was seen of it and after.

use std::num::NonZeroU32;
use std::time::Duration;

use pushdown::Profile;
use serde::{Deserialize, Serialize};

use super::scanner::Kind;

/// That other programs want its cores is half as sure after so long: who does not ask does not hear that they are gone.
const SHARED_HALF_S: f64 = 5.0;

/// A share that is larger is all of it: whatever runs is interrupted now and then.
const WHOLE_SHARE: f64 = 0.75;

/// What share of a core there was is a mean over about so much time that threads were at it, of one request at most half of
/// it: one that had to wait for a disk, or stood still with its whole machine, says little.
const SHARE_OVER_S: f64 = 0.1;

/// Bytes of text a second that one core of the engine scans: `experiment scan`, count(*) (benches/record).
const ENGINE_TEXT_S: f64 = 2e9;

/// No less of a core is believed to be left.
const LEAST_SHARE: f64 = 0.05;

/// What an endpoint is believed to do.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Rates {
    /// Seconds until a request's answer begins.
    pub(crate) latency_s: f64,
    /// Bytes a second over the network, all transfers together.
    pub(crate) network_bytes_s: f64,
    /// What it scans for S3 Select, all requests together.
    pub(crate) select: ScanRates,
    /// What it scans for fragments, all requests together.
    pub(crate) fragment: ScanRates,
    /// Bytes of its text a second that one core of the engine scans, if that was measured.
    #[serde(default)]
    pub(super) engine_text_bytes_s: Option<f64>,
    /// Its cores that scan, as it says.
    #[serde(default = "one")]
    pub(crate) cores: f64,
    /// Requests at a time that keep them busy, as it says.
    #[serde(default)]
    pub(crate) at_once: Option<NonZeroU32>,
    /// The share of a core that its threads got while they worked, and when that was, in seconds since 1970: other programs may
    /// want them.
    #[serde(default = "one")]
    pub(in crate::backends) share: f64,
    #[serde(default)]
    pub(in crate::backends) share_seen_s: u64,
    /// When its threads last told what they got, and not how many want to run.
    #[serde(default)]
    pub(in crate::backends) measured_s: u64,
    /// The share of these cores that other requests and programs leave.
    #[serde(skip, default = "one")]
    pub(crate) left: f64,
    /// Whether anything was seen of the network.
    #[serde(skip)]
    pub(crate) knows_network: bool,
}

fn one() -> f64 {
    1.0
}

/// How fast storage scans.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct ScanRates {
    /// Bytes of text a second.
    pub(crate) text_bytes_s: f64,
    /// Bytes of Parquet a second, of the columns that it reads.
    pub(crate) parquet_bytes_s: f64,
}

impl ScanRates {
    pub(super) fn of(&mut self, kind: Kind) -> &mut f64 {
        match kind {
            Kind::Text => &mut self.text_bytes_s,
            Kind::Parquet => &mut self.parquet_bytes_s,
        }
    }
}

impl Rates {
    /// Whether anything can go at these rates.
    pub(super) fn are_sane(&self) -> bool {
        let scans = [self.select, self.fragment].map(|scans| [scans.text_bytes_s, scans.parquet_bytes_s]);
        let speeds = std::iter::once(self.network_bytes_s).chain(scans.into_iter().flatten());
        let speeds = speeds.chain(self.engine_text_bytes_s);
        self.latency_s.is_finite()
            && self.latency_s >= 0.0
            && (1.0..1e6).contains(&self.cores)
            && (LEAST_SHARE..=1.0).contains(&self.share)
            && speeds.into_iter().all(|speed| speed.is_finite() && speed >= 1.0)
    }
}

impl Default for Rates {
    /// Before anything was seen: one core with its share of the PushdownDB paper's network (10 Gb/s for 32 cores), and
    /// what one core of our node scans (benches/record).
    fn default() -> Self {
        let scans = ScanRates { text_bytes_s: 1e9, parquet_bytes_s: 400e6 };
        Self {
            latency_s: 0.005,
            network_bytes_s: 40e6,
            select: scans,
            fragment: scans,
            engine_text_bytes_s: None,
            cores: one(),
            at_once: None,
            share: one(),
            share_seen_s: 0,
            measured_s: 0,
            left: one(),
            knows_network: false,
        }
    }
}

impl Rates {
    /// Bytes of its text a second that one core of the engine scans. Our node scans by the same code: what it was seen to do tells of
    /// both, until the engine was seen as well.
    pub(crate) fn engine_text(&self) -> f64 {
        self.engine_text_bytes_s.unwrap_or_else(|| ENGINE_TEXT_S.min(self.fragment.text_bytes_s))
    }

    /// Its cores that scan, if it has said so.
    pub(crate) fn cores_told(&self) -> Option<usize> {
        self.at_once.map(|_| self.cores as usize)
    }

    /// What other programs leave of a core, as far as is known by now.
    pub(super) fn share_left(&self) -> f64 {
        let share = self.share_now();
        if share < WHOLE_SHARE { share } else { one() }
    }

    /// Threads were at it so long, and had a core for a part of that.
    pub(super) fn shared(&mut self, worked: Duration, busy: Duration) {
        let (worked, busy) = (worked.as_secs_f64(), busy.as_secs_f64());
        if busy > 0.0 {
            let seen = (worked / busy).clamp(LEAST_SHARE, 1.0);
            let believed = self.share_now();
            let counted = busy.min(SHARE_OVER_S);
            self.share = believed + counted / (counted + SHARE_OVER_S) * (seen - believed);
            self.share_seen_s = now_s();
            self.measured_s = self.share_seen_s;
        }
    }

    /// The node says that other programs leave so much: it counts threads, whatever share the kernel gives each of them. So what its
    /// own threads got is believed as long as that is news.
    pub(super) fn left_by_others(&mut self, share: f64) {
        let measured = now_s().saturating_sub(self.measured_s) as f64;
        if share < WHOLE_SHARE && measured >= SHARED_HALF_S {
            self.share = share.max(LEAST_SHARE).min(self.share_now());
            self.share_seen_s = now_s();
        }
    }

    fn share_now(&self) -> f64 {
        let since = now_s().saturating_sub(self.share_seen_s) as f64;
        1.0 - (1.0 - self.share) * 0.5_f64.powf(since / SHARED_HALF_S)
    }

    /// Before anything was seen of a server of this kind.
    pub(super) fn before(profile: Profile) -> Self {
        let select = match profile {
            // 48 to 117 MB of CSV a second of one core, 7 MB of Parquet (docs/decisions/0004).
            Profile::Minio => ScanRates { text_bytes_s: 80e6, parquet_bytes_s: 7e6 },
            _ => Self::default().select,
        };
        Self { select, ..Self::default() }
    }
}

/// Seconds since 1970.
fn now_s() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_node_that_hardly_gets_a_core_has_less_for_us() {
        let mut rates = Rates::default();
        rates.shared(SECOND / 100, SECOND / 20);
        assert!((0.73..0.74).contains(&rates.share_left()), "a short time counts a third");
        rates.shared(SECOND / 100, SECOND / 100);
        assert_eq!(rates.share_left(), 1.0, "it was only once");
        rates.shared(SECOND * 2, SECOND * 10);
        assert!(rates.share_left() > 0.45, "one request is half of it at most");
        for _ in 0..8 {
            rates.shared(SECOND * 2, SECOND * 10);
        }
        let left = rates.share_left();
        assert!((0.2..0.21).contains(&left), "{left}");
        rates.share_seen_s -= SHARED_HALF_S as u64;
        assert!((0.59..0.61).contains(&rates.share_left()), "{}", rates.share_left());
        rates.share_seen_s -= 2 * SHARED_HALF_S as u64;
        assert_eq!(rates.share_left(), 1.0, "that was long ago");
        rates.shared(SECOND * 9, SECOND * 10);
        assert_eq!(rates.share_left(), 1.0, "it was only interrupted");
    }

    #[test]
    fn a_node_tells_what_others_leave_before_it_is_asked() {
        let mut rates = Rates::default();
        for (told, left) in [(0.9, 1.0), (0.3, 0.3), (0.4, 0.3), (f64::NAN, 0.3), (-1.0, LEAST_SHARE)] {
            rates.left_by_others(told);
            assert!((rates.share_left() - left).abs() < 1e-9, "{told}: {}", rates.share_left());
        }
        rates.share_seen_s -= 10 * SHARED_HALF_S as u64;
        rates.left_by_others(0.9);
        assert_eq!(rates.share_left(), 1.0, "it recovers");
        assert!(rates.are_sane());
        rates.shared(SECOND, SECOND);
        rates.left_by_others(0.3);
        assert_eq!(rates.share_left(), 1.0, "whoever they are, they left it all of its cores");
        rates.measured_s -= SHARED_HALF_S as u64;
        rates.left_by_others(0.3);
        assert!(rates.share_left() < 0.31, "that was some time ago");
    }
}

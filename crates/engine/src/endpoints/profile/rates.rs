//! The rates of an endpoint, which the cost model uses and the next session loads.

use std::num::NonZeroU32;
use std::time::{Duration, SystemTime};

use pushdowndb_contract::Profile;
use serde::{Deserialize, Serialize};

use super::Kind;

/// Half-life, in seconds, of an observed lack of CPU: an endpoint without requests cannot show that
/// it is free again.
const CPU_SHARE_HALF_LIFE_S: f64 = 5.0;

/// CPU share from which a thread counts as having the whole core: every thread is interrupted now
/// and then.
const WHOLE_CPU_SHARE: f64 = 0.75;

/// Averaging window of the CPU share, in thread-seconds. One request contributes at most half: it
/// may have waited for a disk, or stood still with its whole machine.
const CPU_SHARE_WINDOW_S: f64 = 0.1;

/// Minimum CPU share that is assumed.
const MIN_CPU_SHARE: f64 = 0.05;

/// Bytes of text per second that one core of the engine scans: `pushdowndb-bench scan`, count(*)
/// (benches/record).
const ENGINE_TEXT_BYTES_PER_S: f64 = 2e9;

/// The rates of an endpoint.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Rates {
    /// Seconds until a request's answer begins.
    pub(crate) latency_s: f64,
    /// Bytes per second over the network, all transfers together.
    pub(crate) network_bytes_per_s: f64,
    /// Rates of scans by S3 Select.
    pub(crate) select: ScanRates,
    /// Rates of scans by the fragment route.
    pub(crate) fragment: ScanRates,
    /// Bytes per second of the endpoint's text that one core of the engine scans, if measured.
    #[serde(default)]
    pub(crate) engine_text_bytes_per_s: Option<f64>,
    /// The cores that scan, as the node reports.
    #[serde(default = "one")]
    pub(crate) cores: f64,
    /// The number of concurrent requests that keep those cores busy, as the node reports.
    #[serde(default)]
    pub(crate) at_once: Option<NonZeroU32>,
    /// The share of a core that the node's threads got while they worked.
    #[serde(default = "one")]
    pub(crate) cpu_share: f64,
    /// When `cpu_share` was measured, in seconds since 1970.
    #[serde(default)]
    pub(crate) cpu_share_unix_s: u64,
    /// The share of the cores that other requests and programs leave.
    #[serde(skip, default = "one")]
    pub(crate) available_share: f64,
    /// Whether `network_bytes_per_s` was measured.
    #[serde(skip)]
    pub(crate) knows_network: bool,
}

fn one() -> f64 {
    1.0
}

/// The rates at which storage scans, all requests together.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct ScanRates {
    /// Bytes of text per second.
    pub(crate) text_bytes_per_s: f64,
    /// Bytes of Parquet per second, in the columns that are read.
    pub(crate) parquet_bytes_per_s: f64,
}

impl ScanRates {
    fn beside(self, other: Self) -> Self {
        Self {
            text_bytes_per_s: self.text_bytes_per_s + other.text_bytes_per_s,
            parquet_bytes_per_s: self.parquet_bytes_per_s + other.parquet_bytes_per_s,
        }
    }

    pub(crate) fn of(self, kind: Kind) -> f64 {
        match kind {
            Kind::Text => self.text_bytes_per_s,
            Kind::Parquet => self.parquet_bytes_per_s,
        }
    }
}

impl Default for Rates {
    /// Returns the rates of one core with its share of the network in the PushdownDB paper (10 Gb/s
    /// for 32 cores), and the scan rates of one core of a node (benches/record).
    fn default() -> Self {
        let scans = ScanRates { text_bytes_per_s: 1e9, parquet_bytes_per_s: 400e6 };
        Self {
            latency_s: 0.005,
            network_bytes_per_s: 40e6,
            select: scans,
            fragment: scans,
            engine_text_bytes_per_s: None,
            cores: one(),
            at_once: None,
            cpu_share: one(),
            cpu_share_unix_s: 0,
            available_share: one(),
            knows_network: false,
        }
    }
}

impl Rates {
    /// Returns the rates to assume of a server of this kind before anything is measured.
    pub(crate) fn assumed(profile: Profile) -> Self {
        let select = match profile {
            // One core scans 48 to 117 MB/s of CSV and 7 MB/s of Parquet (docs/decisions/0004).
            Profile::Minio => ScanRates { text_bytes_per_s: 80e6, parquet_bytes_per_s: 7e6 },
            _ => Self::default().select,
        };
        Self { select, ..Self::default() }
    }

    /// Returns the rates of two endpoints that work concurrently, each behind a link of its own.
    pub(crate) fn beside(self, other: Self) -> Self {
        Self {
            latency_s: self.latency_s.max(other.latency_s),
            network_bytes_per_s: self.network_bytes_per_s + other.network_bytes_per_s,
            select: self.select.beside(other.select),
            fragment: self.fragment.beside(other.fragment),
            engine_text_bytes_per_s: self.engine_text_bytes_per_s.or(other.engine_text_bytes_per_s),
            cores: self.cores + other.cores,
            at_once: self.at_once.zip(other.at_once).and_then(|(a, b)| a.checked_add(b.get())),
            cpu_share: self.cpu_share.min(other.cpu_share),
            cpu_share_unix_s: self.cpu_share_unix_s.max(other.cpu_share_unix_s),
            available_share: self.available_share.min(other.available_share),
            knows_network: self.knows_network && other.knows_network,
        }
    }

    /// Returns whether every rate is in its valid range.
    pub(crate) fn is_valid(&self) -> bool {
        let scans = [self.select, self.fragment].map(|scans| [scans.text_bytes_per_s, scans.parquet_bytes_per_s]);
        let speeds = std::iter::once(self.network_bytes_per_s).chain(scans.into_iter().flatten());
        let mut speeds = speeds.chain(self.engine_text_bytes_per_s);
        self.latency_s.is_finite()
            && self.latency_s >= 0.0
            && (1.0..1e6).contains(&self.cores)
            && (MIN_CPU_SHARE..=1.0).contains(&self.cpu_share)
            && speeds.all(|speed| speed.is_finite() && speed >= 1.0)
    }

    /// Returns the bytes per second of the endpoint's text that one core of the engine scans. Until
    /// this is measured, the rate of the node's cores limits the assumed one: both run the same
    /// code.
    pub(crate) fn engine_text(&self) -> f64 {
        let node = self.fragment.text_bytes_per_s;
        self.engine_text_bytes_per_s.unwrap_or_else(|| ENGINE_TEXT_BYTES_PER_S.min(node))
    }

    /// The cores that scan, if the node has reported them.
    pub(crate) fn advertised_cores(&self) -> Option<usize> {
        self.at_once.map(|_| self.cores as usize)
    }

    /// Returns the share of a core that other programs leave at the time `unix_s`.
    pub(crate) fn cpu_share_left(&self, unix_s: u64) -> f64 {
        let share = self.cpu_share_at(unix_s);
        if share < WHOLE_CPU_SHARE { share } else { one() }
    }

    /// Records that threads worked for `busy` and had a core for `cpu` of that time.
    pub(crate) fn observe_cpu_share(&mut self, cpu: Duration, busy: Duration, unix_s: u64) {
        let (cpu, busy) = (cpu.as_secs_f64(), busy.as_secs_f64());
        if busy > 0.0 {
            let (observed, before) = ((cpu / busy).clamp(MIN_CPU_SHARE, 1.0), self.cpu_share_at(unix_s));
            let counted = busy.min(CPU_SHARE_WINDOW_S);
            self.cpu_share = before + counted / (counted + CPU_SHARE_WINDOW_S) * (observed - before);
            self.cpu_share_unix_s = unix_s;
        }
    }

    fn cpu_share_at(&self, unix_s: u64) -> f64 {
        let age_s = unix_s.saturating_sub(self.cpu_share_unix_s) as f64;
        1.0 - (1.0 - self.cpu_share) * 0.5_f64.powf(age_s / CPU_SHARE_HALF_LIFE_S)
    }
}

/// The present time, in seconds since 1970.
pub(crate) fn unix_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_node_that_hardly_gets_a_core_has_less_for_us() {
        let mut rates = Rates::default();
        let at = 1_000_000;
        rates.observe_cpu_share(SECOND / 100, SECOND / 20, at);
        assert!((0.73..0.74).contains(&rates.cpu_share_left(at)), "a short time counts a third");
        rates.observe_cpu_share(SECOND / 100, SECOND / 100, at);
        assert_eq!(rates.cpu_share_left(at), 1.0, "it was only once");
        rates.observe_cpu_share(SECOND * 2, SECOND * 10, at);
        assert!(rates.cpu_share_left(at) > 0.45, "one request is half of it at most");
        for _ in 0..8 {
            rates.observe_cpu_share(SECOND * 2, SECOND * 10, at);
        }
        let left = rates.cpu_share_left(at);
        assert!((0.2..0.21).contains(&left), "{left}");
        let left = rates.cpu_share_left(at + CPU_SHARE_HALF_LIFE_S as u64);
        assert!((0.59..0.61).contains(&left), "{left}");
        assert_eq!(rates.cpu_share_left(at + 3 * CPU_SHARE_HALF_LIFE_S as u64), 1.0, "that was long ago");
        let mut rates = Rates::default();
        rates.observe_cpu_share(SECOND * 9, SECOND * 10, at);
        assert_eq!(rates.cpu_share_left(at), 1.0, "it was only interrupted");
    }
}

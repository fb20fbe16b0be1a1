//! Cost of a strategy before it runs: the models of PushdownDB (Sections II-B and IV to VII),
//! simplified.
//!
//! ```text
//! phase    = rounds of requests × latency + max(network, storage, engine)
//!
//! network  = bytes / measured throughput
//! storage  = (bytes scanned / measured throughput
//!             + (bytes sent / SEND + values returned / ENCODE + values aggregated / DECODE
//!                + requests + extra work) / cores of storage)
//!            / share of storage that other queries leave
//! engine   = (bytes received / RECEIVE + bytes scanned / SCAN + values decoded / DECODE
//!             + requests + extra work) / cores of the engine
//!
//! strategy = the sum of its phases
//! dollars  = the price book's bill: engine time, requests, bytes, storage CPU time
//! ```
//!
//! Storage, network and engine work at the same time (stages of one pipeline, as in Active Disks,
//! Section 2.1), so a phase takes as long as the slowest of them.

use std::sync::Arc;

use pushdowndb_contract::Format;
use pushdowndb_cost::{PriceBook, Requests, Usage};

use super::cardinality::Cardinality;
use crate::endpoints::Rates;
use crate::plan::estimate::Estimate;
use crate::plan::scan_context::ScanContext;
use crate::plan::scan_plan::ScanPlan;
use crate::settings::Objective;
use crate::statistics::Core;

/// Factor within which two estimates of seconds are a tie.
const TIE_FACTOR: f64 = 1.3;

/// Difference in seconds within which two estimates are a tie, since requests vary by more.
const TIE_S: f64 = 0.02;

/// Weight of the time for which other queries wait for the network link, if estimates are a tie.
const LINK_TIME_WEIGHT: f64 = 0.25;

/// Factor within which two estimates of dollars are a tie. It is small because the numbers of bytes
/// and requests are exact.
const USD_TIE_FACTOR: f64 = 1.05;

/// Throughput of one core of the engine that scans Parquet (benches/record).
const SCAN_PARQUET_BYTES_PER_S: f64 = 400e6;

/// Throughput of one core that decodes text, in bytes as text.
const DECODE_TEXT_BYTES_PER_S: f64 = 700e6;
/// Throughput of one core that decodes Parquet or Arrow, in bytes as text.
const DECODE_BYTES_PER_S: f64 = 1.5e9;

/// Throughput of one core of storage that encodes responses from text.
const ENCODE_TEXT_BYTES_PER_S: f64 = 400e6;
/// Throughput of one core of storage that encodes responses from Parquet.
const ENCODE_PARQUET_BYTES_PER_S: f64 = 600e6;

/// Throughput of one core of storage that sends bytes of its page cache, if the link is faster.
const SEND_BYTES_PER_S: f64 = 2.5e9;

/// Throughput of one core that receives bytes, by its additional time compared with reading a local
/// file (EXPLAIN ANALYZE).
const RECEIVE_BYTES_PER_S: f64 = 8e9;

/// Number of steps from none to all of the work in which its division is tried.
const SHARE_STEPS: u32 = 16;

/// CPU seconds for a request, in storage and in the engine each.
const REQUEST_CPU_S: f64 = 0.0003;

/// Seconds to copy a byte out of a response with several ranges.
const COPY_S_PER_BYTE: f64 = 0.5e-9;

/// The work of one phase.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    /// Bytes over the network.
    pub(crate) bytes_network: u64,
    /// Bytes that storage scans.
    pub(crate) bytes_scanned: u64,
    /// Bytes of the values that storage returns.
    pub(crate) bytes_returned: u64,
    /// Bytes that the engine scans.
    pub(crate) bytes_read: u64,
    /// Bytes of the values that the engine decodes.
    pub(crate) bytes_decoded: u64,
    pub(crate) requests: Requests,
    /// Number of plain reads that are in flight while earlier ones are decoded, so that their
    /// latency is hidden.
    pub(crate) further_reads: u64,
    /// CPU seconds of storage besides scanning.
    pub(crate) storage_s: f64,
    /// CPU seconds of the engine besides scanning.
    pub(crate) engine_s: f64,
}

/// Seconds of each stage of a phase; the stages run at the same time.
#[derive(Clone, Copy, Debug)]
struct Stages {
    network: f64,
    storage: f64,
    engine: f64,
}

impl Stages {
    fn slowest(&self) -> f64 {
        self.network.max(self.storage).max(self.engine)
    }
}

/// The cost model of one table.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    prices: Arc<PriceBook>,
    rates: Rates,
    objective: Objective,
    is_parquet: bool,
    cores: f64,
    /// Maximum requests in flight.
    at_once: u64,
    /// Seconds per byte of a scan on a core of the node, by feedback.
    storage_s_per_byte: Option<f64>,
    /// Seconds per byte of a scan on a core of the engine, by feedback.
    engine_s_per_byte: Option<f64>,
}

impl Model {
    pub(crate) fn of(plan: &ScanPlan, context: &ScanContext) -> Self {
        let rates = context.rates(plan);
        Self {
            prices: Arc::clone(&context.prices),
            objective: context.options.objective,
            is_parquet: matches!(plan.table.format, Format::Parquet),
            cores: context.cores.max(1) as f64,
            at_once: (context.options.requests_at_once(context.cores, rates.at_once) * context.cores.max(1)) as u64,
            rates,
            storage_s_per_byte: None,
            engine_s_per_byte: None,
        }
    }

    /// Adds the scan times that feedback has for the scan of `cardinality`.
    pub(crate) fn timed(self, cardinality: &Cardinality<'_>) -> Self {
        self.with_times(cardinality.s_per_byte(Core::Storage), cardinality.s_per_byte(Core::Engine))
    }

    /// Sets scan times. Node and engine run the same code, so a missing time is replaced by the
    /// other one.
    fn with_times(self, storage: Option<f64>, engine: Option<f64>) -> Self {
        Self { storage_s_per_byte: storage.or(engine), engine_s_per_byte: engine.or(storage), ..self }
    }

    pub(crate) fn knows_network(&self) -> bool {
        self.rates.knows_network
    }

    pub(crate) fn is_parquet(&self) -> bool {
        self.is_parquet
    }

    /// Returns the maximum number of requests in flight.
    pub(crate) fn at_once(&self) -> u64 {
        self.at_once
    }

    /// Returns the measured latency of a request in seconds.
    pub(crate) fn latency_s(&self) -> f64 {
        self.rates.latency_s
    }

    pub(crate) fn objective(&self) -> Objective {
        self.objective
    }

    /// Estimates the seconds of one core to decode `bytes` bytes of text; 0 for Parquet, whose scan
    /// rate includes decoding.
    pub(crate) fn decoding_s(&self, bytes: u64) -> f64 {
        if self.is_parquet { 0.0 } else { bytes as f64 / DECODE_TEXT_BYTES_PER_S }
    }

    /// Returns the number of bytes that can be copied out of a response with several ranges at the
    /// cost of one request. Joining ranges pays off up to this many bytes per request that it
    /// saves.
    pub(crate) fn bytes_a_request(&self) -> u64 {
        match self.objective {
            Objective::Latency => ((self.rates.latency_s + REQUEST_CPU_S) / COPY_S_PER_BYTE) as u64,
            Objective::Cost => u64::MAX,
        }
    }

    /// Estimates the seconds of each stage of `work`, whose route follows from the kind of its
    /// requests.
    fn stages(&self, work: &Work) -> Stages {
        let rates = &self.rates;
        let at_fragment = work.requests.fragment > 0;
        let scans = if at_fragment { rates.fragment } else { rates.select };
        // The node runs the same code on Parquet, so its measured rate caps the engine's.
        let (storage_bytes_per_s, engine_bytes_per_s, encode_bytes_per_s) = match self.is_parquet {
            true => (
                scans.parquet_bytes_per_s,
                SCAN_PARQUET_BYTES_PER_S.min(rates.fragment.parquet_bytes_per_s),
                ENCODE_PARQUET_BYTES_PER_S,
            ),
            false => (scans.text_bytes_per_s, rates.engine_text(), ENCODE_TEXT_BYTES_PER_S),
        };
        // S3 Select always answers in text.
        let is_text = work.requests.select > 0 || work.requests.get > 0 && !self.is_parquet;
        let decode_bytes_per_s = if is_text { DECODE_TEXT_BYTES_PER_S } else { DECODE_BYTES_PER_S };
        let requests_s = (work.requests.total() + work.further_reads) as f64 * REQUEST_CPU_S;
        let network = work.bytes_network as f64 / rates.network_bytes_per_s;
        let returned = work.bytes_returned as f64 / encode_bytes_per_s;
        let sent = work.bytes_network as f64 / SEND_BYTES_PER_S;
        let more = (sent + returned + requests_s + work.storage_s) / rates.cores;
        let scanned = match self.storage_s_per_byte.filter(|_| at_fragment) {
            Some(s_per_byte) => work.bytes_scanned as f64 * s_per_byte / rates.cores,
            None => work.bytes_scanned as f64 / storage_bytes_per_s,
        };
        let storage = (scanned + more) / rates.available_share;
        let received = work.bytes_network as f64 / RECEIVE_BYTES_PER_S;
        let decoded = work.bytes_decoded as f64 / decode_bytes_per_s;
        let read = work.bytes_read as f64 * self.engine_s_per_byte.unwrap_or(1.0 / engine_bytes_per_s);
        let engine = (received + read + decoded + requests_s + work.engine_s) / self.cores;
        Stages { network, storage, engine }
    }

    /// Estimates one phase.
    pub(crate) fn estimate(&self, work: &Work) -> Estimate {
        let (rates, stages) = (&self.rates, self.stages(work));
        let at_fragment = work.requests.fragment > 0;
        let rounds = work.requests.total().div_ceil(self.at_once) as f64;
        let seconds = rounds * rates.latency_s + stages.slowest();
        // The fragment route is billed by CPU time, S3 Select by bytes.
        let usage = Usage {
            wall_s: seconds,
            cores: self.cores,
            storage_cpu_s: if at_fragment { stages.storage * rates.available_share * rates.cores } else { 0.0 },
            bytes_scanned: if at_fragment { 0 } else { work.bytes_scanned },
            bytes_returned: if at_fragment { 0 } else { work.bytes_returned },
            bytes_network: work.bytes_network,
            requests: Requests { get: work.requests.get + work.further_reads, ..work.requests },
            ..Usage::default()
        };
        let usd = self.prices.bill(&usage).total();
        let requests = work.requests.total() + work.further_reads;
        Estimate { bytes: work.bytes_network, requests, seconds, usd }
    }

    /// Returns whether the link takes longer for `work` than storage.
    pub(crate) fn is_bound_by_link(&self, work: &Work) -> bool {
        let stages = self.stages(work);
        stages.network > stages.storage
    }

    /// Divides work between two ways to do it, so that it takes the least time. Returns the share
    /// of the way `one`, and the seconds.
    pub(crate) fn shared(&self, one: &Work, other: &Work) -> (f64, f64) {
        let (one, other) = (self.stages(one), self.stages(other));
        let mixed = |share: f64| {
            let mix = |one: f64, other: f64| one * share + other * (1.0 - share);
            let (network, storage) = (mix(one.network, other.network), mix(one.storage, other.storage));
            Stages { network, storage, engine: mix(one.engine, other.engine) }.slowest()
        };
        let shares = (0..=SHARE_STEPS).map(|share| f64::from(share) / f64::from(SHARE_STEPS));
        let all = shares.map(|share| (share, mixed(share)));
        all.min_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap_or_default()
    }

    /// Returns the figure that the objective minimizes: seconds or dollars.
    pub(crate) fn counts(&self, estimate: &Estimate) -> f64 {
        match self.objective {
            Objective::Latency => estimate.seconds,
            Objective::Cost => estimate.usd,
        }
    }

    /// Returns the seconds of an estimate, or for objective `cost` the engine time in seconds that
    /// its dollars would pay for.
    pub(crate) fn worth_seconds(&self, estimate: &Estimate) -> f64 {
        match self.objective {
            Objective::Latency => estimate.seconds,
            Objective::Cost => {
                let second = Usage { wall_s: 1.0, cores: self.cores, ..Usage::default() };
                match self.prices.bill(&second).total() {
                    usd if usd > 0.0 => estimate.usd / usd,
                    _ => f64::INFINITY,
                }
            }
        }
    }

    /// Returns the position of the best of `estimates`. If several are tied with the least by the
    /// objective, one with few bytes wins, since links are shared.
    pub(crate) fn best(&self, estimates: &[Estimate]) -> Option<usize> {
        let counts = |estimate: &Estimate| self.counts(estimate);
        let least = estimates.iter().map(counts).min_by(f64::total_cmp)?;
        let most = match self.objective {
            Objective::Latency => (least * TIE_FACTOR).max(least + TIE_S),
            Objective::Cost => least * USD_TIE_FACTOR,
        };
        let near = estimates.iter().enumerate().filter(|(_, estimate)| counts(estimate) <= most);
        // Bytes count as the time for which other queries on the link wait for them.
        let weighed = |estimate: &Estimate| match self.objective {
            Objective::Latency => {
                estimate.seconds + LINK_TIME_WEIGHT * estimate.bytes as f64 / self.rates.network_bytes_per_s
            }
            Objective::Cost => estimate.bytes as f64,
        };
        near.min_by(|(_, a), (_, b)| weighed(a).total_cmp(&weighed(b))).map(|(place, _)| place)
    }

    /// Returns whether `one` is better than `other` by more than the model's tie factor.
    pub(crate) fn is_better(&self, one: &Estimate, other: &Estimate) -> bool {
        match self.objective {
            Objective::Latency => (one.seconds * TIE_FACTOR).max(one.seconds + TIE_S) < other.seconds,
            Objective::Cost => one.usd * USD_TIE_FACTOR < other.usd,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn model(objective: Objective) -> Model {
        let prices = Arc::new(PriceBook::named_or_path("paper").expect("a shipped book"));
        Model {
            prices,
            rates: Rates::default(),
            objective,
            is_parquet: false,
            cores: 1.0,
            at_once: 4,
            storage_s_per_byte: None,
            engine_s_per_byte: None,
        }
    }

    #[test]
    fn feedback_of_the_scan_counts_before_rates_of_the_endpoint() {
        let plain = Work { bytes_read: 1 << 30, ..Work::default() };
        let requests = Requests { fragment: 1, ..Requests::default() };
        let pushed = Work { bytes_scanned: 1 << 30, requests, ..Work::default() };
        let seconds = |model: &Model| (model.stages(&plain).engine, model.stages(&pushed).storage);
        let model = model(Objective::Latency);
        let (engine, storage) = seconds(&model);
        let slow = |storage, engine| seconds(&model.clone().with_times(storage, engine));
        assert_eq!(slow(None, None), (engine, storage));
        let (slow_engine, slow_storage) = slow(Some(1e-8), Some(2e-8));
        assert!(
            slow_engine > 2.0 * slow_storage - 0.01 && slow_storage > 5.0 * storage,
            "{slow_engine}, {slow_storage}"
        );
        assert_eq!(slow(Some(1e-8), None).0, (1 << 30) as f64 * 1e-8, "the same code");
    }

    #[test]
    fn gaps_are_read_along_up_to_the_cost_of_a_request() {
        let mut near = model(Objective::Latency);
        near.rates.latency_s = 0.0002;
        assert_eq!(near.bytes_a_request(), 1_000_000);
        assert_eq!(model(Objective::Cost).bytes_a_request(), u64::MAX);
    }

    #[test]
    fn dollars_are_worth_the_seconds_they_pay_for() {
        let (fast, cheap) = (model(Objective::Latency), model(Objective::Cost));
        let second = Usage { wall_s: 2.0, cores: 1.0, ..Usage::default() };
        let estimate = Estimate { seconds: 0.1, usd: cheap.prices.bill(&second).total(), ..Estimate::default() };
        assert_eq!(fast.worth_seconds(&estimate), 0.1);
        assert!((cheap.worth_seconds(&estimate) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn fewer_bytes_win_a_tie_of_seconds() {
        let estimate =
            |seconds, megabytes: u64| Estimate { seconds, bytes: megabytes * 1_000_000, ..Estimate::default() };
        let best = |model: &Model, estimates: &[Estimate]| model.best(estimates);
        let mut model = model(Objective::Latency);
        let near = [estimate(0.25, 10), estimate(0.26, 2), estimate(0.34, 1)];
        assert_eq!(best(&model, &near), Some(1));
        assert_eq!(best(&model, &[estimate(1.0, 10), estimate(0.5, 20)]), Some(1), "half the time");
        assert_eq!(best(&model, &[estimate(1.2, 5), estimate(1.0, 5)]), Some(1));
        assert_eq!(best(&model, &[]), None);
        model.rates.network_bytes_per_s = 2e9;
        assert_eq!(best(&model, &near), Some(0), "nobody waits for the bytes");
    }

    #[test]
    fn dollars_win_by_the_objective_cost() {
        let estimate = |seconds, usd| Estimate { seconds, usd, ..Estimate::default() };
        let both = [estimate(1.0, 0.02), estimate(3.0, 0.01)];
        assert_eq!(model(Objective::Latency).best(&both), Some(0));
        assert_eq!(model(Objective::Cost).best(&both), Some(1));
    }

    #[test]
    fn work_is_shared_for_the_least_time() {
        let mut model = model(Objective::Latency);
        let plain = |bytes| Work { bytes_network: bytes, bytes_read: bytes, ..Work::default() };
        let requests = Requests { fragment: 1, ..Requests::default() };
        let pushed = |storage_s| Work { storage_s, requests, ..Work::default() };
        let (share, seconds) = model.shared(&plain(1 << 30), &pushed(1.0));
        assert!(share < 0.1 && seconds > 0.9, "{share} by a link of 40 MB/s, {seconds} s");
        model.rates.network_bytes_per_s = 10e9;
        let (share, seconds) = model.shared(&plain(1 << 30), &pushed(1.0));
        assert!((0.4..0.6).contains(&share) && seconds < 0.8, "{share}, {seconds} s: sending keeps storage as well");
        let (share, _) = model.shared(&plain(1 << 30), &pushed(0.2));
        assert!(share < 0.1, "{share}: storage scans faster than it sends");
    }

    #[test]
    fn a_phase_is_as_slow_as_its_slowest_part_and_phases_add_up() {
        let model = model(Objective::Latency);
        let (latency, network) = (model.rates.latency_s, model.rates.network_bytes_per_s);
        let requests = Requests { select: 8, ..Requests::default() };
        let work = Work { bytes_network: 4_000_000, bytes_scanned: 600_000_000, requests, ..Work::default() };
        let scan = model.estimate(&work);
        let more = 4e6 / SEND_BYTES_PER_S + 8.0 * REQUEST_CPU_S;
        let seconds = 2.0 * latency + (600e6 / model.rates.select.text_bytes_per_s + more);
        assert_eq!((scan.bytes, scan.requests, scan.seconds), (4_000_000, 8, seconds), "four requests at once");
        assert!(scan.usd > 600e6 / 1e9 * model.prices.scan_usd_per_gb, "the scan and more: {scan}");
        let both = scan + model.estimate(&Work { bytes_network: 80_000_000, ..Work::default() });
        assert_eq!((both.bytes, both.requests, both.seconds), (84_000_000, 8, seconds + 80e6 / network));
    }
}

//! What a strategy would cost, before it runs: the models of PushdownDB (Sections II-B and IV to VII), kept simple.
//!
//! ```text
//! phase    = rounds of requests × latency + the slowest of
//!              network   bytes / what the endpoint was seen to send
//!              storage   bytes scanned / what it was seen to scan
//!                        + (bytes sent / SEND + bytes of values it returns / ENCODE + bytes of values it keeps / DECODE
//!                           + requests + extra work) / its cores;
//!                        all that longer by what it does for others
//!              engine    (bytes received / RECEIVE + bytes scanned / SCAN + bytes of values it decodes / DECODE
//!                        + requests + extra work) / cores
//! strategy = the sum of its phases
//! dollars  = the price book's bill of all that: time of the engine's cores, requests, bytes, time of storage's cores
//! ```
//!
//! Storage, network and engine work at the same time (stages of one pipeline, as in Active Disks, Section 2.1), so a phase takes
//! as long as the slowest of them.

use std::fmt;
use std::ops::Add;
use std::sync::Arc;

use pushdown::Format;
use pushdowndb_cost::{PriceBook, Requests, Usage};

use crate::backends::Rates;
use crate::remote_scan::{Figures, ScanSpec};
use crate::settings::Objective;
use crate::statistics::Core;

/// Estimates that differ by less than this factor are the same, as far as the models can tell.
const ERROR: f64 = 1.3;

/// Nobody notices fewer seconds than these, and they are less than requests differ by.
const NOTICED_S: f64 = 0.02;

/// How much of the link's time counts beside the query's own where estimates are nearly the same.
const OTHERS: f64 = 0.25;

/// The same of dollars, most of which are exact: bytes and requests.
const ERROR_USD: f64 = 1.05;

/// Bytes of Parquet a second that one core of the engine scans (benches/record).
const SCAN_PARQUET_S: f64 = 400e6;

/// Bytes of values a second, as long as they are as text, that one core makes of text, and of Parquet or what the fragment
/// route sends.
const DECODE_TEXT_S: f64 = 700e6;
const DECODE_S: f64 = 1.5e9;

/// The same that one core of storage puts into an answer, from text and from Parquet.
const ENCODE_TEXT_S: f64 = 400e6;
const ENCODE_PARQUET_S: f64 = 600e6;

/// Bytes a second that one core of storage reads from its page cache and sends, over a link that is faster.
const SEND_S: f64 = 2.5e9;

/// The same that one core of the engine receives, beyond what reading a local file takes, which is part of its scanning:
/// EXPLAIN ANALYZE of the same filter over both.
const RECEIVE_S: f64 = 8e9;

/// Shares that are tried, from none to all.
const SHARES: u32 = 16;

/// Seconds that a request keeps storage, and the engine.
const REQUEST_S: f64 = 0.0003;

/// Seconds that a byte costs more where several ranges come in one answer: it is copied out of that.
const COPY_S: f64 = 0.5e-9;

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
    /// Over the network.
    pub(crate) bytes_network: u64,
    /// By storage: bytes it scans, and what it returns of them.
    pub(crate) bytes_scanned: u64,
    pub(crate) bytes_returned: u64,
    /// By the engine: bytes it scans, and bytes of values that it makes of what it scans or receives.
    pub(crate) bytes_read: u64,
    pub(crate) bytes_decoded: u64,
    pub(crate) requests: Requests,
    /// Plain reads while what came before them is decoded: nobody waits for their answers to begin.
    pub(crate) further_reads: u64,
    /// Seconds of storage besides its scanning.
    pub(crate) storage_s: f64,
    /// Seconds of the engine besides its scanning.
    pub(crate) engine_s: f64,
}

/// Seconds that each part works on a phase, all of them at the same time.
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

/// What the strategies for one table are estimated by.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    prices: Arc<PriceBook>,
    rates: Rates,
    objective: Objective,
    is_parquet: bool,
    /// Cores of the engine.
    cores: f64,
    /// Requests that are under way at a time.
    at_once: u64,
    /// Seconds that a byte takes a core of storage for fragments, and of the engine, where that was seen of these scans.
    storage_byte_s: Option<f64>,
    engine_byte_s: Option<f64>,
}

impl Model {
    /// For scans of this table.
    pub(crate) fn of(spec: &ScanSpec) -> Self {
        let rates = spec.rates();
        Self {
            prices: Arc::clone(&spec.prices),
            objective: spec.options.objective,
            is_parquet: matches!(spec.table.format, Format::Parquet),
            cores: spec.cores.max(1) as f64,
            at_once: (spec.options.requests_at_once(spec.cores, rates.at_once) * spec.cores.max(1)) as u64,
            rates,
            storage_byte_s: None,
            engine_byte_s: None,
        }
    }

    /// For scans of which this is known.
    pub(crate) fn timed(self, figures: &Figures<'_>) -> Self {
        self.with_times(figures.byte_s(Core::Storage), figures.byte_s(Core::Engine))
    }

    /// For scans of which a byte took a core of storage, or of the engine, so many seconds. Our node scans by the same code as the
    /// engine: what the one was seen to do tells of both.
    fn with_times(self, storage: Option<f64>, engine: Option<f64>) -> Self {
        Self { storage_byte_s: storage.or(engine), engine_byte_s: engine.or(storage), ..self }
    }

    /// Whether anything was seen of the network.
    pub(crate) fn knows_network(&self) -> bool {
        self.rates.knows_network
    }

    /// Whether the table is Parquet.
    pub(crate) fn is_parquet(&self) -> bool {
        self.is_parquet
    }

    /// Requests that are under way at a time.
    pub(crate) fn at_once(&self) -> u64 {
        self.at_once
    }

    /// What counts.
    pub(crate) fn objective(&self) -> Objective {
        self.objective
    }

    /// Seconds of one core for so many bytes of values, as long as they are as text. That a core scans so many bytes of Parquet
    /// includes their values.
    pub(crate) fn decoding_s(&self, bytes: u64) -> f64 {
        if self.is_parquet { 0.0 } else { bytes as f64 / DECODE_TEXT_S }
    }

    /// How many bytes are as well copied out of a longer answer as asked for on their own: by time; of dollars requests take
    /// most.
    pub(crate) fn bytes_a_request(&self) -> u64 {
        match self.objective {
            Objective::Latency => ((self.rates.latency_s + REQUEST_S) / COPY_S) as u64,
            Objective::Cost => u64::MAX,
        }
    }

    /// How long each part works on a phase. What storage scans it scans for the route of the requests.
    fn stages(&self, work: &Work) -> Stages {
        let rates = &self.rates;
        let at_fragment = work.requests.fragment > 0;
        let scans = if at_fragment { rates.fragment } else { rates.select };
        // Our node scans Parquet by the same code as the engine: what it was seen to do tells of both.
        let (storage_bytes_s, engine_bytes_s, encoded_s) = match self.is_parquet {
            true => (scans.parquet_bytes_s, SCAN_PARQUET_S.min(rates.fragment.parquet_bytes_s), ENCODE_PARQUET_S),
            false => (scans.text_bytes_s, rates.engine_text(), ENCODE_TEXT_S),
        };
        // S3 Select answers in text whatever it reads.
        let is_text = work.requests.select > 0 || work.requests.get > 0 && !self.is_parquet;
        let decoded_s = if is_text { DECODE_TEXT_S } else { DECODE_S };
        let asked_s = (work.requests.total() + work.further_reads) as f64 * REQUEST_S;
        let network = work.bytes_network as f64 / rates.network_bytes_s;
        let returned = work.bytes_returned as f64 / encoded_s;
        let sent = work.bytes_network as f64 / SEND_S;
        let more = (sent + returned + asked_s + work.storage_s) / rates.cores;
        let scanned = match self.storage_byte_s.filter(|_| at_fragment) {
            Some(byte_s) => work.bytes_scanned as f64 * byte_s / rates.cores,
            None => work.bytes_scanned as f64 / storage_bytes_s,
        };
        let storage = (scanned + more) / rates.left;
        let received = work.bytes_network as f64 / RECEIVE_S;
        let decoded = work.bytes_decoded as f64 / decoded_s;
        let read = work.bytes_read as f64 * self.engine_byte_s.unwrap_or(1.0 / engine_bytes_s);
        let engine = (received + read + decoded + asked_s + work.engine_s) / self.cores;
        Stages { network, storage, engine }
    }

    /// Of one phase.
    pub(crate) fn estimate(&self, work: &Work) -> Estimate {
        let (rates, stages) = (&self.rates, self.stages(work));
        let at_fragment = work.requests.fragment > 0;
        let rounds = work.requests.total().div_ceil(self.at_once) as f64;
        let seconds = rounds * rates.latency_s + stages.slowest();
        // Work at the fragment route is paid by its time, that of S3 Select by its bytes.
        let usage = Usage {
            wall_s: seconds,
            cores: self.cores,
            storage_cpu_s: if at_fragment { stages.storage * rates.left * rates.cores } else { 0.0 },
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

    /// Whether the link is busy longer with a phase than storage.
    pub(crate) fn is_bound_by_link(&self, work: &Work) -> bool {
        let stages = self.stages(work);
        stages.network > stages.storage
    }

    /// Two ways to do the same that share it as is best for both: the share of the first, and seconds.
    pub(crate) fn shared(&self, one: &Work, other: &Work) -> (f64, f64) {
        let (one, other) = (self.stages(one), self.stages(other));
        let mixed = |share: f64| {
            let mix = |one: f64, other: f64| one * share + other * (1.0 - share);
            let (network, storage) = (mix(one.network, other.network), mix(one.storage, other.storage));
            Stages { network, storage, engine: mix(one.engine, other.engine) }.slowest()
        };
        let shares = (0..=SHARES).map(|share| f64::from(share) / f64::from(SHARES));
        let all = shares.map(|share| (share, mixed(share)));
        all.min_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap_or_default()
    }

    /// What counts of it.
    pub(crate) fn counts(&self, estimate: &Estimate) -> f64 {
        match self.objective {
            Objective::Latency => estimate.seconds,
            Objective::Cost => estimate.usd,
        }
    }

    /// Seconds of the engine that are as much by what counts: a dollar is worth all that it pays for.
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

    /// Which of these to take; `None` of none. Of all that cannot be told from the best by what counts, one that moves few
    /// bytes: links are shared.
    pub(crate) fn best(&self, estimates: &[Estimate]) -> Option<usize> {
        let counts = |estimate: &Estimate| self.counts(estimate);
        let least = estimates.iter().map(counts).min_by(f64::total_cmp)?;
        let most = match self.objective {
            Objective::Latency => (least * ERROR).max(least + NOTICED_S),
            Objective::Cost => least * ERROR_USD,
        };
        let near = estimates.iter().enumerate().filter(|(_, estimate)| counts(estimate) <= most);
        // Bytes are worth the time that others on the link wait for them: next to none where it is fast.
        let weighed = |estimate: &Estimate| match self.objective {
            Objective::Latency => estimate.seconds + OTHERS * estimate.bytes as f64 / self.rates.network_bytes_s,
            Objective::Cost => estimate.bytes as f64,
        };
        near.min_by(|(_, a), (_, b)| weighed(a).total_cmp(&weighed(b))).map(|(place, _)| place)
    }

    /// Whether the one is better than the other by more than the model may err.
    pub(crate) fn is_better(&self, one: &Estimate, other: &Estimate) -> bool {
        match self.objective {
            Objective::Latency => (one.seconds * ERROR).max(one.seconds + NOTICED_S) < other.seconds,
            Objective::Cost => one.usd * ERROR_USD < other.usd,
        }
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn model(objective: Objective) -> Model {
        let prices = Arc::new(PriceBook::named_or_path("paper").expect("a shipped book"));
        Model {
            prices,
            rates: Rates::default(),
            objective,
            is_parquet: false,
            cores: 1.0,
            at_once: 4,
            storage_byte_s: None,
            engine_byte_s: None,
        }
    }

    #[test]
    fn what_was_seen_of_these_scans_counts_before_what_was_seen_of_any() {
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
    fn bytes_are_copied_as_long_as_a_request_takes() {
        let mut near = model(Objective::Latency);
        near.rates.latency_s = 0.0002;
        assert_eq!(near.bytes_a_request(), 1_000_000);
        assert_eq!(model(Objective::Cost).bytes_a_request(), u64::MAX);
    }

    #[test]
    fn a_second_is_worth_what_it_is_billed_at() {
        let (fast, cheap) = (model(Objective::Latency), model(Objective::Cost));
        let second = Usage { wall_s: 2.0, cores: 1.0, ..Usage::default() };
        let estimate = Estimate { seconds: 0.1, usd: cheap.prices.bill(&second).total(), ..Estimate::default() };
        assert_eq!(fast.worth_seconds(&estimate), 0.1);
        assert!((cheap.worth_seconds(&estimate) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn fewer_bytes_win_where_seconds_are_nearly_the_same() {
        let estimate =
            |seconds, megabytes: u64| Estimate { seconds, bytes: megabytes * 1_000_000, ..Estimate::default() };
        let best = |model: &Model, estimates: &[Estimate]| model.best(estimates);
        let mut model = model(Objective::Latency);
        let near = [estimate(0.25, 10), estimate(0.26, 2), estimate(0.34, 1)];
        assert_eq!(best(&model, &near), Some(1));
        assert_eq!(best(&model, &[estimate(1.0, 10), estimate(0.5, 20)]), Some(1), "half the time");
        assert_eq!(best(&model, &[estimate(1.2, 5), estimate(1.0, 5)]), Some(1));
        assert_eq!(best(&model, &[]), None);
        model.rates.network_bytes_s = 2e9;
        assert_eq!(best(&model, &near), Some(0), "nobody waits for the bytes");
    }

    #[test]
    fn dollars_win_where_they_are_what_counts() {
        let estimate = |seconds, usd| Estimate { seconds, usd, ..Estimate::default() };
        let both = [estimate(1.0, 0.02), estimate(3.0, 0.01)];
        assert_eq!(model(Objective::Latency).best(&both), Some(0));
        assert_eq!(model(Objective::Cost).best(&both), Some(1));
    }

    #[test]
    fn work_is_shared_where_that_leaves_nobody_waiting() {
        let mut model = model(Objective::Latency);
        let plain = |bytes| Work { bytes_network: bytes, bytes_read: bytes, ..Work::default() };
        let requests = Requests { fragment: 1, ..Requests::default() };
        let pushed = |storage_s| Work { storage_s, requests, ..Work::default() };
        let (share, seconds) = model.shared(&plain(1 << 30), &pushed(1.0));
        assert!(share < 0.1 && seconds > 0.9, "{share} by a link of 40 MB/s, {seconds} s");
        model.rates.network_bytes_s = 10e9;
        let (share, seconds) = model.shared(&plain(1 << 30), &pushed(1.0));
        assert!((0.4..0.6).contains(&share) && seconds < 0.8, "{share}, {seconds} s: sending keeps storage as well");
        let (share, _) = model.shared(&plain(1 << 30), &pushed(0.2));
        assert!(share < 0.1, "{share}: storage scans faster than it sends");
    }

    #[test]
    fn a_phase_is_as_slow_as_its_slowest_part_and_phases_add_up() {
        let model = model(Objective::Latency);
        let (latency, network) = (model.rates.latency_s, model.rates.network_bytes_s);
        let requests = Requests { select: 8, ..Requests::default() };
        let work = Work { bytes_network: 4_000_000, bytes_scanned: 600_000_000, requests, ..Work::default() };
        let scan = model.estimate(&work);
        let more = 4e6 / SEND_S + 8.0 * REQUEST_S;
        let seconds = 2.0 * latency + (600e6 / model.rates.select.text_bytes_s + more);
        assert_eq!((scan.bytes, scan.requests, scan.seconds), (4_000_000, 8, seconds), "four requests at once");
        assert!(scan.usd > 600e6 / 1e9 * model.prices.scan_usd_per_gb, "the scan and more: {scan}");
        let both = scan + model.estimate(&Work { bytes_network: 80_000_000, ..Work::default() });
        assert_eq!((both.bytes, both.requests, both.seconds), (84_000_000, 8, seconds + 80e6 / network));
    }
}

//! The profile of an endpoint: latency, bandwidth and scan rates, measured on the requests of
//! queries.
//!
//! Rates are measured over windows in which at least one transfer or scan was in progress
//! ([`window`]): the bytes of all of them over the time that passed. If the engine mostly waited
//! for bytes, the window shows the rate itself. Otherwise the engine was the slower side, and the
//! rate is a lower bound (as in BBR, Cardwell et al. 2016, where a sample that the application
//! limited may only raise the estimate). Bytes that were requested while nothing else was in
//! progress crossed the network since the request, which gives a lower bound as well.
//!
//! Where time matters, methods take the present time `now`.

pub(crate) mod ewma;
pub(crate) mod other_requests;
pub(crate) mod persisted;
pub(crate) mod rates;
pub(crate) mod scanner;
pub(crate) mod window;

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use pushdowndb_contract::Profile;
use pushdowndb_contract::wire::RouteStats;

use ewma::Ewma;
use other_requests::OtherRequests;
use rates::{ScanRates, unix_s};
use window::{Observation, Window};

pub(crate) use persisted::PersistedRates;
pub(crate) use rates::Rates;
pub(crate) use scanner::{Kind, Scanner};

/// Upper bound on the bytes in network buffers, over all connections together.
const MAX_BUFFERED_BYTES: u64 = 16 * 1024 * 1024;

/// A scan is timed if it scans more than this many times the bytes that it returns.
const MIN_SCANNED_PER_RETURNED: u64 = 10;

/// Duration in seconds from which a scan has full weight. A shorter one counts in proportion, since
/// its start and end take most of its time.
const FULL_WEIGHT_SCAN_S: f64 = 0.1;

/// Minimum bytes of a scan by the engine that is timed; in a smaller one, most of the time is spent
/// around the scan.
const MIN_TIMED_ENGINE_BYTES: u64 = 1024 * 1024;

/// Weight of a network rate below the mean: storage may have been the slower side.
const SLOWER_WEIGHT: f64 = 0.1;

/// Weight of a network rate below the mean while storage also ran scans: they take storage's cores,
/// and their answers the link.
const SLOWER_BESIDE_SCANS_WEIGHT: f64 = 0.01;

/// Weight of a latency above the mean: busy storage answers late.
const LATE_ANSWER_WEIGHT: f64 = 0.02;

/// Returns whether a scan spends its time on scanning rather than on the bytes that it returns.
pub(crate) fn is_scan(scanned: u64, returned: u64) -> bool {
    returned.saturating_mul(MIN_SCANNED_PER_RETURNED) < scanned
}

/// The measured rates of an endpoint.
#[derive(Debug, Default)]
pub(crate) struct EndpointProfile {
    /// The name of the endpoint in the file of rates.
    pub(crate) endpoint: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    latency_s: Ewma,
    network_bytes_per_s: Ewma,
    select: Scans,
    fragment: Scans,
    /// `None` until the engine scanned text of the endpoint.
    engine_text_bytes_per_s: Option<Ewma>,
    /// Rates that are not averaged here, such as the cores that a node reports.
    reported: Rates,
    /// Whether anything was measured in this session.
    is_measured: bool,
    transfers: Window,
    other_requests: OtherRequests,
}

/// The scans of one route, by kind.
#[derive(Debug)]
struct Scans {
    text: (Window, Ewma),
    parquet: (Window, Ewma),
}

impl Scans {
    fn new(rates: ScanRates, average: fn(f64) -> Ewma) -> Self {
        let of = |kind| (Window::default(), average(rates.of(kind)));
        Self { text: of(Kind::Text), parquet: of(Kind::Parquet) }
    }

    /// Returns the scan rates; those in `assumed` where nothing was measured.
    fn rates_or(&self, assumed: ScanRates) -> ScanRates {
        ScanRates {
            text_bytes_per_s: self.text.1.if_measured().unwrap_or(assumed.text_bytes_per_s),
            parquet_bytes_per_s: self.parquet.1.if_measured().unwrap_or(assumed.parquet_bytes_per_s),
        }
    }
}

impl Default for State {
    fn default() -> Self {
        Self::new(Rates::default(), Ewma::assumed)
    }
}

impl State {
    fn new(rates: Rates, average: fn(f64) -> Ewma) -> Self {
        Self {
            // Measured anew by each process: the same address may stand for a server elsewhere.
            latency_s: Ewma::assumed(rates.latency_s),
            network_bytes_per_s: average(rates.network_bytes_per_s),
            select: Scans::new(rates.select, average),
            fragment: Scans::new(rates.fragment, average),
            engine_text_bytes_per_s: rates.engine_text_bytes_per_s.map(average),
            reported: rates,
            is_measured: false,
            transfers: Window::default(),
            other_requests: OtherRequests::default(),
        }
    }

    fn scans(&mut self, by: Scanner, kind: Kind) -> &mut (Window, Ewma) {
        let scans = match by {
            Scanner::Select => &mut self.select,
            Scanner::Fragment => &mut self.fragment,
        };
        match kind {
            Kind::Text => &mut scans.text,
            Kind::Parquet => &mut scans.parquet,
        }
    }

    /// Returns the rates; for scans that were not measured, those of `assumed`.
    fn rates(&self, assumed: &Rates) -> Rates {
        Rates {
            latency_s: self.latency_s.mean(),
            network_bytes_per_s: self.network_bytes_per_s.mean(),
            select: self.select.rates_or(assumed.select),
            fragment: self.fragment.rates_or(assumed.fragment),
            engine_text_bytes_per_s: self.engine_text_bytes_per_s.map(Ewma::mean),
            knows_network: self.network_bytes_per_s.if_measured().is_some(),
            ..self.reported
        }
    }

    fn observe_network(&mut self, seen: Observation) {
        let rate = &mut self.network_bytes_per_s;
        let is_slower = seen.bytes_per_s < rate.mean();
        match (seen.waited, rate.if_measured().is_some()) {
            (true, _) if is_slower && seen.beside_scans => rate.nudge(seen.bytes_per_s, SLOWER_BESIDE_SCANS_WEIGHT),
            (true, true) if is_slower => rate.nudge(seen.bytes_per_s, SLOWER_WEIGHT),
            (true, _) => rate.add(seen.bytes_per_s, 1.0),
            // All of these bytes may have been in buffers while the engine was busy.
            (false, true) if seen.bytes < MAX_BUFFERED_BYTES => {}
            (false, _) => rate.raise(seen.bytes_per_s),
        }
        if let Some(least) = seen.certain_bytes_per_s {
            rate.raise(least);
        }
        self.is_measured = true;
    }

    fn observe_scan(&mut self, by: Scanner, kind: Kind, seen: Observation) {
        let took_s = seen.bytes as f64 / seen.bytes_per_s;
        self.scans(by, kind).1.add(seen.bytes_per_s, (took_s / FULL_WEIGHT_SCAN_S).min(1.0));
        self.is_measured = true;
    }
}

impl EndpointProfile {
    /// Creates the profile of an endpoint with the rates that an earlier session persisted, if any.
    pub(crate) fn new(endpoint: &str, persisted: Option<Rates>) -> Self {
        let state = persisted.map(|rates| State::new(rates, Ewma::measured)).unwrap_or_default();
        Self { endpoint: endpoint.to_owned(), state: Mutex::new(state) }
    }

    /// Returns the rates for the cost model at the time `now`, of a server of this kind.
    pub(crate) fn rates(&self, profile: Profile, now: Instant) -> Rates {
        let state = self.lock();
        let rates = state.rates(&Rates::assumed(profile));
        let others = state.other_requests.available_share(rates.cores, now);
        Rates { available_share: others * rates.cpu_share_left(unix_s()), ..rates }
    }

    /// Returns the rates to persist for the next session; `None` if this one measured none.
    pub(crate) fn measured(&self) -> Option<Rates> {
        let state = self.lock();
        state.is_measured.then(|| state.rates(&Rates::default()))
    }

    /// Records the time from a request to the start of its answer. A time above the mean has little
    /// weight.
    pub(crate) fn answered(&self, after: Duration) {
        let after_s = after.as_secs_f64();
        let mut state = self.lock();
        state.is_measured = true;
        let latency = &mut state.latency_s;
        if latency.if_measured().is_none_or(|latency_s| after_s < latency_s) {
            latency.add(after_s, 1.0);
        } else {
            latency.nudge(after_s, LATE_ANSWER_WEIGHT);
        }
    }

    /// Counts a transfer that begins. It was requested at `asked`.
    pub(crate) fn begin_transfer(&self, asked: Instant, now: Instant) {
        let mut state = self.lock();
        state.transfers.begin(asked, now);
        state.transfers.beside_scans |= state.other_requests.has_own();
    }

    /// Counts bytes of a transfer, for which the reader waited `waited`.
    pub(crate) fn transferred(&self, bytes: u64, waited: Duration, now: Instant) {
        let mut state = self.lock();
        let seen = state.transfers.add(bytes, waited, now);
        state.transfers.beside_scans |= state.other_requests.has_own();
        if let Some(seen) = seen {
            state.observe_network(seen);
        }
    }

    /// Counts a transfer that ends.
    pub(crate) fn end_transfer(&self, now: Instant) {
        let mut state = self.lock();
        let transfers = &mut state.transfers;
        let bound = transfers.at_least(now);
        if let Some(seen) = transfers.end(now).or(bound.filter(|_| transfers.active == 0)) {
            state.observe_network(seen);
        }
    }

    /// Counts a scan by storage that begins. `kind` is `None` if it does not show a scan rate.
    pub(crate) fn begin_scan(&self, by: Scanner, kind: Option<Kind>, now: Instant) {
        let mut state = self.lock();
        state.transfers.beside_scans = true;
        state.other_requests.begin();
        if let Some(kind) = kind {
            state.scans(by, kind).0.begin(now, now);
        }
    }

    /// Counts bytes that storage scanned and returned. A scan that returns many bytes is ignored,
    /// since it measures the network.
    pub(crate) fn scanned(&self, by: Scanner, kind: Kind, scanned: u64, returned: u64, now: Instant) {
        let mut state = self.lock();
        if is_scan(scanned, returned)
            && let Some(seen) = state.scans(by, kind).0.add(scanned, Duration::ZERO, now)
        {
            state.observe_scan(by, kind, seen);
        }
    }

    /// Counts bytes that storage scanned and returned in `cpu` time over all cores. The rate is
    /// computed once no scan is in progress, since concurrent scans share cores.
    pub(crate) fn scanned_in(&self, by: Scanner, kind: Kind, scanned: u64, returned: u64, cpu: Duration) {
        if is_scan(scanned, returned) {
            let mut state = self.lock();
            let window = &mut state.scans(by, kind).0;
            window.bytes += scanned;
            *window.worked.get_or_insert_default() += cpu;
        }
    }

    /// Counts a scan by storage that ends.
    pub(crate) fn end_scan(&self, by: Scanner, kind: Option<Kind>, now: Instant) {
        let mut state = self.lock();
        state.other_requests.end();
        if let Some(kind) = kind
            && let Some(seen) = state.scans(by, kind).0.end(now)
        {
            state.observe_scan(by, kind, seen);
        }
    }

    /// Records a node's report: its cores, the number of requests that keep them busy, and the
    /// number of requests that it scans for.
    pub(crate) fn reported_load(&self, stats: &RouteStats, now: Instant) {
        let mut state = self.lock();
        state.reported.cores = f64::from(stats.cores);
        state.reported.at_once = NonZeroU32::new(stats.at_once);
        state.other_requests.reported(stats.scanning, now);
    }

    /// Records a node's report that threads worked on a request for `busy`, and had a core for
    /// `cpu` of that time.
    pub(crate) fn reported_cpu(&self, cpu: Duration, busy: Duration) {
        let mut state = self.lock();
        state.reported.observe_cpu_share(cpu, busy, unix_s());
        state.is_measured = true;
    }

    /// Records that one core of the engine turned `scanned` bytes of text into `values` bytes of
    /// values in `busy`, without waiting for anything.
    pub(crate) fn engine_scanned(&self, scanned: u64, values: u64, busy: Duration) {
        let took_s = busy.as_secs_f64();
        if scanned < MIN_TIMED_ENGINE_BYTES || !is_scan(scanned, values) || took_s <= 0.0 {
            return;
        }
        let mut state = self.lock();
        let assumed = state.rates(&Rates::default()).engine_text();
        let rate = state.engine_text_bytes_per_s.get_or_insert(Ewma::assumed(assumed));
        rate.add(scanned as f64 / took_s, (took_s / FULL_WEIGHT_SCAN_S).min(1.0));
        state.is_measured = true;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_engine_that_is_busy_says_little_of_the_link() {
        let start = Instant::now();
        let mut window = Window::default();
        window.begin(start, start);
        let seen = window.add(5_000_000, SECOND / 10, start + SECOND).unwrap();
        assert_eq!(
            seen,
            Observation {
                bytes_per_s: 5e6,
                bytes: 5_000_000,
                waited: false,
                beside_scans: false,
                certain_bytes_per_s: Some(5e6)
            }
        );
        let speed = EndpointProfile::default();
        let network = || speed.rates(Profile::Plain, Instant::now()).network_bytes_per_s;
        let before = network();
        speed.lock().observe_network(seen);
        assert_eq!(network(), before, "slower than believed, but for another reason");
        speed.lock().observe_network(Observation { waited: true, ..seen });
        assert_eq!(network(), 5e6, "the first measurement replaces what was only believed");
        speed.lock().observe_network(Observation { bytes_per_s: 66e6, ..seen });
        assert_eq!(network(), 5e6, "out of buffers");
        speed.lock().observe_network(Observation {
            bytes_per_s: 66e6,
            bytes: 1 << 30,
            waited: false,
            beside_scans: false,
            certain_bytes_per_s: None,
        });
        assert_eq!(network(), 66e6, "no buffer has so much");
        speed.lock().observe_network(Observation { bytes_per_s: 6e6, waited: true, ..seen });
        assert_eq!(network(), 60e6, "storage may have been the slower side");
        speed.lock().observe_network(Observation { bytes_per_s: 10e6, waited: true, beside_scans: true, ..seen });
        assert_eq!(network(), 59.5e6, "storage had other work, and answered it over the same link");
        speed.lock().observe_network(Observation { certain_bytes_per_s: Some(90e6), waited: false, ..seen });
        assert_eq!(network(), 90e6, "all of it was asked for and came");
    }

    #[test]
    fn a_server_is_believed_to_be_like_its_kind_until_it_is_measured() {
        let speed = EndpointProfile::default();
        let select = |profile| speed.rates(profile, Instant::now()).select.text_bytes_per_s;
        assert!(select(Profile::Minio) < select(Profile::PushdownDb) / 5.0);
        let seen = Observation {
            bytes_per_s: 3e8,
            bytes: 1 << 25,
            waited: true,
            beside_scans: false,
            certain_bytes_per_s: None,
        };
        speed.lock().observe_scan(Scanner::Select, Kind::Text, seen);
        assert_eq!(select(Profile::Minio), 3e8);
        assert_eq!(speed.rates(Profile::Minio, Instant::now()).select.parquet_bytes_per_s, 7e6);
    }

    #[test]
    fn what_the_engine_scans_in_a_second_is_seen_where_few_values_come_of_it() {
        let speed = EndpointProfile::default();
        let rate = || speed.rates(Profile::Plain, Instant::now()).engine_text();
        let believed = rate();
        speed.engine_scanned(2_000_000, 500_000, SECOND);
        speed.engine_scanned(2_000_000, 0, Duration::ZERO);
        speed.engine_scanned(2_000, 0, SECOND / 10_000);
        assert_eq!(rate(), believed, "values, or what surrounds the scan, took most of the time");
        speed.engine_scanned(800_000_000, 1000, SECOND / 2);
        assert_eq!(rate(), 1.6e9, "the first that is long replaces what was only believed");
        speed.engine_scanned(2_000_000, 0, SECOND / 50);
        assert!(rate() > 1.3e9, "a short one counts little: {}", rate());
        let again = EndpointProfile::new("e", speed.measured());
        again.engine_scanned(3_000_000_000, 0, SECOND);
        assert!(again.rates(Profile::Plain, Instant::now()).engine_text() < 2.5e9, "it is remembered");
    }

    #[test]
    fn storage_that_waits_is_not_slow() {
        let speed = EndpointProfile::default();
        let (kind, start) = (Some(Kind::Text), Instant::now());
        speed.begin_scan(Scanner::Fragment, kind, start);
        let now = start + SECOND / 5;
        speed.scanned_in(Scanner::Fragment, Kind::Text, 50_000_000, 0, SECOND / 10);
        speed.end_scan(Scanner::Fragment, kind, now);
        let rate = || speed.rates(Profile::PushdownDb, now).fragment.text_bytes_per_s;
        assert_eq!(rate(), 5e8, "by what it says that it worked");
        let mut now = now;
        for _ in 0..3 {
            speed.begin_scan(Scanner::Fragment, kind, now);
            speed.scanned_in(Scanner::Fragment, Kind::Text, 2_000_000, 0, SECOND / 100);
            now += SECOND / 100;
            speed.end_scan(Scanner::Fragment, kind, now);
        }
        assert!(rate() > 4e8, "small scans count little: {}", rate());
    }
}

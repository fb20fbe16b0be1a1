//! How fast an endpoint is, by what it did: latency, bandwidth, and how fast it scans.
//!
//! Rates are measured over windows in which something was under way ([`window`]): the bytes of all transfers over the time
//! that passed. A window that mostly waited for bytes shows the rate itself; in one that mostly did not, the engine was the
//! slower side, and the rate is at least what was seen (as in BBR, Cardwell et al. 2016, where a sample that the
//! application limited may only raise the estimate). What came within some time of being asked for, with nothing under way
//! before, came over the network in that time: it is no slower.

mod load;
mod rates;
mod remembered;
mod scanner;
mod window;

use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pushdown::Profile;
use pushdown::wire::RouteStats;

use load::Load;
pub(crate) use rates::Rates;
pub(super) use remembered::RememberedRates;
pub(crate) use scanner::{Kind, Scanner};
use window::{Seen, Window};

/// So many may have been, of all connections together.
const BUFFERED_BYTES: u64 = 16 * 1024 * 1024;

/// What is returned is little where it is less than one of so many bytes.
const FEW: u64 = 10;

/// Whether it is the scan that takes the time of a scan of so many bytes, and not what it returns of them.
pub(crate) fn is_scan(scanned: u64, returned: u64) -> bool {
    returned.saturating_mul(FEW) < scanned
}

/// The weight of a new measurement: the last few decide.
const WEIGHT: f64 = 0.3;

/// A scan counts for so much less as it took less than this: of a small one it is rather its beginning and end that are seen.
const SCANNED_S: f64 = 0.1;

/// Of fewer bytes it is what surrounds the engine's scan that takes the time.
const ENGINE_BYTES: u64 = 1024 * 1024;

/// The weight of a network that seems slower than believed: storage may have been the slower side.
const SLOWER_WEIGHT: f64 = 0.1;

/// The weight of a network that seems slow beside scans by storage: they take its cores, and their answers the link.
const BESIDE_SCANS_WEIGHT: f64 = 0.01;

/// The weight of an answer that took longer than believed.
const LATE_WEIGHT: f64 = 0.02;

/// Measures an endpoint.
#[derive(Debug, Default)]
pub(crate) struct Speed {
    /// What it is remembered by.
    pub(super) endpoint: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rates: Rates,
    /// How often each was measured, or remembered.
    answers: u32,
    transfers: u32,
    scanned: [[u32; 2]; 2],
    engine_scanned: u32,
    /// Whether anything was measured since the rates were given.
    learned: bool,
    network: Window,
    /// Of scans by storage, by route and kind.
    scans: [[Window; 2]; 2],
    load: Load,
}

impl State {
    fn window(&mut self, by: Scanner, kind: Kind) -> &mut Window {
        at(&mut self.scans, by, kind)
    }
}

/// What there is one of for each route and kind.
fn at<T>(all: &mut [[T; 2]; 2], by: Scanner, kind: Kind) -> &mut T {
    let [select, fragment] = all;
    let [text, parquet] = match by {
        Scanner::Select => select,
        Scanner::Fragment => fragment,
    };
    match kind {
        Kind::Text => text,
        Kind::Parquet => parquet,
    }
}

impl Speed {
    /// Of an endpoint, with what is remembered of it.
    pub(crate) fn new(endpoint: &str, remembered: Option<Rates>) -> Self {
        let count = u32::from(remembered.is_some());
        let state = State {
            rates: remembered.unwrap_or_default(),
            answers: count,
            transfers: count,
            scanned: [[count; 2]; 2],
            engine_scanned: u32::from(remembered.is_some_and(|rates| rates.engine_text_bytes_s.is_some())),
            ..State::default()
        };
        Self { endpoint: endpoint.to_owned(), state: Mutex::new(state) }
    }

    /// What is believed now of a server of this kind.
    pub(crate) fn rates(&self, profile: Profile) -> Rates {
        let mut state = self.lock();
        let (mut rates, before) = (state.rates, Rates::before(profile));
        rates.left = state.load.left_of(rates.cores) * rates.share_left();
        rates.knows_network = state.transfers > 0;
        for kind in [Kind::Text, Kind::Parquet] {
            if *at(&mut state.scanned, Scanner::Select, kind) == 0 {
                *rates.select.of(kind) = *before.select.clone().of(kind);
            }
        }
        rates
    }

    /// What is believed now, if anything was measured here.
    pub(crate) fn learned(&self) -> Option<Rates> {
        let state = self.lock();
        state.learned.then_some(state.rates)
    }

    /// An answer began so long after its request was sent. Who is busy answers late: what is shorter counts at once, what
    /// is longer little by little.
    pub(crate) fn answered(&self, after: Duration) {
        let after = after.as_secs_f64();
        self.learn(|state| match state.answers == 0 || after < state.rates.latency_s {
            true => mix(&mut state.rates.latency_s, after, 1.0, &mut state.answers),
            false => state.rates.latency_s += LATE_WEIGHT * (after - state.rates.latency_s),
        });
    }

    /// A transfer over the network begins, which was asked for at this time.
    pub(crate) fn begin_transfer(&self, asked: Instant) {
        let mut state = self.lock();
        state.network.begin(asked, Instant::now());
        state.network.beside_scans |= state.load.scans_for_us();
    }

    /// Bytes of a transfer arrived after waiting so long for them.
    pub(crate) fn transferred(&self, bytes: u64, waited: Duration) {
        let seen = {
            let mut state = self.lock();
            let seen = state.network.add(bytes, waited, Instant::now());
            state.network.beside_scans |= state.load.scans_for_us();
            seen
        };
        self.learn_network(seen);
    }

    /// A transfer is over.
    pub(crate) fn end_transfer(&self) {
        let now = Instant::now();
        let seen = {
            let mut state = self.lock();
            let network = &mut state.network;
            let short = network.at_least(now);
            network.end(now).or(short.filter(|_| network.active == 0))
        };
        self.learn_network(seen);
    }

    /// A scan by storage is under way.
    pub(crate) fn scan_is_under_way(&self) {
        let mut state = self.lock();
        state.network.beside_scans = true;
        state.load.begin();
    }

    /// A scan by storage is no longer under way.
    pub(crate) fn scan_is_over(&self) {
        self.lock().load.end();
    }

    /// Our node says how many cores scan, for how many requests, and how many keep them busy.
    pub(crate) fn loaded(&self, stats: &RouteStats) {
        let mut state = self.lock();
        state.rates.cores = f64::from(stats.cores);
        state.rates.at_once = NonZeroU32::new(stats.at_once);
        state.load.told(stats.scanning);
    }

    /// A scan by storage begins.
    pub(crate) fn begin_scan(&self, by: Scanner, kind: Kind) {
        let now = Instant::now();
        self.lock().window(by, kind).begin(now, now);
    }

    /// Storage scanned so many bytes and returned so many. One that returned more than a few of them shows the network.
    pub(crate) fn scanned(&self, by: Scanner, kind: Kind, scanned: u64, returned: u64) {
        if is_scan(scanned, returned) {
            let seen = self.lock().window(by, kind).add(scanned, Duration::ZERO, Instant::now());
            self.learn_scan(by, kind, seen);
        }
    }

    /// The same where storage tells how long it worked, on all cores. Looked at when no scan is under way: scans at the same
    /// time share cores.
    pub(crate) fn worked(&self, by: Scanner, kind: Kind, scanned: u64, returned: u64, worked: Duration) {
        if is_scan(scanned, returned) {
            let mut state = self.lock();
            let window = state.window(by, kind);
            window.bytes += scanned;
            *window.worked.get_or_insert_default() += worked;
        }
    }

    /// Threads of our node were busy so long for a request and had a core for a part of that: it may have others to serve.
    pub(crate) fn shared(&self, worked: Duration, busy: Duration) {
        self.learn(|state| state.rates.shared(worked, busy));
    }

    /// Our node says that other programs leave this share of a core.
    pub(crate) fn left_by_others(&self, share: f64) {
        if (0.0..=1.0).contains(&share) {
            self.learn(|state| state.rates.left_by_others(share));
        }
    }

    /// One core of the engine scanned so many bytes of text in so much time, waiting for none of them, and made so many bytes of
    /// values of them.
    pub(crate) fn engine_scanned(&self, scanned: u64, values: u64, busy: Duration) {
        let took = busy.as_secs_f64();
        if scanned < ENGINE_BYTES || !is_scan(scanned, values) || took <= 0.0 {
            return;
        }
        self.learn(|state| {
            let counts = (took / SCANNED_S).min(1.0);
            let mut rate = state.rates.engine_text();
            mix(&mut rate, scanned as f64 / took, counts, &mut state.engine_scanned);
            state.rates.engine_text_bytes_s = Some(rate);
        });
    }

    /// A scan by storage is over.
    pub(crate) fn end_scan(&self, by: Scanner, kind: Kind) {
        let now = Instant::now();
        let seen = self.lock().window(by, kind).end(now);
        self.learn_scan(by, kind, seen);
    }

    fn learn_scan(&self, by: Scanner, kind: Kind, seen: Option<Seen>) {
        let Some(seen) = seen else { return };
        self.learn(|state| {
            let scans = match by {
                Scanner::Select => &mut state.rates.select,
                Scanner::Fragment => &mut state.rates.fragment,
            };
            let took = seen.bytes as f64 / seen.bytes_s;
            mix(scans.of(kind), seen.bytes_s, (took / SCANNED_S).min(1.0), at(&mut state.scanned, by, kind));
        });
    }

    fn learn_network(&self, seen: Option<Seen>) {
        let Some(seen) = seen else { return };
        self.learn(|state| {
            let rate = &mut state.rates.network_bytes_s;
            match seen.waited {
                true if seen.beside_scans && seen.bytes_s < *rate => {
                    *rate += BESIDE_SCANS_WEIGHT * (seen.bytes_s - *rate)
                }
                true if state.transfers > 0 && seen.bytes_s < *rate => *rate += SLOWER_WEIGHT * (seen.bytes_s - *rate),
                true => mix(rate, seen.bytes_s, 1.0, &mut state.transfers),
                // What came while nobody looked may all have been in buffers.
                false if state.transfers > 0 && seen.bytes < BUFFERED_BYTES => {}
                false => *rate = rate.max(seen.bytes_s),
            }
            if let Some(least) = seen.surely {
                *rate = rate.max(least);
            }
        });
    }

    fn learn(&self, learn: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        learn(&mut state);
        state.learned = true;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The mean of the first few, then ever more of the last ones; of each the share that counts.
fn mix(rate: &mut f64, seen: f64, counts: f64, count: &mut u32) {
    *count = count.saturating_add(1);
    *rate += WEIGHT.max(1.0 / f64::from(*count)) * counts * (seen - *rate);
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
            Seen { bytes_s: 5e6, bytes: 5_000_000, waited: false, beside_scans: false, surely: Some(5e6) }
        );
        let speed = Speed::default();
        let network = || speed.rates(Profile::Plain).network_bytes_s;
        let before = network();
        speed.learn_network(Some(seen));
        assert_eq!(network(), before, "slower than believed, but for another reason");
        speed.learn_network(Some(Seen { waited: true, ..seen }));
        assert_eq!(network(), 5e6, "the first measurement replaces what was only believed");
        speed.learn_network(Some(Seen { bytes_s: 66e6, ..seen }));
        assert_eq!(network(), 5e6, "out of buffers");
        speed.learn_network(Some(Seen {
            bytes_s: 66e6,
            bytes: 1 << 30,
            waited: false,
            beside_scans: false,
            surely: None,
        }));
        assert_eq!(network(), 66e6, "no buffer has so much");
        speed.learn_network(Some(Seen { bytes_s: 6e6, waited: true, ..seen }));
        assert_eq!(network(), 60e6, "storage may have been the slower side");
        speed.learn_network(Some(Seen { bytes_s: 10e6, waited: true, beside_scans: true, ..seen }));
        assert_eq!(network(), 59.5e6, "storage had other work, and answered it over the same link");
        speed.learn_network(Some(Seen { surely: Some(90e6), waited: false, ..seen }));
        assert_eq!(network(), 90e6, "all of it was asked for and came");
    }

    #[test]
    fn a_server_is_believed_to_be_like_its_kind_until_it_is_measured() {
        let speed = Speed::default();
        let select = |profile| speed.rates(profile).select.text_bytes_s;
        assert!(select(Profile::Minio) < select(Profile::PushdownDb) / 5.0);
        speed.learn_scan(
            Scanner::Select,
            Kind::Text,
            Some(Seen { bytes_s: 3e8, bytes: 1 << 25, waited: true, beside_scans: false, surely: None }),
        );
        assert_eq!(select(Profile::Minio), 3e8);
        assert_eq!(speed.rates(Profile::Minio).select.parquet_bytes_s, 7e6);
    }

    #[test]
    fn what_the_engine_scans_in_a_second_is_seen_where_few_values_come_of_it() {
        let speed = Speed::default();
        let rate = || speed.rates(Profile::Plain).engine_text();
        let believed = rate();
        speed.engine_scanned(2_000_000, 500_000, SECOND);
        speed.engine_scanned(2_000_000, 0, Duration::ZERO);
        speed.engine_scanned(2_000, 0, SECOND / 10_000);
        assert_eq!(rate(), believed, "values, or what surrounds the scan, took most of the time");
        speed.engine_scanned(800_000_000, 1000, SECOND / 2);
        assert_eq!(rate(), 1.6e9, "the first that is long replaces what was only believed");
        speed.engine_scanned(2_000_000, 0, SECOND / 50);
        assert!(rate() > 1.3e9, "a short one counts little: {}", rate());
        let again = Speed::new("e", speed.learned());
        again.engine_scanned(3_000_000_000, 0, SECOND);
        assert!(again.rates(Profile::Plain).engine_text() < 2.5e9, "it is remembered");
    }

    #[test]
    fn storage_that_waits_is_not_slow() {
        let speed = Speed::default();
        speed.begin_scan(Scanner::Fragment, Kind::Text);
        std::thread::sleep(SECOND / 5);
        speed.worked(Scanner::Fragment, Kind::Text, 50_000_000, 0, SECOND / 10);
        speed.end_scan(Scanner::Fragment, Kind::Text);
        let rate = || speed.rates(Profile::PushdownDb).fragment.text_bytes_s;
        assert_eq!(rate(), 5e8, "by what it says that it worked");
        for _ in 0..3 {
            speed.begin_scan(Scanner::Fragment, Kind::Text);
            speed.worked(Scanner::Fragment, Kind::Text, 2_000_000, 0, SECOND / 100);
            std::thread::sleep(SECOND / 100);
            speed.end_scan(Scanner::Fragment, Kind::Text);
        }
        assert!(rate() > 4e8, "small scans count little: {}", rate());
    }
}

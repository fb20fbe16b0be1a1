//! How fast an endpoint is, by what it did: latency, bandwidth, and how fast it scans.
//!
//! Rates are measured over windows in which something was under way, because several transfers share one link: the
//! bytes of all of them over the time that passed. A window that mostly waited for bytes shows the rate itself; in one
//! that mostly did not, the engine was the slower side, and the rate is at least what was seen (as in BBR, Cardwell
//! et al. 2016, where a sample that the application limited may only raise the estimate). What came within some time of being
//! asked for, with nothing under way before, came over the network in that time: it is no slower.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pushdown::{Expr, Format, Fragment, Output, Profile};
use serde::{Deserialize, Serialize};

/// A window that is shorter, or has fewer bytes, tells more about latency than about bandwidth.
const WINDOW: Duration = Duration::from_millis(100);
const WINDOW_BYTES: u64 = 1024 * 1024;

/// Fewer bytes may all have been in a buffer.
const SHORT_BYTES: u64 = 256 * 1024;

/// So many may have been, of all connections together.
const BUFFERED_BYTES: u64 = 16 * 1024 * 1024;

/// So many that were asked for when nothing was under way show how fast the network is at least.
const SURE_BYTES: u64 = 4 * 1024 * 1024;

/// What is returned is little where it is less than one of so many bytes.
const FEW: u64 = 10;

/// The weight of a new measurement: the last few decide.
const WEIGHT: f64 = 0.3;

/// The weight of a network that seems slower than believed: storage may have been the slower side.
const SLOWER_WEIGHT: f64 = 0.1;

/// The weight of a network that seems slow beside scans by storage: they take its cores, and their answers the link.
const BESIDE_SCANS_WEIGHT: f64 = 0.01;

/// What a node says of its load is true for so long.
const LOADED: Duration = Duration::from_secs(5);

/// That other programs want its cores is believed for so long.
const SHARED_S: u64 = 30;

/// A share that is larger is all of it: whatever runs is interrupted now and then.
const WHOLE_SHARE: f64 = 0.75;

/// What share of a core there was is a mean over about so much time that threads were at it: one that had to wait for a
/// disk once says little.
const SHARE_OVER_S: f64 = 0.1;

/// No less of a core is believed to be left.
const LEAST_SHARE: f64 = 0.05;

/// The weight of an answer that took longer than believed.
const LATE_WEIGHT: f64 = 0.02;

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
    /// Its cores that scan, as it says.
    #[serde(default = "one")]
    pub(crate) cores: f64,
    /// The share of a core that its threads got while they worked, and when that was, in seconds since 1970: other programs may
    /// want them.
    #[serde(default = "one")]
    pub(super) share: f64,
    #[serde(default)]
    pub(super) share_seen_s: u64,
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
    fn of(&mut self, kind: Kind) -> &mut f64 {
        match kind {
            Kind::Text => &mut self.text_bytes_s,
            Kind::Parquet => &mut self.parquet_bytes_s,
        }
    }
}

impl Rates {
    /// The share of a core that is believed now.
    fn share_now(&self) -> f64 {
        if now_s().saturating_sub(self.share_seen_s) < SHARED_S { self.share } else { one() }
    }

    /// Whether anything can go at these rates.
    pub(super) fn are_sane(&self) -> bool {
        let scans = [self.select, self.fragment].map(|scans| [scans.text_bytes_s, scans.parquet_bytes_s]);
        let speeds = std::iter::once(self.network_bytes_s).chain(scans.into_iter().flatten());
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
            cores: one(),
            share: one(),
            share_seen_s: 0,
            left: one(),
            knows_network: false,
        }
    }
}

impl Rates {
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
    /// Whether anything was measured since the rates were given.
    learned: bool,
    network: Window,
    /// Of scans by storage, by route and kind.
    scans: [[Window; 2]; 2],
    /// Scans by storage that are under way, and the most at a time since there were none.
    scanning: (u32, u32),
    /// Requests of others that our node scanned for, and when it said so.
    others: Option<(u32, Instant)>,
}

/// A route by which storage scans.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scanner {
    /// S3 Select.
    Select,
    /// The fragment route.
    Fragment,
}

/// What is scanned.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// CSV or JSON, compressed or not.
    Text,
    /// Parquet.
    Parquet,
}

impl Kind {
    /// What a scan for this fragment shows the speed of; `None` of one that does more than scan: what groups, Bloom filters
    /// and CASE cost besides is in the models of the strategies that ask for them.
    pub(crate) fn shown_by(fragment: &Fragment) -> Option<Self> {
        let more = match &fragment.output {
            Output::Rows(outputs) => outputs.iter().any(|output| has_more(&output.expr)),
            Output::Aggregate { groups, calls } => {
                !groups.is_empty() || calls.iter().filter_map(|call| call.argument.as_ref()).any(has_more)
            }
        };
        let more = more || !fragment.order.is_empty() || fragment.predicate.as_ref().is_some_and(has_more);
        let kind = if matches!(fragment.format, Format::Parquet) { Self::Parquet } else { Self::Text };
        (!more).then_some(kind)
    }
}

fn has_more(expr: &Expr) -> bool {
    matches!(expr, Expr::Bloom { .. } | Expr::Case { .. } | Expr::Call(..)) || expr.children().into_iter().any(has_more)
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

/// What was seen while something was under way.
#[derive(Debug)]
struct Window {
    active: u32,
    since: Instant,
    /// When the first bytes were asked for, if nothing was under way then.
    asked: Option<Instant>,
    bytes: u64,
    /// Whether storage scanned for us meanwhile.
    beside_scans: bool,
    /// The time that transfers were open, and what of it they waited, summed over all of them.
    open: Duration,
    waited: Duration,
    /// What storage says that it worked, on all cores; `None` if it does not tell.
    worked: Option<Duration>,
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
struct Seen {
    bytes_s: f64,
    bytes: u64,
    waited: bool,
    /// Whether storage scanned for us meanwhile.
    beside_scans: bool,
    /// It surely does so many bytes a second, whoever waited for whom.
    surely: Option<f64>,
}

impl Window {
    fn begin(&mut self, asked: Instant, now: Instant) {
        if self.active == 0 {
            *self = Self { since: now, counted: now, asked: Some(asked), ..Self::default() };
        }
        self.count(now);
        self.active += 1;
    }

    fn add(&mut self, bytes: u64, waited: Duration, now: Instant) -> Option<Seen> {
        self.count(now);
        self.bytes += bytes;
        self.waited += waited;
        let seen = self.seen(now)?;
        *self = Self { active: self.active, since: now, counted: now, ..Self::default() };
        Some(seen)
    }

    fn end(&mut self, now: Instant) -> Option<Seen> {
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
    fn at_least(&self, now: Instant) -> Option<Seen> {
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

impl Speed {
    /// Of an endpoint, with what is remembered of it.
    pub(crate) fn new(endpoint: &str, remembered: Option<Rates>) -> Self {
        let count = u32::from(remembered.is_some());
        let state = State {
            rates: remembered.unwrap_or_default(),
            answers: count,
            transfers: count,
            scanned: [[count; 2]; 2],
            ..State::default()
        };
        Self { endpoint: endpoint.to_owned(), state: Mutex::new(state) }
    }

    /// What is believed now of a server of this kind.
    pub(crate) fn rates(&self, profile: Profile) -> Rates {
        let mut state = self.lock();
        let (mut rates, before) = (state.rates, Rates::before(profile));
        // Each of them has its share of the cores.
        if let Some((others, _)) = state.others.filter(|(_, said)| said.elapsed() < LOADED) {
            rates.left = rates.cores / (rates.cores + f64::from(others));
        }
        let share = rates.share_now();
        rates.left *= if share < WHOLE_SHARE { share } else { one() };
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
            true => mix(&mut state.rates.latency_s, after, &mut state.answers),
            false => state.rates.latency_s += LATE_WEIGHT * (after - state.rates.latency_s),
        });
    }

    /// A transfer over the network begins, which was asked for at this time.
    pub(crate) fn begin_transfer(&self, asked: Instant) {
        let mut state = self.lock();
        state.network.begin(asked, Instant::now());
        state.network.beside_scans |= state.scanning.0 > 0;
    }

    /// Bytes of a transfer arrived after waiting so long for them.
    pub(crate) fn transferred(&self, bytes: u64, waited: Duration) {
        let seen = {
            let mut state = self.lock();
            let seen = state.network.add(bytes, waited, Instant::now());
            state.network.beside_scans |= state.scanning.0 > 0;
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

    /// A scan by storage is under way, or no more.
    pub(crate) fn scans_in_storage(&self, begins: bool) {
        let mut state = self.lock();
        state.network.beside_scans |= begins;
        let (now, most) = state.scanning;
        state.scanning = match begins {
            true if now == 0 => (1, 1),
            true => (now.saturating_add(1), most.max(now.saturating_add(1))),
            false => (now.saturating_sub(1), most),
        };
    }

    /// Our node says how many cores scan, and for how many requests. What it says is a little old when we come to read it:
    /// those of ours that ended since count as ours.
    pub(crate) fn loaded(&self, cores: u32, scanning: u32) {
        let mut state = self.lock();
        state.rates.cores = f64::from(cores);
        state.others = Some((scanning.saturating_sub(state.scanning.1), Instant::now()));
    }

    /// A scan by storage begins.
    pub(crate) fn begin_scan(&self, by: Scanner, kind: Kind) {
        let now = Instant::now();
        self.lock().window(by, kind).begin(now, now);
    }

    /// Storage scanned so many bytes and returned so many. One that returned more than a few of them shows the network.
    pub(crate) fn scanned(&self, by: Scanner, kind: Kind, scanned: u64, returned: u64) {
        if returned * FEW < scanned {
            let seen = self.lock().window(by, kind).add(scanned, Duration::ZERO, Instant::now());
            self.learn_scan(by, kind, seen);
        }
    }

    /// The same where storage tells how long it worked, on all cores. Looked at when no scan is under way: scans at the same
    /// time share cores.
    pub(crate) fn worked(&self, by: Scanner, kind: Kind, scanned: u64, returned: u64, worked: Duration) {
        if returned * FEW < scanned {
            let mut state = self.lock();
            let window = state.window(by, kind);
            window.bytes += scanned;
            *window.worked.get_or_insert_default() += worked;
        }
    }

    /// Threads of our node were busy so long for a request and had a core for a part of that: it may have others to serve.
    pub(crate) fn shared(&self, worked: Duration, busy: Duration) {
        let (worked, busy) = (worked.as_secs_f64(), busy.as_secs_f64());
        if busy > 0.0 {
            let seen = (worked / busy).clamp(LEAST_SHARE, 1.0);
            self.learn(|state| {
                let believed = state.rates.share_now();
                let weight = busy / (busy + SHARE_OVER_S);
                state.rates.share = believed + weight * (seen - believed);
                state.rates.share_seen_s = now_s();
            });
        }
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
            mix(scans.of(kind), seen.bytes_s, at(&mut state.scanned, by, kind));
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
                true => mix(rate, seen.bytes_s, &mut state.transfers),
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

/// Seconds since 1970.
fn now_s() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// The mean of the first few, then ever more of the last ones.
fn mix(rate: &mut f64, seen: f64, count: &mut u32) {
    *count = count.saturating_add(1);
    *rate += WEIGHT.max(1.0 / f64::from(*count)) * (seen - *rate);
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
            Some(Seen { bytes_s: 3e8, bytes: 1 << 20, waited: true, beside_scans: false, surely: None }),
        );
        assert_eq!(select(Profile::Minio), 3e8);
        assert_eq!(speed.rates(Profile::Minio).select.parquet_bytes_s, 7e6);
    }

    #[test]
    fn storage_that_waits_is_not_slow() {
        let speed = Speed::default();
        speed.begin_scan(Scanner::Fragment, Kind::Text);
        std::thread::sleep(SECOND / 20);
        speed.worked(Scanner::Fragment, Kind::Text, 5_000_000, 0, SECOND / 100);
        speed.end_scan(Scanner::Fragment, Kind::Text);
        assert_eq!(speed.rates(Profile::PushdownDb).fragment.text_bytes_s, 5e8, "by what it says that it worked");
    }

    #[test]
    fn a_node_that_scans_for_others_has_less_for_us() {
        let speed = Speed::default();
        let left = || speed.rates(Profile::PushdownDb).left;
        speed.scans_in_storage(true);
        speed.loaded(2, 1);
        assert_eq!(left(), 1.0, "that one is ours");
        speed.loaded(2, 3);
        assert_eq!(left(), 0.5, "two others beside us on two cores");
    }

    #[test]
    fn a_node_that_hardly_gets_a_core_has_less_for_us() {
        let speed = Speed::default();
        let left = || speed.rates(Profile::PushdownDb).left;
        speed.shared(SECOND / 100, SECOND / 20);
        assert!((0.73..0.74).contains(&left()), "a short time counts a third");
        speed.shared(SECOND / 100, SECOND / 100);
        assert_eq!(left(), 1.0, "it was only once");
        speed.shared(SECOND * 2, SECOND * 10);
        assert!((0.2..0.21).contains(&left()), "{}", left());
        speed.learn(|state| state.rates.share_seen_s -= 2 * SHARED_S);
        assert_eq!(left(), 1.0, "that was long ago");
        speed.shared(SECOND * 9, SECOND * 10);
        assert_eq!(left(), 1.0, "it was only interrupted");
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

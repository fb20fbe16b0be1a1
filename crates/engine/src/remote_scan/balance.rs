//! Who scans the next split of a running scan: storage, or the engine by plain reads.
//!
//! What was chosen before the query ran is chosen again at each split, by what was seen since:
//!
//! - Storage that refuses a split because it is busy gets none for a while; the engine reads them.
//! - Storage that is far slower than plain reads gets every eighth split only, so that it is noticed when it recovers.
//! - Where that is estimated to save time, or storage is far slower than believed, one more worker reads splits from the
//!   end of the queue: storage, network and engine are busy at once. It takes a split only if it will be done with it
//!   before storage is done with all others. Of a network that nobody knows yet it finds out how fast it is.
//!
//! Rows are the same either way, so nothing else has to know.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pushdown::Fragment;

use super::{Figures, ScanSpec};
use crate::settings::{Adaptivity, Objective, Side};
use crate::strategies::costs::ScanCosts;
use crate::strategies::estimate::Estimate;
use crate::strategies::filter::Route;

/// How long storage gets no splits after it refused one.
const REFUSED: Duration = Duration::from_secs(3);

/// Storage is left out where plain reads are so many times as fast.
const FAR_SLOWER: f64 = 2.0;

/// One of so many splits goes to storage that is left out.
const PROBE: u64 = 8;

/// Plain reads help where they do at least this share of what storage does meanwhile.
const FAIR_SHARE: f64 = 0.25;

/// Less work than this is not worth a second way.
const LEAST_BYTES: u64 = 32 * 1024 * 1024;

/// Requests that a worker sends one after the other where plain reads may take some of the work, and where they would only if
/// storage became slow.
const TURNS: usize = 4;
const FEW_TURNS: usize = 2;

/// A request that takes storage less time is not cut for that: nobody waits longer for it than he would notice, and each takes about
/// a millisecond.
const CUT_S: f64 = 0.025;

/// Where both ways are to share a scan by storage that would be one request, it is cut into so many pieces: the fewer,
/// the longer one way waits for the other in the end.
const SHARED_PIECES: u64 = 32;

/// Where they are not, but may have to, and of Parquet, whose row groups are not cut.
const PIECES: u64 = 8;

/// Smaller pieces of Parquet are not worth a request, unless they are shared.
const PARQUET_PIECE_BYTES: u64 = 48 * 1024 * 1024;

/// More is not sent once for every piece.
const REPEATED_BYTES: f64 = 4e6;

/// More is not sent with further requests that may turn out to be of no use.
pub(super) const MUCH_BYTES: f64 = 250e3;

/// How fast the splits of a scan by storage are believed to be scanned either way, in bytes of objects a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paces {
    pushed: f64,
    plain: f64,
    /// Whether both are done sooner together.
    together: bool,
    /// Whether the pace of plain reads is that of a network that was seen.
    plain_is_known: bool,
    /// Bytes that each request costs besides the rows of its splits.
    repeated: f64,
    /// Whether dollars count, of which requests take many.
    is_cost: bool,
    /// Whether the link is busy longer than storage.
    bound_by_link: bool,
    adaptivity: Adaptivity,
}

impl Paces {
    /// Before anything was seen; `None` where splits have to go one way: where only some rows are wanted, or a setting
    /// asks for storage.
    pub(super) fn of(spec: &ScanSpec, fragment: &Fragment, route: Route) -> Option<Self> {
        let side = match &spec.aggregate {
            Some(_) => spec.options.aggregate,
            None => spec.options.filter_side(),
        };
        let adaptivity = spec.options.adaptivity();
        if side != Side::Auto || spec.limit.is_some() || adaptivity == Adaptivity::None {
            return None;
        }
        let costs = ScanCosts::of(spec, fragment, Some(route));
        let bytes = spec.objects.iter().map(|object| object.size).sum::<u64>() as f64;
        let pace = |estimate: Estimate| bytes / estimate.seconds.max(1e-6);
        let (pushed, plain) = (costs.filtered(), costs.plain(0.0));
        // Two ways at once take less time, and more requests and bytes.
        let is_cost = costs.model().objective() == Objective::Cost;
        let together = !is_cost && costs.shared().is_some();
        let (plain_is_known, bound_by_link) = (costs.model().knows_network(), costs.is_bound_by_link());
        let repeated = Figures::of(spec, fragment).repeated_bytes();
        let (pushed, plain) = (pace(pushed), pace(plain));
        Some(Self { pushed, plain, together, plain_is_known, repeated, is_cost, bound_by_link, adaptivity })
    }

    /// Whether both ways share the splits from the beginning.
    pub(super) fn together(&self) -> bool {
        self.together || self.adaptivity == Adaptivity::Both
    }

    /// Requests that so many workers send in all, for splits of so many bytes: between two of them the other way may take some of the
    /// work.
    pub(super) fn requests(&self, workers: usize, bytes: u64) -> usize {
        if self.together() {
            return workers * TURNS;
        }
        // Between two requests the link would wait for storage, which has time.
        if self.bound_by_link {
            return 1;
        }
        let turns = match self.is_cost || self.repeated > MUCH_BYTES {
            true => 1,
            false if self.plain >= self.pushed * FAIR_SHARE => TURNS,
            false => FEW_TURNS,
        };
        let worth_it = (bytes as f64 / self.pushed / CUT_S) as usize;
        worth_it.clamp(workers, workers * turns)
    }

    /// The size of the pieces into which an aggregate of so many bytes is cut, so that both ways can share it; `None`
    /// where one way will do it all.
    pub(super) fn piece_bytes(&self, bytes: u64, is_parquet: bool) -> Option<u64> {
        let pieces = match (is_parquet, self.together) {
            (false, true) => SHARED_PIECES,
            (false, false) | (true, true) => PIECES,
            (true, false) => (bytes / PARQUET_PIECE_BYTES).clamp(1, PIECES),
        };
        let shared = match self.adaptivity {
            Adaptivity::Both => true,
            _ => {
                let most = if self.together { REPEATED_BYTES } else { MUCH_BYTES };
                bytes >= LEAST_BYTES && self.plain >= self.pushed * FAIR_SHARE && self.repeated * pieces as f64 <= most
            }
        };
        shared.then(|| bytes.div_ceil(pieces).max(1))
    }
}

/// A way to scan a split.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Way {
    /// By storage.
    Pushed,
    /// By plain reads.
    Plain,
}

/// Of the scans of one partition.
#[derive(Debug)]
pub(super) struct Balance {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    pushed: Pace,
    plain: Pace,
    /// Until when storage gets no splits.
    refused: Option<Instant>,
    /// Splits that were not given to storage since it was left out.
    left_out: u64,
    /// Those that serve storage.
    workers: f64,
    /// Plain reads help as long as storage keeps its pace.
    together: bool,
    plain_is_known: bool,
    /// Plain reads help whatever that brings.
    always: bool,
}

/// Bytes of splits in time of workers.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Of one worker, before anything was seen.
    believed: f64,
    bytes: u64,
    busy: Duration,
    /// Splits that are under way, and the bytes of the largest since there was none.
    begun: u32,
    begun_bytes: u64,
    /// When one of them began after a pause, or the last one ended: those under way have had at least the time since then.
    moved: Option<Instant>,
}

impl Pace {
    fn new(believed: f64) -> Self {
        Self { believed, bytes: 0, busy: Duration::ZERO, begun: 0, begun_bytes: 0, moved: None }
    }

    /// Bytes a second of one worker. A split under way cannot be faster than the time that it has had allows, so that a way
    /// that hangs becomes slow before anything came of it.
    fn each(&self, now: Instant) -> f64 {
        let seen = match self.busy.is_zero() {
            true => self.believed,
            false => self.bytes as f64 / self.busy.as_secs_f64().max(1e-6),
        };
        let Some(moved) = self.moved else { return seen };
        let waiting = now.saturating_duration_since(moved).as_secs_f64();
        seen.min(self.begun_bytes as f64 / waiting.max(1e-6))
    }

    /// Of all its workers.
    fn together(&self, now: Instant) -> f64 {
        self.each(now) * f64::from(self.begun.max(1))
    }

    fn begin(&mut self, bytes: u64, now: Instant) {
        if self.begun == 0 {
            (self.moved, self.begun_bytes) = (Some(now), 0);
        }
        self.begun += 1;
        self.begun_bytes = self.begun_bytes.max(bytes);
    }

    fn end(&mut self, bytes: u64, began: Instant, now: Instant) {
        self.begun = self.begun.saturating_sub(1);
        self.bytes += bytes;
        self.busy += now.saturating_duration_since(began);
        self.moved = (self.begun > 0).then_some(now);
    }
}

impl Balance {
    /// With what is believed of so many workers of storage, and of one that reads plainly.
    pub(super) fn new(believed: &Paces, workers: usize) -> Self {
        let workers = workers as f64;
        let (pushed, plain) = (Pace::new(believed.pushed / workers), Pace::new(believed.plain));
        let always = believed.adaptivity == Adaptivity::Both;
        let Paces { together, plain_is_known, .. } = *believed;
        let state = State { pushed, plain, refused: None, left_out: 0, workers, together, plain_is_known, always };
        Self { state: Mutex::new(state) }
    }

    /// Which way a worker that serves storage takes its next split.
    pub(super) fn way(&self, now: Instant) -> Way {
        let state = &mut *self.lock();
        if state.refused.is_some_and(|until| now < until) {
            return Way::Plain;
        }
        state.refused = None;
        let measured = state.pushed.bytes > 0 && state.plain.bytes > 0;
        if !measured || state.pushed.each(now) * state.workers * FAR_SLOWER > state.plain.each(now) {
            state.left_out = 0;
            return Way::Pushed;
        }
        state.left_out += 1;
        if state.left_out.is_multiple_of(PROBE) { Way::Pushed } else { Way::Plain }
    }

    /// Whether a worker beside those of storage should read a split of so many bytes plainly, while so many bytes wait.
    pub(super) fn helps(&self, split: u64, waiting: u64, now: Instant) -> bool {
        let state = self.lock();
        let (pushed, plain) = (state.pushed.together(now), state.plain.each(now));
        let is_known = state.plain_is_known || state.plain.bytes > 0;
        let fair = plain >= pushed * FAIR_SHARE || !is_known;
        let in_time = split as f64 / plain.max(1.0) <= waiting as f64 / pushed.max(1.0);
        let late = state.pushed.each(now) * FAR_SLOWER < state.pushed.believed;
        state.always || waiting >= LEAST_BYTES && (state.together || late) && fair && in_time
    }

    /// A split of so many bytes is begun.
    pub(super) fn begin(&self, way: Way, bytes: u64, now: Instant) {
        self.pace(&mut self.lock(), way).begin(bytes, now);
    }

    /// A split is done that began then; of so many bytes something came.
    pub(super) fn end(&self, way: Way, bytes: u64, began: Instant, now: Instant) {
        self.pace(&mut self.lock(), way).end(bytes, began, now);
    }

    /// Storage refused a split because it is busy.
    pub(super) fn refused(&self, now: Instant) {
        self.lock().refused = Some(now + REFUSED);
    }

    fn pace<'a>(&self, state: &'a mut State, way: Way) -> &'a mut Pace {
        match way {
            Way::Pushed => &mut state.pushed,
            Way::Plain => &mut state.plain,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MB: u64 = 1_000_000;

    fn balance(pushed: f64, plain: f64) -> Balance {
        Balance::new(&Paces { together: plain > 500e6, ..paces(pushed, plain) }, 1)
    }

    fn paces(pushed: f64, plain: f64) -> Paces {
        let adaptivity = Adaptivity::Auto;
        let (repeated, is_cost, bound_by_link) = (0.0, false, false);
        Paces { pushed, plain, together: false, plain_is_known: true, repeated, is_cost, bound_by_link, adaptivity }
    }

    #[test]
    fn storage_that_refuses_is_left_alone_for_a_while() {
        let (balance, now) = (self::balance(1e9, 40e6), Instant::now());
        assert_eq!(balance.way(now), Way::Pushed);
        balance.refused(now);
        assert_eq!(balance.way(now + SECOND), Way::Plain);
        assert_eq!(balance.way(now + REFUSED), Way::Pushed);
    }

    #[test]
    fn storage_that_became_slow_is_probed_now_and_then() {
        let (balance, now) = (self::balance(1e9, 40e6), Instant::now());
        balance.begin(Way::Pushed, 10 * MB, now - SECOND);
        balance.end(Way::Pushed, 10 * MB, now - SECOND, now);
        assert_eq!(balance.way(now), Way::Pushed, "nothing to compare it with");
        balance.begin(Way::Plain, 40 * MB, now - SECOND);
        balance.end(Way::Plain, 40 * MB, now - SECOND, now);
        let ways: Vec<Way> = (0..16).map(|_| balance.way(now)).collect();
        assert_eq!(ways.iter().filter(|way| **way == Way::Pushed).count(), 2, "{ways:?}");
        for _ in 0..9 {
            balance.end(Way::Pushed, 100 * MB, now - SECOND, now);
        }
        assert_eq!(balance.way(now), Way::Pushed, "it recovered");
    }

    #[test]
    fn plain_reads_help_where_they_do_a_fair_share_in_time() {
        let now = Instant::now();
        let slow_link = balance(1e9, 40e6);
        assert!(!slow_link.helps(16 * MB, 700 * MB, now), "a twenty-fifth of the work for all the link");
        let fast_link = balance(1e9, 700e6);
        assert!(fast_link.helps(16 * MB, 700 * MB, now));
        assert!(!fast_link.helps(16 * MB, 10 * MB, now), "storage is done sooner");
        assert!(!fast_link.helps(40 * MB, 40 * MB, now), "it would be the last to end");
    }

    #[test]
    fn a_network_that_nobody_knows_is_tried_where_storage_is_late() {
        let now = Instant::now();
        for (plain_is_known, tried) in [(true, false), (false, true)] {
            let paces = Paces { plain_is_known, ..paces(1e9, 40e6) };
            let balance = Balance::new(&paces, 1);
            assert!(!balance.helps(16 * MB, 700 * MB, now), "storage is as fast as believed");
            balance.begin(Way::Pushed, 250 * MB, now - SECOND);
            balance.end(Way::Pushed, 250 * MB, now - SECOND, now);
            assert_eq!(balance.helps(16 * MB, 700 * MB, now), tried);
            balance.begin(Way::Plain, 16 * MB, now - SECOND);
            balance.end(Way::Plain, 16 * MB, now - SECOND, now);
            assert!(!balance.helps(16 * MB, 700 * MB, now), "now it is known to be slow");
        }
    }

    #[test]
    fn storage_that_hangs_is_slow() {
        let (balance, now) = (self::balance(1e9, 100e6), Instant::now());
        assert!(!balance.helps(16 * MB, 160 * MB, now));
        balance.begin(Way::Pushed, 100 * MB, now);
        balance.begin(Way::Pushed, MB, now);
        assert!(!balance.helps(16 * MB, 160 * MB, now + SECOND / 10), "it has had as long as was believed");
        assert!(balance.helps(16 * MB, 160 * MB, now + SECOND), "it has had ten times as long");
        balance.end(Way::Pushed, MB, now, now);
        balance.end(Way::Pushed, 100 * MB, now, now + SECOND / 10);
        assert!(!balance.helps(16 * MB, 160 * MB, now + SECOND * 10), "nothing is under way");
        let balance = self::balance(1e9, 100e6);
        balance.begin(Way::Pushed, 100 * MB, now);
        balance.end(Way::Pushed, 0, now, now + SECOND);
        assert!(balance.helps(16 * MB, 160 * MB, now + SECOND * 10), "nothing came of it for a second");
    }

    #[test]
    fn aggregates_are_cut_where_both_ways_can_share_them() {
        let paces = |plain, adaptivity| Paces { together: true, adaptivity, ..paces(1e9, plain) };
        let piece = |paces: Paces, repeated| Paces { repeated, ..paces }.piece_bytes(640 * MB, false);
        assert_eq!(piece(paces(1e9, Adaptivity::Auto), 1e3), Some(20 * MB));
        assert_eq!(piece(paces(40e6, Adaptivity::Auto), 1e3), None, "all of the link for a little");
        assert_eq!(piece(paces(1e9, Adaptivity::Auto), 1e6), None, "most groups would come from every piece");
        assert_eq!(paces(1e9, Adaptivity::Auto).piece_bytes(MB, false), None, "not worth it");
        assert_eq!(piece(paces(40e6, Adaptivity::Both), 1e6), Some(20 * MB), "as asked");
    }

    #[test]
    fn requests_that_cost_more_than_themselves_are_few() {
        let lonely = paces(1e9, 40e6);
        let repeats = Paces { repeated: 1e6, ..lonely };
        let turns = |paces: Paces| paces.requests(2, 1000 * MB) / 2;
        assert_eq!((turns(lonely), turns(repeats), turns(Paces { is_cost: true, ..lonely })), (FEW_TURNS, 1, 1));
        assert_eq!(turns(paces(1e9, 700e6)), TURNS, "either way is about as fast");
        assert_eq!(turns(Paces { together: true, ..repeats }), TURNS, "as they are shared");
        assert_eq!(turns(Paces { adaptivity: Adaptivity::Both, ..repeats }), TURNS, "as asked");
        assert_eq!(paces(1e9, 700e6).requests(2, 80 * MB), 3, "nobody waits long for any of them");
        assert_eq!(paces(1e9, 700e6).requests(2, MB), 2, "each worker has one");
        assert_eq!(
            Paces { bound_by_link: true, ..lonely }.requests(2, 1000 * MB),
            1,
            "the link never waits for the next"
        );
    }
}

//! Joins: tables read plainly (`baseline`), each filtered in storage (`filtered`), or the second one also filtered by
//! the keys of the first (`bloom`).
//!
//! PushdownDB, Section V; Active Disks, Section 3.3. Once the build side of a hash join was read, its keys become a
//! predicate of the scans below the probe side: rows of no partner are not sent. The predicate may pass too much,
//! never too little, because the join itself drops the rest; so the strongest form is taken that storage evaluates
//! and that fits into a request:
//!
//! | form | where |
//! | --- | --- |
//! | a list of the keys | while they are few, or where storage has no better |
//! | the set of the keys as bits | on the fragment route, keys are integers near each other |
//! | a Bloom filter in bytes, and the range of the keys | on the fragment route |
//! | a Bloom filter in SQL, and the range of the keys | S3 Select with SUBSTRING, keys are integers |
//! | one Bloom filter of several keys together | where they occur in few of the combinations that there could be |
//! | the range of the keys | S3 Select, too many keys |
//! | nothing: a filtered join | too many keys without an order |

mod bloom;
mod key;
mod keys;
mod learn;
mod tuples;

use std::sync::Arc;

use arrow::datatypes::DataType;
use pushdown::wire::NUMBERS_VERSION;
use pushdown::{Capability, Expr};

use super::costs::{BLOOM_S, Pushed, SET_S, ScanCosts};
use super::decision::{Candidates, Reason, Story};
use super::estimate::Estimate;
use super::filter::{Route, route};
use super::group_by;
use crate::key_tap::JoinKeys;
use crate::remote_scan::{RemoteScanExec, estimate};
use crate::settings::JoinStrategy;

pub(crate) use key::{Shift, total, unshifted};
pub(crate) use keys::{KeySet, is_key};
pub(crate) use learn::{Learned, learn};
pub(crate) use tuples::TupleSet;

/// A million keys are collected while the other side of a join waits for them.
type HashSet<T> = std::collections::HashSet<T, foldhash::fast::RandomState>;

/// Seconds that storage needs to look the key of one row up in SQL: some two hashes until it is dropped.
const SQL_S: f64 = 100e-9;

/// Seconds that the engine needs to look one row up in the other side of the join.
pub(crate) const PROBE_S: f64 = 10e-9;

/// Seconds that the engine needs to collect one key of one row and to make a filter of it, while the scan that it may be for
/// has not begun (Q3 of TPC-H at scale 1 on Parquet: 34 ms for 177,000).
const COLLECT_S: f64 = 150e-9;

/// Keys are collected on the chance that they are fewer than estimated, for this share of what the scan costs at most.
const CHANCE: f64 = 0.05;

/// Keys that left no more than this share of the rows are waited for, whatever is estimated.
const FEW_ROWS: f64 = 0.25;

/// What a statement needs besides its predicates.
const STATEMENT_BYTES: usize = 4096;

/// A filter on the rows of one scan by the keys of a join above it.
#[derive(Clone, Debug)]
pub(crate) struct KeyFilter {
    /// The keys of the build side.
    pub(crate) keys: Arc<JoinKeys>,
    /// Which of them.
    pub(crate) index: usize,
    /// The key of the probe side without what is added to it, over the columns of the scan's objects.
    pub(crate) key: Expr,
    /// What is added to it.
    pub(crate) shift: Shift,
    /// The key of the build side, for people.
    pub(crate) of: String,
    /// By what its keys are told from those of other build sides, in later queries too; `None` if they cannot be.
    pub(crate) side: Option<u64>,
}

/// What is known of a join before it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuildSide {
    /// About how many keys it has, and whether that is what it had the last time.
    pub(crate) keys: Option<usize>,
    pub(crate) seen: bool,
    /// How many keys the join has.
    pub(crate) columns: usize,
    /// Whether something below leaves rows of its tables out, so that keys are missing.
    pub(crate) reduced: bool,
    /// Whether the engine groups the rows of the probe side by this key before it joins them.
    pub(crate) grouped: bool,
}

impl BuildSide {
    /// Of how many rows the engine collects the keys, each and all together, in so many seconds. There may be no end to them.
    fn rows_in(&self, seconds: f64) -> usize {
        let columns = self.columns as f64;
        (seconds / (columns * columns * COLLECT_S)) as usize
    }
}

/// Whether a scan is filtered by keys, and why.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    pub(crate) bloom: bool,
    /// Of how many rows keys are worth collecting to it.
    pub(crate) most_rows: usize,
    /// For EXPLAIN: the estimate, and those of the strategies that lost.
    pub(crate) story: Story,
}

/// Chooses for a scan of the probe side by its key, which is of this type.
pub(crate) fn choose(rows: &RemoteScanExec, key: &Expr, key_type: &DataType, build: BuildSide) -> Decision {
    let options = &rows.spec().options;
    let strategy = options.join;
    let capability = rows.capability();
    let route = route(rows.fragment(), capability, options, options.filter_side());
    let scan = ScanCosts::of(rows.spec(), rows.fragment(), route.as_ref().ok().copied());
    let values = rows.figures().values(key);
    let row_s = PROBE_S + if build.grouped { group_by::row_s(values.unwrap_or(scan.passing)) } else { 0.0 };
    let engine_s = scan.passing * row_s;
    let mut candidates = Candidates::new("join", scan.model());
    match &route {
        Ok(route) => {
            candidates.add("filtered", scan.pushed(Pushed { engine_s, ..scan.filtering() }));
            match is_key(key_type) {
                true => {
                    let as_set = takes_sets(*route, capability) && is_counted(key_type);
                    candidates.add("bloom", bloom_cost(&scan, *route, build, values, as_set, row_s));
                }
                false => {
                    let shown = pushdowndb_scan::sql_type(key_type);
                    candidates.refuse("bloom", format!("keys of type {shown} are not collected"));
                }
            }
        }
        Err(why) => candidates.refuse("filtered and bloom", why.clone()),
    }
    candidates.add("baseline", scan.plain(engine_s));
    let mut most_rows = usize::MAX;
    let (taken, reason) = match strategy {
        JoinStrategy::Baseline => ("baseline", Reason::Asked),
        JoinStrategy::Filtered => ("filtered", Reason::Asked),
        JoinStrategy::Bloom => ("bloom", Reason::Asked),
        JoinStrategy::Auto => {
            let most = route.as_ref().map_or(usize::MAX, |route| most_keys(*route, capability, key_type));
            let too_many = build.keys.filter(|keys| *keys > most && candidates.has("bloom"));
            let best = candidates.best().unwrap_or("baseline");
            // How many keys a HAVING or another join leaves, nobody can tell before the first time. Where they left most rows
            // out, they are waited for again: who joins and groups above has less to do, which estimates of a scan do not tell.
            let many = build.seen && share(build, values) > FEW_ROWS;
            let may_be_fewer =
                candidates.has("bloom") && build.reduced && !many && matches!(route, Ok(Route::Fragment));
            match too_many {
                // The scan itself chooses between the other two.
                Some(keys) if !may_be_fewer => {
                    candidates.refuse("bloom", format!("about {keys} keys are too many"));
                    ("filtered", Reason::Estimated)
                }
                None if best == "bloom" || !may_be_fewer => (best, Reason::Estimated),
                _ => {
                    most_rows = build.rows_in(candidates.worth_seconds(best).unwrap_or_default() * CHANCE);
                    ("bloom", Reason::Because("the keys decide once they are known"))
                }
            }
        }
    };
    let (taken, reason) = match candidates.has(taken) {
        true => (taken, reason),
        false => {
            let instead = ["filtered", "baseline"].into_iter().find(|name| candidates.has(name));
            (instead.unwrap_or("baseline"), Reason::Because("what SET asks for will not do"))
        }
    };
    Decision { bloom: taken == "bloom", most_rows, story: candidates.story(taken, reason) }
}

/// Whether storage may be asked for a set of numbers.
fn takes_sets(route: Route, capability: &Capability) -> bool {
    route == Route::Fragment && capability.fragment.is_some_and(|version| version >= NUMBERS_VERSION)
}

/// Whether keys of this type can be such a set.
fn is_counted(key_type: &DataType) -> bool {
    key_type.is_integer() && *key_type != DataType::UInt64
}

/// So many keys have a form that leaves out more than their range.
fn most_keys(route: Route, capability: &Capability, key_type: &DataType) -> usize {
    match (route, &capability.select) {
        (Route::Select, Some(dialect)) if dialect.string_functions && key_type.is_integer() => {
            bloom::most_keys_in_sql(dialect.expression_bytes - STATEMENT_BYTES)
        }
        (Route::Select, _) => usize::MAX,
        (Route::Fragment, _) => keys::MOST_KEYS,
    }
}

/// The share of the rows that the keys leave, of about so many values of the key.
fn share(build: BuildSide, values: Option<f64>) -> f64 {
    match (build.reduced, build.keys, values) {
        // As many of the table's keys as the build side has; its own foreign keys may repeat.
        (_, Some(keys), Some(values)) => (keys as f64 / values.max(1.0)).min(1.0),
        // As much is taken to be missing as a filter is taken to drop.
        (true, ..) => estimate::DEFAULT_SELECTIVITY,
        (false, ..) => 1.0,
    }
}

/// A scan that yields only rows of the keys, once these have come: by storage, which is sent them with each request, or by plain reads,
/// whichever is better. `values` is how many values the key has in the table, where that is known, `as_set` whether keys near each
/// other are a set of numbers; each row that comes takes the engine `row_s` seconds.
fn bloom_cost(
    scan: &ScanCosts,
    route: Route,
    build: BuildSide,
    values: Option<f64>,
    as_set: bool,
    row_s: f64,
) -> Estimate {
    let share = share(build, values);
    let keys = build.keys.unwrap_or(keys::MOST_KEYS).min(keys::MOST_KEYS) as f64;
    let filter_bytes = keys * bloom::BITS_PER_KEY / 8.0;
    // Keys that are counted up are about as many as there are numbers from the least to the greatest.
    let set_bytes = values.filter(|_| as_set).and_then(|values| bloom::set_bytes(keys, values));
    let (key_bytes, lookup_s) = match (route, set_bytes) {
        (Route::Select, _) => (keys * bloom::BITS_PER_KEY, scan.rows * SQL_S),
        (Route::Fragment, Some(bytes)) if bytes <= filter_bytes * bloom::SET_OVER_FILTER => {
            (bytes, scan.passing * SET_S)
        }
        (Route::Fragment, _) => (filter_bytes, scan.passing * BLOOM_S),
    };
    let engine_s = scan.passing * share * row_s;
    let pushed = scan.one_of_phases(Pushed {
        requests: scan.asks,
        scanned: scan.scanned,
        returned: (scan.sent as f64 * share) as u64,
        brought: key_bytes as u64 * scan.asks,
        storage_s: lookup_s,
        engine_s,
        ..Pushed::default()
    });
    if route == Route::Select {
        return pushed;
    }
    // It takes either side the same.
    let plain = scan.plain_keyed(share, lookup_s + engine_s);
    let model = scan.model();
    if model.is_better(&plain, &pushed) { plain } else { pushed }
}

//! Joins: both tables are read plainly (`baseline`), each is filtered in storage (`filtered`), or
//! the probe side is also filtered by the keys of the build side (`bloom`).
//!
//! PushdownDB, Section V; Active Disks, Section 3.3. Once the build side of a hash join has been
//! read, its keys become a predicate of the scans below the probe side. The predicate may pass too
//! many rows, but never too few, and the join drops the rest. It has the strongest form that
//! storage evaluates and that fits into a request:
//!
//! | form | where |
//! | --- | --- |
//! | a list of the keys | few keys, or nothing better is supported |
//! | the set of the keys as bits | fragment route, dense integer keys |
//! | a binary Bloom filter, and the range of the keys | fragment route |
//! | a Bloom filter in SQL, and the range of the keys | S3 Select with SUBSTRING, integer keys |
//! | one Bloom filter of several keys | few of the possible combinations occur |
//! | the range of the keys | S3 Select, too many keys |
//! | none: a filtered join | too many keys without an order |

use arrow::datatypes::DataType;
use pushdowndb_contract::wire::NUMBERS_VERSION;
use pushdowndb_contract::{Capability, Expr};

use super::filter::route;
use super::group_by;
use crate::cost::candidates::{Candidates, Reason};
use crate::cost::cardinality::{self, Cardinality};
use crate::cost::scan::{BLOOM_LOOKUP_S_PER_ROW, Pushed, SET_LOOKUP_S_PER_ROW, ScanCosts};
use crate::plan::estimate::Estimate;
use crate::plan::explanation::Explanation;
use crate::plan::join_keys::{filters, is_key, set};
use crate::plan::placement::{PlacedScan, Route};
use crate::settings::JoinStrategy;

/// Seconds of storage to test one row by a Bloom filter in SQL: about two hashes.
const SQL_LOOKUP_S_PER_ROW: f64 = 100e-9;

/// Seconds of the engine to probe the join's hash table with one row.
pub(crate) const PROBE_S_PER_ROW: f64 = 10e-9;

/// Seconds of the engine to collect a key (Q3 of TPC-H on Parquet: 34 ms for 177,000).
const COLLECT_S_PER_KEY: f64 = 150e-9;

/// Maximum cost of collecting keys on speculation, as a share of the scan's cost.
const MAX_COLLECT_COST_SHARE: f64 = 0.05;

/// Maximum time that a scan of a far server waits for keys on speculation, as a share of the scan's
/// time.
const MAX_WAIT_SHARE: f64 = 0.5;

/// Maximum share of rows that passed the keys in earlier runs for which a scan waits for the keys
/// again.
const MAX_REPEATED_SELECTIVITY: f64 = 0.25;

/// Bytes of a statement without its predicates.
pub(crate) const STATEMENT_BYTES: usize = 4096;

/// Estimates of a join's build side before it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuildSide {
    /// The estimated number of keys.
    pub(crate) keys: Option<usize>,
    /// Whether `keys` comes from feedback.
    pub(crate) from_feedback: bool,
    /// The number of the join's key columns.
    pub(crate) columns: usize,
    /// Whether an operator below drops rows of the tables, so that keys are missing.
    pub(crate) reduced: bool,
    /// Whether the engine groups the probe side by this key before it joins.
    pub(crate) grouped: bool,
    /// The number of scans that run one after the other until the keys are known, because each
    /// waits for the keys of the one before.
    pub(crate) rounds: usize,
}

impl BuildSide {
    /// Returns the number of rows whose single keys and key tuples can be collected in `seconds`.
    /// Saturates.
    fn rows_in(&self, seconds: f64) -> usize {
        let columns = self.columns as f64;
        (seconds / (columns * columns * COLLECT_S_PER_KEY)) as usize
    }
}

/// Decision whether keys filter a scan, with the explanation.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    pub(crate) bloom: bool,
    /// Maximum rows of the build side whose keys are worth collecting.
    pub(crate) max_rows: usize,
    pub(crate) explanation: Explanation,
}

/// Chooses the strategy for `rows`, a scan of the probe side that `key` can filter.
pub(crate) fn choose(rows: PlacedScan<'_>, key: &Expr, key_type: &DataType, build: BuildSide) -> Decision {
    let PlacedScan { plan, context, fragment, capability, .. } = rows;
    let options = &context.options;
    let strategy = options.join;
    let route = route(fragment, capability, options, options.filter_side());
    let scan = ScanCosts::of(plan, context, fragment, route.as_ref().ok().copied());
    let values = Cardinality::of(plan, context, fragment).values(key);
    let s_per_row =
        PROBE_S_PER_ROW + if build.grouped { group_by::s_per_row(values.unwrap_or(scan.passing)) } else { 0.0 };
    let engine_s = scan.passing * s_per_row;
    // Scans of a far server that wait for no keys begin at once (`exec/remote_scan/phases`).
    let wait_s = match context.begins_at_once() {
        true => build.rounds as f64 * scan.model().latency_s(),
        false => 0.0,
    };
    let mut candidates = Candidates::new("join", scan.model());
    match &route {
        Ok(route) => {
            candidates.add("filtered", scan.pushed(Pushed { engine_s, ..scan.filtering() }));
            match is_key(key_type) {
                true => {
                    let as_set = takes_sets(*route, capability) && is_integer_key(key_type);
                    let cost = bloom_cost(&scan, *route, build, values, as_set, s_per_row);
                    candidates.add("bloom", Estimate { seconds: cost.seconds + wait_s, ..cost });
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
    let mut max_rows = usize::MAX;
    let (taken, reason) = match strategy {
        JoinStrategy::Baseline => ("baseline", Reason::Asked),
        JoinStrategy::Filtered => ("filtered", Reason::Asked),
        JoinStrategy::Bloom => ("bloom", Reason::Asked),
        JoinStrategy::Auto => {
            let most = route.as_ref().map_or(usize::MAX, |route| max_keys(*route, capability, key_type));
            let too_many = build.keys.filter(|keys| *keys > most && candidates.has("bloom"));
            let best = candidates.best().unwrap_or("baseline");
            // The keys that a HAVING or another join leaves are unknown before the first run. If
            // they were few, later runs wait for them again, because they also save work above the
            // scan.
            let keeps_most = build.from_feedback && share(build, values) > MAX_REPEATED_SELECTIVITY;
            let is_soon = wait_s <= candidates.worth_seconds(best).unwrap_or_default() * MAX_WAIT_SHARE;
            let may_be_fewer = candidates.has("bloom")
                && build.reduced
                && !keeps_most
                && is_soon
                && matches!(route, Ok(Route::Fragment));
            match too_many {
                // The scan itself chooses between `filtered` and `baseline`.
                Some(keys) if !may_be_fewer => {
                    candidates.refuse("bloom", format!("about {keys} keys are too many"));
                    ("filtered", Reason::Estimated)
                }
                None if best == "bloom" || !may_be_fewer => (best, Reason::Estimated),
                _ => {
                    max_rows =
                        build.rows_in(candidates.worth_seconds(best).unwrap_or_default() * MAX_COLLECT_COST_SHARE);
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
    Decision { bloom: taken == "bloom", max_rows, explanation: candidates.explanation(taken, reason) }
}

/// Returns whether the route accepts a set of integers.
pub(crate) fn takes_sets(route: Route, capability: &Capability) -> bool {
    route == Route::Fragment && capability.fragment.is_some_and(|version| version >= NUMBERS_VERSION)
}

/// Returns whether keys of `key_type` can form a set of integers.
fn is_integer_key(key_type: &DataType) -> bool {
    key_type.is_integer() && *key_type != DataType::UInt64
}

/// Returns the maximum number of keys for which there is a stronger form than their range.
fn max_keys(route: Route, capability: &Capability, key_type: &DataType) -> usize {
    match (route, &capability.select) {
        (Route::Select, Some(dialect)) if dialect.string_functions && key_type.is_integer() => {
            filters::max_keys_in_sql(dialect.expression_bytes - STATEMENT_BYTES)
        }
        (Route::Select, _) => usize::MAX,
        (Route::Fragment, _) => set::MAX_KEYS,
    }
}

/// Estimates the share of rows that pass the keys. `values` is the number of distinct values of the
/// key column.
fn share(build: BuildSide, values: Option<f64>) -> f64 {
    match (build.reduced, build.keys, values) {
        // Assumes that the build side's keys are values of the key column, all equally frequent.
        (_, Some(keys), Some(values)) => (keys as f64 / values.max(1.0)).min(1.0),
        // Assumes that the filter drops as many keys as rows.
        (true, ..) => cardinality::DEFAULT_SELECTIVITY,
        (false, ..) => 1.0,
    }
}

/// Estimates a scan of the rows that match the keys, once these are available, by storage or by
/// plain reads, whichever is better. `values` is the estimated number of distinct values of the key
/// column, `as_set` is whether dense keys are sent as a set, and the engine takes `s_per_row`
/// seconds per returned row.
fn bloom_cost(
    scan: &ScanCosts,
    route: Route,
    build: BuildSide,
    values: Option<f64>,
    as_set: bool,
    s_per_row: f64,
) -> Estimate {
    let share = share(build, values);
    let keys = build.keys.unwrap_or(set::MAX_KEYS).min(set::MAX_KEYS) as f64;
    let filter_bytes = keys * filters::BITS_PER_KEY / 8.0;
    // The range of dense keys is assumed to be as large as the number of their values.
    let set_bytes = values.filter(|_| as_set).and_then(|values| filters::set_bytes(keys, values));
    let (key_bytes, lookup_s) = match (route, set_bytes) {
        (Route::Select, _) => (keys * filters::BITS_PER_KEY, scan.rows * SQL_LOOKUP_S_PER_ROW),
        (Route::Fragment, Some(bytes)) if bytes <= filter_bytes * filters::MAX_SET_TO_FILTER_RATIO => {
            (bytes, scan.passing * SET_LOOKUP_S_PER_ROW)
        }
        (Route::Fragment, _) => (filter_bytes, scan.passing * BLOOM_LOOKUP_S_PER_ROW),
    };
    let engine_s = scan.passing * share * s_per_row;
    let pushed = scan.one_of_phases(Pushed {
        requests: scan.requests,
        scanned: scan.scanned,
        returned: (scan.sent as f64 * share) as u64,
        request_bytes: key_bytes as u64 * scan.requests,
        storage_s: lookup_s,
        engine_s,
        ..Pushed::default()
    });
    if route == Route::Select {
        return pushed;
    }
    // A look-up takes the same time on either side.
    let plain = scan.plain_keyed(share, lookup_s + engine_s);
    let model = scan.model();
    if model.is_better(&plain, &pushed) { plain } else { pushed }
}

//! Group-by, DISTINCT included: PushdownDB, Section VI; at the fragment route its suggestion 4 and Active Disks,
//! Section 3.2.
//!
//! ```text
//! compute    the engine reads objects and groups
//! filtered   storage filters and picks columns, the engine groups
//! storage    S3 Select: the keys first, then for each group and aggregate a CASE      [`storage`]
//!            fragment route: partial groups from each split, merged by the engine
//! hybrid     S3 Select: a sample tells the large groups, these by CASE; other rows    [`hybrid`]
//!            are sent and grouped by the engine. The same as storage on the fragment route,
//!            where a node with a full table passes rows on by itself
//! ```
//!
//! Whatever is chosen, the plan above merges partial states of groups, of which there may be any number per group.

mod cases;
mod exec;
mod hybrid;
mod keys;
mod storage;

use std::fmt::Write as _;

use pushdown::{Capability, Fragment, Output, Result};
use pushdowndb_cost::{PriceBook, Requests};

use super::estimate::{Estimate, Work, best};
use super::filter::{self, Choice, Route};
use crate::remote_scan::{PIECES, PartialAggregate, RemoteScanExec, ScanSpec, estimate};
use crate::settings::{GroupByStrategy, PushdownOptions, Side};

pub(crate) use exec::{GroupByExec, with_scan};

/// How many groups are assumed where nothing is known of them.
pub(crate) const ASSUMED_GROUPS: u64 = 32;

/// The large groups that hybrid is assumed to find, and the share of the rows that are not in them. They are few and
/// hold most rows, or the sample shows otherwise and hybrid becomes filtered.
const ASSUMED_LARGE: u64 = 4;
const ASSUMED_TAIL: f64 = 0.1;

/// Seconds that storage needs for one CASE of one row, and for grouping one row.
const CASE_S: f64 = 5e-9;
const GROUP_S: f64 = 50e-9;

/// What a first phase costs at least: nothing else happens until it is answered.
const FIRST_PHASE_S: f64 = 0.02;

/// The share of the bytes that hybrid samples first (Section VI-B).
const SAMPLED_SHARE: f64 = 0.01;

/// Bytes of an aggregate or a key in a result.
const CELL_BYTES: u64 = 12;

/// How one group-by runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Strategy {
    /// Plain reads, grouped by the engine.
    Compute,
    /// Filtered by storage, grouped by the engine.
    Filtered,
    /// By S3 Select in two phases.
    Storage,
    /// The large groups by S3 Select.
    Hybrid,
    /// By the fragment route.
    Partial,
}

impl Strategy {
    /// As in the setting.
    fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Filtered => "filtered",
            Self::Storage | Self::Partial => "storage",
            Self::Hybrid => "hybrid",
        }
    }
}

/// A strategy, and why it.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    pub(crate) strategy: Strategy,
    /// For EXPLAIN: the estimate, and those of the strategies that lost.
    pub(crate) story: String,
}

/// Chooses for groups over the rows of a scan. `wanted` is what storage would have to compute, or the reason why it
/// cannot. `None` where there is nothing to choose.
pub(crate) fn choose(
    rows: &RemoteScanExec,
    wanted: std::result::Result<&PartialAggregate, &str>,
) -> Result<Option<Decision>> {
    let options = &rows.spec().options;
    let asked = options.group_by_strategy()?;
    if filter::route(rows.fragment(), rows.capability(), options, Side::Auto)?.is_err() {
        // Plain reads whatever is asked; the scan tells why.
        return Ok(None);
    }
    let (mut possible, refused) = candidates(rows, wanted)?;
    let forced = match asked {
        GroupByStrategy::Auto => None,
        GroupByStrategy::Compute => Some("compute"),
        GroupByStrategy::Filtered => Some("filtered"),
        GroupByStrategy::Storage => Some("storage"),
        // At the fragment route they are one.
        GroupByStrategy::Hybrid if possible.iter().any(|(s, _)| *s == Strategy::Partial) => Some("storage"),
        GroupByStrategy::Hybrid => Some("hybrid"),
    };
    let place = |name: &str| possible.iter().position(|(strategy, _)| strategy.name() == name);
    let chosen = match forced {
        None => best(&possible.iter().map(|(_, estimate)| *estimate).collect::<Vec<_>>()),
        // What storage cannot compute exactly it may still filter.
        Some(name) => place(name).or_else(|| place("filtered")).or_else(|| place("compute")),
    };
    let Some(chosen) = chosen else { return Ok(None) };
    let (strategy, estimate) = possible.remove(chosen);
    let mut story = format!("group_by={} ({estimate}", strategy.name());
    if forced.is_some_and(|name| name == strategy.name()) {
        story.push_str("; asked for by SET");
    }
    for (lost, estimate) in possible {
        let _ = write!(story, "; {} {estimate}", lost.name());
    }
    for (name, reason) in refused {
        let _ = write!(story, "; not {name}: {reason}");
    }
    story.push(')');
    Ok(Some(Decision { strategy, story }))
}

/// The strategies that are possible with their estimates, the ones that are not with the reasons.
type Candidates = (Vec<(Strategy, Estimate)>, Vec<(&'static str, String)>);

fn candidates(rows: &RemoteScanExec, wanted: std::result::Result<&PartialAggregate, &str>) -> Result<Candidates> {
    let (spec, fragment) = (rows.spec(), rows.fragment());
    let costs = Costs::of(rows)?;
    let (mut possible, mut refused) = (Vec::new(), Vec::new());
    let side = spec.options.filter_side()?;
    let asked = spec.options.group_by_strategy()?;
    if side != Side::Storage || asked == GroupByStrategy::Compute {
        possible.push((Strategy::Compute, costs.compute()));
    }
    let filtered = rows.with_spec(as_rows(spec, Strategy::Filtered))?;
    match filtered.choice() {
        _ if side == Side::Compute => refused.push(("filtered", "pushdown.filter is compute".to_owned())),
        Choice::Storage { .. } => possible.push((Strategy::Filtered, costs.filtered())),
        Choice::Compute(reason) => refused.push(("filtered", reason.clone())),
    }
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(reason) => {
            refused.push(("storage", reason.to_owned()));
            return Ok((possible, refused));
        }
    };
    match filter::route(fragment, rows.capability(), &spec.options, Side::Auto)? {
        Err(reason) => refused.push(("storage", reason)),
        Ok(Route::Fragment) => possible.push((Strategy::Partial, costs.partial(wanted))),
        Ok(Route::Select) => match cases::refusal(rows, wanted)? {
            Some(reason) => refused.push(("storage", reason)),
            None => {
                possible.push((Strategy::Storage, costs.storage(wanted)));
                possible.push((Strategy::Hybrid, costs.hybrid(wanted, ASSUMED_LARGE, ASSUMED_TAIL)));
            }
        },
    }
    Ok((possible, refused))
}

/// The scan of rows that the engine groups.
pub(crate) fn as_rows(spec: &ScanSpec, strategy: Strategy) -> ScanSpec {
    let mut spec = spec.clone();
    match strategy {
        Strategy::Compute => "compute".clone_into(&mut spec.options.filter),
        Strategy::Filtered if spec.options.filter.eq_ignore_ascii_case("auto") => {
            "storage".clone_into(&mut spec.options.filter);
        }
        _ => {}
    }
    spec
}

/// Chooses for a fragment that yields the states of groups: only the fragment route has those.
pub(crate) fn choose_states(fragment: &Fragment, capability: &Capability, options: &PushdownOptions) -> Result<Choice> {
    Ok(match filter::route(fragment, capability, options, Side::Auto)? {
        Ok(Route::Fragment) => {
            Choice::Storage { request: Box::new(fragment.clone()), exact: true, route: Route::Fragment }
        }
        Ok(Route::Select) => Choice::Compute("S3 Select has no GROUP BY".to_owned()),
        Err(reason) => Choice::Compute(reason),
    })
}

/// What the strategies for one scan would cost.
struct Costs {
    prices: PriceBook,
    bytes: u64,
    /// Rows that pass the filter.
    rows: f64,
    /// Bytes of the columns that the query reads, as storage sends them.
    sent: u64,
    /// Bytes that plain reads fetch.
    read: u64,
    splits: u64,
    objects: u64,
    at_fragment: bool,
}

impl Costs {
    fn of(rows: &RemoteScanExec) -> Result<Self> {
        let (spec, fragment, bytes) = (rows.spec(), rows.fragment(), rows.bytes());
        let objects = spec.objects.len() as u64;
        let route = filter::route(fragment, rows.capability(), &spec.options, Side::Auto)?;
        Ok(Self {
            prices: PriceBook::named_or_path(&spec.options.price_book)?,
            bytes,
            rows: estimate::rows(fragment, bytes) as f64 * estimate::selectivity(fragment),
            sent: estimate::network_bytes(fragment, true, bytes),
            read: estimate::network_bytes(fragment, false, bytes),
            splits: bytes.div_ceil(spec.options.split_bytes.max(1)).max(objects),
            objects: objects.max(spec.partitions.min(rows.splits() as usize) as u64),
            at_fragment: route == Ok(Route::Fragment),
        })
    }

    /// Requests that scan everything so many times.
    fn requests(&self, times: u64) -> Requests {
        match self.at_fragment {
            true => Requests { fragment: self.objects * times, ..Requests::default() },
            false => Requests { select: self.splits * times, ..Requests::default() },
        }
    }

    /// A phase that scans everything so many times and returns so many bytes.
    fn scan(&self, times: u64, returned: u64, storage_s: f64) -> Estimate {
        let work = Work {
            bytes_network: returned,
            bytes_scanned: self.bytes * times,
            bytes_returned: returned,
            requests: self.requests(times),
            storage_s,
            ..Work::default()
        };
        Estimate::of(&work, &self.prices)
    }

    fn compute(&self) -> Estimate {
        let requests = Requests { get: self.objects, ..Requests::default() };
        let work = Work { bytes_network: self.read, requests, engine_s: self.rows * GROUP_S, ..Work::default() };
        Estimate::of(&work, &self.prices)
    }

    fn filtered(&self) -> Estimate {
        self.scan(1, self.sent, 0.0)
    }

    fn partial(&self, wanted: &PartialAggregate) -> Estimate {
        let states = ASSUMED_GROUPS * wanted.schema.fields().len() as u64 * CELL_BYTES;
        self.scan(1, self.objects * states, self.rows * GROUP_S)
    }

    /// CASE for so many groups: what storage computes, and what comes back.
    fn cases(&self, wanted: &PartialAggregate, groups: u64) -> (f64, u64) {
        let cases = groups * (wanted.calls.len() as u64 + 1);
        (self.rows * cases as f64 * CASE_S, self.splits * cases * CELL_BYTES)
    }

    fn storage(&self, wanted: &PartialAggregate) -> Estimate {
        let (storage_s, returned) = self.cases(wanted, ASSUMED_GROUPS);
        let keys = self.rows as u64 * wanted.groups.len() as u64 * CELL_BYTES;
        let first = self.scan(1, keys, 0.0);
        let first = Estimate { seconds: first.seconds + FIRST_PHASE_S, ..first };
        first + self.scan(1, returned, storage_s)
    }

    /// With so many large groups, and a tail of this share of the rows.
    fn hybrid(&self, wanted: &PartialAggregate, large: u64, tail: f64) -> Estimate {
        let keys = (self.rows * SAMPLED_SHARE) as u64 * wanted.groups.len() as u64 * CELL_BYTES;
        let work = Work {
            bytes_network: keys,
            bytes_scanned: (self.bytes as f64 * SAMPLED_SHARE) as u64,
            bytes_returned: keys,
            requests: Requests { select: self.splits.min(PIECES), ..Requests::default() },
            ..Work::default()
        };
        let sample = Estimate::of(&work, &self.prices);
        let sample = Estimate { seconds: sample.seconds + FIRST_PHASE_S, ..sample };
        let (storage_s, returned) = self.cases(wanted, large);
        let tail = (self.sent as f64 * tail) as u64;
        match large {
            0 => sample + self.scan(1, tail, 0.0),
            _ => sample + self.scan(2, returned + tail, storage_s),
        }
    }
}

/// The aggregates and keys as people read them.
fn display(wanted: &PartialAggregate, rows: &RemoteScanExec) -> String {
    let schema = &rows.fragment().schema;
    let keys: Vec<String> = wanted.groups.iter().map(|key| key.expr.display(schema).to_string()).collect();
    let calls: Vec<&str> = wanted.calls.iter().map(|call| call.name.as_str()).collect();
    let filter = match (&rows.fragment().predicate, &rows.fragment().output) {
        (Some(predicate), Output::Rows(_)) => predicate.display(schema).to_string(),
        _ => "none".to_owned(),
    };
    format!("groups=[{}], aggregates=[{}], filter=[{filter}]", keys.join(", "), calls.join(", "))
}

//! Group-by, DISTINCT included: PushdownDB, Section VI; at the fragment route its suggestion 4 and Active Disks,
//! Section 3.2.
//!
//! ```text
//! compute    the engine reads objects and groups
//! filtered   storage filters and picks columns, the engine groups
//! storage    S3 Select: the keys first, then for each group and aggregate a CASE      [`storage`]
//!            fragment route: partial groups from each split, merged by the engine
//! hybrid     S3 Select: a sample tells the large groups, these by CASE; other rows    [`hybrid`]
//!            are sent and grouped by the engine
//!            fragment route: a small table in storage, which the large groups are the first to get
//!            into; what finds no place is aggregated a little and sent
//! ```
//!
//! Whatever is chosen, the plan above merges partial states of groups, of which there may be any number per group.

mod cases;
mod exec;
mod hybrid;
mod keys;
mod storage;

use pushdown::{Capability, Expr, Fragment, Output, Result};

use super::costs::{Pushed, ScanCosts};
use super::decision::{Candidates, Reason, Story};
use super::estimate::Estimate;
use super::filter::{self, Choice, Route};
use crate::remote_scan::{PIECES, PartialAggregate, RemoteScanExec, ScanSpec};
use crate::settings::{FilterStrategy, GroupByStrategy, PushdownOptions, Side};

pub(crate) use exec::{GroupByExec, with_scan};

/// How many groups are assumed where nothing is known of them.
pub(crate) const ASSUMED_GROUPS: u64 = 32;

/// The large groups that hybrid is assumed to find, and the share of the rows that are not in them. They are few and
/// hold most rows, or the sample shows otherwise and hybrid becomes filtered.
const ASSUMED_LARGE: u64 = 4;
const ASSUMED_TAIL: f64 = 0.1;

/// Seconds that storage needs for one CASE of one row.
const CASE_S: f64 = 5e-9;

/// Seconds that anybody needs to group one row, while the groups are in a processor's cache and when they are not.
const GROUP_S: f64 = 30e-9;
const FAR_GROUP_S: f64 = 100e-9;

/// So many groups are in the cache.
const NEAR_GROUPS: f64 = 32.0 * 1024.0;

/// So many groups are merged again in no time.
const FEW_GROUPS: f64 = 1024.0;

/// What the groups of a split may take in storage's memory for hybrid on the fragment route: they stay in a processor's
/// cache.
const SMALL_BYTES: usize = 256 * 1024;

/// The share of the bytes that hybrid samples first (Section VI-B).
const SAMPLED_SHARE: f64 = 0.01;

/// Bytes of an aggregate or a key in a result.
const CELL_BYTES: u64 = 12;

/// Seconds to put one row into one of so many groups.
pub(crate) fn row_s(groups: f64) -> f64 {
    if groups <= NEAR_GROUPS { GROUP_S } else { FAR_GROUP_S }
}

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
    /// By the fragment route, the large groups in a small table.
    SmallPartial,
}

impl Strategy {
    /// As in the setting.
    fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Filtered => "filtered",
            Self::Storage | Self::Partial => "storage",
            Self::Hybrid | Self::SmallPartial => "hybrid",
        }
    }

    /// What the groups of a split may take in storage's memory, if that is not as much as usual.
    pub(crate) fn group_bytes(self) -> Option<usize> {
        (self == Self::SmallPartial).then_some(SMALL_BYTES)
    }
}

/// A strategy, and why it.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    pub(crate) strategy: Strategy,
    /// For EXPLAIN: the estimate, and those of the strategies that lost.
    pub(crate) story: Story,
}

/// Chooses for groups over the rows of a scan. `wanted` is what storage would have to compute, or the reason why it
/// cannot. `None` where there is nothing to choose.
pub(crate) fn choose(
    rows: &RemoteScanExec,
    wanted: std::result::Result<&PartialAggregate, &str>,
) -> Result<Option<Decision>> {
    let options = &rows.spec().options;
    let asked = options.group_by;
    if filter::route(rows.fragment(), rows.capability(), options, Side::Auto).is_err() {
        // Plain reads whatever is asked; the scan tells why.
        return Ok(None);
    }
    let (candidates, by) = candidates(rows, wanted)?;
    let forced = match asked {
        GroupByStrategy::Auto => None,
        GroupByStrategy::Compute => Some("compute"),
        GroupByStrategy::Filtered => Some("filtered"),
        GroupByStrategy::Storage => Some("storage"),
        GroupByStrategy::Hybrid => Some("hybrid"),
    };
    let (name, reason) = match forced {
        None => (candidates.best(), Reason::Estimated),
        Some(name) if candidates.has(name) => (Some(name), Reason::Asked),
        // What storage cannot compute exactly it may still filter.
        Some(_) => {
            let instead = ["filtered", "compute"].into_iter().find(|name| candidates.has(name));
            (instead, Reason::Because("what SET asks for will not do"))
        }
    };
    let Some(name) = name else { return Ok(None) };
    let Some((_, strategy)) = by.into_iter().find(|(other, _)| *other == name) else { return Ok(None) };
    let mut story = candidates.story(name, reason);
    if strategy == Strategy::Storage {
        story.remark = Some(format!("as hybrid beyond {} groups", storage::MOST_GROUPS));
    }
    Ok(Some(Decision { strategy, story }))
}

/// The strategies that are possible, with what they are for this scan.
type Possible = (Candidates, Vec<(&'static str, Strategy)>);

fn candidates(rows: &RemoteScanExec, wanted: std::result::Result<&PartialAggregate, &str>) -> Result<Possible> {
    let (spec, fragment) = (rows.spec(), rows.fragment());
    let costs = Costs::of(rows, wanted.ok());
    let (mut candidates, mut by) = (Candidates::new("group_by", costs.scan.model()), Vec::new());
    let mut add = |candidates: &mut Candidates, strategy: Strategy, estimate| {
        candidates.add(strategy.name(), estimate);
        by.push((strategy.name(), strategy));
    };
    let side = spec.options.filter_side();
    let asked = spec.options.group_by;
    if side != Side::Storage || asked == GroupByStrategy::Compute {
        add(&mut candidates, Strategy::Compute, costs.compute());
    }
    let filtered = rows.with_spec(as_rows(spec, Strategy::Filtered))?;
    match filtered.choice() {
        _ if side == Side::Compute => candidates.refuse("filtered", "pushdown.filter is compute"),
        Choice::Storage { .. } => add(&mut candidates, Strategy::Filtered, costs.filtered()),
        Choice::Compute(reason) => candidates.refuse("filtered", reason.clone()),
    }
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(reason) => {
            candidates.refuse("storage", reason);
            return Ok((candidates, by));
        }
    };
    match filter::route(fragment, rows.capability(), &spec.options, Side::Auto) {
        Err(reason) => candidates.refuse("storage", reason),
        Ok(Route::Fragment) => {
            add(&mut candidates, Strategy::Partial, costs.partial(wanted, 0.0));
            add(&mut candidates, Strategy::SmallPartial, costs.partial(wanted, costs.tail));
        }
        Ok(Route::Select) => match cases::refusal(rows, wanted)? {
            Some(reason) => candidates.refuse("storage", reason),
            None => {
                add(&mut candidates, Strategy::Storage, costs.storage(wanted));
                add(&mut candidates, Strategy::Hybrid, costs.hybrid(wanted, costs.large, costs.tail));
            }
        },
    }
    Ok((candidates, by))
}

/// The scan of rows that the engine groups.
pub(crate) fn as_rows(spec: &ScanSpec, strategy: Strategy) -> ScanSpec {
    let mut spec = spec.clone();
    match strategy {
        Strategy::Compute => spec.options.filter = FilterStrategy::Compute,
        Strategy::Filtered if spec.options.filter == FilterStrategy::Auto => {
            spec.options.filter = FilterStrategy::Storage;
        }
        _ => {}
    }
    spec
}

/// The scan with the states of groups in place of `rows`, which the engine reads plainly, if the groups are known to be
/// few: the scan knows what of the pages, or of the text, need not be decoded for them. `None` leaves them to the
/// operator above.
pub(crate) fn in_engine(rows: &RemoteScanExec, wanted: &PartialAggregate) -> Result<Option<RemoteScanExec>> {
    let spec = rows.spec();
    if spec.options.group_by != GroupByStrategy::Auto || !matches!(rows.choice(), Choice::Compute(_)) {
        return Ok(None);
    }
    let keys: Vec<Expr> = wanted.groups.iter().map(|key| key.expr.clone()).collect();
    if rows.figures().groups(&keys).is_none_or(|groups| groups > FEW_GROUPS) {
        return Ok(None);
    }
    let mut spec = ScanSpec { aggregate: Some(wanted.clone()), ..spec.clone() };
    spec.options.group_by = GroupByStrategy::Compute;
    rows.with_spec(spec).map(Some)
}

/// Chooses for a fragment that yields the states of groups: only the fragment route has those.
pub(crate) fn choose_states(fragment: &Fragment, capability: &Capability, options: &PushdownOptions) -> Choice {
    if options.group_by == GroupByStrategy::Compute {
        return Choice::Compute("the engine reads and groups".to_owned());
    }
    match filter::route(fragment, capability, options, Side::Auto) {
        Ok(Route::Fragment) => {
            Choice::Storage { request: Box::new(fragment.clone()), exact: true, route: Route::Fragment }
        }
        Ok(Route::Select) => Choice::Compute("S3 Select has no GROUP BY".to_owned()),
        Err(reason) => Choice::Compute(reason),
    }
}

/// What the strategies for one scan would cost.
struct Costs {
    scan: ScanCosts,
    /// Requests that scan everything once.
    requests: u64,
    /// Groups of the rows that pass.
    groups: u64,
    /// How many of them hybrid would find large, and the share of the rows that is in none of these.
    large: u64,
    tail: f64,
}

impl Costs {
    fn of(rows: &RemoteScanExec, wanted: Option<&PartialAggregate>) -> Self {
        let (spec, fragment) = (rows.spec(), rows.fragment());
        let route = filter::route(fragment, rows.capability(), &spec.options, Side::Auto).ok();
        let scan = ScanCosts::of(spec, fragment, route);
        let requests = match route {
            Some(Route::Fragment) => scan.objects.max(spec.partitions.min(rows.splits() as usize) as u64),
            _ => scan.splits,
        };
        let keys: Vec<Expr> = wanted.iter().flat_map(|wanted| &wanted.groups).map(|key| key.expr.clone()).collect();
        let figures = rows.figures();
        let groups = figures.groups(&keys).map_or(ASSUMED_GROUPS, |groups| groups.ceil() as u64);
        let (large, tail) = match figures.frequent(&keys, 1.0 / hybrid::SMALL as f64) {
            Some(shares) => (shares.len() as u64, (1.0 - shares.iter().sum::<f64>()).max(0.0)),
            None => (ASSUMED_LARGE, ASSUMED_TAIL),
        };
        Self { scan, requests, groups, large, tail }
    }

    /// A phase that scans everything so many times and returns so many bytes.
    fn scan(&self, times: u64, returned: u64, storage_s: f64) -> Estimate {
        let (requests, scanned) = (self.requests * times, self.scan.scanned * times);
        self.scan.pushed(Pushed { requests, scanned, returned, storage_s, ..Pushed::default() })
    }

    /// Seconds to group one row.
    fn group_s(&self) -> f64 {
        row_s(self.groups as f64)
    }

    fn compute(&self) -> Estimate {
        self.scan.plain(self.scan.passing * self.group_s())
    }

    fn filtered(&self) -> Estimate {
        let (requests, scanned, returned) = (self.requests, self.scan.scanned, self.scan.sent);
        let engine_s = self.scan.passing * self.group_s();
        self.scan.pushed(Pushed { requests, scanned, returned, engine_s, ..Pushed::default() })
    }

    /// Grouping in one scan, from which this share of the rows comes back as groups of their own.
    fn partial(&self, wanted: &PartialAggregate, tail: f64) -> Estimate {
        // Each request has its own, if it has so many rows.
        let groups = (self.requests * self.groups).min(self.scan.passing as u64) + (self.scan.passing * tail) as u64;
        let returned = groups * wanted.schema.fields().len() as u64 * CELL_BYTES;
        let (requests, scanned) = (self.requests, self.scan.scanned);
        let (storage_s, engine_s) = (self.scan.passing * self.group_s(), groups as f64 * self.group_s());
        let decoded = self.scan.sent;
        self.scan.pushed(Pushed { requests, scanned, returned, decoded, storage_s, engine_s, ..Pushed::default() })
    }

    /// CASE for so many groups: what storage computes, and what comes back.
    fn cases(&self, wanted: &PartialAggregate, groups: u64) -> (f64, u64) {
        let cases = groups * (wanted.calls.len() as u64 + 1);
        (self.scan.passing * cases as f64 * CASE_S, self.scan.splits * cases * CELL_BYTES)
    }

    fn storage(&self, wanted: &PartialAggregate) -> Estimate {
        let (storage_s, returned) = self.cases(wanted, self.groups);
        let keys = self.scan.passing as u64 * wanted.groups.len() as u64 * CELL_BYTES;
        let (requests, scanned) = (self.requests, self.scan.scanned);
        let first = self.scan.one_of_phases(Pushed { requests, scanned, returned: keys, ..Pushed::default() });
        first + self.scan(1, returned, storage_s)
    }

    /// With so many large groups, and a tail of this share of the rows.
    fn hybrid(&self, wanted: &PartialAggregate, large: u64, tail: f64) -> Estimate {
        let sample = self.scan.one_of_phases(Pushed {
            requests: self.scan.splits.min(PIECES),
            scanned: (self.scan.scanned as f64 * SAMPLED_SHARE) as u64,
            returned: (self.scan.passing * SAMPLED_SHARE) as u64 * wanted.groups.len() as u64 * CELL_BYTES,
            ..Pushed::default()
        });
        let (storage_s, returned) = self.cases(wanted, large);
        let tail = (self.scan.sent as f64 * tail) as u64;
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

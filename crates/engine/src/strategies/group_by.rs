//! Group-by and DISTINCT: PushdownDB, Section VI; on the fragment route its suggestion 4, and
//! Active Disks, Section 3.2.
//!
//! ```text
//! compute    the engine reads objects and groups
//! filtered   storage filters and projects, the engine groups
//! storage    S3 Select: the keys first, then a CASE for each group and aggregate
//!            fragment route: partial groups from each split, merged by the engine
//! hybrid     S3 Select: a CASE for each large group of a sample; other rows are
//!            returned and grouped by the engine
//!            fragment route: a small table in storage, which large groups enter first;
//!            rows of groups that do not fit are partly aggregated and returned
//! ```
//!
//! The plan above merges any number of partial states per group, so every strategy is correct.

use pushdowndb_contract::{Capability, Expr, Fragment, Result};

use super::filter;
use crate::cost::candidates::{Candidates, Reason};
use crate::cost::cardinality::Cardinality;
use crate::cost::scan::{Pushed, ScanCosts};
use crate::plan::estimate::Estimate;
use crate::plan::explanation::Explanation;
use crate::plan::partial_aggregate::PartialAggregate;
use crate::plan::placement::{Choice, PlacedScan, Route};
use crate::plan::splits::MAX_SAMPLE_PIECES;
use crate::settings::{FilterStrategy, GroupByStrategy, PushdownOptions, Side};

/// Assumed number of groups without statistics.
pub(crate) const ASSUMED_GROUPS: u64 = 32;

/// Assumed number of large groups without statistics, for the hybrid strategy.
const ASSUMED_LARGE_GROUPS: u64 = 4;
/// Assumed share of rows outside of the large groups.
const ASSUMED_TAIL_SHARE: f64 = 0.1;

/// Seconds of storage to evaluate one CASE on one row.
const CASE_S_PER_ROW: f64 = 5e-9;

/// Seconds to group one row if the groups fit into a CPU cache.
const CACHED_GROUP_S_PER_ROW: f64 = 30e-9;
/// Seconds to group one row if the groups do not fit into a CPU cache.
const UNCACHED_GROUP_S_PER_ROW: f64 = 100e-9;

/// Maximum groups that fit into a CPU cache.
const MAX_CACHED_GROUPS: f64 = 32.0 * 1024.0;

/// Maximum groups whose merge costs nothing in the estimates.
pub(crate) const MAX_FREE_MERGE_GROUPS: f64 = 1024.0;

/// Memory for the groups of a split in the hybrid strategy on the fragment route, in bytes. The
/// groups then fit into a CPU cache.
const HYBRID_GROUP_BYTES: usize = 256 * 1024;

/// Share of the bytes that the hybrid strategy samples first (Section VI-B).
pub(crate) const SAMPLE_SHARE: f64 = 0.01;

/// Inverse of the minimum share of rows in a large group, for which a CASE per row pays off.
pub(crate) const LARGE_GROUP_INVERSE_SHARE: u64 = 100;

/// Maximum groups that S3 Select aggregates; with more groups, the hybrid strategy is used.
pub(crate) const MAX_CASE_GROUPS: usize = 2048;

/// Estimated bytes of a key or an aggregate in a response.
const CELL_BYTES: u64 = 12;

/// Estimates the seconds to group one row into `groups` groups.
pub(crate) fn s_per_row(groups: f64) -> f64 {
    if groups <= MAX_CACHED_GROUPS { CACHED_GROUP_S_PER_ROW } else { UNCACHED_GROUP_S_PER_ROW }
}

/// A way to run a group-by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Strategy {
    /// The engine reads plainly and groups.
    Compute,
    /// Storage filters, and the engine groups.
    Filtered,
    /// S3 Select evaluates a CASE for every group, in two phases.
    Storage,
    /// S3 Select evaluates a CASE for every large group; the engine groups the other rows.
    Hybrid,
    /// A node returns partial groups over the fragment route.
    Partial,
    /// A node returns partial groups over the fragment route, from a small hash table.
    SmallPartial,
}

impl Strategy {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Filtered => "filtered",
            Self::Storage | Self::Partial => "storage",
            Self::Hybrid | Self::SmallPartial => "hybrid",
        }
    }

    /// Returns the memory for the groups of a split in storage, in bytes; `None` for the default.
    pub(crate) fn group_bytes(self) -> Option<usize> {
        (self == Self::SmallPartial).then_some(HYBRID_GROUP_BYTES)
    }
}

/// The strategy of a group-by, with its explanation.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    pub(crate) strategy: Strategy,
    pub(crate) explanation: Explanation,
}

/// Decisions about the scan below a group-by, which the physical operators implement.
pub(crate) trait GroupByScans {
    /// Returns the placement of the scan if storage filters and the engine groups.
    fn filtered(&self) -> Result<Choice>;

    /// Returns the reason why S3 Select cannot evaluate a CASE per group; `None` if it can.
    fn cases_refused(&self, wanted: &PartialAggregate) -> Result<Option<String>>;
}

/// Chooses the strategy of a group-by over `rows`. `wanted` is the aggregate that storage would
/// compute, or the reason why it cannot. Returns `None` if there is no choice.
pub(crate) fn choose(
    rows: PlacedScan<'_>,
    wanted: std::result::Result<&PartialAggregate, &str>,
    scans: &dyn GroupByScans,
) -> Result<Option<Decision>> {
    let options = &rows.context.options;
    let asked = options.group_by;
    if filter::route(rows.fragment, rows.capability, options, Side::Auto).is_err() {
        // Plain reads in any case; the scan explains why.
        return Ok(None);
    }
    let (candidates, by) = candidates(rows, wanted, scans)?;
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
        // Storage may still filter rows that it cannot aggregate exactly.
        Some(_) => {
            let instead = ["filtered", "compute"].into_iter().find(|name| candidates.has(name));
            (instead, Reason::Because("what SET asks for will not do"))
        }
    };
    let Some(name) = name else { return Ok(None) };
    let Some((_, strategy)) = by.into_iter().find(|(other, _)| *other == name) else { return Ok(None) };
    let mut explanation = candidates.explanation(name, reason);
    if strategy == Strategy::Storage {
        explanation.remark = Some(format!("as hybrid beyond {} groups", MAX_CASE_GROUPS));
    }
    Ok(Some(Decision { strategy, explanation }))
}

/// The candidates by name, with the strategy that each name stands for in this scan.
type Possible = (Candidates, Vec<(&'static str, Strategy)>);

fn candidates(
    rows: PlacedScan<'_>,
    wanted: std::result::Result<&PartialAggregate, &str>,
    scans: &dyn GroupByScans,
) -> Result<Possible> {
    let PlacedScan { context, fragment, capability, .. } = rows;
    let costs = Costs::of(rows, wanted.ok());
    let (mut candidates, mut by) = (Candidates::new("group_by", costs.scan.model()), Vec::new());
    let mut add = |candidates: &mut Candidates, strategy: Strategy, estimate| {
        candidates.add(strategy.name(), estimate);
        by.push((strategy.name(), strategy));
    };
    let side = context.options.filter_side();
    let asked = context.options.group_by;
    if side != Side::Storage || asked == GroupByStrategy::Compute {
        add(&mut candidates, Strategy::Compute, costs.compute());
    }
    match scans.filtered()? {
        _ if side == Side::Compute => candidates.refuse("filtered", "pushdown.filter is compute"),
        Choice::Storage { .. } => add(&mut candidates, Strategy::Filtered, costs.filtered()),
        Choice::Compute(reason) => candidates.refuse("filtered", reason),
    }
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(reason) => {
            candidates.refuse("storage", reason);
            return Ok((candidates, by));
        }
    };
    match filter::route(fragment, capability, &context.options, Side::Auto) {
        Err(reason) => candidates.refuse("storage", reason),
        Ok(Route::Fragment) => {
            add(&mut candidates, Strategy::Partial, costs.partial(wanted, 0.0));
            add(&mut candidates, Strategy::SmallPartial, costs.partial(wanted, costs.tail));
        }
        Ok(Route::Select) => match scans.cases_refused(wanted)? {
            Some(reason) => candidates.refuse("storage", reason),
            None => {
                add(&mut candidates, Strategy::Storage, costs.storage(wanted));
                add(&mut candidates, Strategy::Hybrid, costs.hybrid(wanted, costs.large, costs.tail));
            }
        },
    }
    Ok((candidates, by))
}

/// Sets the filter strategy in `options` for a scan whose rows the engine groups under `strategy`.
pub(crate) fn fix_filter(options: &mut PushdownOptions, strategy: Strategy) {
    match strategy {
        Strategy::Compute => options.filter = FilterStrategy::Compute,
        Strategy::Filtered if options.filter == FilterStrategy::Auto => options.filter = FilterStrategy::Storage,
        _ => {}
    }
}

/// Chooses the placement of a fragment that yields partial groups, which storage can run only over
/// the fragment route.
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

/// The cost terms of a group-by's strategies.
pub(crate) struct Costs {
    pub(crate) scan: ScanCosts,
    /// Number of requests for one scan of the table.
    requests: u64,
    /// Number of partial results in the responses; each has groups of its own.
    answers: u64,
    /// Estimated number of groups in the rows that pass the filter.
    groups: u64,
    /// Estimated number of large groups.
    large: u64,
    /// Estimated share of rows outside of the large groups.
    tail: f64,
}

impl Costs {
    pub(crate) fn of(rows: PlacedScan<'_>, wanted: Option<&PartialAggregate>) -> Self {
        let PlacedScan { plan, context, fragment, capability, .. } = rows;
        let route = filter::route(fragment, capability, &context.options, Side::Auto).ok();
        let scan = ScanCosts::of(plan, context, fragment, route);
        let (requests, answers) = match route {
            Some(Route::Fragment) => {
                (scan.requests, scan.objects.max(plan.partitions.min(rows.splits as usize) as u64))
            }
            _ => (scan.splits, scan.splits),
        };
        let keys: Vec<Expr> = wanted.iter().flat_map(|wanted| &wanted.groups).map(|key| key.expr.clone()).collect();
        let cardinality = Cardinality::of(plan, context, fragment);
        let groups = cardinality.groups(&keys).map_or(ASSUMED_GROUPS, |groups| groups.ceil() as u64);
        let (large, tail) = match cardinality.frequent(&keys, 1.0 / LARGE_GROUP_INVERSE_SHARE as f64) {
            Some(shares) => (shares.len() as u64, (1.0 - shares.iter().sum::<f64>()).max(0.0)),
            None => (ASSUMED_LARGE_GROUPS, ASSUMED_TAIL_SHARE),
        };
        Self { scan, requests, answers, groups, large, tail }
    }

    /// Estimates a phase of `times` scans of the whole table that returns `returned` bytes.
    fn scan(&self, times: u64, returned: u64, storage_s: f64) -> Estimate {
        let (requests, scanned) = (self.requests * times, self.scan.scanned * times);
        self.scan.pushed(Pushed { requests, scanned, returned, storage_s, ..Pushed::default() })
    }

    fn s_per_group_row(&self) -> f64 {
        s_per_row(self.groups as f64)
    }

    fn compute(&self) -> Estimate {
        self.scan.plain(self.scan.passing * self.s_per_group_row())
    }

    fn filtered(&self) -> Estimate {
        let (requests, scanned, returned) = (self.requests, self.scan.scanned, self.scan.sent);
        let engine_s = self.scan.passing * self.s_per_group_row();
        self.scan.pushed(Pushed { requests, scanned, returned, engine_s, ..Pushed::default() })
    }

    /// Estimates one scan that returns partial groups. In a share `tail` of the rows, each row is
    /// returned as a group of its own.
    fn partial(&self, wanted: &PartialAggregate, tail: f64) -> Estimate {
        // Each partial result has groups of its own.
        let groups = (self.answers * self.groups).min(self.scan.passing as u64) + (self.scan.passing * tail) as u64;
        let returned = groups * wanted.schema.fields().len() as u64 * CELL_BYTES;
        let (requests, scanned) = (self.requests, self.scan.scanned);
        let (storage_s, engine_s) =
            (self.scan.passing * self.s_per_group_row(), groups as f64 * self.s_per_group_row());
        let decoded = self.scan.sent;
        self.scan.pushed(Pushed { requests, scanned, returned, decoded, storage_s, engine_s, ..Pushed::default() })
    }

    /// Estimates the seconds of storage for the CASE expressions of `groups` groups, and the bytes
    /// returned.
    fn cases(&self, wanted: &PartialAggregate, groups: u64) -> (f64, u64) {
        let cases = groups * (wanted.calls.len() as u64 + 1);
        (self.scan.passing * cases as f64 * CASE_S_PER_ROW, self.scan.splits * cases * CELL_BYTES)
    }

    fn storage(&self, wanted: &PartialAggregate) -> Estimate {
        let (storage_s, returned) = self.cases(wanted, self.groups);
        let keys = self.scan.passing as u64 * wanted.groups.len() as u64 * CELL_BYTES;
        let (requests, scanned) = (self.requests, self.scan.scanned);
        let first = self.scan.one_of_phases(Pushed { requests, scanned, returned: keys, ..Pushed::default() });
        first + self.scan(1, returned, storage_s)
    }

    /// Estimates the hybrid strategy with `large` large groups and a share `tail` of the rows
    /// outside of them.
    pub(crate) fn hybrid(&self, wanted: &PartialAggregate, large: u64, tail: f64) -> Estimate {
        let sample = self.scan.one_of_phases(Pushed {
            requests: self.scan.splits.min(MAX_SAMPLE_PIECES),
            scanned: (self.scan.scanned as f64 * SAMPLE_SHARE) as u64,
            returned: (self.scan.passing * SAMPLE_SHARE) as u64 * wanted.groups.len() as u64 * CELL_BYTES,
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

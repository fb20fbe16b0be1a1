//! Profiles of queries: the estimates and measurements of each operator.
//!
//! A scan counts into its own [`ScanCounters`](crate::exec::scan_counters::ScanCounters) and into
//! the query's meter, so the two agree: planning and scans add up to the whole, in rows, bytes and
//! requests. Seconds do not, since scans overlap, nor do the dollars of the engine's machine.

pub(crate) mod analyze;
pub(crate) mod collect;
pub(crate) mod text;

use pushdowndb_cost::{Bill, Usage};

pub(crate) use analyze::analyzed;
pub(crate) use collect::Ran;

/// The profile of a query.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The statement's text.
    pub statement: String,
    /// The settings `pushdown.*` that it ran with, by name.
    pub settings: Vec<(String, String)>,
    /// The root of the plan.
    pub root: Operator,
    /// The usage before the plan ran: listing objects, and reading statistics and indexes.
    pub planning: Usage,
    /// The usage in total.
    pub usage: Usage,
    /// The cost.
    pub bill: Bill,
}

/// An operator of a plan.
#[derive(Clone, Debug)]
pub struct Operator {
    /// The name in words: `Hash join`, `Scan of lineitem`.
    pub title: String,
    /// The operator's line in EXPLAIN, without the name.
    pub detail: String,
    /// Whether the operator only moves rows between threads, or observes them.
    pub is_plumbing: bool,
    /// The estimates.
    pub estimated: Measures,
    /// The measurements. Operators other than scans have rows, and busy seconds of all threads.
    pub actual: Measures,
    /// Details of a scan.
    pub scan: Option<Scan>,
    /// The decisions about the operator, with reasons.
    pub decisions: Vec<Decision>,
    /// The inputs.
    pub children: Vec<Operator>,
}

/// Quantities that are estimated before a query runs and measured while it does; `None` is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measures {
    /// Rows of output.
    pub rows: Option<u64>,
    /// Bytes over the network, both ways.
    pub bytes: Option<u64>,
    /// Requests to storage.
    pub requests: Option<u64>,
    /// Seconds from a scan's first request to its last row, or busy seconds of other operators.
    pub seconds: Option<f64>,
    /// The cost of a scan in dollars: requests, bytes, storage's time, and the engine's machine for
    /// its seconds.
    pub usd: Option<f64>,
    /// Bytes spilled by an operator whose data did not fit into memory.
    pub spilled: Option<u64>,
}

/// Details of a scan.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The table's name, or its location.
    pub table: String,
    /// The bytes of its objects.
    pub object_bytes: u64,
    /// The number of objects to scan.
    pub objects: u64,
    /// All counters of the scan; its rows are those passed to the operator above.
    pub usage: Usage,
    /// The node's look-ups in indexes, if there were any.
    pub looked_up: Option<LookedUp>,
}

/// Results of look-ups in indexes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LookedUp {
    /// Rows found by indexes.
    pub rows: u64,
    /// Objects that hold those rows.
    pub objects: u64,
    /// Objects that were scanned because their index was gone, replaced, unreadable or useless.
    pub unused: u64,
}

/// A decision about an operator.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The operator, named as the setting of its strategies: `join`.
    pub operator: String,
    /// The chosen strategy.
    pub taken: String,
    /// The estimate of the chosen strategy, if there is one.
    pub estimate: Option<Measures>,
    /// The reason, and further remarks.
    pub why: String,
    /// The estimates of the other strategies.
    pub losers: Vec<(String, Measures)>,
    /// The strategies that are impossible, with reasons.
    pub refused: Vec<(String, String)>,
}

impl Profile {
    /// All operators, parents before their children.
    pub fn operators(&self) -> Vec<&Operator> {
        let mut all = vec![&self.root];
        let mut next = 0;
        while let Some(operator) = all.get(next).copied() {
            let below = next + 1;
            all.splice(below..below, &operator.children);
            next += 1;
        }
        all
    }
}

impl Operator {
    /// Returns the inputs, with each plumbing operator replaced by its own inputs.
    pub fn shown_children(&self) -> Vec<&Operator> {
        let seen_through = |child| match child {
            &Operator { is_plumbing: true, .. } => Operator::shown_children(child),
            child => vec![child],
        };
        self.children.iter().flat_map(seen_through).collect()
    }
}

//! What a query did, operator by operator, beside what was expected of it: EXPLAIN ANALYZE and profiles.
//!
//! A scan counts into a [`Tally`] of its own beside the query's meter, so the two agree: what was used while planning
//! and what the scans used make up the whole, for rows, bytes and requests. Seconds do not add up, as scans overlap, and
//! with them the dollars of the engine's machine.

mod analyze;
mod collect;
mod tally;
mod text;

pub(crate) use analyze::analyzed;
pub(crate) use collect::Ran;
pub(crate) use tally::Tally;

use pushdowndb_cost::{Bill, Usage};

/// A query that ran.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The statement's text.
    pub statement: String,
    /// The settings of this project that it ran with, by name.
    pub settings: Vec<(String, String)>,
    /// The plan as it ran.
    pub root: Operator,
    /// What was used before the plan ran: for listing objects, and for what had to be known of tables and indexes.
    pub planning: Usage,
    /// What was used in all.
    pub usage: Usage,
    /// What it cost.
    pub bill: Bill,
}

/// An operator of a plan.
#[derive(Clone, Debug)]
pub struct Operator {
    /// Its name in words: `Hash join`, `Scan of lineitem`.
    pub title: String,
    /// What EXPLAIN says it does.
    pub detail: String,
    /// Whether it only moves rows between threads, or watches them go by.
    pub is_plumbing: bool,
    /// What was expected.
    pub estimated: Measures,
    /// What happened. An operator that is no scan has rows, and the time it was busy: on all threads together.
    pub actual: Measures,
    /// What only scans have.
    pub scan: Option<Scan>,
    /// What was chosen for it, and why.
    pub decisions: Vec<Decision>,
    /// The operators that it reads from.
    pub children: Vec<Operator>,
}

/// What can be estimated before a query runs and counted while it does; `None` is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measures {
    /// Rows that come out.
    pub rows: Option<u64>,
    /// Bytes over the network, both ways.
    pub bytes: Option<u64>,
    /// Requests to storage.
    pub requests: Option<u64>,
    /// Of a scan the seconds from its first request to its last row, of other operators those they were busy.
    pub seconds: Option<f64>,
    /// Of a scan alone: requests, bytes, storage's time, and the engine's machine for its seconds.
    pub usd: Option<f64>,
}

/// What a scan did.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The table's name, or where it lies.
    pub table: String,
    /// Its objects, in bytes.
    pub object_bytes: u64,
    /// How many objects it was asked to scan.
    pub objects: u64,
    /// Everything that was counted for it. Rows are those that it gave to the operator above.
    pub usage: Usage,
    /// What the node's look-ups in indexes came to, where there were some.
    pub looked_up: Option<LookedUp>,
}

/// What look-ups in indexes came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LookedUp {
    /// Rows that indexes led to.
    pub rows: u64,
    /// Objects that those lie in.
    pub objects: u64,
    /// Objects that were scanned because their index was gone, replaced, unreadable or of no use.
    pub unused: u64,
}

/// What was chosen for an operator and why.
#[derive(Clone, Debug)]
pub struct Decision {
    /// Called as the setting that names its strategies: `join`.
    pub operator: String,
    /// The strategy that was taken.
    pub taken: String,
    /// What it would cost, where that was estimated.
    pub estimate: Option<Measures>,
    /// Why it was taken, and what else there is to say.
    pub why: String,
    /// What the others would cost.
    pub losers: Vec<(String, Measures)>,
    /// Those that would not do, and why.
    pub refused: Vec<(String, String)>,
}

impl Profile {
    /// Every operator, parents before their children.
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
    /// The operators that it reads from and that do more than to pass rows on.
    pub fn shown_children(&self) -> Vec<&Operator> {
        let seen_through = |child| match child {
            &Operator { is_plumbing: true, .. } => Operator::shown_children(child),
            child => vec![child],
        };
        self.children.iter().flat_map(seen_through).collect()
    }
}

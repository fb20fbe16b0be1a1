//! Placement of scans.

use pushdowndb_contract::{Capability, Fragment, Level};

use super::scan_context::ScanContext;
use super::scan_plan::ScanPlan;

/// The request sent to storage, or the reason for plain reads.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    /// Plain reads, with the reason.
    Compute(String),
    Storage {
        /// The fragment that is sent.
        request: Box<Fragment>,
        /// Whether storage evaluates the filter exactly, so that the rows need no residual filter.
        exact: bool,
        route: Route,
    },
}

/// The protocol of requests to storage.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Route {
    /// S3 Select: a request covers one object or a range of it, and rows come back as text.
    Select,
    /// The fragment route of the node: exact for all of the contract's expressions.
    Fragment,
}

impl Route {
    pub(crate) fn level(self) -> Level {
        match self {
            Self::Select => Level::Select,
            Self::Fragment => Level::Fragment,
        }
    }
}

/// A scan with its placement, as input to the strategies of operators above it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacedScan<'a> {
    pub(crate) plan: &'a ScanPlan,
    pub(crate) context: &'a ScanContext,
    /// Fragment that the scan evaluates on each object.
    pub(crate) fragment: &'a Fragment,
    pub(crate) choice: &'a Choice,
    pub(crate) capability: &'a Capability,
    /// The number of splits of its objects.
    pub(crate) splits: u64,
}

//! The share of a scan that one of several processes runs.

use super::splits::ScanSplit;

/// The splits of a scan that one process reads, assigned by the process that planned the scan.
///
/// A process may cut a split further, but reads nothing outside of its splits, so that each record
/// of the table is read by one process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Share {
    /// The number of the scan in its query.
    pub(crate) number: u64,
    pub(crate) splits: Vec<ScanSplit>,
    /// The number of partitions, the same for every share of a scan.
    pub(crate) partitions: usize,
    /// Whether storage rather than the engine runs the scan; `None` leaves that to the process that
    /// runs the share, which knows the join keys.
    pub(crate) is_pushed: Option<bool>,
    /// Whether the whole table, and not only this share, is small enough to be kept.
    pub(crate) is_kept: bool,
}

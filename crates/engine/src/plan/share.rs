//! The share of a scan that one of several processes runs.

use super::splits::ScanSplit;

/// The splits of a scan that one process reads, dealt by the process that planned the scan.
///
/// A split may be cut further, but nothing outside of it is read: each record of the table is read
/// by one process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Share {
    /// The number of the scan in its query.
    pub(crate) number: u64,
    pub(crate) splits: Vec<ScanSplit>,
    /// The number of partitions, the same for every share of a scan.
    pub(crate) partitions: usize,
    /// Whether storage or the engine runs it, as planned; `None` leaves that to the process, which
    /// knows the keys of joins.
    pub(crate) is_pushed: Option<bool>,
    /// Whether the table, not only this share of it, is small enough to be kept.
    pub(crate) is_kept: bool,
}

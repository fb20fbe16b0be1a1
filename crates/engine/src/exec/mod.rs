//! Physical operators and the execution of scans.

pub(crate) mod adaptive;
pub(crate) mod build_keys;
pub(crate) mod expand_sets;
pub(crate) mod feedback;
pub(crate) mod group_by;
pub(crate) mod held_rows;
pub(crate) mod index_state;
pub(crate) mod key_predicate;
pub(crate) mod metrics;
pub(crate) mod partition_scan;
pub(crate) mod pass_through;
pub(crate) mod remote_scan;
pub(crate) mod row_groups;
pub(crate) mod scan_counters;
pub(crate) mod scan_progress;
pub(crate) mod shared_rows;
pub(crate) mod split;
pub(crate) mod work_queue;

//! Plans of scans, and the decisions about them.

pub(crate) mod estimate;
pub(crate) mod explanation;
pub(crate) mod join_keys;
pub(crate) mod lower;
pub(crate) mod partial_aggregate;
pub(crate) mod placement;
pub(crate) mod scan_context;
pub(crate) mod scan_plan;
pub(crate) mod share;
pub(crate) mod split_sample;
pub(crate) mod splits;
pub(crate) mod top_k;
pub(crate) mod wire;

//! What a fragment does with the rows that pass: project, aggregate, group, order and limit.

pub(crate) mod aggregate;
pub(crate) mod aggregate_plan;
pub(crate) mod group;
pub(crate) mod partial;
pub(crate) mod row_filter;
pub(crate) mod sink;
pub(crate) mod top_k;

//! The operators on the rows that pass the predicate: projection, aggregation, grouping, order and
//! limit.

pub(crate) mod aggregate;
pub(crate) mod aggregate_plan;
pub(crate) mod group;
pub(crate) mod partial;
pub(crate) mod row_filter;
pub(crate) mod sink;
pub(crate) mod top_k;

//! Aggregates without groups.

pub(crate) mod accumulator;
pub mod delegate;
pub mod extremes;
pub(crate) mod tokens;

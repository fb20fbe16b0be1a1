//! Strategies of the operators, one file per operator, and the choice among them.

pub(crate) mod aggregate;
pub(crate) mod filter;
pub(crate) mod group_by;
pub(crate) mod index;
pub(crate) mod join;
pub(crate) mod top_k;

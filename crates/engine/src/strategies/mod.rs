//! Where an operator runs, one file per operator: what its strategies are and how one is chosen.

pub(crate) mod aggregate;
pub(crate) mod costs;
pub(crate) mod decision;
pub(crate) mod estimate;
pub(crate) mod filter;
pub(crate) mod group_by;
pub(crate) mod index;
pub(crate) mod join;
pub(crate) mod top_k;

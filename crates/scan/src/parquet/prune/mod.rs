//! Pruning of row groups and pages that cannot match, by statistics, page indexes and Bloom
//! filters.

pub(crate) mod bloom;
pub(crate) mod pages;
pub(crate) mod row_groups;

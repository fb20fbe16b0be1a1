//! Functions that stand in place of DataFusion's.

pub(crate) mod checked_sum;
pub(crate) mod date_part;

//! Functions that replace DataFusion's.

pub(crate) mod arithmetic;
pub(crate) mod casts;
pub(crate) mod checked_sum;
pub(crate) mod date_part;
pub(crate) mod domain;
pub(crate) mod timezone;

//! Casts whose rules are not Arrow's.

pub(crate) mod decimal;
pub(crate) mod text;

//! Casts that follow other rules than Arrow's.

pub(crate) mod decimal;
pub(crate) mod text;

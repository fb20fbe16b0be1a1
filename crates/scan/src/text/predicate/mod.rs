//! Conditions that are decided on the bytes of a field.

pub(crate) mod condition;
pub(crate) mod text;
pub(crate) mod wanted;

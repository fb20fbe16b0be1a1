//! Conditions that are decided from the bytes of a field.

pub(crate) mod condition;
pub(crate) mod text;
pub(crate) mod wanted;

//! Conversions between the shapes of S3 and those of the store.

pub(crate) mod attributes;
pub(crate) mod conditions;
pub(crate) mod list_keys;
pub(crate) mod tags;

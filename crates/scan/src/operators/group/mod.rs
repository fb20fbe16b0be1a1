//! Aggregates with groups.

pub(crate) mod dictionary_codes;
pub(crate) mod hash_aggregate;
pub(crate) mod keys;
pub(crate) mod shared;
pub(crate) mod state;

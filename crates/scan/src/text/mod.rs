//! What text formats share: where fields lie, what values they spell, which records a byte range holds.

pub(crate) mod columns;
pub(crate) mod fields;
pub(crate) mod records;
pub(crate) mod source;
pub(crate) mod values;

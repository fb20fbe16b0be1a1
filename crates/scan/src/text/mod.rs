//! What text formats share: where fields lie, what values they spell, which records a byte range holds.

pub(crate) mod columns;
pub(crate) mod compare;
pub(crate) mod fields;
mod like;
mod parts;
pub(crate) mod records;
pub(crate) mod source;
pub(crate) mod values;

//! The part of an object that is scanned, and the positions of records in it.

pub(crate) mod locations;
pub(crate) mod positions;
pub(crate) mod scan_range;

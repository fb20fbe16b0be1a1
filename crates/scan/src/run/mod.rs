//! Running a fragment over an object.

pub(crate) mod open;
pub(crate) mod parallel;
pub(crate) mod scan;

//! ORDER BY with LIMIT.

pub(crate) mod first_keys;
pub(crate) mod live;
pub(crate) mod operator;
pub(crate) mod sorted;
pub(crate) mod threshold;

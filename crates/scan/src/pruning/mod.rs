//! What need not be scanned: bounds of values, and where they are kept.

pub(crate) mod bounds;
pub(crate) mod zones;

pub use zones::Zones;

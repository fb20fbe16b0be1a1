//! Zones: bounds of stretches of text, and pruning by bounds.

pub(crate) mod bounds;
pub(crate) mod recorder;
pub(crate) mod saved;
pub(crate) mod search;
pub(crate) mod store;
pub(crate) mod zone;

#[cfg(test)]
mod tests;

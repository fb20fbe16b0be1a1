//! Reading the bytes of an opened object.

pub(crate) mod data;
pub(crate) mod file_version;
pub(crate) mod piece;
pub(crate) mod read_rate;
pub(crate) mod verified_read;
pub(crate) mod verifier;

use std::sync::Arc;

use pushdowndb_scan::{MemoryBudget, ObjectReader};

/// An object on another server.
pub(crate) trait RemoteObject: ObjectReader {
    /// Returns the reader of a scan that draws from `memory`: it may read ahead.
    fn for_scan(&self, memory: &MemoryBudget) -> Arc<dyn RemoteObject>;
}

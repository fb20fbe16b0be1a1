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
    /// Returns a reader for a scan that reserves from `memory`; the reader may read ahead.
    fn for_scan(&self, memory: &MemoryBudget) -> Arc<dyn RemoteObject>;
}

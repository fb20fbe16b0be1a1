//! Faults inside an [`io::Error`], recognized by [`StoreError`](super::StoreError).

use std::io;

/// Bytes of an object are damaged or missing.
#[derive(Debug, thiserror::Error)]
#[error("{object} is damaged: {what}")]
pub(crate) struct Damaged {
    pub object: String,
    pub what: String,
}

impl Damaged {
    /// Returns the damage that `error` contains, if any.
    pub fn in_error(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

/// A sync failed: this one, if it has a source, or an earlier one.
#[derive(Debug, thiserror::Error)]
#[error("the disk failed to keep a write")]
pub(crate) struct LostWrite(#[source] pub Option<io::Error>);

/// A page of the index is damaged.
#[derive(Debug, thiserror::Error)]
#[error("the index of the store is damaged: {0}")]
pub(crate) struct DamagedIndex(pub String);

impl DamagedIndex {
    /// Whether `error` is this fault.
    pub fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|error| error.is::<Self>())
    }
}

/// Whether the disk is full, which is temporary.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

pub(crate) fn is_lost(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|error| error.is::<LostWrite>())
}

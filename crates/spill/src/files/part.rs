//! A sealed part of a file, and where it lies.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::seal::Seal;

/// A complete part of a file.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub seal: Seal,
    /// Where the stored bytes lie. Shared with the upload, which changes it when it is done.
    pub place: Arc<Mutex<Place>>,
}

/// Where the stored bytes of a part lie.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// In memory, either permanently or until it is stored elsewhere.
    Memory(Bytes),
    /// At `offset` of the file's local file.
    Disk { offset: u64 },
    /// In the object store, with this number.
    Remote { number: u64 },
    /// Nowhere: the file was dropped, and no reader is left.
    Gone,
}

impl Part {
    /// Creates a part with the `stored` bytes, which are in memory.
    pub(super) fn new(seal: Seal, stored: Bytes) -> Self {
        Self { seal, place: Arc::new(Mutex::new(Place::Memory(stored))) }
    }
}

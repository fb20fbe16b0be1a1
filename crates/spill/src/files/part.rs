//! A sealed part of a file, and where it lies.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::seal::Seal;

/// A part that is complete.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub seal: Seal,
    /// Shared with the upload, which changes it when it is done.
    pub place: Arc<Mutex<Place>>,
}

/// Where the stored bytes of a part lie.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// In memory: kept there, or still on the way to another place.
    Memory(Bytes),
    /// At `offset` of the file's local file.
    Disk { offset: u64 },
    /// In the object store, with this number.
    Remote { number: u64 },
    /// Nowhere: it has no reader left.
    Gone,
}

impl Part {
    /// A part of which `stored` are the bytes.
    pub(super) fn new(seal: Seal, stored: Bytes) -> Self {
        Self { seal, place: Arc::new(Mutex::new(Place::Memory(stored))) }
    }
}

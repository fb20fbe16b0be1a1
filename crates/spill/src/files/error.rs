//! Errors of spilling, and how they reach those who write and read.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use datafusion_common::DataFusionError;
use tokio::sync::Notify;

/// The error for a part that cannot be given to a reader, with its `file`, its `place` (a path or a
/// key), and what is wrong with it.
pub(super) fn damaged(file: &str, place: &str, wrong: impl fmt::Display) -> DataFusionError {
    DataFusionError::Execution(format!(
        "spilled data was damaged or lost: the part {place} of {file} cannot be read: {wrong}; run the query again"
    ))
}

/// The error for a file that no tier takes more bytes of. `disk` says why the local disk does not.
pub(super) fn no_room(file: &str, disk: &str) -> DataFusionError {
    DataFusionError::ResourcesExhausted(format!(
        "no room to spill {file}: {disk}; raise pushdown.spill_disk_bytes or name a larger disk with \
         pushdown.spill_disk, set pushdown.spill_location to an object store, or raise pushdown.memory"
    ))
}

/// The error of a request for the object `key`: `what` could not be done.
pub(super) fn remote(what: &str, key: &str, error: object_store::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error)).context(format!("spilled data: {key} could not be {what}"))
}

/// The first error of a file, and the signal that something about the file has changed.
#[derive(Debug, Default)]
pub(super) struct Fault {
    first: OnceLock<Arc<DataFusionError>>,
    /// Signals readers that there is more to read, an end, or an error.
    pub changed: Notify,
}

impl Fault {
    /// Makes `error` the one that all later calls get, unless there is one.
    pub(super) fn set(&self, error: DataFusionError) -> DataFusionError {
        let error = self.first.get_or_init(|| Arc::new(error)).clone();
        self.changed.notify_waiters();
        DataFusionError::Shared(error)
    }

    pub(super) fn check(&self) -> Result<(), DataFusionError> {
        match self.first.get() {
            None => Ok(()),
            Some(error) => Err(DataFusionError::Shared(error.clone())),
        }
    }
}

/// An error for [`io::Write`], from which [`DataFusionError::find_root`] finds `error`. One that is
/// put into an [`io::Error`] directly would be skipped, as such an error's source is that of its
/// content.
pub(super) fn to_io(error: DataFusionError) -> io::Error {
    io::Error::other(Cause(error))
}

#[derive(Debug)]
struct Cause(DataFusionError);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

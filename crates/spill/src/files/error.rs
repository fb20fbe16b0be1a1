//! Errors of spilling, and how they reach writers and readers.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use datafusion_common::DataFusionError;
use tokio::sync::Notify;

/// Returns the error for a part of `file` that cannot be read. `place` is its path or key, and
/// `wrong` what is wrong with it.
pub(super) fn damaged(file: &str, place: &str, wrong: impl fmt::Display) -> DataFusionError {
    DataFusionError::Execution(format!(
        "spilled data was damaged or lost: the part {place} of {file} cannot be read: {wrong}; run the query again"
    ))
}

/// Returns the error for a `file` that has no place for more bytes. `disk` says why the local disk
/// has none.
pub(super) fn no_room(file: &str, disk: &str) -> DataFusionError {
    DataFusionError::ResourcesExhausted(format!(
        "no room to spill {file}: {disk}; raise pushdown.spill_disk_bytes or name a larger disk with \
         pushdown.spill_disk, set pushdown.spill_location to an object store, or raise pushdown.memory"
    ))
}

/// Returns the error for a failed request for the object `key`, which could not be `what`.
pub(super) fn remote(what: &str, key: &str, error: object_store::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error)).context(format!("spilled data: {key} could not be {what}"))
}

/// The first error of a file, and a signal that something about the file has changed.
#[derive(Debug, Default)]
pub(super) struct Fault {
    first: OnceLock<Arc<DataFusionError>>,
    /// Signals readers that there are more bytes, that the file has ended, or that there is an
    /// error.
    pub changed: Notify,
}

impl Fault {
    /// Stores `error` unless the file already has an error, and returns the stored one.
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

/// Converts `error` for [`io::Write`] such that [`DataFusionError::find_root`] still finds it. It
/// would not if `error` were put into an [`io::Error`] directly, because the source of an
/// [`io::Error`] is the source of its content.
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

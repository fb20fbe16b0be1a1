//! Options of spilling, for a process and for a query.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::path::Path;

/// The default of [`QueryOptions::part_bytes`]. With 8 MiB, the cost of a request is small.
const PART_BYTES: usize = 8 << 20;

/// The default of [`QueryOptions::buffer_bytes`].
const BUFFER_BYTES: u64 = 64 << 20;

/// The local disk that all queries of a process spill to.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// The folder in which `pushdowndb-spill/<node>` is created (setting `pushdown.spill_disk`).
    pub folder: PathBuf,
    /// The maximum number of bytes of the process's spilled data there; 0 for no limit (setting
    /// `pushdown.spill_disk_bytes`).
    pub quota_bytes: u64,
    /// The number of bytes of the file system that must stay free, even below the quota; `None` for
    /// the larger of 1 GiB and 5 % of the file system.
    pub reserve_bytes: Option<u64>,
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self { folder: std::env::temp_dir(), quota_bytes: 0, reserve_bytes: None }
    }
}

/// A place in an object store to which parts are uploaded: the keys below `prefix` in `store`.
///
/// `store` must be a client that is not used for anything else. Its requests run on threads of this
/// module. If the client reused a pooled connection that is driven by a task of another runtime,
/// its requests would depend on threads of that runtime, which may be blocked in
/// [`std::io::Write::write`] waiting for these very requests.
#[derive(Clone, Debug)]
pub struct RemoteStore {
    /// The client, which does its own retries and timeouts.
    pub store: Arc<dyn ObjectStore>,
    /// The common prefix of manifests and parts of all processes (setting
    /// `pushdown.spill_location`).
    pub prefix: Path,
    /// The same place, as users write it. It identifies the store in manifests: those that dead
    /// processes left on the local disk are compared with it.
    pub url: String,
}

/// Options of spilling for one query.
#[derive(Clone, Debug)]
pub struct QueryOptions {
    /// Whether parts may lie on the local disk of the process.
    pub disk: bool,
    /// The object store for parts that the local disk does not take; `None` for no object store.
    pub remote: Option<RemoteStore>,
    /// The size of an uploaded part, in bytes. Parts on the local disk have at most 1 MiB.
    pub part_bytes: usize,
    /// The maximum number of uploads in flight.
    pub uploads: usize,
    /// The maximum number of bytes in parts that are being filled and, separately, of bytes that
    /// are read ahead.
    ///
    /// Above it, parts are written early, to the disk from 64 KiB and to the object store from an
    /// eighth of `part_bytes`, and nothing is read ahead.
    pub buffer_bytes: u64,
    /// Whether parts are encrypted (AES-256-GCM, with a key that exists only in memory).
    pub encrypt: bool,
    /// The interval at which the manifest in the object store is rewritten, so that its age shows
    /// that the query is alive. Must be far below the age from which `VACUUM` deletes.
    pub manifest_interval: Duration,
}

impl Default for QueryOptions {
    fn default() -> Self {
        Self {
            disk: true,
            remote: None,
            part_bytes: PART_BYTES,
            uploads: 4,
            buffer_bytes: BUFFER_BYTES,
            encrypt: false,
            manifest_interval: Duration::from_secs(3600),
        }
    }
}

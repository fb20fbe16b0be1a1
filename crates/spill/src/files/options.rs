//! Options of spilling, of a process and of a query.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::path::Path;

/// The default of [`QueryOptions::part_bytes`]: an upload of 8 MiB pays for its request.
const PART_BYTES: usize = 8 << 20;

/// The default of [`QueryOptions::buffer_bytes`].
const BUFFER_BYTES: u64 = 64 << 20;

/// The local disk that all queries of a process spill to.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// The folder below which `pushdowndb-spill/<node>` is made (setting `pushdown.spill_disk`).
    pub folder: PathBuf,
    /// The most bytes that spilled data of the process occupies there; 0: no such limit
    /// (setting `pushdown.spill_disk_bytes`).
    pub quota_bytes: u64,
    /// The free bytes of the file system that are left to others, also below the quota;
    /// `None`: the larger of 1 GiB and 5 % of the file system.
    pub reserve_bytes: Option<u64>,
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self { folder: std::env::temp_dir(), quota_bytes: 0, reserve_bytes: None }
    }
}

/// A place in an object store that parts are uploaded to: `prefix` in `store`, shown as `url`.
///
/// `store` must be a client that nothing else uses. Its requests run on threads of this module; a
/// pooled connection that a task of another runtime drives would make them depend on that
/// runtime's threads, which may be waiting in [`std::io::Write::write`] for these very requests.
#[derive(Clone, Debug)]
pub struct RemoteStore {
    /// The client; retries and timeouts are its own.
    pub store: Arc<dyn ObjectStore>,
    /// Where manifests and parts of all processes lie (setting `pushdown.spill_location`).
    pub prefix: Path,
    /// The same place as users write it. Also what tells whether a manifest that a dead process
    /// left on the local disk belongs to this store.
    pub url: String,
}

/// How one query spills.
#[derive(Clone, Debug)]
pub struct QueryOptions {
    /// Whether parts may lie on the local disk of the process.
    pub disk: bool,
    /// Where parts go that the local disk does not take.
    pub remote: Option<RemoteStore>,
    /// The size of an uploaded part, in bytes. Parts on the local disk have at most 1 MiB.
    pub part_bytes: usize,
    /// The most uploads at a time.
    pub uploads: usize,
    /// The most bytes that wait in writers to fill a part and, apart from them, the most that are
    /// read ahead. Above it, shorter parts are written, to the disk from 64 KiB and to the object
    /// store from an eighth of `part_bytes`, and nothing is read ahead.
    pub buffer_bytes: u64,
    /// Whether parts are encrypted (AES-256-GCM, with a key that exists only in memory).
    pub encrypt: bool,
    /// How often the manifest in the object store is rewritten, so that its age tells that the
    /// query lives. Far below the age from which `VACUUM` deletes.
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

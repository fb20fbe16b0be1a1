//! What peers may fill: every bound of the node in one place, with its unit, default and reason.

use std::time::Duration;

/// The bounds of a node. S3's own limits are kept where S3 has one.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Open connections. More are not accepted until one closes; each costs about 64 KiB.
    pub connections: usize,
    /// Time for the head of a request, and how long an idle connection stays open.
    pub header_read: Duration,
    /// How long a peer may leave its side of a transfer untouched before the connection is closed, so that
    /// a stalled client holds no file and no scan.
    pub stall: Duration,
    /// How long requests under way may still run when the node stops.
    pub shutdown: Duration,
    /// The body of a request that is read whole (XML), in bytes. Completing 10,000 parts takes 2 MiB.
    pub request_body_bytes: usize,
    /// The object of one PUT or one part, in bytes: 5 GiB, as in S3.
    pub put_bytes: u64,
    /// The object put together from parts, in bytes: 5 TiB, as in S3.
    pub object_bytes: u64,
    /// The least size of every part but the last, in bytes: 5 MiB, as in S3.
    pub part_min_bytes: u64,
    /// Parts of one upload: 10,000, as in S3.
    pub parts: u32,
    /// Uploads open at once in the whole store; each keeps its parts on disk.
    pub uploads: usize,
    /// An upload that was neither completed nor aborted for so long is dropped.
    pub upload_lifetime: Duration,
    /// User metadata of one object, in bytes: 2 KiB, as in S3.
    pub user_metadata_bytes: usize,
    /// Buckets of a store.
    pub buckets: usize,
    /// Entries of one listing page: 1000, as in S3.
    pub page_entries: usize,
    /// Keys of one DeleteObjects: 1000, as in S3.
    pub delete_keys: usize,
    /// Entries of one directory behind a folder gateway; they are sorted in memory.
    pub directory_entries: usize,
    /// Bytes read from disk at once. Two blocks are in memory per transfer.
    pub block_bytes: usize,
    /// S3 Select requests running at once; each may use a core and some tens of MiB.
    pub selects: usize,
    /// How long a Select request waits for its turn before it is told to slow down.
    pub select_wait: Duration,
    /// Rows leave in frames of about this many bytes.
    pub select_frame_bytes: usize,
    /// A Cont frame is sent when no other frame was for so long, to keep connections alive.
    pub select_keep_alive: Duration,
    /// The footer of a Parquet object, in bytes; it is held in memory while the object is scanned.
    pub footer_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            connections: 1024,
            header_read: Duration::from_secs(60),
            stall: Duration::from_secs(60),
            shutdown: Duration::from_secs(10),
            request_body_bytes: 4 << 20,
            put_bytes: 5 << 30,
            object_bytes: 5 << 40,
            part_min_bytes: 5 << 20,
            parts: 10_000,
            uploads: 10_000,
            upload_lifetime: Duration::from_secs(7 * 24 * 3600),
            user_metadata_bytes: 2048,
            buckets: 10_000,
            page_entries: 1000,
            delete_keys: 1000,
            directory_entries: 1_000_000,
            block_bytes: 1 << 20,
            selects: (4 * cores).max(16),
            select_wait: Duration::from_secs(20),
            select_frame_bytes: 128 << 10,
            select_keep_alive: Duration::from_secs(3),
            footer_bytes: 64 << 20,
        }
    }
}

//! What peers may fill: every bound of the node in one place, with its unit, default and reason.

use std::time::Duration;

use crate::memory;

/// The bounds of a node. S3's own limits are kept where S3 has one.
#[derive(Clone, Debug)]
pub struct Limits {
    /// What the process may hold in memory, in bytes; requests draw what they use from what this leaves them. By default a
    /// quarter of the machine's memory, or half of what its container may have, from 512 MiB to 16 GiB.
    pub memory_bytes: usize,
    /// What all scans together may take of the memory for requests, in percent.
    pub memory_scans: usize,
    /// What all bodies that are read whole may take of the memory for requests, in percent. The rest is for transfers.
    pub memory_bodies: usize,
    /// What the scans of one key may take of what all scans may, and its bodies of what all bodies may, in percent.
    pub memory_key: usize,
    /// What one scan may take of what those of its key may, in percent.
    pub memory_scan: usize,
    /// Open connections. For more, one is closed that serves no request; each costs about 64 KiB.
    pub connections: usize,
    /// The share of connections and of requests under way that one peer address may have, in percent. More than that of a key, so
    /// that two keys behind one address do not stop each other.
    pub peer_share_percent: u8,
    /// The share of connections that one peer address may have before a request on them was authenticated, in percent.
    pub peer_unproven_percent: u8,
    /// The share of requests, scans, buckets and uploads that one key may have, in percent, unless its file says otherwise.
    pub key_share_percent: u8,
    /// Time for a TLS handshake, for the head of a request, and until it is known who sent it.
    pub header_read: Duration,
    /// How long a connection stays open without a request.
    pub idle: Duration,
    /// The head of a request, in bytes: more than any real one with 2 KiB of metadata and a long key.
    pub head_bytes: usize,
    /// Requests under way at once, from the head to the last byte of the answer; each may hold two blocks.
    pub requests: usize,
    /// How long a request waits for others to finish before it is told to slow down.
    pub request_wait: Duration,
    /// How long a request may take altogether, however steadily it moves: 5 GiB at 250 kB/s.
    pub request_time: Duration,
    /// When a client that was told to slow down should come back.
    pub retry_after: Duration,
    /// How far the clock of a client may be from ours: 15 minutes, as in S3. Also how long a captured request
    /// could be sent again.
    pub clock_skew: Duration,
    /// How long a peer may leave its side of a transfer untouched before the connection is closed, so that
    /// a stalled client holds no file and no scan.
    pub stall: Duration,
    /// The least rate of a peer that the node waits for, in bytes per second: slower than any modem.
    pub least_rate: u64,
    /// How long a peer may keep the node waiting altogether, beyond the time that its bytes take at the least rate.
    pub rate_grace: Duration,
    /// Time for the body of a request that is read whole: XML, fragments. Uploads have `least_rate` alone.
    pub document_time: Duration,
    /// How long a node that is told to stop says so at `/readyz` before it stops accepting.
    pub drain_delay: Duration,
    /// How long requests under way may still run when the node stops.
    pub shutdown: Duration,
    /// The body of a request that is read whole (XML), in bytes. Completing 10,000 parts takes 2 MiB.
    pub request_body_bytes: usize,
    /// The file of an upload form, in bytes. It is held in memory, unlike any other upload.
    pub form_bytes: usize,
    /// Upload forms received at once; more wait.
    pub forms: usize,
    /// Copies at once that read their bytes, each of which keeps a core busy with hashing; more wait.
    pub copies: usize,
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
    /// How long the server behind a gateway may stand still before a request to it is given up, and how long a
    /// failed one is tried again.
    pub upstream_wait: Duration,
    /// Objects sent to the server behind a gateway at once; each holds a part in memory.
    pub upstream_sends: usize,
    /// Objects larger than this are sent to the server behind a gateway in parts of this size, in bytes.
    pub upstream_part_bytes: u64,
    /// Bytes read from disk at once. Two blocks are in memory per transfer.
    pub block_bytes: usize,
    /// The blocks of an object that have a checksum each, in bytes; where less is read of one that was not verified
    /// lately, all of it is. For objects to come: those that exist keep theirs.
    pub checksum_block_bytes: usize,
    /// Checksums of blocks that are kept in memory, in bytes: 8 for each block, so that those of 256 GiB fit.
    pub checksum_cache_bytes: usize,
    /// For how long a block that was verified need not be verified again; 0 verifies it with every read.
    pub verify_interval: Duration,
    /// How much a store is scrubbed in a second, in bytes; 0 does not scrub.
    pub scrub_bytes: u64,
    /// S3 Select requests running at once; each may use a core and some tens of MiB.
    pub selects: usize,
    /// Select requests waiting for their turn; more are told to slow down at once. Fewer than `requests`, so that
    /// plain reads always find a place beside them.
    pub selects_waiting: usize,
    /// How long a Select request waits for its turn before it is told to slow down.
    pub select_wait: Duration,
    /// How long one scan may take, so that a client that reads by drops does not keep its turn.
    pub select_time: Duration,
    /// Threads that scan, beside those that answer everything else.
    pub select_threads: usize,
    /// Pieces of one object that are scanned at once for a Select request. Each beyond the first takes a turn that nobody
    /// waits for.
    pub select_pieces: usize,
    /// Rows leave in frames of about this many bytes.
    pub select_frame_bytes: usize,
    /// A Cont frame is sent when no other frame was for so long, to keep connections alive.
    pub select_keep_alive: Duration,
    /// How long the head of a Select answer waits for the first rows, so that a scan that fails at once is an error
    /// response rather than an error frame.
    pub select_first: Duration,
    /// The longest record of a text object or of a Select answer, in bytes: 1 MiB, as in S3.
    pub select_record_bytes: usize,
    /// Splits of one request of the fragment route that are scanned at once. Each beyond the first takes a turn that
    /// nobody waits for.
    pub fragment_splits: usize,
    /// Batches leave in frames of at most this many bytes.
    pub fragment_frame_bytes: usize,
    /// The longest record of a text object on the fragment route, in bytes: what the engine itself would read.
    pub fragment_record_bytes: usize,
    /// What the groups of one split take in memory before the rows of others are passed on, in bytes.
    pub fragment_group_bytes: usize,
    /// What is remembered of the values in objects, in bytes of memory; four times as much is kept on disk.
    pub zone_bytes: usize,
    /// Footers of Parquet objects that are remembered, in bytes of memory.
    pub footer_cache_bytes: usize,
    /// The footer of a Parquet object, in bytes; it is held in memory while the object is scanned.
    pub footer_bytes: usize,
    /// The largest row group of a Parquet object, in uncompressed bytes: 512 MiB, as in S3. The columns wanted of one
    /// are in memory together, compressed.
    pub row_group_bytes: u64,
    /// Free space below which uploads are refused, in bytes: what the index needs to go on deleting.
    pub reserve_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            memory_bytes: memory::default_bytes(),
            memory_scans: 60,
            memory_bodies: 15,
            memory_key: 60,
            memory_scan: 60,
            connections: 1024,
            peer_share_percent: 90,
            peer_unproven_percent: 25,
            key_share_percent: 75,
            header_read: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            head_bytes: 64 << 10,
            requests: 256,
            request_wait: Duration::from_secs(20),
            request_time: Duration::from_secs(6 * 3600),
            retry_after: Duration::from_secs(1),
            clock_skew: Duration::from_secs(15 * 60),
            stall: Duration::from_secs(60),
            least_rate: 1024,
            rate_grace: Duration::from_secs(60),
            document_time: Duration::from_secs(30),
            drain_delay: Duration::ZERO,
            shutdown: Duration::from_secs(10),
            request_body_bytes: 4 << 20,
            form_bytes: 16 << 20,
            forms: 16,
            copies: cores.max(2),
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
            upstream_wait: Duration::from_secs(30),
            upstream_sends: 16,
            upstream_part_bytes: 16 << 20,
            block_bytes: 512 << 10,
            checksum_block_bytes: 64 << 10,
            checksum_cache_bytes: 32 << 20,
            verify_interval: Duration::from_secs(600),
            scrub_bytes: 16 << 20,
            selects: (4 * cores).max(16),
            selects_waiting: 64,
            select_wait: Duration::from_secs(20),
            select_time: Duration::from_secs(3600),
            select_threads: cores,
            select_pieces: cores,
            select_frame_bytes: 128 << 10,
            select_keep_alive: Duration::from_secs(3),
            select_first: Duration::from_secs(1),
            select_record_bytes: pushdown::limits::SELECT_RECORD_BYTES,
            fragment_splits: cores,
            fragment_frame_bytes: 1 << 20,
            fragment_record_bytes: pushdowndb_scan::limits::RECORD_BYTES,
            fragment_group_bytes: 32 << 20,
            zone_bytes: 64 << 20,
            footer_cache_bytes: 32 << 20,
            footer_bytes: 64 << 20,
            reserve_bytes: 64 << 20,
            row_group_bytes: 512 << 20,
        }
    }
}

impl Limits {
    /// What one key may have of `all`, unless its file says otherwise.
    pub(crate) fn key_share(&self, all: usize) -> usize {
        percent(all, self.key_share_percent)
    }

    /// What one peer address may have of `all`.
    pub(crate) fn peer_share(&self, all: usize) -> usize {
        percent(all, self.peer_share_percent)
    }

    /// The connections on which one peer address may have authenticated no request yet.
    pub(crate) fn peer_unproven(&self) -> usize {
        percent(self.connections, self.peer_unproven_percent)
    }
}

/// Rounded up, so that a share of something is never nothing.
fn percent(all: usize, percent: u8) -> usize {
    all.saturating_mul(usize::from(percent)).div_ceil(100).min(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_documented() {
        let page = include_str!("../../../docs/operations.md");
        let fields = format!("{:?}", Limits::default());
        let names = fields.trim_start_matches("Limits { ").split(", ").filter_map(|field| field.split(": ").next());
        let missing: Vec<_> = names.filter(|name| !page.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "docs/operations.md does not tell of {missing:?}");
    }

    #[test]
    fn shares_leave_places_for_others() {
        let limits = Limits::default();
        for all in [limits.connections, limits.requests, limits.selects, limits.uploads, limits.buckets] {
            assert!(limits.key_share(all) < limits.peer_share(all) && limits.peer_share(all) < all, "{all}");
        }
        assert_eq!((percent(1, 75), percent(0, 75), percent(16, 75)), (1, 0, 12));
    }

    #[test]
    fn scans_leave_places_for_plain_reads() {
        let limits = Limits::default();
        assert!(limits.selects + limits.selects_waiting < limits.requests);
        assert!(limits.requests < limits.connections);
    }
}

//! Limits on the resources that clients can use, each with its unit, default and reason.

use std::time::Duration;

use crate::process::default_memory_bytes;

/// The limits of a node. Where S3 has a limit, the default is the same.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum memory of the process, in bytes; requests share what is left after fixed costs. By
    /// default a quarter of the machine's memory or half of its container's, from 512 MiB to 16
    /// GiB.
    pub memory_bytes: usize,
    /// Share of the memory for requests that all scans together may use, in percent.
    pub memory_scans: usize,
    /// Share of the memory for requests that bodies read as a whole may use together, in percent.
    /// The rest is for transfers.
    pub memory_bodies: usize,
    /// Share of the memory of all scans, and of all bodies, that one key may use, in percent.
    pub memory_key: usize,
    /// Share of the scan memory of a key that one of its scans may use, in percent.
    pub memory_scan: usize,
    /// Maximum open connections, about 64 KiB each. If there are more, one without a request is
    /// closed.
    pub connections: usize,
    /// Share of all connections and requests that one peer address may have, in percent. It is
    /// higher than that of a key, so that two keys behind one address do not block each other.
    pub peer_share_percent: u8,
    /// Share of all connections that one peer address may have without an authenticated request, in
    /// percent.
    pub peer_unproven_percent: u8,
    /// Share of all requests, scans, buckets and uploads that one key may have, in percent, unless
    /// the keyring file says otherwise.
    pub key_share_percent: u8,
    /// Maximum time of a TLS handshake, of a request head, and until a request is authenticated.
    pub header_read: Duration,
    /// Maximum time that a connection may stay open without a request.
    pub idle: Duration,
    /// Maximum size of a request head, in bytes: room for 2 KiB of metadata and a long key.
    pub head_bytes: usize,
    /// Maximum requests in progress, from the head to the last byte of the response. Each may hold
    /// two blocks.
    pub requests: usize,
    /// Maximum time that a request waits for a slot before it is refused with SlowDown.
    pub request_wait: Duration,
    /// Maximum time of a request: 5 GiB at 250 kB/s.
    pub request_time: Duration,
    /// The Retry-After of refused requests.
    pub retry_after: Duration,
    /// Maximum clock skew of a client: 15 minutes, as in S3. Also how long a captured request could
    /// be replayed.
    pub clock_skew: Duration,
    /// Maximum time that a peer may leave its side of a transfer untouched. A stalled client must
    /// not hold files and scans.
    pub stall: Duration,
    /// Minimum transfer rate of a peer, in bytes per second; slower transfers are ended.
    pub least_rate: u64,
    /// Maximum time that a peer may keep the node waiting, in addition to the time that its bytes
    /// take at `least_rate`.
    pub rate_grace: Duration,
    /// Maximum time to receive a body that is read whole: XML, fragments. Uploads are bounded by
    /// `least_rate` alone.
    pub document_time: Duration,
    /// How long a stopping node reports itself as not ready before it stops accepting.
    pub drain_delay: Duration,
    /// Maximum time that a stopping node waits for requests in progress.
    pub shutdown: Duration,
    /// Maximum size of a body that is read whole (XML), in bytes. Completing 10,000 parts takes 2
    /// MiB.
    pub request_body_bytes: usize,
    /// Maximum size of the file in an upload form, in bytes. Unlike other uploads, it is held in
    /// memory.
    pub form_bytes: usize,
    /// Maximum upload forms received at once; more wait.
    pub forms: usize,
    /// Maximum copies in progress that read and hash their bytes, each of which uses a core; more
    /// wait.
    pub copies: usize,
    /// Maximum size of one PUT or part, in bytes: 5 GiB, as in S3.
    pub put_bytes: u64,
    /// Maximum size of an object assembled from parts, in bytes: 5 TiB, as in S3.
    pub object_bytes: u64,
    /// Minimum size of each part but the last, in bytes: 5 MiB, as in S3.
    pub part_min_bytes: u64,
    /// Maximum parts of one upload: 10,000, as in S3.
    pub parts: u32,
    /// Maximum open uploads of the store; each keeps its parts on disk.
    pub uploads: usize,
    /// How long an upload may stay open before it is dropped.
    pub upload_lifetime: Duration,
    /// Maximum size of an object's user metadata, in bytes: 2 KiB, as in S3.
    pub user_metadata_bytes: usize,
    /// Maximum buckets of a store.
    pub buckets: usize,
    /// Maximum entries of a listing page: 1000, as in S3.
    pub page_entries: usize,
    /// Maximum keys of one DeleteObjects: 1000, as in S3.
    pub delete_keys: usize,
    /// Maximum entries of a folder or listing behind a gateway that are sorted in memory.
    pub directory_entries: usize,
    /// Maximum silence of the server behind a gateway, and how long a failed request to it is
    /// retried.
    pub upstream_wait: Duration,
    /// Maximum objects sent to the server behind a gateway at once; each holds a part in memory.
    pub upstream_sends: usize,
    /// Part size of objects sent to the server behind a gateway, in bytes; smaller objects are sent
    /// in one request.
    pub upstream_part_bytes: u64,
    /// Bytes per disk read. A transfer holds two such blocks in memory.
    pub block_bytes: usize,
    /// Size of a block with its own checksum, in bytes. Reading part of an unverified block reads
    /// all of it. A change applies to new objects only.
    pub checksum_block_bytes: usize,
    /// Maximum memory of cached block checksums, in bytes. Each takes 8 bytes, so the default
    /// covers 256 GiB of objects.
    pub checksum_cache_bytes: usize,
    /// How long a verified block is trusted; 0 verifies it on every read.
    pub verify_interval: Duration,
    /// Bytes scrubbed per second; 0 disables scrubbing.
    pub scrub_bytes: u64,
    /// Maximum bytes read from the store's disks per second, by all requests together; 0 is no
    /// limit. For disks that are shared with other programs, and for experiments.
    pub disk_bytes: u64,
    /// Maximum scans at once; each may use a core and some tens of MiB.
    pub selects: usize,
    /// Maximum scans in the queue; more are refused. Fewer than `requests`, so that plain reads
    /// always find a slot.
    pub selects_waiting: usize,
    /// Maximum wait of a scan for its permit, before it is refused with SlowDown.
    pub select_wait: Duration,
    /// Maximum time of one scan, so that a slow reader does not keep its permit.
    pub select_time: Duration,
    /// Threads for scans, apart from those that answer requests.
    pub select_threads: usize,
    /// Maximum pieces of one object scanned in parallel for a Select request. Each beyond the first
    /// needs a free permit.
    pub select_pieces: usize,
    /// Size of the frames of rows, in bytes.
    pub select_frame_bytes: usize,
    /// Interval of Cont frames while no other frames are sent, to keep connections alive.
    pub select_keep_alive: Duration,
    /// How long the head of a Select response waits for the first rows, so that a scan that fails
    /// at once is an error response instead of an error frame.
    pub select_first: Duration,
    /// Maximum record of a text object or a Select response, in bytes: 1 MiB, as in S3.
    pub select_record_bytes: usize,
    /// Maximum splits of one fragment request scanned in parallel. Each beyond the first needs a
    /// free permit.
    pub fragment_splits: usize,
    /// Maximum size of a frame of batches, in bytes.
    pub fragment_frame_bytes: usize,
    /// Maximum record of a text object for fragments, in bytes: the same as the engine's own limit.
    pub fragment_record_bytes: usize,
    /// Maximum memory of the groups of one split, in bytes. Rows of further groups are returned
    /// partially aggregated.
    pub fragment_group_bytes: usize,
    /// Maximum memory of cached zones, in bytes; files on disk take four times as much.
    pub zone_bytes: usize,
    /// Maximum memory of cached Parquet footers, in bytes.
    pub footer_cache_bytes: usize,
    /// Maximum footer of a Parquet object, in bytes; it is in memory during a scan.
    pub footer_bytes: usize,
    /// Maximum row group of a Parquet object, in uncompressed bytes: 512 MiB, as in S3. The
    /// selected columns of a row group are in memory together, compressed.
    pub row_group_bytes: u64,
    /// Disk space that uploads must leave free, in bytes: what the index needs to go on deleting.
    pub reserve_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            memory_bytes: default_memory_bytes(),
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
            disk_bytes: 0,
            selects: (4 * cores).max(16),
            selects_waiting: 64,
            select_wait: Duration::from_secs(20),
            select_time: Duration::from_secs(3600),
            select_threads: cores,
            select_pieces: cores,
            select_frame_bytes: 128 << 10,
            select_keep_alive: Duration::from_secs(3),
            select_first: Duration::from_secs(1),
            select_record_bytes: pushdowndb_contract::limits::SELECT_RECORD_BYTES,
            fragment_splits: cores,
            fragment_frame_bytes: 1 << 20,
            fragment_record_bytes: pushdowndb_scan::limits::MAX_RECORD_BYTES,
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
    /// The default share of one key in `all`.
    pub(crate) fn key_share(&self, all: usize) -> usize {
        percent(all, self.key_share_percent)
    }

    /// The share of one peer address in `all`.
    pub(crate) fn peer_share(&self, all: usize) -> usize {
        percent(all, self.peer_share_percent)
    }

    /// The maximum connections of one peer address without an authenticated request.
    pub(crate) fn peer_unproven(&self) -> usize {
        percent(self.connections, self.peer_unproven_percent)
    }
}

/// Computes `percent` of `all`, rounded up, so that a share of something is never zero.
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

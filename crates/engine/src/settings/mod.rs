//! The settings of a session: `SET pushdown.level = 'none'` and the like.

mod memory;
mod values;

use std::num::NonZeroU32;
use std::time::Duration;

use datafusion::common::config::{ConfigExtension, ConfigOptions};
use datafusion::common::extensions_options;
use pushdowndb_contract::{Error, Level, Result};

use crate::access::Mode;

pub(crate) use values::{
    Adaptivity, DiskLimit, Distribution, FilterStrategy, GroupByStrategy, HighestLevel, JoinStrategy, MemoryLimit,
    Objective, Side, SpillCompression, TopKStrategy, Use,
};

extensions_options! {
    /// The settings `pushdown.*`; their comments are the help that users see.
    pub(crate) struct PushdownOptions {
        /// How much storage may do: auto, none, select, fragment
        pub(crate) level: HighestLevel, default = HighestLevel::Auto
        /// Where filters and projections run: auto, compute, storage, index
        pub(crate) filter: FilterStrategy, default = FilterStrategy::Auto
        /// Where aggregates without groups run: auto, compute, storage
        pub(crate) aggregate: Side, default = Side::Auto
        /// How joins run: auto, baseline, filtered, bloom
        pub(crate) join: JoinStrategy, default = JoinStrategy::Auto
        /// How GROUP BY and DISTINCT run: auto, compute, filtered, storage, hybrid
        pub(crate) group_by: GroupByStrategy, default = GroupByStrategy::Auto
        /// How ORDER BY with a LIMIT runs: auto, compute, sampling, storage
        pub(crate) top_k: TopKStrategy, default = TopKStrategy::Auto
        /// Whether the rows of one scan serve later scans of the same query: auto, none
        pub(crate) reuse: Use, default = Use::Auto
        /// Whether tables are looked at first, by few small reads, to choose better: auto, none
        pub(crate) statistics: Use, default = Use::Auto
        /// Who scans the splits of a running scan, storage or the engine: auto, none (as chosen
        /// before), both
        pub(crate) adaptive: Adaptivity, default = Adaptivity::Auto
        /// What is chosen for: latency or cost
        pub(crate) objective: Objective, default = Objective::Latency
        /// The share of other keys that a join's Bloom filter lets pass; a server's limits may
        /// raise it
        pub(crate) false_positives: f64, default = 0.01
        /// Groups that a hybrid GROUP BY aggregates by S3 Select; 0 is as many as are large
        pub(crate) large_groups: usize, default = 0
        /// Rows that ORDER BY with a LIMIT samples; 0 is as many as move the fewest bytes
        pub(crate) sample_rows: u64, default = 0
        /// The prices of the bill: paper, paper-egress, aws, or the path of a TOML file
        pub(crate) price_book: String, default = "paper".to_string()
        /// A query may move at most this many bytes over the network; 0 is no cap
        pub(crate) max_bytes: u64, default = 0
        /// A query may cost at most this many dollars; 0 is no cap
        pub(crate) max_usd: f64, default = 0.0
        /// Requests in flight per partition of a pushed scan; 0 is as many as keep storage busy:
        /// what our node says, else 4
        pub(crate) requests: usize, default = 0
        /// Plain reads in flight per scan of a server that answers late; 0 is as many as it answers
        /// faster for, 1 reads it like one that is near
        pub(crate) reads: usize, default = 0
        /// Nodes before the bucket to which fragments go: http://host:9000,dns+http://name:9000
        pub(crate) nodes: String, default = String::new()
        /// Bytes a second of the link that all endpoints of a table share; 0 is unknown, and each has
        /// its own
        pub(crate) uplink: u64, default = 0
        /// Bytes of small tables that are read once, whole, and kept for later queries instead of being
        /// pushed to: those of at most 1/64 of this, and 1 MiB; 0 keeps none
        pub(crate) keep_bytes: u64, default = 64 * 1024 * 1024
        /// Processes that run large queries together: http://host:9100,https://host:9100
        pub(crate) workers: String, default = String::new()
        /// Which queries run on pushdown.workers: auto (large ones), always, none
        pub(crate) distribute: Distribution, default = Distribution::Auto
        /// Objects that can be split are scanned in pieces of this many bytes when pushed
        pub(crate) split_bytes: u64, default = 16 * 1024 * 1024
        /// Rows of a pushed split are held back until it is complete, up to this many bytes
        pub(crate) buffer_bytes: u64, default = 32 * 1024 * 1024
        /// A scan whose connection is silent for this many seconds gives it up and tries again;
        /// other reads do after 300
        pub(crate) timeout_s: u64, default = 30
        /// A query is stopped after this many seconds; 0 is no limit
        pub(crate) query_timeout_s: u64, default = 0
        /// How often a failed request is sent again before the scan falls back or fails
        pub(crate) retries: usize, default = 3
        /// Memory of all queries: auto (70 % of the machine or its container), none (no limit), or
        /// a size such as 512MB; what does not fit is spilled
        pub(crate) memory: MemoryLimit, default = MemoryLimit::Auto
        /// The folder for spilled data; empty is the system's folder for temporary files
        pub(crate) spill_disk: String, default = String::new()
        /// Bytes that spilled data may take on the disk, such as 20GB: auto is all that is free but
        /// a reserve, 0 is none, so that all goes to pushdown.spill_location
        pub(crate) spill_disk_bytes: DiskLimit, default = DiskLimit::Auto
        /// Where spilled data goes for which the disk has no room, such as s3://bucket/folder;
        /// empty is nowhere
        pub(crate) spill_location: String, default = String::new()
        /// How spilled data is compressed: lz4, zstd, none
        pub(crate) spill_compression: SpillCompression, default = SpillCompression::Lz4
        /// Whether what is spilled to pushdown.spill_location is encrypted with a key of the query
        pub(crate) spill_encryption: bool, default = false
    }
}

impl ConfigExtension for PushdownOptions {
    const PREFIX: &'static str = "pushdown";
}

/// The setting that may name a file of prices.
pub(crate) const PRICE_BOOK: &str = "pushdown.price_book";

/// The setting that names the folder for spilled data.
pub(crate) const SPILL_DISK: &str = "pushdown.spill_disk";

/// The setting that names the store for spilled data.
pub(crate) const SPILL_LOCATION: &str = "pushdown.spill_location";

/// The setting that names worker processes.
pub(crate) const WORKERS: &str = "pushdown.workers";

/// The settings that name places on the disk, and the access that they need. A test in
/// `tests/it/access` fails if DataFusion has others.
pub(crate) const LOCATION_SETTINGS: [(&str, Mode); 3] =
    [(PRICE_BOOK, Mode::Read), (SPILL_DISK, Mode::Write), ("datafusion.catalog.location", Mode::Read)];

/// Whether indexes are used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum IndexUse {
    /// Never.
    Never,
    /// If that is probably fastest.
    Auto,
    /// If there is one.
    Always,
}

impl PushdownOptions {
    /// The options of a session.
    pub(crate) fn of(config: &ConfigOptions) -> Self {
        config.extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// The highest level allowed, `None` for auto.
    pub(crate) fn level_cap(&self) -> Option<Level> {
        match self.level {
            HighestLevel::Auto => None,
            HighestLevel::None => Some(Level::None),
            HighestLevel::Select => Some(Level::Select),
            HighestLevel::Fragment => Some(Level::Fragment),
        }
    }

    /// Returns the side that runs filters that no index answers.
    pub(crate) fn filter_side(&self) -> Side {
        match self.filter {
            FilterStrategy::Auto | FilterStrategy::Index => Side::Auto,
            FilterStrategy::Compute => Side::Compute,
            FilterStrategy::Storage => Side::Storage,
        }
    }

    /// Returns whether filters are looked up in indexes.
    pub(crate) fn index_use(&self) -> IndexUse {
        match self.filter {
            FilterStrategy::Index => IndexUse::Always,
            FilterStrategy::Auto if !self.is_baseline() => IndexUse::Auto,
            _ => IndexUse::Never,
        }
    }

    /// Returns which side scans the splits of a running scan. With the objective `cost`, the chosen
    /// side keeps them: adapting saves seconds, not dollars.
    pub(crate) fn adaptivity(&self) -> Adaptivity {
        match (self.adaptive, self.objective) {
            (Adaptivity::Auto, Objective::Cost) => Adaptivity::None,
            (asked, _) => asked,
        }
    }

    /// Whether tables are sampled before they are read.
    pub(crate) fn uses_statistics(&self) -> bool {
        self.statistics == Use::Auto && !self.is_baseline()
    }

    /// Whether rows of one scan serve other scans.
    pub(crate) fn reuses_rows(&self) -> bool {
        self.reuse == Use::Auto && !self.is_baseline()
    }

    /// Whether the query runs as the baseline: plain reads of what it needs, without samples,
    /// indexes or shared scans.
    pub(crate) fn is_baseline(&self) -> bool {
        self.level == HighestLevel::None
    }

    /// Fails if a value is out of range.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.max_usd.is_finite() || self.max_usd < 0.0 {
            return Err(Error::invalid("pushdown.max_usd must be a number of dollars, 0 or more"));
        }
        if !(1e-6..=0.5).contains(&self.false_positives) {
            return Err(Error::invalid("pushdown.false_positives must be between 0.000001 and 0.5"));
        }
        if self.split_bytes == 0 {
            return Err(Error::invalid("pushdown.split_bytes must be at least 1"));
        }
        if let MemoryLimit::Bytes(bytes) = self.memory
            && bytes < MIN_MEMORY_BYTES
        {
            return Err(Error::invalid(format!(
                "pushdown.memory = {bytes}: a query needs at least {MIN_MEMORY_BYTES} bytes, also to spill; none is no limit"
            )));
        }
        Ok(())
    }

    /// Returns the requests in flight per partition, if storage does not report how many keep it
    /// busy.
    pub(crate) fn requests(&self) -> usize {
        if self.requests == 0 { DEFAULT_REQUESTS_PER_PARTITION } else { self.requests }
    }

    /// Returns the size up to which tables are read whole and cached; 0 if settings say where a
    /// scan runs.
    pub(crate) fn kept_table_bytes(&self) -> u64 {
        let is_free = self.level == HighestLevel::Auto
            && self.filter == FilterStrategy::Auto
            && self.aggregate == Side::Auto
            && self.join == JoinStrategy::Auto
            && self.group_by == GroupByStrategy::Auto
            && self.top_k == TopKStrategy::Auto
            && self.uses_statistics();
        if is_free { (self.keep_bytes / KEPT_TABLES).min(MAX_KEPT_TABLE_BYTES) } else { 0 }
    }

    /// Returns the requests in flight for each of `partitions`, if `wanted` requests in total keep
    /// storage busy.
    pub(crate) fn requests_at_once(&self, partitions: usize, wanted: Option<NonZeroU32>) -> usize {
        match wanted.filter(|_| self.requests == 0) {
            Some(wanted) => (wanted.get() as usize).div_ceil(partitions.max(1)).min(DEFAULT_REQUESTS_PER_PARTITION),
            None => self.requests(),
        }
    }

    /// Returns the idle timeout of connections.
    pub(crate) fn idle_timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_s.max(1))
    }
}

/// Number of tables of the maximum size that the cache holds.
const KEPT_TABLES: u64 = 64;

/// Maximum size of a table that is cached. Over a gigabit link, it takes 8 ms, about the time of a
/// request.
const MAX_KEPT_TABLE_BYTES: u64 = 1024 * 1024;

/// Minimum memory limit of a session.
const MIN_MEMORY_BYTES: u64 = 1 << 20;

/// Default requests in flight per partition, if storage does not report how many keep it busy; the
/// maximum if it does.
const DEFAULT_REQUESTS_PER_PARTITION: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_requests_than_keep_storage_busy() {
        let at_once = |requests, partitions, wanted| {
            let options = PushdownOptions { requests, ..PushdownOptions::default() };
            options.requests_at_once(partitions, NonZeroU32::new(wanted))
        };
        assert_eq!([at_once(0, 1, 0), at_once(0, 3, 0)], [4, 4], "storage does not say");
        assert_eq!([at_once(0, 1, 2), at_once(0, 2, 2), at_once(0, 4, 9), at_once(0, 1, 33)], [2, 1, 3, 4]);
        assert_eq!(at_once(7, 4, 2), 7, "as asked for");
    }
}

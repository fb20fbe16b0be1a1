//! The settings of a session: `SET pushdown.level = 'none'` and the like.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use datafusion::common::Result as DfResult;
use datafusion::common::config::{ConfigExtension, ConfigField, ConfigOptions, Visit};
use datafusion::common::extensions_options;
use pushdowndb_contract::{Error, Level, Result};
use pushdowndb_cost::units::parse_bytes;

use crate::access::Mode;
use crate::error::to_datafusion;
use crate::machine::default_memory_bytes;

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
        /// The prices of the bill: paper, paper-egress, or the path of a TOML file
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

/// The settings that name places on the disk, and the access that they need. A test in
/// `tests/it/access` fails if DataFusion has others.
pub(crate) const LOCATION_SETTINGS: [(&str, Mode); 3] =
    [(PRICE_BOOK, Mode::Read), (SPILL_DISK, Mode::Write), ("datafusion.catalog.location", Mode::Read)];

/// Defines a setting whose values are words.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$about_value:meta])* $value:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub(crate) enum $name {
            $($(#[$about_value])* $value,)+
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$value => $word,)+ })
            }
        }

        impl ConfigField for $name {
            fn visit<V: Visit>(&self, visitor: &mut V, key: &str, description: &'static str) {
                visitor.some(key, self, description);
            }

            fn set(&mut self, _: &str, value: &str) -> DfResult<()> {
                *self = one_of(value, &[$(($word, Self::$value),)+]).map_err(to_datafusion)?;
                Ok(())
            }
        }
    };
}

/// Parses a word, in any case of its letters.
fn one_of<T: Copy>(value: &str, all: &[(&str, T)]) -> Result<T> {
    let found = all.iter().find(|(known, _)| known.eq_ignore_ascii_case(value)).map(|(_, meaning)| *meaning);
    found.ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|(known, _)| *known).collect();
        Error::invalid(format!("'{value}' is not one of {}", known.join(", ")))
    })
}

words! {
    /// The highest level of pushdown that is used.
    HighestLevel {
        /// Whatever storage can do.
        Auto = "auto",
        None = "none",
        Select = "select",
        Fragment = "fragment",
    }
}

words! {
    /// The side that runs an operator.
    Side {
        /// Chosen per query.
        Auto = "auto",
        /// The engine, over plain reads.
        Compute = "compute",
        /// Storage, if it can.
        Storage = "storage",
    }
}

words! {
    /// How rows are filtered.
    FilterStrategy {
        /// Chosen per query.
        Auto = "auto",
        /// By the engine, over plain reads.
        Compute = "compute",
        /// By storage, if it can.
        Storage = "storage",
        /// By an index, if there is one.
        Index = "index",
    }
}

words! {
    /// Whether an optimization is used.
    Use {
        /// If it pays.
        Auto = "auto",
        None = "none",
    }
}

words! {
    /// Which side scans the splits of a running scan.
    Adaptivity {
        /// The faster side, or both.
        Auto = "auto",
        /// The side chosen by the plan.
        None = "none",
        /// Both, regardless of their speed.
        Both = "both",
    }
}

words! {
    /// The quantity by which strategies are compared.
    Objective {
        /// Seconds.
        Latency = "latency",
        /// Dollars, by the price book.
        Cost = "cost",
    }
}

words! {
    /// How the tables of a join are scanned.
    JoinStrategy {
        /// Chosen per join.
        Auto = "auto",
        /// Plain reads.
        Baseline = "baseline",
        /// Each by its own filters.
        Filtered = "filtered",
        /// The second also by the keys of the first.
        Bloom = "bloom",
    }
}

words! {
    /// How the first rows of an order are found.
    TopKStrategy {
        /// Chosen per query.
        Auto = "auto",
        /// The engine sorts all rows.
        Compute = "compute",
        /// A sample bounds the rows that storage sends.
        Sampling = "sampling",
        /// Storage sends the first rows of each split, if it can.
        Storage = "storage",
    }
}

words! {
    /// How rows are grouped.
    GroupByStrategy {
        /// Chosen per query.
        Auto = "auto",
        /// The engine, over plain reads.
        Compute = "compute",
        /// The engine, over rows that storage filters and projects.
        Filtered = "filtered",
        /// Storage.
        Storage = "storage",
        /// Storage for large groups, the engine for the rest.
        Hybrid = "hybrid",
    }
}

words! {
    /// How spilled data is compressed.
    SpillCompression {
        Lz4 = "lz4",
        Zstd = "zstd",
        None = "none",
    }
}

/// Defines a setting that is a number of bytes or a word.
macro_rules! sizes {
    ($(#[$about:meta])* $name:ident { $($(#[$about_word:meta])* $word:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub(crate) enum $name {
            $($(#[$about_word])* $word,)+
            /// This many bytes.
            Bytes(u64),
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$word => f.write_str($text),)+
                    Self::Bytes(bytes) => write!(f, "{bytes}"),
                }
            }
        }

        impl ConfigField for $name {
            fn visit<V: Visit>(&self, visitor: &mut V, key: &str, description: &'static str) {
                visitor.some(key, self, description);
            }

            fn set(&mut self, key: &str, value: &str) -> DfResult<()> {
                let words = [$(($text, Self::$word),)+];
                let word = words.iter().find(|(text, _)| text.eq_ignore_ascii_case(value.trim()));
                *self = match word {
                    Some((_, word)) => *word,
                    None => Self::Bytes(parse_bytes(value.trim()).map_err(|error| {
                        let words: Vec<&str> = words.iter().map(|(text, _)| *text).collect();
                        to_datafusion(Error::invalid(format!("{key}: {error}, or {}", words.join(", "))))
                    })?),
                };
                Ok(())
            }
        }
    };
}

sizes! {
    /// The memory of all queries.
    MemoryLimit {
        /// A part of the machine's memory, or of its container's.
        Auto = "auto",
        /// No limit.
        None = "none",
    }
}

sizes! {
    /// The bytes that spilled data may take on the disk.
    DiskLimit {
        /// What is free, but a reserve.
        Auto = "auto",
    }
}

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

    /// The side that runs filters which no index answers.
    pub(crate) fn filter_side(&self) -> Side {
        match self.filter {
            FilterStrategy::Auto | FilterStrategy::Index => Side::Auto,
            FilterStrategy::Compute => Side::Compute,
            FilterStrategy::Storage => Side::Storage,
        }
    }

    /// Whether filters are looked up in indexes.
    pub(crate) fn index_use(&self) -> IndexUse {
        match self.filter {
            FilterStrategy::Index => IndexUse::Always,
            FilterStrategy::Auto if !self.is_baseline() => IndexUse::Auto,
            _ => IndexUse::Never,
        }
    }

    /// Which side scans the splits of a running scan. With the objective `cost` it stays the chosen
    /// one: adapting saves seconds, not dollars.
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

    /// Whether the query runs as the baseline: it reads what it needs, without samples, indexes or
    /// shared scans.
    pub(crate) fn is_baseline(&self) -> bool {
        self.level == HighestLevel::None
    }

    /// Refuses values out of range.
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

    /// The requests in flight of each partition, if storage does not report how many keep it busy.
    pub(crate) fn requests(&self) -> usize {
        if self.requests == 0 { DEFAULT_REQUESTS_PER_PARTITION } else { self.requests }
    }

    /// The requests in flight of each of `partitions`, if `wanted` in all keep storage busy.
    pub(crate) fn requests_at_once(&self, partitions: usize, wanted: Option<NonZeroU32>) -> usize {
        match wanted.filter(|_| self.requests == 0) {
            Some(wanted) => (wanted.get() as usize).div_ceil(partitions.max(1)).min(DEFAULT_REQUESTS_PER_PARTITION),
            None => self.requests(),
        }
    }

    /// The memory of the queries, in bytes; `None` without a limit.
    pub(crate) fn memory_bytes(&self) -> Option<usize> {
        match self.memory {
            MemoryLimit::Auto => Some(default_memory_bytes()),
            MemoryLimit::None => None,
            MemoryLimit::Bytes(bytes) => Some(usize::try_from(bytes).unwrap_or(usize::MAX)),
        }
    }

    /// The rows of a batch: fewer where many batches would not fit into memory.
    pub(crate) fn batch_rows(&self) -> usize {
        match self.memory {
            MemoryLimit::Bytes(bytes) => usize::try_from(bytes / MEMORY_BYTES_PER_BATCH_ROW)
                .unwrap_or(BATCH_ROWS)
                .clamp(MIN_BATCH_ROWS, BATCH_ROWS),
            MemoryLimit::Auto | MemoryLimit::None => BATCH_ROWS,
        }
    }

    /// `bytes`, or one for each `divisor` bytes of the memory limit if that is less.
    pub(crate) fn bytes_within(&self, bytes: u64, divisor: u64) -> u64 {
        match self.memory {
            MemoryLimit::Bytes(limit) => bytes.min(limit / divisor),
            MemoryLimit::Auto | MemoryLimit::None => bytes,
        }
    }

    /// The bytes of rows that a partition of a scan holds back until their split is complete.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.bytes_within(self.buffer_bytes, MEMORY_BYTES_PER_HELD_BYTE)
    }

    /// The time that a connection may be silent.
    pub(crate) fn idle_timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_s.max(1))
    }
}

/// The rows of a batch, and the fewest.
const BATCH_ROWS: usize = 8192;
const MIN_BATCH_ROWS: usize = 128;

/// Bytes of the memory limit for each row of a batch: below 64 MiB, batches have fewer rows.
const MEMORY_BYTES_PER_BATCH_ROW: u64 = 8192;

/// Bytes of the memory limit for each byte of rows that a partition of a scan holds back.
const MEMORY_BYTES_PER_HELD_BYTE: u64 = 16;

/// The least memory that a session may be given.
const MIN_MEMORY_BYTES: u64 = 1 << 20;

/// The requests in flight of each partition, if storage does not report how many keep it busy; the
/// most if it does.
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

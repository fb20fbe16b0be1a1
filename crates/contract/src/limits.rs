//! Limits of both sides: those of S3 Select, from the AWS documentation of SelectObjectContent, and
//! those of the fragment route.

/// The longest SQL expression of a request, in bytes.
pub const SELECT_EXPRESSION_BYTES: usize = 256 * 1024;

/// The longest record of the input or the result, in bytes.
pub const SELECT_RECORD_BYTES: usize = 1024 * 1024;

/// The maximum depth of an expression that a peer may send.
pub const EXPRESSION_DEPTH: usize = 128;

/// The maximum number of nodes that binding a statement may add by repeating operands, as BETWEEN
/// does. Each level of nesting doubles the number of copies.
pub const EXPRESSION_COPIES: usize = 1 << 18;

/// The most columns a table may have.
pub const COLUMNS: usize = 4096;

/// The maximum total width of a row's fixed-width columns, in bytes. A column that an object lacks
/// is filled with NULLs, which take this width in every row.
pub const FIXED_BYTES: u64 = 32 * 1024;

/// The maximum size of a Bloom filter that a peer may send, in bytes.
pub const BLOOM_FILTER_BYTES: usize = 8 * 1024 * 1024;

/// The maximum limit of ORDER BY … LIMIT, in rows.
pub const TOP_K_ROWS: u64 = 100_000;

/// The most keys of GROUP BY, or of ORDER BY.
pub const KEYS: usize = 64;

/// The maximum number of nodes of one expression on the fragment route. An IN list of some 100,000
/// constants fits.
pub const EXPRESSION_NODES: usize = 1 << 18;

/// The deepest nesting of a type.
pub const TYPE_DEPTH: usize = 16;

/// The maximum length of a request on the fragment route, in bytes. A few Bloom filters fit.
pub const FRAGMENT_REQUEST_BYTES: usize = 32 * 1024 * 1024;

/// The most splits of one request of the fragment route.
pub const FRAGMENT_SPLITS: usize = 4096;

/// The maximum number of indexed columns that one request on the fragment route looks up.
pub const FRAGMENT_PROBES: usize = 64;

/// The maximum number of streams of Arrow messages in one response on the fragment route. Batches
/// with different sets of dictionary columns belong to different streams.
pub const FRAGMENT_STREAMS: usize = 64;

/// The most byte ranges of one request of the fragment route.
pub const FRAGMENT_RANGES: usize = 65_536;

/// The maximum total size of the ranges of one request on the fragment route, in bytes.
pub const FRAGMENT_RANGE_BYTES: u64 = 256 * 1024 * 1024;

/// The longest key of an object, in bytes, as in S3.
pub const KEY_BYTES: usize = 1024;

//! Limits of both sides: those of S3 Select, from the AWS documentation of SelectObjectContent, and
//! those of the fragment route.

/// The longest SQL expression of a request, in bytes.
pub const SELECT_EXPRESSION_BYTES: usize = 256 * 1024;

/// The longest record of the input or the result, in bytes.
pub const SELECT_RECORD_BYTES: usize = 1024 * 1024;

/// The deepest nesting of an expression that a peer may send.
pub const EXPRESSION_DEPTH: usize = 128;

/// The most nodes that binding a statement may add by repeating an operand, as BETWEEN does; each
/// level of nesting doubles them.
pub const EXPRESSION_COPIES: usize = 1 << 18;

/// The most columns a table may have.
pub const COLUMNS: usize = 4096;

/// The largest size of one row of all columns of a fixed width, in bytes: a column that an object
/// lacks is a batch of NULLs of its width.
pub const FIXED_BYTES: u64 = 32 * 1024;

/// The largest Bloom filter that a peer may send, in bytes.
pub const BLOOM_FILTER_BYTES: usize = 8 * 1024 * 1024;

/// The most rows that ORDER BY … LIMIT may ask for.
pub const TOP_K_ROWS: u64 = 100_000;

/// The most keys of GROUP BY, or of ORDER BY.
pub const KEYS: usize = 64;

/// The most nodes of one expression on the fragment route: an IN list of some 100,000 constants
/// fits.
pub const EXPRESSION_NODES: usize = 1 << 18;

/// The deepest nesting of a type.
pub const TYPE_DEPTH: usize = 16;

/// The longest request of the fragment route, in bytes: some Bloom filters fit.
pub const FRAGMENT_REQUEST_BYTES: usize = 32 * 1024 * 1024;

/// The most splits of one request of the fragment route.
pub const FRAGMENT_SPLITS: usize = 4096;

/// The most indexes that one request of the fragment route uses, each on another column.
pub const FRAGMENT_PROBES: usize = 64;

/// The most streams of Arrow messages in one answer of the fragment route, each with other columns
/// as dictionaries.
pub const FRAGMENT_STREAMS: usize = 64;

/// The most byte ranges of one request of the fragment route.
pub const FRAGMENT_RANGES: usize = 65_536;

/// The total size of the ranges of one request of the fragment route, in bytes.
pub const FRAGMENT_RANGE_BYTES: u64 = 256 * 1024 * 1024;

/// The longest key of an object, in bytes, as in S3.
pub const KEY_BYTES: usize = 1024;

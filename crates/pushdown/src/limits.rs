//! The limits of S3 Select that both sides honour, from the AWS documentation of SelectObjectContent.

/// The longest SQL expression of one request, in bytes.
pub const SELECT_EXPRESSION_BYTES: usize = 256 * 1024;

/// The longest record of the input or the result, in bytes.
pub const SELECT_RECORD_BYTES: usize = 1024 * 1024;

/// The deepest nesting of an expression that a peer may send.
pub const EXPRESSION_DEPTH: usize = 128;

/// The most nodes that binding a statement may add to it by saying the same operand twice, as BETWEEN does. Each level
/// of nesting doubles them.
pub const EXPRESSION_COPIES: usize = 1 << 18;

/// The most columns a table may have.
pub const COLUMNS: usize = 4096;

/// The largest Bloom filter that a peer may send, in bytes.
pub const BLOOM_FILTER_BYTES: usize = 8 * 1024 * 1024;

/// The most rows that ORDER BY … LIMIT may ask for.
pub const TOP_K_ROWS: u64 = 100_000;

/// The most keys of GROUP BY, or of ORDER BY.
pub const KEYS: usize = 64;

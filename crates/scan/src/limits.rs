//! Limits of a scan, independent of the object.

/// Maximum length of a text record in bytes, unless [`crate::ScanOptions`] sets a lower one; a
/// longer record is an error.
pub const MAX_RECORD_BYTES: usize = 16 * 1024 * 1024;

/// The number of bytes of text that are buffered before records are cut, unless a record is longer.
pub(crate) const BLOCK_BYTES: usize = 256 * 1024;

/// The number of records that are tokenized together. It is small enough for their text and field
/// positions to stay in a CPU cache.
pub(crate) const GROUP_RECORDS: usize = 1024;

/// Maximum bytes of the text columns of a batch, even if those are few rows.
pub(crate) const MAX_BATCH_TEXT_BYTES: usize = 8 * 1024 * 1024;

/// The approximate size of a field in a batch, the maximum size of all fields of a batch, and the
/// minimum number of rows, which holds even if they exceed that size.
pub(crate) const FIELD_BYTES: usize = 16;
pub(crate) const MAX_BATCH_FIELDS_BYTES: usize = 8 * 1024 * 1024;
pub(crate) const MIN_BATCH_ROWS: usize = 64;

/// The number of bytes of an object that a helper scans at a time, which takes some milliseconds.
pub(crate) const PIECE_BYTES: u64 = 8 * 1024 * 1024;

/// Maximum bytes of output that wait for the output of earlier pieces, for all pieces of an object.
pub(crate) const MAX_WAITING_BYTES: usize = 64 * 1024 * 1024;

/// Bytes that are read beyond the end of a byte range, in the same request, to complete the last
/// record.
pub(crate) const OVERSHOOT_BYTES: u64 = 16 * 1024;

/// Maximum nesting of JSON values; deeper ones are an error.
pub(crate) const MAX_JSON_DEPTH: usize = 128;

/// Maximum bytes of the values of one batch of results, and of one concatenation for a batch.
pub const MAX_VALUE_BYTES: usize = 64 * 1024 * 1024;

/// Maximum bytes of intermediate text of an expression. Larger batches are evaluated in slices.
pub(crate) const MAX_EVALUATED_BYTES: usize = 16 * 1024 * 1024;

/// Maximum bytes of the keys that are held to find an upper bound of the first rows of an order.
pub(crate) const MAX_FIRST_KEYS_BYTES: usize = 16 * 1024 * 1024;

/// Maximum number of groups of a GROUP BY.
pub const MAX_GROUPS: usize = 1_000_000;

/// Maximum bytes of the keys and states of a GROUP BY.
pub const MAX_AGGREGATE_BYTES: usize = 128 * 1024 * 1024;

/// Maximum bytes of the rows of an ORDER BY … LIMIT.
pub const MAX_TOP_K_BYTES: usize = 64 * 1024 * 1024;

/// Maximum bytes of a decompressed Parquet page.
pub(crate) const MAX_PAGE_BYTES: u64 = 1 << 30;

/// The number of stored bytes of a Parquet row group that are read at a time.
pub(crate) const ROW_GROUP_PART_BYTES: u64 = 24 * 1024 * 1024;

/// Maximum number of rows of a Parquet row group, since a bit is held for each row.
pub(crate) const MAX_ROW_GROUP_ROWS: i64 = 1 << 28;

/// Maximum number of values of a Parquet dictionary.
pub(crate) const MAX_DICTIONARY_VALUES: u32 = 1 << 24;

/// Maximum bytes of a Parquet footer.
pub const MAX_FOOTER_BYTES: u64 = 256 * 1024 * 1024;

/// Number of pooled buffers for decompressed pages: one or two per column of an ordinary table.
pub(crate) const MAX_POOLED_PAGES: usize = 32;

/// Maximum number of rows in a batch, unless [`crate::options::ScanOptions`] sets another one.
pub(crate) const BATCH_ROWS: usize = 8192;

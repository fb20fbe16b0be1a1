//! What one scan may hold in memory, whatever the object.

/// The longest record of a text object, in bytes, unless [`crate::ScanOptions`] says less; a longer one is an error.
pub const RECORD_BYTES: usize = 16 * 1024 * 1024;

/// How much text is gathered before records are cut out of it, unless one record is longer.
pub(crate) const BLOCK_BYTES: usize = 256 * 1024;

/// Records tokenised at a time: few enough that their text and field positions stay in the cache.
pub(crate) const GROUP_RECORDS: usize = 1024;

/// Text columns of a batch are cut at this many bytes, however few rows that are.
pub(crate) const BATCH_TEXT_BYTES: usize = 8 * 1024 * 1024;

/// What a field of a batch takes whatever is in it, about, and the most bytes that all of them together take, unless a batch has
/// as few rows as this.
pub(crate) const FIELD_BYTES: usize = 16;
pub(crate) const BATCH_FIELDS_BYTES: usize = 8 * 1024 * 1024;
pub(crate) const LEAST_ROWS: usize = 64;

/// How much of an object a helper scans at a time, in bytes: that takes some milliseconds.
pub(crate) const PIECE_BYTES: u64 = 8 * 1024 * 1024;

/// The most bytes of rows and totals, of all pieces of an object, that wait for the pieces before them.
pub(crate) const AHEAD_BYTES: usize = 64 * 1024 * 1024;

/// How far a scan reads past the end of its byte range in the same request, to finish the last record.
pub(crate) const OVERSHOOT_BYTES: u64 = 16 * 1024;

/// Nesting of JSON values; deeper ones are an error.
pub(crate) const JSON_DEPTH: usize = 128;

/// The most bytes that the values of one batch of results may take, and those of one concatenation for a batch.
pub const VALUE_BYTES: usize = 64 * 1024 * 1024;

/// What expressions make of text on the way, in bytes: they are evaluated on as many rows at a time.
pub(crate) const EVALUATED_BYTES: usize = 16 * 1024 * 1024;

/// The most bytes of keys that are held to learn what the first rows of an order are at least.
pub(crate) const FIRST_KEYS_BYTES: usize = 16 * 1024 * 1024;

/// The most groups of one GROUP BY.
pub const GROUPS: usize = 1_000_000;

/// The most bytes that the keys and states of one GROUP BY may take.
pub const AGGREGATE_BYTES: usize = 128 * 1024 * 1024;

/// The most bytes that the rows of one ORDER BY … LIMIT may take.
pub const TOP_K_BYTES: usize = 64 * 1024 * 1024;

/// The largest page of a Parquet object once it is decompressed, in bytes.
pub(crate) const PAGE_BYTES: u64 = 1 << 30;

/// How much of a row group of Parquet is read at a time.
pub(crate) const ROW_GROUP_PART_BYTES: u64 = 24 * 1024 * 1024;

/// The most rows of a row group of Parquet: a bit is kept for each.
pub(crate) const ROW_GROUP_ROWS: i64 = 1 << 28;

/// The most values of a dictionary in Parquet.
pub(crate) const DICTIONARY_VALUES: u32 = 1 << 24;

/// The largest footer of a Parquet object, in bytes.
pub const FOOTER_BYTES: u64 = 256 * 1024 * 1024;

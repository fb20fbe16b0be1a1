//! The data of zones: the bounds of a stretch of text, and all zones of an object.

use std::collections::{BTreeMap, HashMap};

use arrow::datatypes::{DataType, Field};
use datafusion_common::ScalarValue;
use pushdowndb_contract::{BloomFilter, Fingerprint, FingerprintBuilder, Format, Fragment};

use crate::types::is_exact_number;

/// A zone ends with the first record that begins at least this number of bytes after its start.
pub(crate) const ZONE_BYTES: u64 = 1024 * 1024;

/// The version of column keys; saved zones with other versions are dropped. Raise it when values
/// are read differently from the same text, or when a key gets other fields.
pub(crate) const KEY_VERSION: u8 = 1;

/// The maximum size of the zones of one object, in bytes.
pub(crate) const MAX_OBJECT_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) columns: HashMap<Fingerprint, BTreeMap<u64, Zone>>,
    pub(crate) bytes: usize,
    pub(crate) changes: u64,
}

/// The bounds of one column, in the records that begin in a stretch.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    pub(crate) end: u64,
    pub(crate) nulls: bool,
    /// NULL if unknown, or if all values are NULL.
    pub(crate) smallest: ScalarValue,
    pub(crate) largest: ScalarValue,
    /// True if there is a value other than NULL.
    pub(crate) values: bool,
    pub(crate) keys: Option<BloomFilter>,
}

impl Zone {
    pub(crate) fn bytes(&self) -> usize {
        let keys = self.keys.as_ref().map_or(0, BloomFilter::size_bytes);
        size_of::<Self>() + self.smallest.size() + self.largest.size() + keys
    }
}

/// A column in the form in which a scan decodes it.
#[derive(Clone, Debug)]
pub(crate) struct ZoneColumn {
    /// Identifies everything that affects how the values are read from the text.
    pub(crate) key: Fingerprint,
    pub(crate) field: Field,
}

/// Starts the key of a column.
pub(crate) fn column_key() -> FingerprintBuilder {
    Fingerprint::builder("zone column", KEY_VERSION)
}

/// Returns whether zones of this type have Bloom filters.
pub(crate) fn has_keys(data_type: &DataType) -> bool {
    same_keys(data_type, data_type)
}

/// Returns whether equal values of the two types have equal keys.
pub(crate) fn same_keys(column: &DataType, value: &DataType) -> bool {
    (is_exact_number(column) && is_exact_number(value))
        || (column.is_string() && value.is_string())
        || (column == value && matches!(column, DataType::Date32 | DataType::Boolean))
}

/// True if bounds of the type are used: not of floats, which have two zeros and NaN.
pub(crate) fn is_ordered(data_type: &DataType) -> bool {
    data_type.is_integer()
        || data_type.is_string()
        || data_type.is_temporal()
        || matches!(data_type, DataType::Decimal128(..) | DataType::Boolean)
}

/// True if zones can rule out parts of the fragment's object.
pub fn can_be_zoned(fragment: &Fragment) -> bool {
    fragment.format.is_splittable()
        && match &fragment.format {
            Format::Csv(options) => options.wide.is_none(),
            Format::Json(options) => !options.raw_tokens,
            Format::Parquet => false,
        }
}

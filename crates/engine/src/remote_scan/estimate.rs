//! Guesses about a scan that cost no request: rows from bytes, bytes from columns.
//!
//! They order joins and enforce the caps before a query runs. Real statistics replace them where known.

use arrow::datatypes::DataType;
use pushdown::{Format, Fragment, Output};

/// How much a predicate is assumed to keep where nothing is known: DataFusion's own default of 20 %.
pub(crate) const DEFAULT_SELECTIVITY: f64 = 0.2;

/// Parquet holds a row in about a third of the bytes that CSV needs (PushdownDB, Section IX).
const PARQUET_SHRINKS: u64 = 3;

/// Bytes of a value of this type as text, its delimiter included.
pub(crate) fn column_bytes(data_type: &DataType) -> u64 {
    match data_type {
        DataType::Boolean => 5,
        DataType::Int8 | DataType::UInt8 | DataType::Int16 | DataType::UInt16 => 4,
        DataType::Int32 | DataType::UInt32 | DataType::Int64 | DataType::UInt64 => 8,
        DataType::Date32 | DataType::Date64 => 11,
        DataType::Timestamp(..) => 24,
        DataType::Decimal128(..) | DataType::Decimal256(..) | DataType::Float32 | DataType::Float64 => 9,
        _ => 18,
    }
}

/// About how many rows objects of so many bytes hold.
pub(crate) fn rows(fragment: &Fragment, bytes: u64) -> u64 {
    let width: u64 = fragment.schema.fields().iter().map(|f| column_bytes(f.data_type())).sum();
    let width = match fragment.format {
        Format::Parquet => (width / PARQUET_SHRINKS).max(1),
        // Every record repeats the names.
        Format::Json(_) => width + fragment.schema.fields().iter().map(|f| f.name().len() as u64 + 4).sum::<u64>(),
        Format::Csv(_) => width.max(1),
    };
    bytes / width.max(1)
}

/// The share of rows that a predicate is assumed to keep.
pub(crate) fn selectivity(fragment: &Fragment) -> f64 {
    if fragment.predicate.is_some() { DEFAULT_SELECTIVITY } else { 1.0 }
}

/// About how many bytes cross the network for objects of so many bytes.
pub(crate) fn network_bytes(fragment: &Fragment, pushed: bool, bytes: u64) -> u64 {
    let share = match &fragment.output {
        Output::Aggregate { .. } if pushed => return 1024,
        _ => {
            let width = |all: &[usize]| -> u64 {
                all.iter().map(|i| column_bytes(fragment.schema.field(*i).data_type())).sum()
            };
            let every: Vec<usize> = (0..fragment.schema.fields().len()).collect();
            width(&fragment.columns()) as f64 / width(&every).max(1) as f64
        }
    };
    let share = match (&fragment.format, pushed) {
        (Format::Parquet, false) => share,
        (_, false) => 1.0,
        (_, true) => share * selectivity(fragment),
    };
    (bytes as f64 * share) as u64
}

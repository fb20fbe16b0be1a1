//! Pruning of row groups by the statistics in the footer.
//!
//! A row group with a matching row is never pruned. The predicate is compared with the smallest and
//! the largest value of each column ([`Possible`]); a missing bound excludes nothing.
//! Floating-point columns are not used, because their statistics ignore NaN, which is greater than
//! all numbers. Bounds are also not used if the column's type in the file has another order than
//! its declared type, or if the writer used another order.

use std::sync::Arc;

use ::parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use ::parquet::basic::{SortOrder, Type as PhysicalType};
use ::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use pushdowndb_contract::{Expr, Result};

use crate::batch::record_batch;
use crate::parquet::meta::nested::Place;
use crate::zones::bounds::Possible;

/// Returns for each of `groups` whether one of its rows may match.
pub(crate) fn may_match(
    predicate: &Expr,
    declared: &SchemaRef,
    file: &Schema,
    metadata: &ParquetMetaData,
    groups: &[usize],
) -> Result<Vec<bool>> {
    let Some(possible) = Possible::of(predicate, declared) else { return Ok(vec![true; groups.len()]) };
    let groups: Vec<&RowGroupMetaData> = groups.iter().filter_map(|i| metadata.row_groups().get(*i)).collect();
    within(&possible, &bounds(declared, file, metadata, &groups)?)
}

/// Returns for each row of `bounds` whether a row within these bounds may match the predicate over
/// `schema`.
///
/// Column `2 * i` has the smallest and column `2 * i + 1` the largest value of column `i`; NULL if
/// it is unknown.
pub fn bounds_match(predicate: &Expr, schema: &Schema, bounds: &RecordBatch) -> Result<Vec<bool>> {
    match Possible::of(predicate, schema) {
        Some(possible) => within(&possible, bounds),
        None => Ok(vec![true; bounds.num_rows()]),
    }
}

fn within(possible: &Possible, bounds: &RecordBatch) -> Result<Vec<bool>> {
    let bound = |at: usize| bounds.columns().get(at).map(Arc::clone);
    possible.holds(bounds.num_rows(), &|column| bound(2 * column).zip(bound(2 * column + 1)))
}

/// Returns the bounds of each row group: column `2 * i` has the smallest and column `2 * i + 1` the
/// largest value of column `i`.
fn bounds(
    declared: &SchemaRef,
    file: &Schema,
    metadata: &ParquetMetaData,
    groups: &[&RowGroupMetaData],
) -> Result<RecordBatch> {
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for field in declared.fields() {
        let unknown = || arrow::array::new_null_array(field.data_type(), groups.len());
        let (smallest, largest) =
            column_bounds(field, file, metadata, groups).unwrap_or_else(|| (unknown(), unknown()));
        for (name, column) in [("min", smallest), ("max", largest)] {
            fields.push(Field::new(format!("{name}({})", field.name()), field.data_type().clone(), true));
            columns.push(column);
        }
    }
    record_batch(&Arc::new(Schema::new(fields)), columns, groups.len())
}

/// Returns the smallest and the largest value of a column in each of these row groups. Returns
/// `None` if they are unknown or not in the order of the declared type.
pub(crate) fn column_bounds(
    field: &Field,
    file: &Schema,
    metadata: &ParquetMetaData,
    groups: &[&RowGroupMetaData],
) -> Option<(ArrayRef, ArrayRef)> {
    if !Place::is_root(field) {
        return None;
    }
    let stored = file.field_with_name(field.name()).ok()?;
    if !same_order(stored.data_type(), field.data_type()) {
        return None;
    }
    let parquet = metadata.file_metadata().schema_descr();
    let converter = StatisticsConverter::try_new(field.name(), file, parquet).ok()?;
    let leaf = converter.parquet_column_index()?;
    if groups.iter().any(|group| group.columns().get(leaf).is_none_or(is_ordered_otherwise)) {
        return None;
    }
    let options = CastOptions { safe: false, ..Default::default() };
    let declared = |bounds: ArrayRef| cast_with_options(&bounds, field.data_type(), &options).ok();
    let smallest = declared(converter.row_group_mins(groups.iter().copied()).ok()?)?;
    let largest = declared(converter.row_group_maxes(groups.iter().copied()).ok()?)?;
    (smallest.len() == groups.len() && largest.len() == groups.len()).then_some((smallest, largest))
}

/// Returns whether bounds may be in another order. Old writers compared all bytes as signed, which
/// is right only for signed numbers (`min` and `max` of `Statistics` in parquet.thrift).
fn is_ordered_otherwise(column: &ColumnChunkMetaData) -> bool {
    let is_old = column.statistics().is_some_and(|statistics| statistics.is_min_max_deprecated());
    let is_signed = matches!(column.column_type(), PhysicalType::INT32 | PhysicalType::INT64)
        && column.column_descr().sort_order() == SortOrder::SIGNED;
    is_old && !is_signed
}

/// Returns whether values have the same order in the declared type as in the file's type, so that
/// bounds can be used.
pub(crate) fn same_order(stored: &DataType, declared: &DataType) -> bool {
    let stored = match stored {
        DataType::Dictionary(_, values) => values,
        other => other,
    };
    if stored.is_floating() || declared.is_floating() || stored.is_nested() || declared.is_nested() {
        return false;
    }
    let is_instant = |of: &DataType| matches!(of, DataType::Timestamp(..));
    stored == declared
        || (stored.is_string() && declared.is_string())
        || (stored.is_integer() && (declared.is_integer() || matches!(declared, DataType::Decimal128(..))))
        // A coarser unit keeps the order, too. A bound that does not fit is treated as missing.
        || ((is_instant(stored) || *stored == DataType::Date32) && is_instant(declared))
        || matches!((stored, declared), (DataType::Decimal128(_, own), DataType::Decimal128(_, other)) if own <= other)
}

#[cfg(test)]
mod tests {
    use ::parquet::file::statistics::Statistics;
    use ::parquet::schema::parser::parse_message_type;
    use ::parquet::schema::types::SchemaDescriptor;
    use arrow::datatypes::TimeUnit;

    use super::*;

    /// Returns whether bounds of a column of this type are used, if they are in the deprecated and
    /// in the current fields.
    fn trusted(message: &str, statistics: impl Fn(bool) -> Statistics) -> [bool; 2] {
        let schema = parse_message_type(&format!("message m {{ required {message}; }}")).unwrap();
        let column = SchemaDescriptor::new(Arc::new(schema)).column(0);
        [true, false].map(|old| {
            let chunk =
                ColumnChunkMetaData::builder(Arc::clone(&column)).set_statistics(statistics(old)).build().unwrap();
            !is_ordered_otherwise(&chunk)
        })
    }

    #[test]
    fn bounds_of_old_writers_are_trusted_for_signed_numbers_only() {
        let text = |old| Statistics::byte_array(Some("é".into()), Some("a".into()), None, Some(0), old);
        assert_eq!(trusted("binary c (UTF8)", text), [false, true]);
        let number = |old| Statistics::int32(Some(1), Some(-1), None, Some(0), old);
        assert_eq!(trusted("int32 c (UINT_32)", number), [false, true]);
        assert_eq!(trusted("int32 c", number), [true, true]);
        assert_eq!(trusted("int32 c (DATE)", number), [true, true]);
    }

    #[test]
    fn floats_have_no_order_to_trust() {
        assert!(!same_order(&DataType::Float64, &DataType::Float64));
        assert!(same_order(&DataType::Int32, &DataType::Int64));
        let instant = |unit| DataType::Timestamp(unit, None);
        assert!(same_order(&instant(TimeUnit::Millisecond), &instant(TimeUnit::Nanosecond)));
        assert!(same_order(&DataType::Date32, &instant(TimeUnit::Microsecond)));
        assert!(same_order(&DataType::Decimal128(9, 2), &DataType::Decimal128(18, 4)));
        assert!(!same_order(&DataType::Utf8, &DataType::Int64));
        assert!(!same_order(&DataType::Int64, &DataType::Utf8));
    }
}

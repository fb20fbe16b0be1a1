//! Pruning of row groups by the Bloom filters of column chunks.
//!
//! Bloom filters decide equality: `c = value` and `c IN (values)` as parts of a conjunction. A
//! filter is probed with the value as it is stored. Types whose stored form may differ are not
//! used.

use std::ops::Range;

use ::parquet::basic::Type;
use ::parquet::bloom_filter::Sbbf;
use ::parquet::errors::Result as ParquetResult;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Date32Type, Decimal128Type, Int32Type, Int64Type, Schema};
use pushdowndb_contract::{CompareOp, Expr};

use crate::parquet::meta::nested::Place;
use crate::parquet::prune::row_groups::same_order;
use crate::parquet::read::chunks::Chunks;

/// The maximum size of a filter that is read, in bytes.
const MAX_FILTER_BYTES: u64 = 4 << 20;

/// The maximum number of values that are probed.
const MAX_VALUES: usize = 1000;

/// A column, and values of which each matching row has one. Each value is an array with one value
/// in the type of the file.
struct OneOf {
    leaf: usize,
    values: Vec<ArrayRef>,
}

/// Returns those of `groups` that may contain rows that match the predicate over `schema`.
pub(crate) async fn may_hold(
    predicate: &Expr,
    schema: &Schema,
    file: &Schema,
    chunks: &Chunks,
    groups: Vec<usize>,
) -> ParquetResult<Vec<usize>> {
    let conjuncts = predicate.conjuncts().into_iter();
    let wanted: Vec<OneOf> = conjuncts.filter_map(|conjunct| one_of(conjunct, schema, file, chunks)).collect();
    let mut asked = Vec::new();
    for group in &groups {
        for one_of in &wanted {
            if let Some(range) = filter_range(chunks, *group, one_of.leaf) {
                asked.push((*group, one_of, range));
            }
        }
    }
    let mut without = Vec::new();
    // Filters are read together up to a total size.
    let mut rest = asked.as_slice();
    while !rest.is_empty() {
        let mut bytes = 0;
        let few = |(_, _, range): &&(usize, &OneOf, Range<u64>)| {
            bytes += range.end - range.start;
            bytes <= MAX_FILTER_BYTES
        };
        let (now, later) = rest.split_at(rest.iter().take_while(few).count().max(1));
        rest = later;
        let ranges: Vec<Range<u64>> = now.iter().map(|(_, _, range)| range.clone()).collect();
        for ((group, one_of, _), bytes) in now.iter().zip(chunks.read(&ranges).await?) {
            // A filter that cannot be read excludes nothing.
            let filter = Sbbf::from_bytes(&bytes);
            if filter.is_ok_and(|filter| filter.num_blocks() > 0 && !one_of.may_be_in(chunks, &filter)) {
                without.push(*group);
            }
        }
    }
    Ok(groups.into_iter().filter(|group| !without.contains(group)).collect())
}

/// Returns the range of the filter of a column chunk; `None` if it has none of known length.
fn filter_range(chunks: &Chunks, group: usize, leaf: usize) -> Option<Range<u64>> {
    let chunk = chunks.chunk(group, leaf).ok()?;
    let start = u64::try_from(chunk.bloom_filter_offset()?).ok()?;
    let bytes = u64::try_from(chunk.bloom_filter_length()?).ok().filter(|bytes| *bytes <= MAX_FILTER_BYTES)?;
    let end = start.checked_add(bytes).filter(|end| *end <= chunks.reader.size())?;
    Some(start..end)
}

/// Returns the values that the condition requires a column of the file to have; `None` if it
/// requires none.
fn one_of(condition: &Expr, schema: &Schema, file: &Schema, chunks: &Chunks) -> Option<OneOf> {
    let (column, values): (usize, Vec<&Expr>) = match condition {
        Expr::Compare(CompareOp::Eq, a, b) => match (&**a, &**b) {
            (Expr::Column(column), value) | (value, Expr::Column(column)) => (*column, vec![value]),
            _ => return None,
        },
        Expr::InList { expr, list, negated: false } if list.len() <= MAX_VALUES => match &**expr {
            Expr::Column(column) => (*column, list.iter().collect()),
            _ => return None,
        },
        _ => return None,
    };
    let declared = schema.fields().get(column).filter(|field| Place::is_root(field))?;
    let stored = file.field_with_name(declared.name()).ok()?;
    if !same_order(stored.data_type(), declared.data_type()) {
        return None;
    }
    let columns = chunks.metadata.file_metadata().schema_descr();
    let is_here = |leaf: &usize| matches!(columns.column(*leaf).path().parts(), [name] if name == declared.name());
    let leaf = (0..columns.num_columns()).find(is_here)?;
    let stored_as = match stored.data_type() {
        DataType::Dictionary(_, values) => values,
        other => other,
    };
    let value = |value: &Expr| match value {
        Expr::Literal(literal) => as_stored(&crate::expr::lower::scalar(literal).to_array().ok()?, stored_as),
        _ => None,
    };
    Some(OneOf { leaf, values: values.into_iter().map(value).collect::<Option<_>>()? })
}

/// Converts a value to the type in the file. Returns `None` if that changes the value.
fn as_stored(value: &ArrayRef, stored: &DataType) -> Option<ArrayRef> {
    let options = CastOptions { safe: false, ..Default::default() };
    let there = cast_with_options(value, stored, &options).ok()?;
    let back = cast_with_options(&there, value.data_type(), &options).ok()?;
    (value.null_count() == 0 && *back == **value).then_some(there)
}

impl OneOf {
    fn may_be_in(&self, chunks: &Chunks, filter: &Sbbf) -> bool {
        let physical = chunks.metadata.file_metadata().schema_descr().column(self.leaf).physical_type();
        self.values.iter().any(|value| check(filter, value, physical).unwrap_or(true))
    }
}

/// Returns whether the filter may contain the value; `None` for types that are not used.
fn check(filter: &Sbbf, value: &ArrayRef, physical: Type) -> Option<bool> {
    let number = match value.data_type() {
        DataType::Int32 => i128::from(value.as_primitive::<Int32Type>().value(0)),
        DataType::Int64 => i128::from(value.as_primitive::<Int64Type>().value(0)),
        DataType::Date32 => i128::from(value.as_primitive::<Date32Type>().value(0)),
        DataType::Decimal128(..) => value.as_primitive::<Decimal128Type>().value(0),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View if physical == Type::BYTE_ARRAY => {
            let text = cast(value, &DataType::Utf8).ok()?;
            return Some(filter.check(text.as_string::<i32>().value(0)));
        }
        _ => return None,
    };
    match physical {
        Type::INT32 => Some(filter.check(&i32::try_from(number).ok()?)),
        Type::INT64 => Some(filter.check(&i64::try_from(number).ok()?)),
        _ => None,
    }
}

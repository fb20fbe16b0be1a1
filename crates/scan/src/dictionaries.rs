//! Dictionary encoding of text columns for the network, where it saves bytes.
//!
//! As plain text compressed with LZ4, a column with few values (flags, modes, segments, priorities)
//! takes 4 to 7 bytes per row, mostly for offsets. As a dictionary with 8-bit keys it takes less
//! than one. Columns with many values, and columns of few rows, stay plain. The receiver decodes
//! dictionaries: they are an encoding of the batch and not part of its schema.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringDictionaryBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt8Type};
use pushdowndb_contract::Result;

use crate::error::from_arrow;

/// The minimum number of rows. With fewer rows, the dictionary takes more bytes than it saves.
const MIN_ROWS: usize = 256;

/// Minimum average number of rows per value.
const MIN_ROWS_PER_VALUE: usize = 4;

/// A bit mask of the dictionary columns of a schema. Only the first 31 columns can be dictionaries.
pub type DictionaryColumns = u32;

/// Returns the indexes of the columns that can be dictionaries.
pub fn dictionary_candidates(schema: &Schema) -> impl Iterator<Item = usize> {
    let fields = schema.fields().iter().enumerate().take(31);
    fields.filter(|(_, field)| field.data_type().is_string()).map(|(index, _)| index)
}

/// Returns `schema` with the types of `columns` replaced by dictionaries. Returns `None` if one of
/// these columns cannot be a dictionary.
pub fn with_dictionaries(schema: &SchemaRef, columns: DictionaryColumns) -> Option<SchemaRef> {
    let candidates = dictionary_candidates(schema).fold(0, |all, index| all | (1 << index));
    if columns & !candidates != 0 {
        return None;
    }
    let dictionary = || DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8));
    let field = |(index, field): (usize, &Arc<Field>)| match index < 31 && columns & (1 << index) != 0 {
        true => Arc::new(field.as_ref().clone().with_data_type(dictionary())),
        false => Arc::clone(field),
    };
    let fields: Vec<_> = schema.fields().iter().enumerate().map(field).collect();
    Some(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

/// Encodes a text column as a dictionary. Returns `None` if that would not save bytes.
pub fn as_dictionary(column: &ArrayRef) -> Option<ArrayRef> {
    if column.len() < MIN_ROWS {
        return None;
    }
    match column.data_type() {
        DataType::Utf8 => encode(column.as_string::<i32>().iter(), column.len()),
        DataType::LargeUtf8 => encode(column.as_string::<i64>().iter(), column.len()),
        DataType::Utf8View => encode(column.as_string_view().iter(), column.len()),
        _ => None,
    }
}

fn encode<'a>(values: impl Iterator<Item = Option<&'a str>>, rows: usize) -> Option<ArrayRef> {
    let mut builder = StringDictionaryBuilder::<UInt8Type>::new();
    for value in values {
        match value {
            // There are more distinct values than 8-bit keys.
            Some(value) => {
                builder.append(value).ok()?;
            }
            None => builder.append_null(),
        }
    }
    let array = builder.finish();
    let distinct = array.values().len();
    (distinct > 0 && distinct * MIN_ROWS_PER_VALUE <= rows).then(|| Arc::new(array) as ArrayRef)
}

/// Decodes the dictionary columns of `batch`. `schema` has their plain types.
pub fn without_dictionaries(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| match column.data_type() {
        DataType::Dictionary(..) if column.data_type() != field.data_type() => cast(column, field.data_type()),
        _ => Ok(Arc::clone(column)),
    });
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>().map_err(from_arrow)?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(from_arrow)
}

#[cfg(test)]
mod tests {
    use arrow::array::StringArray;

    use super::*;

    fn column(rows: usize, distinct: usize) -> ArrayRef {
        Arc::new(StringArray::from_iter((0..rows).map(|i| (i % 7 > 0).then(|| format!("value {}", i % distinct)))))
    }

    #[test]
    fn few_values_are_a_dictionary_and_many_are_not() {
        assert!(as_dictionary(&column(1000, 5)).is_some());
        assert!(as_dictionary(&column(8192, 250)).is_some());
        assert!(as_dictionary(&column(8192, 300)).is_none(), "more values than keys");
        assert!(as_dictionary(&column(300, 200)).is_none(), "hardly any comes twice");
        assert!(as_dictionary(&column(255, 1)).is_none(), "too short");
        let nulls: ArrayRef = Arc::new(StringArray::new_null(1000));
        assert!(as_dictionary(&nulls).is_none(), "nothing to refer to");
    }

    #[test]
    fn rows_come_back_as_they_were() {
        for data_type in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View] {
            let plain = cast(&column(1000, 5), &data_type).unwrap();
            let numbers: ArrayRef = Arc::new(arrow::array::Int64Array::from_iter_values(0..1000));
            let batch = RecordBatch::try_from_iter([("n", numbers), ("t", Arc::clone(&plain))]).unwrap();
            assert_eq!(dictionary_candidates(&batch.schema()).collect::<Vec<_>>(), [1]);
            let schema = with_dictionaries(&batch.schema(), 2).unwrap();
            let columns = vec![Arc::clone(batch.column(0)), as_dictionary(&plain).unwrap()];
            // Without the NULLs in its keys, the array is valid for a column without NULLs.
            let sent = RecordBatch::try_new(schema, columns).unwrap();
            let back = without_dictionaries(&sent, &batch.schema()).unwrap();
            assert_eq!(back, batch, "{data_type}");
            assert!(with_dictionaries(&batch.schema(), 1).is_none(), "a number");
            assert!(with_dictionaries(&batch.schema(), 4).is_none(), "no column");
        }
    }
}

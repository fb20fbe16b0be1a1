//! Conversion of columns to types that all clients support: no views, no dictionaries.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;

/// The schema that a client gets. All columns are nullable, whatever planning found out, so that a
/// statement has the same schema before and while it runs.
pub(super) fn schema(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| Field::new(field.name(), data_type(field.data_type()), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Converts rows to `schema`, which [`schema`] derived from their own schema.
///
/// # Errors
///
/// A text is too long for its type.
pub(super) fn batch(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = rows.columns().iter().zip(schema.fields()).map(|(column, field)| {
        if column.data_type() == field.data_type() { Ok(Arc::clone(column)) } else { cast(column, field.data_type()) }
    });
    let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

fn data_type(given: &DataType) -> DataType {
    match given {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, values) => data_type(values),
        DataType::RunEndEncoded(_, values) => data_type(values.data_type()),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::List(element) | DataType::ListView(element) => DataType::List(nested(element)),
        DataType::LargeList(element) | DataType::LargeListView(element) => DataType::LargeList(nested(element)),
        DataType::FixedSizeList(element, size) => DataType::FixedSizeList(nested(element), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(nested).collect()),
        DataType::Map(entries, is_sorted) => DataType::Map(nested(entries), *is_sorted),
        other => other.clone(),
    }
}

fn nested(field: &FieldRef) -> FieldRef {
    Arc::new(Field::new(field.name(), data_type(field.data_type()), field.is_nullable()))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, DictionaryArray, ListArray, StringViewArray, StructArray};
    use arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn views_and_dictionaries_are_unpacked_at_any_depth() {
        let words: DictionaryArray<Int32Type> = [Some("a"), None, Some("a")].into_iter().collect();
        let views: ArrayRef = Arc::new(StringViewArray::from(vec![Some("long enough to lie outside"), None, Some("")]));
        let element = Arc::new(Field::new("item", DataType::Utf8View, true));
        let offsets = arrow::buffer::OffsetBuffer::from_lengths([1, 0, 2]);
        let lists: ArrayRef = Arc::new(ListArray::new(element, offsets, Arc::clone(&views), None));
        let inner = Arc::new(Field::new("v", lists.data_type().clone(), true));
        let structs: ArrayRef = Arc::new(StructArray::from(vec![(inner, lists)]));
        let rows = RecordBatch::try_from_iter([("w", Arc::new(words) as ArrayRef), ("v", views), ("s", structs)]);
        let rows = rows.unwrap();
        let plain = batch(&rows, &schema(rows.schema_ref())).unwrap();
        assert_eq!(plain.column(0).data_type(), &DataType::Utf8);
        assert_eq!(plain.column(1).data_type(), &DataType::Utf8);
        let text = format!("{:?}", plain.column(2).data_type());
        assert!(text.contains("Utf8") && !text.contains("View"), "{text}");
        let shown =
            |rows: &RecordBatch| arrow::util::pretty::pretty_format_batches(std::slice::from_ref(rows)).unwrap();
        assert_eq!(shown(&rows).to_string(), shown(&plain).to_string());
        assert_eq!(plain.column(0).null_count(), 1);
    }
}

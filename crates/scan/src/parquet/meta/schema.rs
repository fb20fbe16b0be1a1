//! The schema of a Parquet file.

use std::panic::catch_unwind;
use std::sync::Arc;

use ::parquet::arrow::parquet_to_arrow_schema;
use ::parquet::basic::LogicalType;
use ::parquet::file::metadata::ParquetMetaData;
use ::parquet::schema::types::SchemaDescriptor;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use pushdowndb_contract::Result;

use crate::parquet::errors::{contradiction, explain};

/// Returns the columns of a Parquet object as Arrow types, from its `footer`.
///
/// If the file has an embedded Arrow schema, it is used. Dictionaries are replaced by their values,
/// since they are an encoding that is invisible to queries, and days become DATE. Errors refer to
/// the object as `location`.
///
/// # Errors
///
/// Returns an error if the columns contradict each other or the embedded schema. The library panics
/// on some of these contradictions; such a panic is caught.
#[expect(clippy::disallowed_methods, reason = "here is where its panics are caught")]
pub fn parquet_schema(location: &str, footer: &ParquetMetaData) -> Result<Schema> {
    let file = footer.file_metadata();
    let schema = catch_unwind(|| parquet_to_arrow_schema(file.schema_descr(), file.key_value_metadata()));
    let schema = schema.map_err(|_| contradiction(location))?.map_err(|error| explain(location, error))?;
    Ok(Schema::new_with_metadata(schema.fields.iter().map(of_values).collect::<Fields>(), schema.metadata))
}

/// Returns `schema` with UUID columns as text, the form in which they are compared and shown. Which
/// columns are UUIDs is taken from `stored`, the schema in the file.
pub fn with_uuids_as_text(schema: &Schema, stored: &SchemaDescriptor) -> Schema {
    let is_uuid = |index: usize| {
        let column = stored.root_schema().get_fields().get(index);
        column.is_some_and(|column| column.get_basic_info().logical_type_ref() == Some(&LogicalType::Uuid))
    };
    let field = |(index, field): (usize, &FieldRef)| match is_uuid(index) {
        true => Arc::new(Field::new(field.name(), DataType::Utf8, field.is_nullable())),
        false => Arc::clone(field),
    };
    Schema::new_with_metadata(
        schema.fields().iter().enumerate().map(field).collect::<Fields>(),
        schema.metadata().clone(),
    )
}

/// Returns the field with dictionaries replaced by their values, at any depth.
fn of_values(field: &FieldRef) -> FieldRef {
    let with = |data_type: DataType| -> FieldRef { Arc::new(Field::clone(field).with_data_type(data_type)) };
    match field.data_type() {
        DataType::Dictionary(_, values) => of_values(&with(values.as_ref().clone())),
        // Date64 is stored as days, too.
        DataType::Date64 => with(DataType::Date32),
        DataType::List(item) => with(DataType::List(of_values(item))),
        DataType::LargeList(item) => with(DataType::LargeList(of_values(item))),
        DataType::FixedSizeList(item, size) => with(DataType::FixedSizeList(of_values(item), *size)),
        DataType::Map(entries, sorted) => with(DataType::Map(of_values(entries), *sorted)),
        DataType::Struct(fields) => with(DataType::Struct(fields.iter().map(of_values).collect())),
        _ => Arc::clone(field),
    }
}

#[cfg(test)]
mod tests {
    use ::parquet::arrow::ArrowWriter;
    use ::parquet::file::metadata::ParquetMetaDataReader;
    use arrow::array::{ArrayRef, DictionaryArray, RecordBatch, StructArray};
    use arrow::datatypes::Int8Type;
    use bytes::Bytes;

    use super::*;

    #[test]
    fn dictionaries_are_their_values() {
        let words: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::from_iter(["a", "b", "a"]));
        let item = Arc::new(Field::new("w", words.data_type().clone(), true));
        let inside: ArrayRef = Arc::new(StructArray::from(vec![(item, Arc::clone(&words))]));
        let batch = RecordBatch::try_from_iter([("words", words), ("inside", inside)]).unwrap();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        let file = Bytes::from(writer.into_inner().unwrap());
        let footer = ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
        let schema = parquet_schema("k", &footer).unwrap();
        assert_eq!(schema.field(0).data_type(), &DataType::Utf8);
        let DataType::Struct(inside) = schema.field(1).data_type() else { panic!("{schema}") };
        assert_eq!(inside[0].data_type(), &DataType::Utf8);
    }
}

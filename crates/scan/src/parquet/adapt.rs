//! Columns of a Parquet file as the columns a table declares: by name, cast to the declared type.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, new_null_array};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use pushdown::{Error, Result};

use super::nested::Place;
use crate::errors::from_arrow;
use crate::evaluate::coerce::casts_from_text;
use crate::evaluate::text_cast::text_to;
use crate::output::record_batch;
use crate::types::sql_type;

/// Turns batches of a file into batches of a declared schema.
#[derive(Clone, Debug)]
pub(crate) struct Adapter {
    location: String,
    schema: SchemaRef,
}

impl Adapter {
    pub(crate) fn new(location: &str, schema: SchemaRef) -> Self {
        Self { location: location.to_owned(), schema }
    }

    pub(super) fn location(&self) -> &str {
        &self.location
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Which columns of the file are read.
    pub(crate) fn columns(&self, file: &Schema) -> Vec<usize> {
        let root = |field: &Arc<Field>| file.index_of(&Place::of(field).ok()?.root).ok();
        self.schema.fields().iter().filter_map(root).collect()
    }

    /// The batch with the declared columns.
    pub(crate) fn adapt(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.schema.fields().iter().map(|field| self.column(batch, field)).collect::<Result<_>>()?;
        record_batch(&self.schema, columns, batch.num_rows())
    }

    fn column(&self, batch: &RecordBatch, field: &Field) -> Result<ArrayRef> {
        let place = || format!("{}, column \"{}\"", self.location, field.name());
        let within = Place::of(field)?;
        let column = match batch.column_by_name(&within.root) {
            Some(root) => within
                .find(root)
                .and_then(|column| declared(&column, field.data_type()))
                .map_err(|error| error.context(place()))?,
            None if field.is_nullable() => new_null_array(field.data_type(), batch.num_rows()),
            None => {
                return Err(Error::invalid(format!(
                    "{}: the file has no such column, but it is declared NOT NULL",
                    place()
                )));
            }
        };
        if !field.is_nullable() && column.logical_null_count() > 0 {
            return Err(unexpected_null(&self.location, field));
        }
        Ok(column)
    }
}

/// A value is NULL of a column that has none.
pub(super) fn unexpected_null(location: &str, field: &Field) -> Error {
    let column = field.name();
    Error::invalid(format!("{location}, column \"{column}\": a value is NULL, but the column is declared NOT NULL"))
}

/// The column with the declared type; a value that does not fit is an error.
fn declared(column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let from = column.data_type();
    if from == to {
        return Ok(Arc::clone(column));
    }
    if from.is_string() && casts_from_text(to) {
        return text_to(cast(column, &DataType::Utf8).map_err(from_arrow)?.as_string(), to);
    }
    if let (DataType::FixedSizeBinary(16), DataType::Utf8) = (from, to) {
        let texts: StringArray = column.as_fixed_size_binary().iter().map(|uuid| uuid.map(uuid_text)).collect();
        return Ok(Arc::new(texts));
    }
    let options = CastOptions { safe: false, ..Default::default() };
    cast_with_options(column, to, &options).map_err(|error| {
        Error::invalid(format!("holds {}, which does not fit the declared {}", sql_type(from), sql_type(to)))
            .with_source(error)
    })
}

/// A UUID as it is usually written: `8-4-4-4-12` digits.
fn uuid_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (place, byte) in bytes.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// The file's schema as it is read: text in the layout that is declared, which saves casting it, and other layouts that
/// a file may ask for as ones whose size follows from what is in it. A fixed length is a claim that NULLs are as long.
pub(super) fn read_as(file: &Schema, declared: &Schema) -> Schema {
    let fields = file.fields().iter().map(|field| match declared.field_with_name(field.name()) {
        Ok(wanted) if Place::is_root(wanted) && wanted.data_type().is_string() && field.data_type().is_string() => {
            Arc::new(field.as_ref().clone().with_data_type(wanted.data_type().clone()))
        }
        _ => sized(field),
    });
    Schema::new_with_metadata(fields.collect::<Vec<_>>(), file.metadata().clone())
}

/// The field without lengths that need no bytes.
fn sized(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::FixedSizeList(element, _) => DataType::List(sized(element)),
        DataType::List(element) => DataType::List(sized(element)),
        DataType::LargeList(element) => DataType::LargeList(sized(element)),
        DataType::ListView(element) => DataType::ListView(sized(element)),
        DataType::LargeListView(element) => DataType::LargeListView(sized(element)),
        DataType::Map(entries, sorted) => DataType::Map(sized(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(sized).collect()),
        DataType::LargeUtf8 => DataType::Utf8,
        DataType::LargeBinary => DataType::Binary,
        _ => return Arc::clone(field),
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

//! Adapting the columns of a Parquet file to the declared columns of a table: they are matched by
//! name, and cast to the declared type.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use pushdowndb_contract::{EXACT, Error, Result};

use crate::batch::record_batch;
use crate::parquet::decode::convert::convert;
use crate::parquet::meta::nested::Place;

/// Converts batches of a file to batches of a declared schema.
#[derive(Clone, Debug)]
pub(crate) struct Adapter {
    location: String,
    schema: SchemaRef,
}

impl Adapter {
    pub(crate) fn new(location: &str, schema: SchemaRef) -> Self {
        Self { location: location.to_owned(), schema }
    }

    pub(crate) fn location(&self) -> &str {
        &self.location
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the columns of the file to read. `find` returns the index of the column with a name.
    pub(super) fn roots(&self, find: impl Fn(&str) -> Option<usize>) -> Vec<usize> {
        let root = |field: &Arc<Field>| find(&Place::of(field).ok()?.root);
        self.schema.fields().iter().filter_map(root).collect()
    }

    /// Converts `batch` to the declared columns.
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
                .and_then(|column| convert(&column, field.data_type(), field.metadata().contains_key(EXACT)))
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

/// Returns the error for a NULL in a required column.
pub(crate) fn unexpected_null(location: &str, field: &Field) -> Error {
    let column = field.name();
    Error::invalid(format!("{location}, column \"{column}\": a value is NULL, but the column is declared NOT NULL"))
}

/// Returns the fields with which the file is read.
///
/// Text gets the declared layout, which saves a cast. Types with a fixed length get a layout whose
/// size follows from the data: a fixed length in the file is only a claim, and NULLs would take
/// that length, too.
pub(super) fn read_as(file: &Fields, declared: &Schema) -> Fields {
    let of_name = |name: &str| declared.fields().iter().find(|field| field.name() == name);
    let field = |field: &FieldRef| match of_name(field.name()) {
        Some(wanted) if Place::is_root(wanted) && wanted.data_type().is_string() && field.data_type().is_string() => {
            Arc::new(field.as_ref().clone().with_data_type(wanted.data_type().clone()))
        }
        _ => sized(field),
    };
    file.iter().map(field).collect()
}

/// Returns the field without fixed lengths, at any depth.
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

//! Typed JSON: Arrow's reader, with the rules of this project where they are its own.
//!
//! Decimals and dates are read as the text they are written as and cast by [`crate::text::values`], so that they
//! mean in JSON what they mean in CSV. A number or truth value in a text column is its own spelling.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow_json::ReaderBuilder;
use arrow_json::reader::Decoder;
use pushdown::{Error, Result};

use super::token::without_blanks_after;
use crate::errors::from_arrow;
use crate::evaluate::text_cast::text_to_spelled;
use crate::interrupt::{Steps, check_interrupt};
use crate::output::record_batch;
use crate::text::columns::Spelling;

/// Parsing a byte takes about as long as looking at so many.
const STEPS_A_BYTE: usize = 4;

/// Decodes records by the names of their fields.
pub(crate) struct TypedRecords {
    schema: SchemaRef,
    /// With text where the cast is ours, and everything nullable: absence is checked afterwards.
    read: SchemaRef,
}

/// Why a group of records cannot be decoded.
pub(crate) struct BadRecord {
    /// Which of them, if it is known.
    pub(crate) record: Option<usize>,
    pub(crate) error: Error,
}

impl From<Error> for BadRecord {
    fn from(error: Error) -> Self {
        Self { record: None, error }
    }
}

fn is_cast(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(..) | DataType::Date32)
}

impl TypedRecords {
    pub(crate) fn new(schema: &SchemaRef) -> Result<Self> {
        let read = schema.fields().iter().map(|field| {
            let data_type = if is_cast(field.data_type()) { DataType::Utf8 } else { field.data_type().clone() };
            Field::new(field.name(), data_type, true)
        });
        let typed = Self { schema: Arc::clone(schema), read: Arc::new(Schema::new(read.collect::<Vec<_>>())) };
        typed.decoder(1)?;
        Ok(typed)
    }

    fn decoder(&self, rows: usize) -> Result<Decoder> {
        let builder =
            ReaderBuilder::new(Arc::clone(&self.read)).with_batch_size(rows.max(1)).with_coerce_primitive(true);
        builder.build_decoder().map_err(from_arrow)
    }

    /// One row for each record.
    pub(crate) fn decode(&self, text: &[u8], records: &[Range<usize>]) -> Result<RecordBatch, BadRecord> {
        match self.decode_all(text, records) {
            Ok(batch) => Ok(batch),
            Err(first) if records.len() > 1 => {
                // Which one was it? Only now is it worth looking at them one by one.
                for (i, record) in records.iter().enumerate() {
                    check_interrupt()?;
                    if let Err(bad) = self.decode_all(text, std::slice::from_ref(record)) {
                        return Err(BadRecord { record: Some(i), error: bad.error });
                    }
                }
                Err(first)
            }
            Err(bad) => Err(BadRecord { record: Some(0), ..bad }),
        }
    }

    fn decode_all(&self, text: &[u8], records: &[Range<usize>]) -> Result<RecordBatch, BadRecord> {
        let mut decoder = self.decoder(records.len())?;
        let invalid = |error: ArrowError| Error::invalid(from_arrow(error).message());
        let mut steps = Steps::default();
        for (i, record) in records.iter().enumerate() {
            steps.did(STEPS_A_BYTE * record.len())?;
            let bytes = text.get(record.clone()).unwrap_or_default();
            let bad = |error| BadRecord { record: Some(i), error };
            let read = decoder.decode(bytes).map_err(|error| bad(invalid(error)))?;
            if decoder.has_partial_record() {
                return Err(bad(Error::invalid("the record is not complete")));
            }
            if read < without_blanks_after(bytes).len() || decoder.len() != i + 1 {
                return Err(bad(Error::invalid("there is more than one value where one record should be")));
            }
        }
        let rows = records.len();
        let batch = decoder.flush().map_err(invalid)?;
        let columns = match batch {
            Some(batch) if !self.read.fields().is_empty() => batch.columns().to_vec(),
            _ => vec![],
        };
        let columns = columns.into_iter().zip(self.schema.fields()).map(|(c, f)| typed(c, f)).collect::<Result<_>>()?;
        Ok(record_batch(&self.schema, columns, rows)?)
    }
}

fn typed(column: ArrayRef, field: &Field) -> Result<ArrayRef> {
    let name = field.name();
    let column = if is_cast(field.data_type()) {
        text_to_spelled(column.as_string(), field.data_type(), Spelling::Declared)
            .map_err(|error| error.context(format!("field \"{name}\"")))?
    } else {
        column
    };
    if !field.is_nullable() && column.logical_null_count() > 0 {
        return Err(Error::invalid(format!("field \"{name}\" is absent or null, but the column is declared NOT NULL")));
    }
    Ok(column)
}

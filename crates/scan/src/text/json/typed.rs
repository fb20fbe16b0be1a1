//! Typed JSON: Arrow's reader, with this project's rules where they differ.
//!
//! Decimals, dates and integers are read as text and cast by [`crate::values::parse`], so that they
//! mean the same in JSON as in CSV. A number or Boolean in a text column is returned as it is
//! written, as are objects and lists ([`super::respell`]).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow_json::ReaderBuilder;
use arrow_json::reader::Decoder;
use pushdowndb_contract::{Error, Result};

use crate::batch::record_batch;
use crate::error::from_arrow;
use crate::expr::cast::text::text_to_spelled;
use crate::runtime::interrupt::{Steps, check_interrupt};
use crate::text::json::numbers::whole;
use crate::text::json::respell::Respelling;
use crate::values::json::without_blanks_after;
use crate::values::nulls::Spelling;

/// Rewritten text of records, and the range of each record in it.
type Respelled = (Vec<u8>, Vec<Range<usize>>);

/// The cost of parsing a byte, in bytes that could be read in the same time.
const STEPS_PER_BYTE: usize = 4;

/// Decodes records by field name.
pub(crate) struct TypedRecords {
    schema: SchemaRef,
    /// The schema with text in place of types that are cast here, and with all fields nullable:
    /// missing values are checked afterwards.
    read: SchemaRef,
    spelling: Spelling,
    respelling: Option<Respelling>,
    /// True once a record had to be rewritten. From then on, records are rewritten before they are
    /// decoded.
    respells: AtomicBool,
}

/// Why a group of records cannot be decoded.
pub(crate) struct BadRecord {
    /// The number of the record, if known.
    pub(crate) record: Option<usize>,
    pub(crate) error: Error,
}

impl From<Error> for BadRecord {
    fn from(error: Error) -> Self {
        Self { record: None, error }
    }
}

/// Returns whether a column is cast by this project's rules. Integers are, because Arrow's reader
/// truncates fractions, and so are doubles that must not be rounded.
fn is_cast(data_type: &DataType, spelling: Spelling) -> bool {
    match data_type {
        DataType::Decimal128(..) | DataType::Date32 => true,
        integer if integer.is_integer() => true,
        DataType::Float64 => spelling == Spelling::Inferred,
        _ => false,
    }
}

/// Replaces integers that are written with a point or an exponent (`17.0`, `1e3`) by their digits.
/// Returns `None` if there are none.
fn with_whole_numbers(written: &StringArray) -> Option<StringArray> {
    written.value_data().iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')).then(|| {
        let value = |text: &str| whole(text.as_bytes()).unwrap_or_else(|| text.to_owned());
        written.iter().map(|text| text.map(value)).collect()
    })
}

impl TypedRecords {
    pub(crate) fn new(schema: &SchemaRef, spelling: Spelling) -> Result<Self> {
        let read = schema.fields().iter().map(|field| {
            let data_type =
                if is_cast(field.data_type(), spelling) { DataType::Utf8 } else { field.data_type().clone() };
            Field::new(field.name(), data_type, true)
        });
        let read = Arc::new(Schema::new(read.collect::<Vec<_>>()));
        let respelling = Respelling::new(&read);
        let typed = Self { schema: Arc::clone(schema), read, spelling, respelling, respells: AtomicBool::new(false) };
        typed.decoder(1)?;
        Ok(typed)
    }

    fn decoder(&self, rows: usize) -> Result<Decoder> {
        let builder =
            ReaderBuilder::new(Arc::clone(&self.read)).with_batch_size(rows.max(1)).with_coerce_primitive(true);
        builder.build_decoder().map_err(from_arrow)
    }

    /// Decodes one row for each record.
    pub(crate) fn decode(&self, text: &[u8], records: &[Range<usize>]) -> Result<RecordBatch, BadRecord> {
        match self.decode_all(text, records) {
            Ok(batch) => Ok(batch),
            Err(first) if records.len() > 1 => {
                // Records are decoded one by one only now, to find the bad one.
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
        let first = match self.respells.load(Relaxed) {
            true => None,
            false => match self.decode_as_written(text, records) {
                Ok(batch) => return Ok(batch),
                Err(bad) => Some(bad),
            },
        };
        match (self.respelled(text, records)?, first) {
            (Some((text, records)), _) => {
                self.respells.store(true, Relaxed);
                self.decode_as_written(&text, &records)
            }
            (None, Some(bad)) => Err(bad),
            (None, None) => self.decode_as_written(text, records),
        }
    }

    /// Returns the records in a form that Arrow's reader accepts, and their ranges; `None` if no
    /// record has to be changed.
    fn respelled(&self, text: &[u8], records: &[Range<usize>]) -> Result<Option<Respelled>> {
        let Some(respelling) = &self.respelling else { return Ok(None) };
        let (mut into, mut ranges) = (Vec::new(), Vec::with_capacity(records.len()));
        let (mut steps, mut any) = (Steps::default(), false);
        for record in records {
            let record = text.get(record.clone()).unwrap_or_default();
            steps.did(record.len())?;
            let start = into.len();
            any |= respelling.append(record, &mut into, &mut steps);
            ranges.push(start..into.len());
        }
        Ok(any.then_some((into, ranges)))
    }

    fn decode_as_written(&self, text: &[u8], records: &[Range<usize>]) -> Result<RecordBatch, BadRecord> {
        let mut decoder = self.decoder(records.len())?;
        let invalid = |error: ArrowError| Error::invalid(from_arrow(error).message());
        let mut steps = Steps::default();
        for (i, record) in records.iter().enumerate() {
            steps.did(STEPS_PER_BYTE * record.len())?;
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
        let columns =
            columns.into_iter().zip(self.schema.fields()).map(|(c, f)| self.typed(c, f)).collect::<Result<_>>()?;
        Ok(record_batch(&self.schema, columns, rows)?)
    }

    /// Returns the error for a value that is not valid for the column `name`. If the column's type
    /// was inferred, the error says what to do.
    #[cold]
    fn bad_value(&self, error: Error, name: &str) -> Error {
        match self.spelling {
            Spelling::Inferred => error.context(format!(
                "field \"{name}\", whose type was inferred (a column that CREATE EXTERNAL TABLE declares VARCHAR takes any \
                 value)"
            )),
            _ => error.context(format!("field \"{name}\"")),
        }
    }

    fn typed(&self, column: ArrayRef, field: &Field) -> Result<ArrayRef> {
        let name = field.name();
        let column = if is_cast(field.data_type(), self.spelling) {
            let written = column.as_string();
            let column = match field.data_type().is_integer().then(|| with_whole_numbers(written)).flatten() {
                Some(whole) => text_to_spelled(&whole, field.data_type(), self.spelling),
                None => text_to_spelled(written, field.data_type(), self.spelling),
            };
            column.map_err(|error| self.bad_value(error, name))?
        } else {
            column
        };
        if !field.is_nullable() && column.logical_null_count() > 0 {
            return Err(Error::invalid(format!(
                "field \"{name}\" is absent or null, but the column is declared NOT NULL"
            )));
        }
        Ok(column)
    }
}

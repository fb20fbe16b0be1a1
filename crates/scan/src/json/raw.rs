//! Untyped JSON: each column holds the token found at its path, as it is written.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};
use pushdown::{Error, Result};

use super::token::{Key, Step, Unfound, Wanted, find, parse_path, skip_blanks};
use super::typed::BadRecord;
use crate::errors::from_arrow;
use crate::output::record_batch;
use crate::types::is_text;

/// The metadata key under which a field keeps its path.
const PATH: &str = "path";

/// Takes the tokens of certain paths out of records.
pub(crate) struct RawRecords {
    schema: SchemaRef,
    paths: Vec<Vec<Step>>,
}

impl RawRecords {
    pub(crate) fn new(schema: &SchemaRef) -> Result<Self> {
        let path = |field: &arrow::datatypes::Field| {
            if !is_text(field.data_type()) {
                return Err(Error::internal(format!("the column {} of raw JSON is not text", field.name())));
            }
            match field.metadata().get(PATH) {
                None => Ok(vec![Step::Key(Key::new(field.name(), true))]),
                Some(path) => parse_path(path).ok_or_else(|| Error::invalid(format!("'{path}' is no path into JSON"))),
            }
        };
        let paths = schema.fields().iter().map(|field| path(field)).collect::<Result<_>>()?;
        Ok(Self { schema: Arc::clone(schema), paths })
    }

    /// One row for each record.
    pub(crate) fn decode(&self, text: &[u8], records: &[Range<usize>]) -> Result<RecordBatch, BadRecord> {
        let wanted: Vec<_> = self.paths.iter().enumerate().map(|(column, path)| Wanted { column, path }).collect();
        let mut columns: Vec<_> = self.paths.iter().map(|_| StringBuilder::new()).collect();
        let mut found = vec![None; columns.len()];
        for (i, record) in records.iter().enumerate() {
            let bad =
                |message: String, code| BadRecord { record: Some(i), error: Error::invalid(message).with_code(code) };
            let bytes = text.get(record.clone()).unwrap_or_default();
            found.fill(None);
            // A record that has nothing in it.
            if !bytes.is_empty() {
                let bytes = std::str::from_utf8(bytes)
                    .map_err(|_| bad("the record is not UTF-8".into(), "InvalidTextEncoding"))?;
                let end = find(bytes.as_bytes(), 0, &wanted, 0, &mut found).map_err(|why| match why {
                    Unfound::Malformed(at) => {
                        bad(format!("the record is not JSON at its byte {at}"), "JSONParsingError")
                    }
                    Unfound::Ambiguous { column } => {
                        let name = self.schema.fields().get(column).map_or("", |field| field.name());
                        let message = format!("\"{name}\" matches more than one field: write it in double quotes");
                        bad(message, "AmbiguousFieldName")
                    }
                })?;
                if skip_blanks(bytes.as_bytes(), end) != bytes.len() {
                    let message = "there is more than one value where one record should be";
                    return Err(bad(message.into(), "JSONParsingError"));
                }
            }
            let bytes = std::str::from_utf8(bytes).unwrap_or_default();
            for (column, token) in columns.iter_mut().zip(&found) {
                column.append_option(token.clone().and_then(|range| bytes.get(range)));
            }
        }
        let columns = columns.into_iter().zip(self.schema.fields()).map(|(mut column, field)| {
            let column: ArrayRef = Arc::new(column.finish());
            match field.data_type() {
                DataType::Utf8 => Ok(column),
                other => cast(&column, other).map_err(from_arrow),
            }
        });
        Ok(record_batch(&self.schema, columns.collect::<Result<_>>()?, records.len())?)
    }
}

//! Decoders of S3 Select output into the types of the table.

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::reader::{Decoder, ReaderBuilder};
use bytes::Bytes;
use pushdowndb_contract::{CsvOptions, Error, ErrorKind, Format, Fragment, NullRule, Output, Ragged, Result};
use pushdowndb_scan::{CsvDecoder, JsonAnswer, output_schema, sql_type};
use pushdowndb_select::OutputSerialization;

const BATCH_ROWS: usize = 8192;

/// Decoder of an S3 Select response, which is fed in chunks cut at any byte.
pub(crate) enum WireDecoder {
    Csv(Box<CsvDecoder>),
    Json(Box<JsonRows>),
}

/// Decoder of JSON responses.
pub(crate) struct JsonRows {
    decoder: Decoder,
    schema: SchemaRef,
    location: String,
    /// Detects values that do not fit their columns.
    check: Option<JsonAnswer>,
}

/// Scale of the decimals that integer columns are read as, since the JSON reader truncates the
/// fractions of integers instead of rejecting them.
const INTEGER_SCALE: i8 = 18;

impl JsonRows {
    fn new(schema: SchemaRef, request: &Fragment, location: &str) -> Result<Self> {
        let read = schema.fields().iter().map(|field| match field.data_type() {
            integer if integer.is_integer() => {
                field.as_ref().clone().with_data_type(DataType::Decimal128(DECIMAL128_MAX_PRECISION, INTEGER_SCALE))
            }
            _ => field.as_ref().clone(),
        });
        let read = Arc::new(Schema::new(read.collect::<Vec<_>>()));
        let decoder = ReaderBuilder::new(read).with_batch_size(BATCH_ROWS).build_decoder();
        let decoder = decoder.map_err(|e| Error::internal(e.to_string()))?;
        let check = JsonAnswer::new(request, &schema, location);
        Ok(Self { decoder, schema, location: location.to_owned(), check })
    }

    fn corrupt(&self, error: ArrowError) -> Error {
        Error::new(ErrorKind::Corrupt, format!("{}: {error}", self.location))
    }

    fn feed(&mut self, mut rest: &[u8]) -> Result<Vec<RecordBatch>> {
        if let Some(check) = &mut self.check {
            check.feed(rest)?;
        }
        let mut batches = Vec::new();
        while !rest.is_empty() {
            let read = self.decoder.decode(rest).map_err(|error| self.corrupt(error))?;
            if read == 0 || read < rest.len() {
                batches.extend(self.flush()?);
            }
            rest = rest.get(read..).unwrap_or_default();
        }
        Ok(batches)
    }

    /// Returns the rows decoded so far, with integer columns cast back from decimals.
    fn flush(&mut self) -> Result<Option<RecordBatch>> {
        let Some(batch) = self.decoder.flush().map_err(|error| self.corrupt(error))? else { return Ok(None) };
        let columns = batch.columns().iter().zip(self.schema.fields()).map(|(column, field)| {
            if !field.data_type().is_integer() {
                return Ok(Arc::clone(column));
            }
            let numbers = column.as_primitive::<Decimal128Type>();
            let one = 10_i128.pow(INTEGER_SCALE.unsigned_abs().into());
            if let Some(row) = numbers.iter().position(|number| number.is_some_and(|number| number % one != 0)) {
                return Err(Error::invalid(format!(
                    "{}: field \"{}\": cannot parse '{}' as {}",
                    self.location,
                    field.name(),
                    numbers.value_as_string(row).trim_end_matches('0'),
                    sql_type(field.data_type()),
                )));
            }
            let strict = CastOptions { safe: false, ..CastOptions::default() };
            cast_with_options(column, field.data_type(), &strict).map_err(|error| self.corrupt(error))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &rows);
        batch.map(Some).map_err(|error| self.corrupt(error))
    }
}

impl WireDecoder {
    pub(crate) fn new(request: &Fragment, written: OutputSerialization, location: &str) -> Result<(Self, SchemaRef)> {
        let schema = wire_schema(request)?;
        let decoder = match written {
            OutputSerialization::Csv | OutputSerialization::QuotedCsv => {
                let null = match &request.format {
                    Format::Csv(options) if matches!(request.output, Output::Rows(_)) => options.null.clone(),
                    // For Parquet, CSV is requested only if no column is nullable, or none is text.
                    _ if schema.fields().iter().any(|field| field.is_nullable()) => NullRule::Empty,
                    _ => NullRule::Never,
                };
                let inferred = matches!(&request.format, Format::Csv(options) if options.inferred);
                let options = CsvOptions {
                    header: false,
                    null,
                    inferred,
                    ragged: Ragged::Error,
                    // The server quotes fields with line ends.
                    newlines_in_values: true,
                    ..CsvOptions::default()
                };
                Self::Csv(Box::new(CsvDecoder::new(Arc::clone(&schema), options, location.to_owned())?))
            }
            OutputSerialization::Json => Self::Json(Box::new(JsonRows::new(Arc::clone(&schema), request, location)?)),
        };
        Ok((decoder, schema))
    }

    /// Decodes `bytes`, and returns the completed batches.
    pub(crate) fn feed(&mut self, bytes: Bytes) -> Result<Vec<RecordBatch>> {
        match self {
            Self::Csv(decoder) => {
                decoder.feed(bytes)?;
                Ok(decoder.take_ready())
            }
            Self::Json(rows) => rows.feed(&bytes),
        }
    }

    pub(crate) fn finish(&mut self) -> Result<Vec<RecordBatch>> {
        match self {
            Self::Csv(decoder) => decoder.finish(),
            Self::Json(rows) => rows.flush().map(|batch| batch.into_iter().collect()),
        }
    }
}

/// Returns the schema of a response. Aggregates are nullable; columns keep their declared
/// nullability, so that unexpected NULLs are detected.
fn wire_schema(request: &Fragment) -> Result<SchemaRef> {
    let schema = output_schema(request)?;
    Ok(match request.output {
        Output::Rows(_) => schema,
        Output::Aggregate { .. } => {
            let fields = schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect::<Vec<_>>();
            Arc::new(Schema::new(fields))
        }
    })
}

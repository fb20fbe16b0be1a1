//! Rows as they come back from S3 Select, decoded to the types of the table.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::json::reader::{Decoder, ReaderBuilder};
use bytes::Bytes;
use pushdown::{CsvOptions, Error, ErrorKind, Format, Fragment, NullRule, Output, Ragged, Result};
use pushdowndb_scan::{CsvDecoder, output_schema};
use pushdowndb_select::OutputSerialization;

/// Rows per batch.
const BATCH_ROWS: usize = 8192;

/// Turns the bytes of an answer, cut anywhere, into batches.
pub(super) enum WireDecoder {
    Csv(Box<CsvDecoder>),
    Json(Box<Decoder>, String),
}

impl WireDecoder {
    pub(super) fn new(request: &Fragment, written: OutputSerialization, location: &str) -> Result<(Self, SchemaRef)> {
        let schema = wire_schema(request)?;
        let decoder = match written {
            OutputSerialization::Csv | OutputSerialization::QuotedCsv => {
                let null = match &request.format {
                    Format::Csv(options) if matches!(request.output, Output::Rows(_)) => options.null.clone(),
                    // From Parquet, CSV is asked for only where nothing is NULL or nothing is text.
                    _ if schema.fields().iter().any(|field| field.is_nullable()) => NullRule::Empty,
                    _ => NullRule::Never,
                };
                let options = CsvOptions {
                    header: false,
                    null,
                    ragged: Ragged::Error,
                    // The server quotes fields that hold line ends.
                    newlines_in_values: true,
                    ..CsvOptions::default()
                };
                Self::Csv(Box::new(CsvDecoder::new(Arc::clone(&schema), options, location.to_owned())?))
            }
            OutputSerialization::Json => {
                let decoder = ReaderBuilder::new(Arc::clone(&schema)).with_batch_size(BATCH_ROWS).build_decoder();
                Self::Json(Box::new(decoder.map_err(|e| Error::internal(e.to_string()))?), location.to_owned())
            }
        };
        Ok((decoder, schema))
    }

    /// Takes in bytes and gives out the batches that they complete.
    pub(super) fn feed(&mut self, bytes: Bytes) -> Result<Vec<RecordBatch>> {
        match self {
            Self::Csv(decoder) => {
                decoder.feed(bytes)?;
                Ok(decoder.take_ready())
            }
            Self::Json(decoder, location) => {
                let corrupt = |e: arrow::error::ArrowError| Error::new(ErrorKind::Corrupt, format!("{location}: {e}"));
                let mut batches = Vec::new();
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let read = decoder.decode(rest).map_err(corrupt)?;
                    if read == 0 || read < rest.len() {
                        batches.extend(decoder.flush().map_err(corrupt)?);
                    }
                    rest = &rest[read..];
                }
                Ok(batches)
            }
        }
    }

    /// The last batches.
    pub(super) fn finish(&mut self) -> Result<Vec<RecordBatch>> {
        match self {
            Self::Csv(decoder) => decoder.finish(),
            Self::Json(decoder, location) => decoder
                .flush()
                .map(|batch| batch.into_iter().collect())
                .map_err(|e| Error::new(ErrorKind::Corrupt, format!("{location}: {e}"))),
        }
    }
}

/// The columns of an answer. Aggregates may be NULL; columns are what the table declares, so that a NULL
/// where the table promises none is noticed.
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

//! What is known of an object's columns before its rows are read: the first record of CSV, the footer of
//! Parquet; JSON records may hold anything.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use futures::StreamExt;
use parquet::arrow::parquet_to_arrow_schema;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaDataReader;
use pushdown::{CsvOptions, Error, ErrorKind, Format, Fragment, Result};
use pushdowndb_scan::{ObjectReader, ScanCounters, ScanOptions, scan};
use pushdowndb_select::InputColumns;
use s3s::{S3Result, s3_error};

use super::errors;
use super::request::Request;
use crate::Limits;

/// Finds out the columns that a request may refer to.
pub(super) async fn of(request: &Request, object: &Arc<dyn ObjectReader>, limits: &Limits) -> S3Result<InputColumns> {
    let failed = |error| errors::of_scan(&error, &request.format);
    match &request.format {
        Format::Json(options) => Ok(InputColumns::Json(options.clone())),
        Format::Parquet => Ok(InputColumns::Parquet(footer(object.as_ref(), limits).await.map_err(failed)?)),
        Format::Csv(options) => {
            let first = first_record(object, options).await.map_err(failed)?;
            let count = first.as_ref().map_or(0, Vec::len);
            if count > pushdown::limits::COLUMNS {
                return Err(s3_error!(OverMaxColumn, "a record has at most {} columns", pushdown::limits::COLUMNS));
            }
            let names = match first {
                _ if !request.named => None,
                Some(names) => Some(names),
                // An empty object has whatever columns are asked for, and no rows.
                None => Some(request.statement.columns()),
            };
            Ok(InputColumns::Csv { options: options.clone(), names, count })
        }
    }
}

/// The fields of the first record, read as data: as many as it has.
async fn first_record(object: &Arc<dyn ObjectReader>, options: &CsvOptions) -> Result<Option<Vec<String>>> {
    // Most tables have few columns; the rest is tried only where those few are all taken.
    for most in [128, pushdown::limits::COLUMNS + 1] {
        let fields: Vec<Field> = (0..most).map(|n| Field::new(format!("_{n}"), DataType::Utf8, true)).collect();
        let options = CsvOptions { header: false, ..options.clone() };
        let mut fragment = Fragment::all(Format::Csv(options), Arc::new(Schema::new(fields)));
        fragment.limit = Some(1);
        // A range that holds only the first byte holds only the first record.
        let range = fragment.format.is_splittable().then_some(0..1);
        let (reader, counters) = (Arc::clone(object), Arc::new(ScanCounters::default()));
        let mut batches = scan(Arc::new(fragment), reader, range, ScanOptions::default(), counters)?;
        let Some(batch) = batches.next().await.transpose()? else { return Ok(None) };
        if batch.num_rows() == 0 {
            return Ok(None);
        }
        let text = |column: &arrow::array::ArrayRef| {
            let column = column.as_string_opt::<i32>()?;
            (!column.is_null(0)).then(|| column.value(0).to_owned())
        };
        let mut record: Vec<String> = batch.columns().iter().map_while(text).collect();
        if record.len() < most || most > pushdown::limits::COLUMNS {
            if let Some(first) = record.first_mut()
                && let Some(rest) = first.strip_prefix('\u{feff}')
            {
                *first = rest.to_owned();
            }
            return Ok(Some(record));
        }
    }
    Ok(None)
}

/// The schema in the footer of a Parquet object.
async fn footer(object: &dyn ObjectReader, limits: &Limits) -> Result<SchemaRef> {
    let (location, size) = (object.location(), object.size());
    let corrupt = |why: &str| Error::new(ErrorKind::Corrupt, format!("{location}: is no Parquet file: {why}"));
    // One read finds most footers whole.
    let mut tail = (64 << 10).min(size);
    loop {
        let read = object.read_ranges(vec![size - tail..size]).await?;
        let bytes = read.into_iter().next().unwrap_or_default();
        let mut reader = ParquetMetaDataReader::new();
        match reader.try_parse_sized(&bytes, size).and_then(|()| reader.finish()) {
            Ok(metadata) => {
                let file = metadata.file_metadata();
                let schema =
                    parquet_to_arrow_schema(file.schema_descr(), file.key_value_metadata()).map_err(|error| {
                        Error::unsupported(format!("{location}: its schema is not known here")).with_source(error)
                    })?;
                return Ok(Arc::new(schema));
            }
            Err(ParquetError::NeedMoreData(needed)) if needed as u64 > tail && needed as u64 <= size => {
                if needed > limits.footer_bytes {
                    return Err(Error::new(
                        ErrorKind::Limit,
                        format!("{location}: its footer has {needed} bytes, at most {} are read", limits.footer_bytes),
                    ));
                }
                tail = needed as u64;
            }
            Err(error) if bytes.ends_with(b"PAR1") => {
                return Err(corrupt("its footer cannot be read").with_source(error));
            }
            Err(_) => return Err(corrupt("it is cut off, or something else")),
        }
    }
}

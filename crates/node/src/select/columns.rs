//! The columns of an object: from the first record of CSV or the footer of Parquet. JSON records
//! may have any.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use futures::StreamExt;
use pushdowndb_contract::{CsvOptions, Format, Fragment, Result};
use pushdowndb_scan::{parquet_schema, scan, with_uuids_as_text};
use pushdowndb_select::InputColumns;
use s3s::{S3Result, s3_error};

use super::errors;
use super::object::{SelectObject, options};
use super::request::Request;
use crate::Limits;

/// Determines the columns that a request may refer to.
pub(super) async fn of(request: &Request, object: &SelectObject, limits: &Limits) -> S3Result<InputColumns> {
    let failed = |error| errors::of_scan(&error, &request.format);
    match &request.format {
        Format::Json(options) => Ok(InputColumns::Json(options.clone())),
        Format::Parquet => {
            let schema = footer(object, limits).await.map_err(failed)?;
            within_limit(schema.fields().len())?;
            Ok(InputColumns::Parquet(schema))
        }
        Format::Csv(options) => {
            let first = first_record(object, options, limits).await.map_err(failed)?;
            let count = first.as_ref().map_or(0, Vec::len);
            within_limit(count)?;
            let names = match first {
                _ if !request.named => None,
                Some(names) => Some(names),
                // An empty object has every column that the statement names, and no rows.
                None => Some(request.statement.columns()),
            };
            Ok(InputColumns::Csv { options: options.clone(), names, count })
        }
    }
}

fn within_limit(columns: usize) -> S3Result<()> {
    let most = pushdowndb_contract::limits::COLUMNS;
    if columns > most {
        return Err(s3_error!(OverMaxColumn, "a record has at most {} columns", most));
    }
    Ok(())
}

/// The fields of the first record, read as data.
async fn first_record(object: &SelectObject, csv: &CsvOptions, limits: &Limits) -> Result<Option<Vec<String>>> {
    // Most tables have few columns; more are tried only if all of these are used.
    for most in [128, pushdowndb_contract::limits::COLUMNS + 1] {
        let fields: Vec<Field> = (0..most).map(|n| Field::new(format!("_{n}"), DataType::Utf8, true)).collect();
        let format = CsvOptions { header: false, ..csv.clone() };
        let mut fragment = Fragment::all(Format::Csv(format), Arc::new(Schema::new(fields)));
        fragment.limit = Some(1);
        // The range of the first byte covers only the first line, which may be blank or a comment
        // and so hold no record.
        let first_line = fragment.format.is_splittable().then_some(0..1);
        let (fragment, mut found) = (Arc::new(fragment), None);
        for range in first_line.map(Some).into_iter().chain([None]) {
            let (fragment, reader, counters) = (Arc::clone(&fragment), Arc::clone(&object.data), Arc::default());
            let mut batches = scan(fragment, reader, range, options(limits, &object.memory), counters)?;
            found = batches.next().await.transpose()?.filter(|batch| batch.num_rows() > 0);
            if found.is_some() {
                break;
            }
        }
        let Some(batch) = found else { return Ok(None) };
        let text = |column: &arrow::array::ArrayRef| {
            let column = column.as_string_opt::<i32>()?;
            (!column.is_null(0)).then(|| column.value(0).to_owned())
        };
        let mut record: Vec<String> = batch.columns().iter().map_while(text).collect();
        if record.len() < most || most > pushdowndb_contract::limits::COLUMNS {
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
async fn footer(object: &SelectObject, limits: &Limits) -> Result<SchemaRef> {
    let metadata = object.footer.read(object.data.as_ref(), limits.footer_bytes as u64, &object.memory).await?;
    let schema = parquet_schema(object.data.location(), &metadata)?;
    Ok(Arc::new(with_uuids_as_text(&schema, metadata.file_metadata().schema_descr())))
}

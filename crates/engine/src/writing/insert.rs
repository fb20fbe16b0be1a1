//! INSERT INTO a table of objects: a COPY that adds objects to its folder.

use std::collections::HashMap;

use datafusion::datasource::file_format::format_as_file_type;
use datafusion::datasource::source_as_provider;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::logical_plan::dml::CopyTo;
use datafusion::logical_expr::{DmlStatement, LogicalPlan, WriteOp};
use pushdowndb_contract::{Compression, CsvOptions, Error, Format, JsonShape, NullRule, Result};

use crate::catalog::TableDefinition;
use crate::provider::ObjectTable;

/// Turns an INSERT into a table of objects into a COPY; other plans are unchanged.
///
/// # Errors
///
/// Returns an error if the table is not one folder, or its format cannot be written.
pub(crate) fn as_copy(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    let LogicalPlan::Dml(DmlStatement { target, op, input, .. }) = &plan else { return Ok(plan) };
    let Ok(provider) = source_as_provider(target) else { return Ok(plan) };
    let Some(table) = provider.downcast_ref::<ObjectTable>().map(ObjectTable::definition) else { return Ok(plan) };
    match op {
        WriteOp::Insert(InsertOp::Append) => {}
        WriteOp::Insert(_) => {
            return Err(Error::unsupported(
                "INSERT OVERWRITE into a table of objects is not supported; COPY … TO its folder with OVERWRITE",
            ));
        }
        other => {
            return Err(Error::unsupported(format!(
                "{} of a table of objects is not supported: objects are written whole, by COPY and INSERT",
                other.name().to_uppercase()
            )));
        }
    }
    let place = table.location.to_string();
    if table.location.glob().is_some() || !place.ends_with('/') {
        return Err(Error::unsupported(format!(
            "INSERT INTO adds an object to a folder, and the table's location is no folder that ends with /: {place}"
        )));
    }
    let (extension, mut options) = format_of(table)?;
    options.insert("format.append".to_owned(), "true".to_owned());
    let factory = state.get_file_format_factory(extension);
    let factory = factory.ok_or_else(|| Error::internal(format!("there is no writer of {extension}")))?;
    let partitions = table.partition_columns.iter().map(|column| column.name().clone()).collect();
    let copy = CopyTo::new(input.clone(), place, partitions, format_as_file_type(factory), options);
    Ok(LogicalPlan::Copy(copy))
}

/// Returns the format in which objects are added, with its options.
fn format_of(table: &TableDefinition) -> Result<(&'static str, HashMap<String, String>)> {
    let mut options = HashMap::new();
    let mut set = |name: &str, value: String| drop(options.insert(format!("format.{name}"), value));
    let compression = match &table.format {
        Format::Csv(csv) => csv.compression,
        Format::Json(json) => json.compression,
        Format::Parquet => Compression::None,
    };
    match compression {
        Compression::None => {}
        Compression::Gzip => set("compression", "gzip".to_owned()),
        Compression::Bzip2 => set("compression", "bzip2".to_owned()),
        Compression::Zstd => set("compression", "zstd".to_owned()),
    }
    let extension = match &table.format {
        Format::Parquet => "parquet",
        Format::Json(json) if json.shape == JsonShape::Lines => "json",
        Format::Json(_) => return Err(Error::unsupported("INSERT INTO writes JSON with a document on each line only")),
        Format::Csv(csv) => {
            let CsvOptions { header, delimiter, quote, escape, null, wide, .. } = csv;
            let (Some(quote), None) = (quote, wide) else {
                return Err(Error::unsupported("INSERT INTO writes CSV with one character for each mark only"));
            };
            set("has_header", header.to_string());
            set("delimiter", char::from(*delimiter).to_string());
            set("quote", char::from(*quote).to_string());
            if let Some(escape) = escape {
                set("escape", char::from(*escape).to_string());
                set("double_quote", "false".to_owned());
            }
            match null {
                NullRule::Empty => {}
                NullRule::Text(text) => set("null_value", text.clone()),
                _ => return Err(Error::unsupported("INSERT INTO writes no CSV with a pattern for NULL")),
            }
            "csv"
        }
    };
    Ok((extension, options))
}

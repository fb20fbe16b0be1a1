//! Catalogs, schemas, tables and keys.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{RecordBatch, StringArray};
use arrow::compute::like;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::error::FlightError;
use arrow_flight::sql::{Command, CommandGetTables};
use tonic::Status;

use super::{CATALOG, SCHEMA, info, plain, status};
use crate::error::{PgError, code};
use crate::session::SessionCore;

/// The types of tables.
const TABLE: &str = "TABLE";
const VIEW: &str = "VIEW";

/// Maximum time to look up the columns of tables, for which objects may have to be read.
const PATIENCE: Duration = Duration::from_secs(60);

fn failed(error: FlightError) -> Status {
    Status::from(error)
}

/// The columns of the rows that a metadata command requests.
///
/// # Errors
///
/// `command` is not a metadata command.
pub(super) fn columns(command: &Command) -> Result<SchemaRef, Status> {
    Ok(match command {
        Command::CommandGetCatalogs(get) => get.into_builder().schema(),
        Command::CommandGetDbSchemas(get) => get.clone().into_builder().schema(),
        Command::CommandGetTables(get) => get.clone().into_builder().schema(),
        Command::CommandGetTableTypes(get) => get.into_builder().schema(),
        Command::CommandGetSqlInfo(get) => get.clone().into_builder(info::sql()?).schema(),
        Command::CommandGetXdbcTypeInfo(get) => get.into_builder(info::types()?).schema(),
        Command::CommandGetPrimaryKeys(_) => primary_keys(),
        Command::CommandGetExportedKeys(_)
        | Command::CommandGetImportedKeys(_)
        | Command::CommandGetCrossReference(_) => foreign_keys(),
        other => return Err(Status::unimplemented(format!("this server does not answer {}", other.type_url()))),
    })
}

/// The rows that a metadata command requests.
///
/// # Errors
///
/// `command` is not a metadata command, or the tables cannot be listed.
pub(super) async fn rows(core: &SessionCore, command: Command) -> Result<RecordBatch, Status> {
    match command {
        Command::CommandGetCatalogs(get) => {
            let mut builder = get.into_builder();
            builder.append(CATALOG);
            builder.build().map_err(failed)
        }
        Command::CommandGetDbSchemas(get) => {
            let mut builder = get.into_builder();
            builder.append(CATALOG, SCHEMA);
            builder.build().map_err(failed)
        }
        Command::CommandGetTables(get) => tables(core, get).await,
        Command::CommandGetTableTypes(get) => {
            let mut builder = get.into_builder();
            [TABLE, VIEW].into_iter().for_each(|table_type| builder.append(table_type));
            builder.build().map_err(failed)
        }
        Command::CommandGetSqlInfo(get) => get.into_builder(info::sql()?).build().map_err(failed),
        Command::CommandGetXdbcTypeInfo(get) => get.into_builder(info::types()?).build().map_err(failed),
        // The other commands are about keys, of which there are none.
        command => columns(&command).map(RecordBatch::new_empty),
    }
}

async fn tables(core: &SessionCore, get: CommandGetTables) -> Result<RecordBatch, Status> {
    let engine = core.engine();
    let tables = engine.tables().await.map_err(|error| status::of(&PgError::from(&error)))?;
    let is_asked_for = |name: &str| get.table_name_filter_pattern.as_ref().is_none_or(|pattern| is_like(name, pattern));
    let (pattern, has_columns) = (get.table_name_filter_pattern.clone(), get.include_schema);
    // The builder filters tables as well, but only after their columns were looked up.
    let tables: Vec<_> = tables.into_iter().filter(|table| is_asked_for(&table.name)).collect();
    let mut builder = get.into_builder();
    let listing = async {
        for table in &tables {
            let name = format!("\"{}\"", table.name.replace('"', "\"\""));
            let columns = match has_columns {
                // The columns of a table that the user may not read are left out.
                true => engine.describe(&name).await.ok().map(|columns| plain::schema(&columns)),
                false => None,
            };
            let columns = columns.unwrap_or_else(|| Arc::new(Schema::empty()));
            let table_type = if table.kind == "view" { VIEW } else { TABLE };
            builder.append(CATALOG, SCHEMA, &table.name, table_type, &columns).map_err(failed)?;
        }
        builder.build().map_err(failed)
    };
    tokio::time::timeout(PATIENCE, listing).await.unwrap_or_else(|_| {
        let asked = pattern.as_deref().unwrap_or("%");
        let message = format!("the columns of the tables '{asked}' could not be had in time: ask for fewer");
        Err(status::of(&PgError::new(code::LIMIT, message)))
    })
}

/// Whether `name` matches the LIKE pattern, in which `\` escapes `%` and `_`.
fn is_like(name: &str, pattern: &str) -> bool {
    like(&StringArray::new_scalar(name), &StringArray::new_scalar(pattern)).is_ok_and(|found| found.value(0))
}

fn of_fields(fields: &[(&str, DataType, bool)]) -> SchemaRef {
    let fields = fields.iter().map(|(name, data_type, is_nullable)| Field::new(*name, data_type.clone(), *is_nullable));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn primary_keys() -> SchemaRef {
    of_fields(&[
        ("catalog_name", DataType::Utf8, true),
        ("db_schema_name", DataType::Utf8, true),
        ("table_name", DataType::Utf8, false),
        ("column_name", DataType::Utf8, false),
        ("key_name", DataType::Utf8, true),
        ("key_sequence", DataType::Int32, false),
    ])
}

fn foreign_keys() -> SchemaRef {
    of_fields(&[
        ("pk_catalog_name", DataType::Utf8, true),
        ("pk_db_schema_name", DataType::Utf8, true),
        ("pk_table_name", DataType::Utf8, false),
        ("pk_column_name", DataType::Utf8, false),
        ("fk_catalog_name", DataType::Utf8, true),
        ("fk_db_schema_name", DataType::Utf8, true),
        ("fk_table_name", DataType::Utf8, false),
        ("fk_column_name", DataType::Utf8, false),
        ("key_sequence", DataType::Int32, false),
        ("fk_key_name", DataType::Utf8, true),
        ("pk_key_name", DataType::Utf8, true),
        ("update_rule", DataType::UInt8, false),
        ("delete_rule", DataType::UInt8, false),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_like() {
        for (name, pattern, expected) in [
            ("lineitem", "%", true),
            ("lineitem", "line%", true),
            ("lineitem", "%item", true),
            ("lineitem", "l_ne%m", true),
            ("lineitem", "lineitem_", false),
            ("aXbXc", "a%X%c", true),
            ("aab", "%ab", true),
            ("a_b", "a\\_b", true),
            ("axb", "a\\_b", false),
            ("", "", true),
            ("", "%", true),
            ("a", "", false),
            ("ümläut", "_ml_ut", true),
        ] {
            assert_eq!(is_like(name, pattern), expected, "{name} LIKE {pattern}");
        }
    }
}

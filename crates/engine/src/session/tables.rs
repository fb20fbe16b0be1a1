//! The names of a session: tables and functions, for completion and suggestions.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::logical_expr::TableType;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use pushdowndb_contract::{Error, Result};
use pushdowndb_scan::sql_type;

use super::Engine;
use super::information_schema::is_nullable;
use crate::access::absolute;
use crate::catalog::file::TableKind;
use crate::catalog::options::unread;
use crate::error::from_datafusion;
use crate::nearest::nearest;
use crate::provider::ObjectTable;

/// A table that SQL can name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TableInfo {
    /// The name.
    pub name: String,
    /// `table`, `view` or `remembered` (a table of objects in the catalog file that was not used yet).
    pub kind: String,
    /// The format of its objects, if it has objects.
    pub format: String,
    /// The location of its objects, if it has objects.
    pub location: String,
    /// The query of a view of this session, as it is kept.
    pub query: Option<String>,
}

impl Engine {
    /// Adds the most similar name to the error that a table does not exist.
    pub(super) async fn suggest_table(&self, error: Error) -> Error {
        let missing = error.message().strip_prefix("table '").and_then(|rest| rest.strip_suffix("' not found"));
        let Some(name) = missing else { return error };
        let name = name.strip_prefix("datafusion.public.").unwrap_or(name);
        let tables = self.tables().await.unwrap_or_default();
        if ["describe", "summarize", "pivot", "unpivot"].contains(&name) {
            let message = format!("{} is a statement by itself, and no table of a FROM", name.to_uppercase());
            return Error::new(error.kind(), message);
        }
        if let Some(hint) = self.file_hint(name) {
            return Error::new(error.kind(), hint);
        }
        let hint = match nearest(name, tables.iter().map(|table| table.name.as_str())) {
            Some(meant) => format!("did you mean {meant}?"),
            None if name.contains('.') => {
                let message = format!(
                    "there is no table and no file {name}; a file is known by the end of its name (.csv, .json, .parquet, \
                     …), or read by read_csv('{name}')"
                );
                return Error::new(error.kind(), message);
            }
            None => {
                "declare it by CREATE EXTERNAL TABLE, or name objects in quotes: FROM 's3://bucket/key.csv'".to_owned()
            }
        };
        Error::new(error.kind(), format!("there is no table {name}; {hint}"))
    }

    /// Returns what to write instead of `name`, if it is the name of a folder or a file and not of
    /// a table.
    fn file_hint(&self, name: &str) -> Option<String> {
        let whole = absolute(Path::new(name)).ok()?;
        self.backends.access().look_at(&whole).ok()?;
        match std::fs::metadata(whole).ok()? {
            file if file.is_dir() => {
                Some(format!("{name} is a folder: write '{name}/' for the objects in it, or '{name}/*.csv' for some"))
            }
            _ if unread(name).is_some() => unread(name).map(|advice| format!("{name}: {advice}")),
            _ => Some(format!(
                "the name {name} does not tell its format (CSV, TSV, JSON, NDJSON or PARQUET); write \
                 read_csv('{name}'), read_json('{name}') or read_parquet('{name}')"
            )),
        }
    }

    /// The tables that SQL can name, sorted by name.
    pub async fn tables(&self) -> Result<Vec<TableInfo>> {
        let mut tables = BTreeMap::new();
        for (name, kept) in self.declared.all() {
            let (kind, format, location) = match kept.kind {
                TableKind::External => ("remembered", "", location_of(&kept.statement)),
                TableKind::View => ("view", "memory", String::new()),
                TableKind::Memory => ("table", "memory", String::new()),
            };
            let query = if kept.kind == TableKind::View { view_query(&kept.statement) } else { None };
            let (kind, format) = (kind.to_owned(), format.to_owned());
            let info = TableInfo { name: name.clone(), kind, format, location, query };
            tables.insert(name, info);
        }
        for catalog in self.catalogs.catalog_names() {
            let Some(catalog) = self.catalogs.catalog(&catalog) else { continue };
            for schema in catalog.schema_names() {
                if schema == "information_schema" {
                    continue;
                }
                let Some(schema) = catalog.schema(&schema) else { continue };
                for name in schema.table_names() {
                    let Some(table) = schema.table(&name).await.map_err(from_datafusion)? else { continue };
                    let kind = if table.table_type() == TableType::View { "view" } else { "table" };
                    let object_table = table.downcast_ref::<ObjectTable>().map(ObjectTable::definition);
                    let info = TableInfo {
                        name: name.clone(),
                        kind: kind.to_owned(),
                        format: object_table.map_or("memory", |t| t.format.name()).to_owned(),
                        location: object_table.map(|t| t.location.to_string()).unwrap_or_default(),
                        query: table.get_table_definition().and_then(view_query),
                    };
                    tables.insert(name, info);
                }
            }
        }
        Ok(tables.into_values().collect())
    }

    /// Returns the columns of a table, or of objects at an address.
    pub async fn describe(&self, table: &str) -> Result<SchemaRef> {
        let run = self.begin("")?;
        self.wake_named(&run, table).await?;
        let provider = run.context().table_provider(table).await.map_err(from_datafusion)?;
        Ok(provider.schema())
    }
}

/// Returns the query of `CREATE VIEW … AS query`.
fn view_query(statement: &str) -> Option<String> {
    match Parser::parse_sql(&GenericDialect {}, statement).ok()?.pop()? {
        SqlStatement::CreateView(view) => Some(view.query.to_string()),
        _ => None,
    }
}

/// Returns the columns of a table as DESCRIBE shows them: names, SQL types, and whether they hold
/// NULL.
pub(super) fn columns(schema: &Schema) -> Result<RecordBatch> {
    let column = |value: &dyn Fn(&Field) -> String| -> ArrayRef {
        Arc::new(schema.fields().iter().map(|field| Some(value(field))).collect::<StringArray>())
    };
    let columns = [
        ("column_name", column(&|field| field.name().clone())),
        ("data_type", column(&|field| sql_type(field.data_type()))),
        ("is_nullable", column(&|field| is_nullable(field).to_owned())),
    ];
    RecordBatch::try_from_iter(columns).map_err(|error| Error::internal("columns as rows").with_source(error))
}

/// Returns the LOCATION of a declaration, without its options, which may hold credentials.
fn location_of(statement: &str) -> String {
    let quoted = statement.to_ascii_uppercase().find("LOCATION").and_then(|at| statement.get(at..)?.split('\'').nth(1));
    quoted.unwrap_or_default().to_owned()
}

//! The names of a session: tables and functions, for completion and suggestions.

use std::collections::BTreeMap;

use arrow::datatypes::SchemaRef;
use datafusion::logical_expr::TableType;
use pushdowndb_contract::{Error, Result};

use super::Engine;
use crate::error::from_datafusion;
use crate::nearest::nearest;
use crate::provider::ObjectTable;

/// A table that SQL can name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TableInfo {
    /// The name.
    pub name: String,
    /// `table`, `view` or `remembered` (declared in the catalog file and not used yet).
    pub kind: String,
    /// The format of its objects, if it has objects.
    pub format: String,
    /// The location of its objects, if it has objects.
    pub location: String,
}

impl Engine {
    /// Adds the most similar name to the error that a table does not exist.
    pub(super) async fn suggest_table(&self, error: Error) -> Error {
        let missing = error.message().strip_prefix("table '").and_then(|rest| rest.strip_suffix("' not found"));
        let Some(name) = missing else { return error };
        let name = name.strip_prefix("datafusion.public.").unwrap_or(name);
        let tables = self.tables().await.unwrap_or_default();
        let hint = match nearest(name, tables.iter().map(|table| table.name.as_str())) {
            Some(meant) => format!("did you mean {meant}?"),
            None => {
                "declare it by CREATE EXTERNAL TABLE, or name objects in quotes: FROM 's3://bucket/key.csv'".to_owned()
            }
        };
        Error::new(error.kind(), format!("there is no table {name}; {hint}"))
    }

    /// The tables that SQL can name, sorted by name.
    pub async fn tables(&self) -> Result<Vec<TableInfo>> {
        let mut tables = BTreeMap::new();
        for (name, statement) in self.declared.all() {
            let (kind, location) = ("remembered".to_owned(), location_of(&statement));
            let info = TableInfo { name: name.clone(), kind, format: String::new(), location };
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
                    };
                    tables.insert(name, info);
                }
            }
        }
        Ok(tables.into_values().collect())
    }

    /// The columns of a table, or of objects at an address.
    pub async fn describe(&self, table: &str) -> Result<SchemaRef> {
        let run = self.begin("")?;
        let provider = run.context().table_provider(table).await.map_err(from_datafusion)?;
        Ok(provider.schema())
    }

    /// The functions that SQL can call.
    pub fn functions(&self) -> Vec<String> {
        let state = &self.template;
        let mut names: Vec<String> = (state.scalar_functions().keys())
            .chain(state.higher_order_functions().keys())
            .chain(state.aggregate_functions().keys())
            .chain(state.window_functions().keys())
            .cloned()
            .collect();
        names.sort();
        names.dedup();
        names
    }
}

/// The LOCATION of a declaration, whose other options may hold credentials.
fn location_of(statement: &str) -> String {
    let quoted = statement.to_ascii_uppercase().find("LOCATION").and_then(|at| statement.get(at..)?.split('\'').nth(1));
    quoted.unwrap_or_default().to_owned()
}

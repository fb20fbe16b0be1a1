//! The tables that CREATE EXTERNAL TABLE declared, in this session or an earlier one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{CreateExternalTable, DdlStatement, LogicalPlan};
use parking_lot::RwLock;
use pushdowndb_contract::{Error, ErrorKind, Result};

use super::CatalogFile;
use crate::error::from_datafusion;

/// The statements that declare tables, and the catalog file that keeps them. A table of an earlier
/// session is declared when a query first names it, so that opening a session costs no request.
#[derive(Debug)]
pub(crate) struct DeclaredTables {
    file: Option<CatalogFile>,
    statements: RwLock<BTreeMap<String, String>>,
}

impl DeclaredTables {
    pub(crate) fn open(path: Option<PathBuf>) -> Result<Self> {
        let file = path.map(CatalogFile::at);
        let tables = file.as_ref().map(CatalogFile::load).transpose()?.unwrap_or_default();
        let statements = tables.into_iter().map(|table| (table.name, table.statement)).collect();
        Ok(Self { file, statements: RwLock::new(statements) })
    }

    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        self.statements.read().clone()
    }

    pub(crate) fn put(&self, statement: &str) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let name = file.put(statement)?;
        self.statements.write().insert(name, statement.to_owned());
        Ok(())
    }

    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        if let Some(file) = &self.file {
            file.remove(name)?;
        }
        self.statements.write().remove(name);
        Ok(())
    }

    /// Whether a table of this name was declared and not dropped since.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.statements.read().contains_key(name)
    }

    /// The declaration of a table, parsed.
    pub(crate) async fn declaration(&self, name: &str) -> Result<Option<CreateExternalTable>> {
        let Some(statement) = self.all().remove(name) else { return Ok(None) };
        let state = SessionStateBuilder::new_with_default_features().build();
        let plan = state.create_logical_plan(&statement).await.map_err(from_datafusion)?;
        match plan {
            LogicalPlan::Ddl(DdlStatement::CreateExternalTable(command)) => Ok(Some(*command)),
            _ => Err(Error::new(
                ErrorKind::Invalid,
                format!("the catalog file's entry for {name} is not a CREATE EXTERNAL TABLE statement"),
            )),
        }
    }
}

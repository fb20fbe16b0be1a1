//! The tables of the catalog file: those that CREATE EXTERNAL TABLE declared, views, and tables in
//! memory, of this session or an earlier one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{CreateExternalTable, DdlStatement, LogicalPlan};
use parking_lot::RwLock;
use pushdowndb_contract::{Error, ErrorKind, Result};

use super::file::{CatalogFile, DeclaredTable, TableKind};
use super::kept_rows::KeptRows;
use crate::error::from_datafusion;

/// The statements that make tables, and the catalog file that keeps them. A table of an earlier
/// session is made when a query first names it, so that opening a session costs no request.
#[derive(Debug)]
pub(crate) struct DeclaredTables {
    file: Option<CatalogFile>,
    tables: RwLock<BTreeMap<String, DeclaredTable>>,
}

impl DeclaredTables {
    pub(crate) fn open(path: Option<PathBuf>) -> Result<Self> {
        let file = path.map(CatalogFile::at);
        let tables = file.as_ref().map(CatalogFile::load).transpose()?.unwrap_or_default();
        let tables = tables.into_iter().map(|table| (table.name.clone(), table)).collect();
        Ok(Self { file, tables: RwLock::new(tables) })
    }

    /// Returns the external tables for a session that has no catalog file. Tables in memory and
    /// views belong to the session that made them.
    pub(crate) fn without_file(&self) -> Self {
        let external = |(_, table): &(String, DeclaredTable)| table.kind == TableKind::External;
        Self { file: None, tables: RwLock::new(self.all().into_iter().filter(external).collect()) }
    }

    /// Whether there is a catalog file.
    pub(crate) fn is_kept(&self) -> bool {
        self.file.is_some()
    }

    pub(crate) fn all(&self) -> BTreeMap<String, DeclaredTable> {
        self.tables.read().clone()
    }

    pub(crate) fn get(&self, name: &str) -> Option<DeclaredTable> {
        self.tables.read().get(name).cloned()
    }

    /// Whether the catalog file has a view or a table in memory.
    pub(crate) fn keeps_session_tables(&self) -> bool {
        self.tables.read().values().any(|table| table.kind != TableKind::External)
    }

    pub(crate) fn put(&self, statement: &str) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let table = file.put(statement)?;
        self.tables.write().insert(table.name.clone(), table);
        Ok(())
    }

    /// Removes a table, and its rows if it is a table in memory.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        let removed = self.tables.write().remove(name);
        if let Some(file) = &self.file {
            file.remove(name)?;
            if removed.is_some_and(|table| table.kind == TableKind::Memory) {
                KeptRows::of(file, name).remove()?;
            }
        }
        Ok(())
    }

    /// Whether a table of this name was made and not dropped since.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.tables.read().contains_key(name)
    }

    /// Returns where the rows of the table in memory `name` are kept; `None` without a catalog
    /// file.
    pub(crate) fn rows(&self, name: &str) -> Option<KeptRows> {
        self.file.as_ref().map(|file| KeptRows::of(file, name))
    }

    /// Parses the declaration of the external table `name`. Returns `None` if there is no such
    /// table.
    pub(crate) async fn declaration(&self, name: &str) -> Result<Option<CreateExternalTable>> {
        let Some(DeclaredTable { statement, kind: TableKind::External, .. }) = self.get(name) else { return Ok(None) };
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

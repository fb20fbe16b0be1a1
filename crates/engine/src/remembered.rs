//! Tables that were declared in an earlier session and are known again in this one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};

use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{CreateExternalTable, DdlStatement, LogicalPlan};
use pushdown::{Error, ErrorKind, Result};

use crate::error::from_datafusion;
use crate::table::CatalogFile;

/// The tables of the catalogue file that were not used yet. They are declared when first named, so that a
/// start costs no request.
#[derive(Debug)]
pub(crate) struct Remembered {
    file: Option<CatalogFile>,
    statements: RwLock<BTreeMap<String, String>>,
}

impl Remembered {
    pub(crate) fn open(path: Option<PathBuf>) -> Result<Self> {
        let file = path.map(CatalogFile::at);
        let tables = file.as_ref().map(CatalogFile::load).transpose()?.unwrap_or_default();
        let statements = tables.into_iter().map(|table| (table.name, table.statement)).collect();
        Ok(Self { file, statements: RwLock::new(statements) })
    }

    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        self.statements.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn put(&self, statement: &str) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let name = file.put(statement)?;
        self.statements.write().unwrap_or_else(PoisonError::into_inner).insert(name, statement.to_owned());
        Ok(())
    }

    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        if let Some(file) = &self.file {
            file.remove(name)?;
        }
        self.statements.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        Ok(())
    }

    /// Whether a table of this name was declared and not dropped since.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.statements.read().unwrap_or_else(PoisonError::into_inner).contains_key(name)
    }

    /// The declaration of a remembered table.
    pub(crate) async fn declaration(&self, name: &str) -> Result<Option<CreateExternalTable>> {
        let Some(statement) = self.all().remove(name) else { return Ok(None) };
        let state = SessionStateBuilder::new_with_default_features().build();
        let plan = state.create_logical_plan(&statement).await.map_err(from_datafusion)?;
        match plan {
            LogicalPlan::Ddl(DdlStatement::CreateExternalTable(command)) => Ok(Some(*command)),
            _ => Err(Error::new(
                ErrorKind::Invalid,
                format!("the catalogue file's entry for {name} is not a CREATE EXTERNAL TABLE statement"),
            )),
        }
    }
}

//! CREATE and DROP: of tables and views, and what the catalog file keeps of them.

use datafusion::common::TableReference;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use pushdowndb_contract::{Error, Result};

use super::Engine;
use super::catalogs::{is_default, short_name};
use super::result::{QueryResult, StatementKind};
use super::statement_run::StatementRun;
use crate::catalog::file::TableKind;
use crate::error::from_datafusion;

impl Engine {
    /// Runs CREATE or DROP. A table of the catalog file counts as existing even if DataFusion's
    /// catalog does not have it yet.
    pub(super) async fn define(&self, run: &StatementRun, ddl: DdlStatement) -> Result<QueryResult> {
        let exists = |name: &TableReference| run.context().table_exist(name.clone()).map_err(from_datafusion);
        let execute = async |ddl| {
            let done = run.context().execute_logical_plan(LogicalPlan::Ddl(ddl)).await;
            done.map(|_| ()).map_err(from_datafusion)
        };
        let is_kept = self.declared.is_kept() && !is_temporary(&run.text);
        match ddl {
            DdlStatement::CreateExternalTable(create) => {
                let name = short_name(&create.name);
                let is_declared = self.declared.contains(&name);
                match (is_declared || exists(&create.name)?, create.if_not_exists, create.or_replace) {
                    (true, true, false) => {}
                    (true, false, false) if is_declared => return Err(taken(&name)),
                    _ => {
                        execute(DdlStatement::CreateExternalTable(create)).await?;
                        if is_kept {
                            self.forget_rows(&name, TableKind::External)?;
                            self.declared.put(&run.text)?;
                        }
                    }
                }
            }
            DdlStatement::CreateMemoryTable(create) => {
                let (name, reference) = (short_name(&create.name), create.name.clone());
                self.wake_named(run, &name).await?;
                let is_there = exists(&create.name)?;
                let is_waiting = !is_there && self.declared.contains(&name);
                match (is_there || is_waiting, create.if_not_exists, create.or_replace) {
                    (true, true, false) => {}
                    (true, false, false) if is_waiting => return Err(taken(&name)),
                    _ => {
                        let lists_columns = lists_columns(&run.text);
                        execute(DdlStatement::CreateMemoryTable(create)).await?;
                        self.count_rows(run, &reference).await;
                        self.forget_rows(&name, TableKind::Memory)?;
                        match is_kept {
                            true => self.keep_table(&reference, &run.text, lists_columns).await?,
                            // The new table is not kept, but replaces one that may be.
                            false if is_there || is_waiting => self.declared.remove(&name)?,
                            false => {}
                        }
                    }
                }
            }
            DdlStatement::CreateView(create) => {
                let name = short_name(&create.name);
                let is_waiting = !exists(&create.name)? && self.declared.contains(&name);
                if is_waiting && !create.or_replace {
                    return Err(taken(&name));
                }
                let is_kept = is_kept && is_default(&create.name);
                execute(DdlStatement::CreateView(create)).await?;
                if is_kept {
                    self.forget_rows(&name, TableKind::View)?;
                    self.declared.put(&run.text)?;
                }
            }
            DdlStatement::DropTable(drop) => {
                let name = short_name(&drop.name);
                if !self.declared.contains(&name) || exists(&drop.name)? {
                    execute(DdlStatement::DropTable(drop)).await?;
                }
                self.declared.remove(&name)?;
            }
            DdlStatement::DropView(drop) => {
                let name = short_name(&drop.name);
                if !self.declared.contains(&name) || exists(&drop.name)? {
                    execute(DdlStatement::DropView(drop)).await?;
                }
                self.declared.remove(&name)?;
            }
            other => execute(other).await?,
        }
        Ok(run.no_rows(StatementKind::Definition))
    }

    /// Deletes the kept rows of a table in memory if one of another `kind` replaces it.
    fn forget_rows(&self, name: &str, kind: TableKind) -> Result<()> {
        match self.declared.get(name) {
            Some(kept) if kept.kind == TableKind::Memory && kind != TableKind::Memory => self.declared.remove(name),
            _ => Ok(()),
        }
    }

    /// Counts the rows of a new table in memory as rows of its statement.
    async fn count_rows(&self, run: &StatementRun, name: &TableReference) {
        let Ok(table) = run.context().table_provider(name.clone()).await else { return };
        let Some(table) = table.downcast_ref::<datafusion::catalog::MemTable>() else { return };
        for partition in &table.batches {
            let rows: usize = partition.read().await.iter().map(|batch| batch.num_rows()).sum();
            run.query.meter.rows(rows as u64);
        }
    }
}

fn taken(name: &str) -> Error {
    Error::invalid(format!("table {name} exists already; DROP it or use CREATE OR REPLACE"))
}

/// Returns the words of a statement in upper case.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty()).map(str::to_uppercase)
}

/// Returns whether a CREATE is of a temporary table or view.
fn is_temporary(text: &str) -> bool {
    let marks = ["CREATE", "OR", "REPLACE", "LOCAL", "GLOBAL"];
    words(text).find(|word| !marks.contains(&word.as_str())).is_some_and(|word| word == "TEMP" || word == "TEMPORARY")
}

/// Returns whether a CREATE TABLE lists columns instead of taking those of a query.
fn lists_columns(text: &str) -> bool {
    !words(text).any(|word| word == "AS")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_tables_say_so() {
        for text in ["create temp table t (a int)", "CREATE OR REPLACE LOCAL TEMPORARY VIEW v AS SELECT 1"] {
            assert!(is_temporary(text), "{text}");
        }
        for text in ["CREATE TABLE temp (a INT)", "CREATE OR REPLACE VIEW temporary AS SELECT 1"] {
            assert!(!is_temporary(text), "{text}");
        }
    }

    #[test]
    fn queries_tell_columns_themselves() {
        assert!(lists_columns("CREATE TABLE t (a INT NOT NULL DEFAULT 3)"));
        assert!(!lists_columns("CREATE TABLE t AS SELECT 1 AS a"));
    }
}

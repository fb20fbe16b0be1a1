//! Views and tables in memory that outlive the session: the catalog file keeps them, and they are
//! created again when a statement first names them.

use std::sync::Arc;

use datafusion::catalog::{MemTable, SchemaProvider};
use datafusion::common::TableReference;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::parser::Statement as SqlStatement;
use datafusion::sql::sqlparser::ast::Statement as AstStatement;
use futures::FutureExt;
use futures::future::BoxFuture;
use pushdowndb_contract::{Error, Result};

use super::Engine;
use super::catalogs::{DEFAULT, is_default, short_name};
use super::statement_run::StatementRun;
use crate::catalog::file::TableKind;
use crate::error::from_datafusion;
use crate::sql::{Command, Statement};

/// Maximum nesting of views in views.
const MAX_DEPTH: usize = 64;

impl Engine {
    /// Creates the kept views and tables in memory that `tree` names, unless they exist already.
    pub(super) async fn wake(&self, run: &StatementRun, tree: &SqlStatement) -> Result<()> {
        if !self.declared.keeps_session_tables() {
            return Ok(());
        }
        let names = self.named(run, tree);
        for (name, is_asked_for) in names {
            let made = self.wake_table(run, &name, 0).await;
            if is_asked_for {
                made?;
            }
        }
        Ok(())
    }

    /// Creates the kept view or table in memory of this name, unless it exists already.
    pub(super) async fn wake_named(&self, run: &StatementRun, name: &str) -> Result<()> {
        let name = short_name(&TableReference::parse_str(name));
        self.wake_table(run, &name, 0).await
    }

    /// Returns the tables that `tree` names, with true. If it queries all columns or views in the
    /// information schema, all tables of the catalog file follow, with false.
    fn named(&self, run: &StatementRun, tree: &SqlStatement) -> Vec<(String, bool)> {
        let found = run.state.resolve_table_references(tree).unwrap_or_default();
        let is_query = matches!(tree, SqlStatement::Statement(tree) if matches!(**tree, AstStatement::Query(_)));
        let is_about_all = |reference: &TableReference| {
            is_query
                && reference.schema() == Some("information_schema")
                && ["columns", "views"].contains(&reference.table())
        };
        let all = if found.iter().any(is_about_all) { self.declared.all() } else { Default::default() };
        let named = found.iter().map(|reference| (short_name(reference), true));
        named.chain(all.into_keys().map(|name| (name, false))).collect()
    }

    fn wake_table<'a>(&'a self, run: &'a StatementRun, name: &'a str, depth: usize) -> BoxFuture<'a, Result<()>> {
        async move {
            let Some(schema) = self.default_schema().filter(|schema| !schema.table_exist(name)) else { return Ok(()) };
            let Some(kept) = self.declared.get(name) else { return Ok(()) };
            if depth > MAX_DEPTH {
                return Err(Error::invalid(format!("the view {name} reads itself; DROP VIEW {name} forgets it")));
            }
            match kept.kind {
                TableKind::External => Ok(()),
                TableKind::Memory => self.load(&schema, name, &kept.statement).await,
                TableKind::View => {
                    let tree = match Command::parse(&Statement::parse(&kept.statement)?, &run.state)? {
                        Command::Query(tree) => *tree,
                        _ => return Err(Error::invalid(format!("the catalog file's entry for {name} is no view"))),
                    };
                    for (other, _) in self.named(run, &tree) {
                        if other != name {
                            self.wake_table(run, &other, depth + 1).await?;
                        }
                    }
                    let made = async {
                        let plan = super::execute::plan(run, tree).await?;
                        run.context().execute_logical_plan(plan).await.map_err(from_datafusion)
                    };
                    match made.await {
                        // Another statement created it meanwhile.
                        Err(_) if schema.table_exist(name) => Ok(()),
                        made => made.map(|_| ()).map_err(|error| error.context(format!("the view {name}"))),
                    }
                }
            }
        }
        .boxed()
    }

    /// Registers a kept table in memory with the rows in its file.
    async fn load(&self, schema: &Arc<dyn SchemaProvider>, name: &str, statement: &str) -> Result<()> {
        let Some(rows) = self.declared.rows(name) else { return Ok(()) };
        let (columns, batches) = rows.read().await?;
        let mut table = MemTable::try_new(columns, vec![batches]).map_err(from_datafusion)?;
        // Only a statement that lists the columns has defaults.
        let state = SessionStateBuilder::new_with_default_features().build();
        if let Ok(LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create))) =
            state.create_logical_plan(statement).await
        {
            table = table.with_column_defaults(create.column_defaults.into_iter().collect());
        }
        match schema.register_table(name.to_owned(), Arc::new(table)) {
            // Another statement created it meanwhile.
            Err(_) if schema.table_exist(name) => Ok(()),
            made => made.map(|_| ()).map_err(from_datafusion),
        }
    }

    /// Writes the rows of the table in memory `reference` to its file, if the table is kept.
    pub(super) async fn keep_rows(&self, reference: &TableReference) -> Result<()> {
        let name = short_name(reference);
        let is_kept = self.declared.get(&name).is_some_and(|kept| kept.kind == TableKind::Memory);
        let (true, Some(rows), Some(schema)) = (is_kept, self.declared.rows(&name), self.default_schema()) else {
            return Ok(());
        };
        let Some(table) = schema.table(&name).await.map_err(from_datafusion)? else { return Ok(()) };
        let Some(table) = table.downcast_ref::<MemTable>() else { return Ok(()) };
        let mut batches = Vec::new();
        for partition in &table.batches {
            batches.extend(partition.read().await.iter().cloned());
        }
        rows.write(datafusion::catalog::TableProvider::schema(table), batches).await
    }

    /// Adds a new table in memory to the catalog file. `statement` created it; it is kept as is if
    /// it `lists_columns`, else in a form that takes the columns from the kept rows.
    pub(super) async fn keep_table(
        &self,
        reference: &TableReference,
        statement: &str,
        lists_columns: bool,
    ) -> Result<()> {
        let name = short_name(reference);
        let Some(rows) = self.declared.rows(&name).filter(|_| is_default(reference)) else { return Ok(()) };
        match lists_columns {
            true => self.declared.put(statement)?,
            false => self.declared.put(&rows.statement())?,
        }
        self.keep_rows(reference).await
    }

    /// Returns the schema of names without one.
    fn default_schema(&self) -> Option<Arc<dyn SchemaProvider>> {
        self.catalogs.catalog(DEFAULT.0)?.schema(DEFAULT.1)
    }
}

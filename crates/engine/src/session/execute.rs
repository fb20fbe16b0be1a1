//! Running a statement: parsed, planned, checked and started.

use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::logical_expr::{Analyze, DdlStatement, ExplainFormat, LogicalPlan, Statement as LogicalStatement};
use datafusion::sql::parser::Statement as SqlStatement;
use pushdowndb_contract::{Error, Result};

use super::result::{QueryResult, StatementKind};
use super::statement_run::StatementRun;
use super::{Engine, access_checks};
use crate::context::QueryContext;
use crate::error::from_datafusion;
use crate::provider::look_at_tables;
use crate::sql::create_index::IndexStatement;
use crate::sql::syntax::letter_case::match_columns;
use crate::sql::syntax::settings::hint_quotes;
use crate::sql::{Command, Statement, script};

impl Engine {
    /// Cuts a script into statements.
    ///
    /// # Errors
    ///
    /// The text is not SQL. Mistakes within a statement show when it runs.
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        script::parse(sql)
    }

    /// Runs the one statement that `sql` holds. Rows are computed as they are read from the result.
    pub async fn execute(&self, sql: &str) -> Result<QueryResult> {
        self.run(&Statement::parse(sql)?, |_| ()).await
    }

    /// Runs a statement of a script. `watch` gets its context before anything is done, to show the
    /// progress: CREATE INDEX does all of its work before there is a result.
    pub async fn run(
        &self,
        statement: &Statement,
        watch: impl FnOnce(Arc<QueryContext>) + Send,
    ) -> Result<QueryResult> {
        let run = self.begin(&statement.text)?;
        watch(Arc::clone(&run.query));
        let result = async {
            match Command::parse(statement, &run.state)? {
                Command::Index(index) => self.run_index(&run, index).await,
                Command::Analyze(analyze) => Ok(run.rows(analyze.run(&run.query, &run.context()).await?)),
                Command::Show(shown) => Ok(run.rows(self.show(&shown)?)),
                Command::Vacuum(vacuum) => {
                    Ok(run.rows(self.spilling.vacuum(vacuum, &run.query.options, &run.query.meter).await?))
                }
                Command::Query(tree) => self.run_tree(&run, *tree).await,
            }
        };
        // Planning takes requests, which may hang.
        tokio::select! {
            biased;
            result = result => match result {
                Err(error) => Err(self.suggest_table(error).await),
                result => result,
            },
            error = run.query.exceeded() => Err(error),
        }
    }

    async fn run_index(&self, run: &StatementRun, statement: IndexStatement) -> Result<QueryResult> {
        let tables = if statement.is_about_all() { self.tables().await? } else { vec![] };
        let tables = tables.into_iter().filter(|table| table.kind != "view");
        let tables = tables.map(|table| TableReference::parse_str(&table.name)).collect();
        let shown = statement.run(&run.query, &run.context(), tables).await?;
        Ok(shown.map_or_else(|| run.no_rows(StatementKind::Definition), |rows| run.rows(rows)))
    }

    /// Plans a statement by DataFusion, and runs the plan.
    async fn run_tree(&self, run: &StatementRun, tree: SqlStatement) -> Result<QueryResult> {
        let plan = plan(run, tree).await?;
        access_checks::check(self.backends.access(), &plan)?;
        match plan {
            LogicalPlan::Statement(LogicalStatement::SetVariable(_) | LogicalStatement::ResetVariable(_)) => {
                self.change_settings(plan, self.backends.access()).await?;
                Ok(run.no_rows(StatementKind::Setting))
            }
            LogicalPlan::Statement(_) => {
                run.context().execute_logical_plan(plan).await.map_err(from_datafusion)?;
                Ok(run.no_rows(StatementKind::Setting))
            }
            LogicalPlan::Ddl(ddl) => self.define(run, ddl).await,
            // With VERBOSE or another format it is DataFusion's: all metrics of each operator.
            LogicalPlan::Analyze(Analyze { verbose: false, input, schema, format: ExplainFormat::Indent, .. }) => {
                look_at_tables(&run.query, &input).await?;
                let plan = run.state.create_physical_plan(&input).await.map_err(from_datafusion)?;
                run.start(plan, Some(Arc::clone(schema.inner())))
            }
            plan => {
                look_at_tables(&run.query, &plan).await?;
                let plan = run.state.create_physical_plan(&plan).await.map_err(from_datafusion)?;
                run.start(plan, None)
            }
        }
    }

    /// Runs CREATE or DROP. A table of the catalog file exists before DataFusion has heard of it.
    async fn define(&self, run: &StatementRun, ddl: DdlStatement) -> Result<QueryResult> {
        let exists = |name: &TableReference| run.context().table_exist(name.clone()).map_err(from_datafusion);
        let execute = async |ddl| {
            let done = run.context().execute_logical_plan(LogicalPlan::Ddl(ddl)).await;
            done.map(|_| ()).map_err(from_datafusion)
        };
        match ddl {
            DdlStatement::CreateExternalTable(create) => {
                let name = short_name(&create.name);
                let is_declared = self.declared.contains(&name);
                match (is_declared || exists(&create.name)?, create.if_not_exists, create.or_replace) {
                    (true, true, false) => {}
                    (true, false, false) if is_declared => {
                        return Err(Error::invalid(format!(
                            "table {name} exists already; DROP TABLE it or use CREATE OR REPLACE"
                        )));
                    }
                    _ => {
                        execute(DdlStatement::CreateExternalTable(create)).await?;
                        self.declared.put(&run.text)?;
                    }
                }
            }
            DdlStatement::DropTable(drop) => {
                let name = short_name(&drop.name);
                if !self.declared.contains(&name) || exists(&drop.name)? {
                    execute(DdlStatement::DropTable(drop)).await?;
                }
                self.declared.remove(&name)?;
            }
            other => execute(other).await?,
        }
        Ok(run.no_rows(StatementKind::Definition))
    }
}

/// Plans a statement, in which columns may be written in another case.
async fn plan(run: &StatementRun, mut tree: SqlStatement) -> Result<LogicalPlan> {
    loop {
        let error = match run.state.statement_to_plan(tree.clone()).await {
            Ok(plan) => return Ok(plan),
            Err(error) => error,
        };
        // Each time at least one name becomes exact.
        if !match_columns(&mut tree, &error)? {
            return Err(hint_quotes(&run.text, from_datafusion(error)));
        }
    }
}

/// The name of a table in the catalog file: short if it lies in the default schema.
fn short_name(table: &TableReference) -> String {
    match (table.catalog(), table.schema()) {
        (None | Some("datafusion"), None | Some("public")) => table.table().to_owned(),
        _ => table.to_string(),
    }
}

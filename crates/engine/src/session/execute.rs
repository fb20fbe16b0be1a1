//! Running a statement: parsed, planned, checked and started.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchemaRef, DataFusionError, TableReference};
use datafusion::logical_expr::{Analyze, ExplainFormat, LogicalPlan, Statement as LogicalStatement};
use datafusion::sql::parser::Statement as SqlStatement;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Statement as Tree};
use futures::FutureExt;
use futures::future::BoxFuture;
use pushdowndb_contract::{Error, Result};

use super::catalogs::short_name;
use super::result::{QueryResult, StatementKind};
use super::staged::{Staged, explained};
use super::statement_run::StatementRun;
use super::tables::columns;
use super::{Engine, access_checks};
use crate::context::QueryContext;
use crate::error::from_datafusion;
use crate::provider::look_at_tables;
use crate::sql::create_index::{self, IndexStatement};
use crate::sql::pivot::Pivot;
use crate::sql::summarize::Summarize;
use crate::sql::syntax::letter_case::{lateral_sources, match_columns};
use crate::sql::syntax::reading::name_files;
use crate::sql::syntax::settings::hint_quotes;
use crate::sql::syntax::struct_stars::StructStar;
use crate::sql::syntax::{aliases, columns as chosen_columns, headers};
use crate::sql::{Command, Statement, script};
use crate::writing::endpoints::located;
use crate::writing::insert::as_copy;

impl Engine {
    /// Splits a script into statements.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not SQL. Mistakes inside a statement are reported when it
    /// runs.
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        script::parse(sql)
    }

    /// Runs the single statement in `sql`. Rows are computed as they are read from the result.
    pub async fn execute(&self, sql: &str) -> Result<QueryResult> {
        self.run(&Statement::parse(sql)?, |_| ()).await
    }

    /// Runs a statement of a script. `watch` is called with its context before any work, to show
    /// the progress: CREATE INDEX does all of its work before there is a result.
    pub async fn run(
        &self,
        statement: &Statement,
        watch: impl FnOnce(Arc<QueryContext>) + Send,
    ) -> Result<QueryResult> {
        let run = self.begin(&statement.text)?;
        watch(Arc::clone(&run.query));
        let work = async { self.run_command(&run, Command::parse(statement, &run.state)?).await };
        self.run_capped(&run, statement, work).await
    }

    /// Runs `work` of `statement` like [`Engine::within_caps`]. CREATE INDEX is not stopped there:
    /// it checks the caps itself, so that it can remove what it wrote.
    pub(super) async fn run_capped<T>(
        &self,
        run: &StatementRun,
        statement: &Statement,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        match create_index::is_create(&statement.tokens) {
            true => work.await,
            false => self.within_caps(run, work).await,
        }
    }

    /// Runs `work` of a statement until it is done or the session's caps are exceeded. The caps
    /// also hold during planning, whose requests may hang.
    pub(super) async fn within_caps<T>(&self, run: &StatementRun, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            result = work => match result {
                Err(error) => Err(self.suggest_table(self.suggest_function(error)).await),
                result => result,
            },
            error = run.query.exceeded() => Err(error),
        }
    }

    /// Runs a parsed statement.
    ///
    /// The future is boxed, like those of [`Engine::run_plan`] and [`plan`]: otherwise each program and
    /// test that runs statements would compile all of the planning once more.
    pub(super) fn run_command<'a>(
        &'a self,
        run: &'a StatementRun,
        command: Command,
    ) -> BoxFuture<'a, Result<QueryResult>> {
        async move {
            match command {
                Command::Index(index) => self.run_index(run, index).await,
                Command::Analyze(analyze) => Ok(run.rows(analyze.run(&run.query, &run.context()).await?)),
                Command::Show(shown) => Ok(run.rows(self.show(&shown)?)),
                Command::Vacuum(vacuum) => {
                    Ok(run.rows(self.spilling.vacuum(vacuum, &run.query.options, &run.query.meter).await?))
                }
                Command::Summarize(summarize) => self.summarize(run, &summarize).await,
                Command::Pivot(pivot) => self.pivot(run, pivot).await,
                Command::Prepare(name, prepared) => {
                    self.prepared.put(name, *prepared)?;
                    Ok(run.no_rows(StatementKind::Setting))
                }
                Command::Execute(name, values) => {
                    self.run_tree(run, self.prepared.get(&name)?.with_values(&values)?).await
                }
                Command::Deallocate(name) => {
                    self.prepared.remove(name.as_deref())?;
                    Ok(run.no_rows(StatementKind::Setting))
                }
                Command::CreateMacro(created) => {
                    self.macros.put(*created)?;
                    Ok(run.no_rows(StatementKind::Definition))
                }
                Command::DropMacro(name, may_miss) => {
                    self.macros.remove(&name, may_miss)?;
                    Ok(run.no_rows(StatementKind::Definition))
                }
                Command::InsertByName(tree) => {
                    let tree = self.with_columns(run, *tree).await?;
                    self.run_tree(run, tree).await
                }
                Command::Query(tree) => self.run_tree(run, *tree).await,
            }
        }
        .boxed()
    }

    /// Gives an INSERT … BY NAME the columns of its query.
    async fn with_columns(&self, run: &StatementRun, mut tree: SqlStatement) -> Result<SqlStatement> {
        let wrong = || Error::invalid("INSERT INTO t BY NAME takes a query, and no list of columns");
        let SqlStatement::Statement(statement) = &mut tree else { return Err(wrong()) };
        let Tree::Insert(insert) = statement.as_mut() else { return Err(wrong()) };
        let Some(query) = insert.source.clone().filter(|_| insert.columns.is_empty()) else { return Err(wrong()) };
        let mut query = SqlStatement::Statement(Box::new(Tree::Query(query)));
        self.wake(run, &query).await?;
        self.macros.expand(&mut query)?;
        let planned = plan(run, query).await?;
        let names = planned.schema().fields().iter().map(|field| Ident::with_quote('"', field.name().clone()));
        insert.columns = names.map(|name| ObjectName::from(vec![name])).collect();
        Ok(tree)
    }

    async fn run_index(&self, run: &StatementRun, statement: IndexStatement) -> Result<QueryResult> {
        let tables = if statement.is_about_all() { self.tables().await? } else { vec![] };
        let tables = tables.into_iter().filter(|table| table.kind != "view");
        let tables = tables.map(|table| TableReference::parse_str(&table.name)).collect();
        let shown = statement.run(&run.query, &run.context(), tables).await?;
        Ok(shown.map_or_else(|| run.no_rows(StatementKind::Definition), |rows| run.rows(rows)))
    }

    /// Runs SUMMARIZE: all figures are computed by one query.
    async fn summarize(&self, run: &StatementRun, summarize: &Summarize) -> Result<QueryResult> {
        let columns = self.parsed(run, &summarize.columns())?;
        let schema = plan(run, columns).await?.schema().as_arrow().clone();
        let figures = self.parsed(run, &summarize.figures(&schema)?)?;
        let figures = self.run_tree(run, figures).await?.collect().await?;
        Ok(run.rows(summarize.shown(&schema, &figures)?))
    }

    /// Runs PIVOT or UNPIVOT. First, a query finds the values that become columns, or planning one
    /// finds the chosen columns.
    async fn pivot(&self, run: &StatementRun, pivot: Pivot) -> Result<QueryResult> {
        let mut found = Vec::new();
        if let Some(values) = pivot.values() {
            let values = self.parsed(run, &values)?;
            for batch in self.run_tree(run, values).await?.collect().await? {
                let Some(values) = batch.columns().first() else { continue };
                let values = cast(values, &DataType::Utf8).map_err(|error| Error::internal(error.to_string()))?;
                found.extend(values.as_string::<i32>().iter().flatten().map(str::to_owned));
            }
        }
        if let Some(columns) = pivot.chosen() {
            let planned = plan(run, self.parsed(run, &columns)?).await?;
            found.extend(planned.schema().fields().iter().map(|field| field.name().clone()));
        }
        let query = self.parsed(run, &pivot.query(&found)?)?;
        self.run_tree(run, query).await
    }

    /// Parses a query that was composed from parts of the statement.
    fn parsed(&self, run: &StatementRun, sql: &str) -> Result<SqlStatement> {
        match Command::parse(&Statement::parse(sql)?, &run.state)? {
            Command::Query(tree) => Ok(*tree),
            _ => Err(Error::invalid("a table or a query is expected")),
        }
    }

    /// Plans a statement by DataFusion, and runs the plan.
    async fn run_tree(&self, run: &StatementRun, mut tree: SqlStatement) -> Result<QueryResult> {
        self.macros.expand(&mut tree)?;
        self.wake(run, &tree).await?;
        let plan = plan(run, tree).await?;
        self.run_plan(run, plan).await
    }

    /// Runs a statement that DataFusion planned.
    pub(super) fn run_plan<'a>(
        &'a self,
        run: &'a StatementRun,
        plan: LogicalPlan,
    ) -> BoxFuture<'a, Result<QueryResult>> {
        async move {
            let plan = as_copy(plan, &run.state)?;
            access_checks::check(self.backends.access(), &plan)?;
            let plan = located(plan, self.backends.access())?;
            match plan {
                LogicalPlan::DescribeTable(described) => Ok(run.rows(columns(&described.schema)?)),
                // The rows of a kept table in memory are written to its file before the statement ends.
                LogicalPlan::Dml(change) if self.declared.contains(&short_name(&change.table_name)) => {
                    let table = change.table_name.clone();
                    look_at_tables(&run.query, &change.input).await?;
                    let plan =
                        run.state.create_physical_plan(&LogicalPlan::Dml(change)).await.map_err(from_datafusion)?;
                    let changed = run.start(plan, None)?.finished().await?;
                    self.keep_rows(&table).await?;
                    Ok(changed)
                }
                LogicalPlan::Statement(LogicalStatement::SetVariable(_) | LogicalStatement::ResetVariable(_)) => {
                    self.change_settings(plan, self.backends.access()).await?;
                    Ok(run.no_rows(StatementKind::Setting))
                }
                LogicalPlan::Statement(_) => {
                    run.context().execute_logical_plan(plan).await.map_err(from_datafusion)?;
                    Ok(run.no_rows(StatementKind::Setting))
                }
                LogicalPlan::Ddl(ddl) => self.define(run, ddl).await,
                // With VERBOSE or another format, DataFusion shows all metrics of each operator.
                LogicalPlan::Analyze(Analyze {
                    verbose: false, input, schema, format: ExplainFormat::Indent, ..
                }) => {
                    look_at_tables(&run.query, &input).await?;
                    let schema = Some(Arc::clone(schema.inner()));
                    if let Some(Staged { plan, query }) = self.staged(run, &input).boxed().await? {
                        return run.start_by(plan, schema, |_| query.start());
                    }
                    let plan = run.state.create_physical_plan(&input).await.map_err(from_datafusion)?;
                    run.start(plan, schema)
                }
                LogicalPlan::Explain(explain) => {
                    let query = Arc::clone(&explain.plan);
                    let plan = LogicalPlan::Explain(explain);
                    look_at_tables(&run.query, &plan).await?;
                    let staged = self.staged(run, &query).boxed().await?;
                    let plan = run.state.create_physical_plan(&plan).await.map_err(from_datafusion)?;
                    let mut shown = run.start(plan, None)?;
                    let Some(Staged { query, .. }) = staged else { return Ok(shown) };
                    let rows = shown.collect().await?;
                    match explained(&rows, &query.explain())? {
                        Some(rows) => Ok(run.rows(rows)),
                        None => Err(Error::internal("EXPLAIN of a query in stages has other columns")),
                    }
                }
                plan => {
                    look_at_tables(&run.query, &plan).await?;
                    if let Some(Staged { plan, query }) = self.staged(run, &plan).boxed().await? {
                        return run.start_by(plan, None, |_| query.start());
                    }
                    let plan = run.state.create_physical_plan(&plan).await.map_err(from_datafusion)?;
                    run.start(plan, None)
                }
            }
        }
        .boxed()
    }
}

/// Maximum number of attempts to plan a statement: after each, a name in it is replaced.
const MAX_PLANS: usize = 64;

/// Plans a statement. If that fails on a name, the name is replaced and the statement is planned
/// again: columns may be chosen by patterns or written in another case, aliases stand for their
/// expressions, and names of columns repeat.
pub(super) fn plan(run: &StatementRun, mut tree: SqlStatement) -> BoxFuture<'_, Result<LogicalPlan>> {
    async move {
        for _ in 0..MAX_PLANS {
            let error = match run.state.statement_to_plan(tree.clone()).await {
                Ok(plan) => return Ok(plan),
                Err(error) => error,
            };
            let beside = columns_beside(run, &mut tree, &error).await;
            // Each change makes at least one name exact.
            let is_changed = chosen_columns::expand(&mut tree, &error, &run.state)?
                || unpack_star(run, &mut tree, &error).await
                || name_files(&mut tree, &error)
                || match_columns(&mut tree, &error, &beside)?
                || aliases::replace(&mut tree, &error)
                || named_apart(&mut tree, &error);
            if !is_changed {
                return Err(hint_quotes(&run.text, from_datafusion(error)));
            }
        }
        Err(Error::invalid("the names in this statement cannot be resolved: too many of them are aliases of aliases"))
    }
    .boxed()
}

/// Replaces `s.*` by the fields of the column `s`, if `error` says that there is no table `s`.
async fn unpack_star(run: &StatementRun, tree: &mut SqlStatement, error: &DataFusionError) -> bool {
    let Some(star) = StructStar::of(error) else { return false };
    let tables = schemas(run, star.sources(tree)).await;
    star.unpack(tree, &tables)
}

/// Returns the columns of the tables beside one that is computed from their rows, such as
/// `unnest(t.l)`, if `error` says that a name in that one was not found.
async fn columns_beside(run: &StatementRun, tree: &mut SqlStatement, error: &DataFusionError) -> Vec<Column> {
    let tables = schemas(run, lateral_sources(tree, error)).await;
    tables.iter().flat_map(|schema| schema.columns()).collect()
}

/// Returns the columns of those of `queries` that can be planned.
async fn schemas(run: &StatementRun, queries: Vec<SqlStatement>) -> Vec<DFSchemaRef> {
    let mut schemas = Vec::with_capacity(queries.len());
    for query in queries {
        if let Ok(plan) = run.state.statement_to_plan(query).await {
            schemas.push(Arc::clone(plan.schema()));
        }
    }
    schemas
}

/// Gives the columns beside a `*` distinct names, if `error` says that a name repeats.
fn named_apart(tree: &mut SqlStatement, error: &DataFusionError) -> bool {
    let message = error.find_root().to_string();
    if !message.contains("Projections require unique expression names") {
        return false;
    }
    match tree {
        SqlStatement::Statement(statement) => match statement.as_mut() {
            Tree::Query(query) => headers::name_beside_wildcards(query),
            _ => false,
        },
        SqlStatement::Explain(explain) => named_apart(&mut explain.statement, error),
        _ => false,
    }
}

//! The inputs of a statement: the values of its parameters, and tables that only it can name.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::datasource::ViewTable;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as SqlStatement;
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::{SetExpr, Statement as SqlTree};
use futures::FutureExt;
use futures::future::BoxFuture;
use pushdowndb_contract::{Error, Result};

use super::execute::plan;
use super::result::QueryResult;
use super::statement_run::{StatementRun, shown_schema};
use super::{Engine, access_checks};
use crate::context::QueryContext;
use crate::error::from_datafusion;
use crate::named_tables::looks_like_address;
use crate::sql::{Command, Parameters, Statement};

/// Maximum nesting of queries as tables. Planning each level takes stack.
const MAX_DEPTH: usize = 32;

/// The inputs of a statement besides its text.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The values of its parameters.
    pub parameters: Parameters,
    /// Tables that only the statement can name, by name in lower case. A table of the session with
    /// the same name takes precedence.
    pub tables: HashMap<String, InputTable>,
}

/// A table that only one statement can name.
#[derive(Clone, Debug)]
pub enum InputTable {
    /// A table of the caller, such as Arrow batches in memory.
    Provider(Arc<dyn TableProvider>),
    /// The rows of a query. It is planned together with the statement, so that filters, projections
    /// and the like are pushed into it.
    Query(Arc<NestedQuery>),
}

/// A query that is a table of a statement.
#[derive(Clone, Debug)]
pub struct NestedQuery {
    /// The query.
    pub statement: Statement,
    /// Its parameters and tables, which the statement does not share.
    pub inputs: Inputs,
}

impl Engine {
    /// Runs a statement as [`Engine::run`] does, with the values of its parameters and tables that
    /// only it can name.
    pub async fn run_with(
        &self,
        statement: &Statement,
        inputs: &Inputs,
        watch: impl FnOnce(Arc<QueryContext>) + Send,
    ) -> Result<QueryResult> {
        let run = self.begin(&statement.text)?;
        watch(Arc::clone(&run.query));
        self.run_capped(&run, statement, async {
            let run = self.with_tables(&run, inputs, 0).await?;
            self.run_command(&run, Command::parse_with(statement, &inputs.parameters, &run.state)?).await
        })
        .await
    }

    /// Returns whether the statement is a query: SELECT, VALUES, WITH or FROM, whose rows may be a
    /// table of another statement.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not SQL.
    pub fn is_query(&self, statement: &Statement, inputs: &Inputs) -> Result<bool> {
        let run = self.begin(&statement.text)?;
        let command = Command::parse_with(statement, &inputs.parameters, &run.state)?;
        Ok(matches!(command, Command::Query(tree) if is_query(&tree)))
    }

    /// Returns the columns of a query without running it; `None` for other statements. The objects
    /// of tables whose columns are inferred may be read.
    pub async fn query_schema(&self, statement: &Statement, inputs: &Inputs) -> Result<Option<SchemaRef>> {
        let run = self.begin(&statement.text)?;
        self.within_caps(&run, async {
            let run = self.with_tables(&run, inputs, 0).await?;
            let command = Command::parse_with(statement, &inputs.parameters, &run.state)?;
            let plan = self.query_plan(&run, command).await?;
            Ok(plan.map(|plan| shown_schema(plan.schema().inner())))
        })
        .await
    }

    /// Returns the names of the tables in a statement that the session does not have and that are
    /// not addresses, as written and sorted. A caller may have tables of these names.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not SQL.
    pub fn unknown_tables(&self, statement: &Statement, inputs: &Inputs) -> Result<Vec<String>> {
        let run = self.begin(&statement.text)?;
        let Command::Query(tree) = Command::parse_with(statement, &inputs.parameters, &run.state)? else {
            return Ok(Vec::new());
        };
        let (tables, _) = resolve_table_references(&tree, false).map_err(from_datafusion)?;
        let public = self.public_schema()?;
        let is_known = |name: &str| {
            let lower = name.to_lowercase();
            [name, &lower].iter().any(|name| public.table_exist(name) || self.declared.contains(name))
        };
        let names = tables.iter().filter(|table| table.schema().is_none()).map(|table| table.table());
        let unknown: BTreeSet<&str> = names.filter(|name| !is_known(name) && !looks_like_address(name)).collect();
        Ok(unknown.into_iter().map(str::to_owned).collect())
    }

    /// Makes `table` a table of the session, in place of another one of this name. SQL finds a name
    /// without quotes if it is in lower case here.
    pub fn register_table(&self, name: &str, table: Arc<dyn TableProvider>) -> Result<()> {
        let public = self.public_schema()?;
        public.deregister_table(name).map_err(from_datafusion)?;
        public.register_table(name.to_owned(), table).map(|_| ()).map_err(from_datafusion)
    }

    /// Removes a table that [`Engine::register_table`] added. Returns whether there was one.
    pub fn deregister_table(&self, name: &str) -> Result<bool> {
        self.public_schema()?.deregister_table(name).map(|table| table.is_some()).map_err(from_datafusion)
    }

    /// Returns the schema of tables that are named without one.
    fn public_schema(&self) -> Result<Arc<dyn SchemaProvider>> {
        let schema = self.catalogs.catalog("datafusion").and_then(|catalog| catalog.schema("public"));
        schema.ok_or_else(|| Error::internal("a session without the schema public"))
    }

    /// Returns a run like `run` whose statement can also name the tables of `inputs`. `depth` is
    /// the number of queries around it.
    async fn with_tables(&self, run: &StatementRun, inputs: &Inputs, depth: usize) -> Result<StatementRun> {
        let mut given: HashMap<String, Arc<dyn TableProvider>> = HashMap::new();
        for (name, table) in &inputs.tables {
            let provider = match table {
                InputTable::Provider(provider) => Arc::clone(provider),
                InputTable::Query(query) => {
                    let plan = self.nested(run, query, depth).await?;
                    Arc::new(ViewTable::new(plan, Some(query.statement.text.clone())))
                }
            };
            given.insert(name.to_lowercase(), provider);
        }
        let tables = Arc::new(run.tables.with(given));
        let catalogs = self.statement_catalogs(&tables);
        let mut config = run.state.config().clone();
        // A query that is used as a table keeps its order: LIMIT over it takes its first rows.
        config.options_mut().sql_parser.enable_subquery_sort_elimination = false;
        let state = SessionStateBuilder::new_from_existing(run.state.clone()).with_config(config);
        let mut state = state.with_catalog_list(Arc::new(catalogs)).build();
        state.mark_start_execution();
        Ok(StatementRun { text: Arc::clone(&run.text), query: Arc::clone(&run.query), state, tables })
    }

    /// Plans a query that is a table of the statement of `run`. `depth` is the number of queries
    /// around it.
    fn nested<'a>(
        &'a self,
        run: &'a StatementRun,
        query: &'a NestedQuery,
        depth: usize,
    ) -> BoxFuture<'a, Result<LogicalPlan>> {
        async move {
            if depth >= MAX_DEPTH {
                return Err(Error::unsupported(format!(
                    "more than {MAX_DEPTH} queries are nested; keep the rows of one of them in a table"
                )));
            }
            let (statement, inputs) = (&query.statement, &query.inputs);
            let mut nested = self.with_tables(run, inputs, depth + 1).await?;
            nested.text = statement.text.as_str().into();
            let command = Command::parse_with(statement, &inputs.parameters, &nested.state)?;
            let plan = self.query_plan(&nested, command).await?;
            plan.ok_or_else(|| Error::invalid("only a query can be a table of another statement"))
        }
        .boxed()
    }

    /// Plans a query; `None` for other statements.
    async fn query_plan(&self, run: &StatementRun, command: Command) -> Result<Option<LogicalPlan>> {
        let Command::Query(tree) = command else { return Ok(None) };
        if !is_query(&tree) {
            return Ok(None);
        }
        self.wake(run, &tree).await?;
        let plan = plan(run, *tree).await?;
        access_checks::check(self.backends.access(), &plan)?;
        Ok(Some(plan))
    }
}

fn is_query(tree: &SqlStatement) -> bool {
    fn has_rows(body: &SetExpr) -> bool {
        match body {
            SetExpr::Query(query) => has_rows(&query.body),
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => false,
            _ => true,
        }
    }
    matches!(tree, SqlStatement::Statement(tree) if matches!(&**tree, SqlTree::Query(query) if has_rows(&query.body)))
}

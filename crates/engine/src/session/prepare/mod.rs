//! Statements with parameters: `?`, or `$1`, `$2` and so on.
//!
//! ```text
//! prepare       the tree, the types of its parameters, the columns of its result
//! run_prepared  the tree with values in the place of parameters, planned and run
//! ```
//!
//! Values become literals of the syntax tree, never SQL text. So they are planned and pushed as if
//! they had been written in the statement, even where only a literal is allowed.

mod literal;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as SqlStatement;
use datafusion::sql::sqlparser::ast::{DataType as SqlType, Expr, LimitClause, Query, VisitorMut};
use pushdowndb_contract::{Error, Result};

use super::execute::plan;
use super::result::QueryResult;
use super::statement_run::{StatementRun, shown_schema};
use super::{Engine, access_checks};
use crate::context::QueryContext;
use crate::sql::syntax::bind::{MAX_PARAMETERS, name_of, place, replace};
use crate::sql::syntax::visit::visit;
use crate::sql::{Command, Statement};

pub use literal::ParameterValue;

/// Time for which the first run of a prepared statement uses the objects that were listed when it
/// was prepared.
const FRESH: Duration = Duration::from_secs(5);

/// A statement with parameters, planned as far as it can be without their values.
pub struct Prepared {
    statement: Statement,
    /// The tree; `None` for a statement that DataFusion does not have.
    tree: Option<SqlStatement>,
    parameters: Vec<DataType>,
    columns: Option<SchemaRef>,
    /// The plan and its state, for the first run.
    planned: Option<Planned>,
}

struct Planned {
    run: StatementRun,
    plan: LogicalPlan,
    at: Instant,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("text", &self.statement.text).finish_non_exhaustive()
    }
}

impl Prepared {
    /// The types of the parameters, `$1` first. Those that neither the caller nor the statement
    /// determines are text.
    pub fn parameters(&self) -> &[DataType] {
        &self.parameters
    }

    /// The columns of the result; `None` if it is known only once the statement runs.
    pub fn columns(&self) -> Option<&SchemaRef> {
        self.columns.as_ref()
    }
}

impl Engine {
    /// Prepares a statement. `given` has the types of parameters that the caller knows, `$1` first;
    /// the others are inferred from their context. Planning may list and sample objects.
    ///
    /// # Errors
    ///
    /// Returns an error if the statement cannot be parsed or planned, or SQL does not have a
    /// parameter's type.
    pub async fn prepare(&self, statement: &Statement, given: &[Option<DataType>]) -> Result<Prepared> {
        let run = self.begin(&statement.text)?;
        let prepared = self.within_caps(&run, self.prepare_on(&run, statement, given)).await?;
        let (tree, parameters, plan) = match prepared {
            Some(prepared) => prepared,
            None => {
                let statement = statement.clone();
                return Ok(Prepared { statement, tree: None, parameters: vec![], columns: None, planned: None });
            }
        };
        let columns = match plan {
            LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => None,
            _ => Some(shown_schema(plan.schema().inner())),
        };
        let planned = Some(Planned { run, plan, at: Instant::now() });
        Ok(Prepared { statement: statement.clone(), tree: Some(tree), parameters, columns, planned })
    }

    async fn prepare_on(
        &self,
        run: &StatementRun,
        statement: &Statement,
        given: &[Option<DataType>],
    ) -> Result<Option<(SqlStatement, Vec<DataType>, LogicalPlan)>> {
        let Command::Query(tree) = Command::parse(statement, &run.state)? else { return Ok(None) };
        let mut tree = *tree;
        self.macros.expand(&mut tree)?;
        self.wake(run, &tree).await?;
        let mut found = Find::default();
        let _ = visit(&mut tree, &mut found);
        if let Some(error) = found.error {
            return Err(error);
        }
        let count = found.highest.max(given.len());
        if count > MAX_PARAMETERS {
            return Err(Error::invalid(format!("a statement has at most {MAX_PARAMETERS} parameters")));
        }
        let mut types: Vec<Option<DataType>> = vec![None; count];
        for (slot, given) in types.iter_mut().zip(given) {
            slot.clone_from(given);
        }
        for (at, cast) in found.casts {
            if let Some(slot @ None) = types.get_mut(at) {
                *slot = type_of_cast(run, &cast).await;
            }
        }
        for limit in found.limits {
            if let Some(slot) = types.get_mut(limit) {
                slot.get_or_insert(DataType::Int64);
            }
        }
        if types.iter().take(found.highest).any(Option::is_none) {
            let mut partly = tree.clone();
            let mut lists = Lists::default();
            let _ = visit(&mut partly, &mut lists);
            let known = |index: usize| types.get(index).and_then(Option::as_ref).filter(|_| !lists.0.contains(&index));
            replace(&mut partly, &|name| typed_null(known(place(name)?)))?;
            // Without the types, planning may fail; then they are text.
            if let Ok(plan) = plan(run, partly).await {
                for (index, inferred) in inferred(&plan) {
                    if let Some(slot @ None) = types.get_mut(index) {
                        let is_list = lists.0.contains(&index);
                        *slot = Some(if is_list { DataType::new_list(inferred, true) } else { inferred });
                    }
                }
            }
        }
        let types: Vec<DataType> = types.into_iter().map(|known| known.unwrap_or(DataType::Utf8)).collect();
        let mut typed = tree.clone();
        replace(&mut typed, &|name| typed_null(types.get(place(name)?)))?;
        let plan = plan(run, typed).await?;
        access_checks::check(self.backends.access(), &plan)?;
        Ok(Some((tree, types, plan)))
    }

    /// Runs a prepared statement with these values of its parameters. `watch` is called with its
    /// context before any work. The first run uses what preparing found, if that is recent.
    ///
    /// # Errors
    ///
    /// Returns an error if there are more or fewer values than parameters, if a value is not of its
    /// parameter's type, or if the statement fails as in [`Engine::run`].
    pub async fn run_prepared(
        &self,
        prepared: &mut Prepared,
        values: &[ParameterValue],
        watch: impl FnOnce(Arc<QueryContext>) + Send,
    ) -> Result<QueryResult> {
        let expected = prepared.parameters.len();
        if values.len() != expected {
            return Err(Error::invalid(format!("the statement has {expected} parameters, not {}", values.len())));
        }
        let Some(tree) = &prepared.tree else { return self.run(&prepared.statement, watch).await };
        let planned = prepared.planned.take().filter(|planned| planned.at.elapsed() < FRESH);
        let (run, known) = match planned {
            Some(Planned { run, plan, .. }) => (run, values.is_empty().then_some(plan)),
            None => (self.begin(&prepared.statement.text)?, None),
        };
        watch(Arc::clone(&run.query));
        let literals: Vec<Expr> = (values.iter().zip(&prepared.parameters))
            .map(|(value, data_type)| literal::of(value, data_type))
            .collect::<Result<_>>()?;
        self.within_caps(&run, async {
            let plan = match known {
                Some(plan) => plan,
                None => {
                    let mut bound = tree.clone();
                    replace(&mut bound, &|name| Ok(literals.get(place(name)?).cloned()))?;
                    plan(&run, bound).await?
                }
            };
            self.run_plan(&run, plan).await
        })
        .await
    }
}

/// Returns the type that a parameter is cast to; `None` if there is no such type, which planning
/// reports.
async fn type_of_cast(run: &StatementRun, cast: &SqlType) -> Option<DataType> {
    let statement = Statement::parse(&format!("SELECT CAST(NULL AS {cast}) AS a")).ok()?;
    let Command::Query(tree) = Command::parse(&statement, &run.state).ok()? else { return None };
    let plan = plan(run, *tree).await.ok()?;
    plan.schema().fields().first().map(|field| field.data_type().clone())
}

/// Returns NULL as a literal of this type. Without a type, returns `None`, which leaves the
/// parameter.
fn typed_null(data_type: Option<&DataType>) -> Result<Option<Expr>> {
    data_type.map(|data_type| literal::of(&ParameterValue::Null, data_type)).transpose()
}

/// Returns the types of parameters that a plan determines, by their index from 0.
fn inferred(plan: &LogicalPlan) -> BTreeMap<usize, DataType> {
    let types = plan.get_parameter_types().unwrap_or_default();
    let known = types.into_iter().filter_map(|(name, data_type)| Some((place(&name).ok()?, data_type?)));
    known.filter(|(_, data_type)| *data_type != DataType::Null).collect()
}

/// Finds the parameters of a tree.
#[derive(Default)]
struct Find {
    /// The highest number of a parameter.
    highest: usize,
    /// The indexes of parameters that are a LIMIT or OFFSET.
    limits: Vec<usize>,
    /// The indexes of parameters that are cast, with the types that they are cast to.
    casts: Vec<(usize, SqlType)>,
    error: Option<Error>,
}

impl VisitorMut for Find {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let counts: Vec<&Expr> = match &query.limit_clause {
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                limit.iter().chain(offset.iter().map(|offset| &offset.value)).collect()
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => vec![offset, limit],
            None => vec![],
        };
        self.limits.extend(counts.into_iter().filter_map(name_of).filter_map(|name| place(name).ok()));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Cast { expr, data_type, .. } = expr
            && let Some(Ok(place)) = name_of(expr).map(place)
        {
            self.casts.push((place, data_type.clone()));
        }
        match name_of(expr).map(place) {
            Some(Ok(place)) => self.highest = self.highest.max(place + 1),
            Some(Err(error)) => self.error = Some(error),
            None => {}
        }
        ControlFlow::Continue(())
    }
}

/// Replaces a comparison with a list parameter, `a = ANY ($1)`, by one with a single value, so that
/// the type of the values is inferred. Holds the indexes of such parameters.
#[derive(Default)]
struct Lists(Vec<usize>);

impl VisitorMut for Lists {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::AnyOp { left, compare_op, right, .. } | Expr::AllOp { left, compare_op, right } = expr
            && let Some(Ok(place)) = name_of(right).map(place)
        {
            self.0.push(place);
            *expr = Expr::BinaryOp { left: left.clone(), op: compare_op.clone(), right: right.clone() };
        }
        ControlFlow::Continue(())
    }
}

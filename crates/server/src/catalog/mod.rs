//! The catalog of the server: `pg_catalog` and `information_schema`, as clients query them.
//!
//! Queries of the catalog run apart from the engine's, in a context that contains the names and
//! columns of the session's tables but none of their rows, and that cannot open anything.
//!
//! ```text
//! shown        what it shows of a session and its server
//! tables       the session's tables: names and columns
//! information  information_schema
//! attributes   pg_attribute, with modifiers of types
//! classes      pg_class, with options and access rights; relations by their numbers
//! system       what pg_catalog has besides the tables of datafusion-pg-catalog
//! functions    functions of PostgreSQL
//! simplify     simpler statements in the place of those that cannot be planned
//! known        replacements for statements of well-known clients
//! lists        types of parameters that are lists
//! names        names of columns that have none
//! build        tables made of values
//! ```

mod attributes;
mod build;
mod classes;
mod functions;
mod information;
mod known;
mod lists;
mod names;
mod shown;
mod simplify;
mod system;
mod tables;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider};
use datafusion::common::{DataFusionError, ParamValues, ScalarValue};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use datafusion_pg_catalog::pg_catalog::context::{PgCatalogContextProvider, Role};
use datafusion_pg_catalog::pg_catalog::setup_pg_catalog;
use datafusion_pg_catalog::sql::PostgresCompatibilityParser;
use pushdowndb_contract::{Error, ErrorKind, Result};
use pushdowndb_engine::ParameterValue;

use crate::values::types::of_parameter;
pub(crate) use shown::Shown;
pub(crate) use system::queries;
use tables::SessionTables;

/// Maximum memory of a query of the catalog.
const MEMORY_BYTES: usize = 256 * 1024 * 1024;

/// Maximum time to plan a query of the catalog, since columns of tables may have to be read from
/// objects.
const PLANNING_TIME: Duration = Duration::from_secs(60);

/// The parser that rewrites PostgreSQL's SQL. It is shared, since creating it takes a while.
static PARSER: LazyLock<PostgresCompatibilityParser> = LazyLock::new(PostgresCompatibilityParser::new);

/// Provides the users to `pg_catalog` as roles.
#[derive(Clone, Debug)]
struct Roles(Arc<Shown>);

#[async_trait::async_trait]
impl PgCatalogContextProvider for Roles {
    async fn roles(&self) -> Vec<String> {
        self.0.roles()
    }

    async fn role(&self, name: &str) -> Option<Role> {
        let is_admin = name == &*self.0.own.user && self.0.is_admin;
        self.0.roles().into_iter().find(|role| role == name).map(|role| Role {
            name: role,
            is_superuser: is_admin,
            can_login: true,
            can_create_db: false,
            can_create_role: false,
            can_create_user: false,
            can_replication: false,
            grants: vec![],
            inherited_roles: vec![],
        })
    }
}

/// The catalog of a session.
pub(crate) struct Catalogue {
    context: SessionContext,
    tables: Arc<SessionTables>,
}

/// A planned query of the catalog.
pub(crate) struct CataloguePlan {
    plan: LogicalPlan,
    /// The types of its parameters.
    pub parameters: Vec<DataType>,
    /// The `oid`s to report as the types of the parameters; `None` derives them from `parameters`.
    pub oids: Option<&'static [u32]>,
}

/// A plan, and the types of its parameters that were known before planning.
type Planned = (LogicalPlan, Vec<Option<DataType>>);

impl CataloguePlan {
    /// The columns of the result.
    pub fn columns(&self) -> SchemaRef {
        Arc::clone(self.plan.schema().inner())
    }
}

impl Catalogue {
    /// Creates the catalog of a session.
    pub fn new(shown: Shown) -> Result<Self> {
        let shown = Arc::new(shown);
        let database = shown.own.database.to_string();
        let config = SessionConfig::new()
            .with_default_catalog_and_schema(&database, "public")
            .with_create_default_catalog_and_schema(false)
            .with_information_schema(false)
            .with_target_partitions(1);
        let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(GreedyMemoryPool::new(MEMORY_BYTES)))
            .with_disk_manager_builder(disk)
            .build_arc()
            .map_err(|error| failed(&error))?;
        let context = SessionContext::new_with_config_rt(config, runtime);
        let catalog = Arc::new(MemoryCatalogProvider::new());
        let tables = Arc::new(SessionTables::new(Arc::clone(&shown.engine)));
        let relations = Arc::new(classes::Relations::default());
        catalog.register_schema("public", Arc::clone(&tables) as _).map_err(|error| failed(&error))?;
        let information = information::InformationSchema::new(Arc::clone(&tables), database.clone());
        catalog.register_schema("information_schema", Arc::new(information)).map_err(|error| failed(&error))?;
        context.register_catalog(&database, Arc::clone(&catalog) as _);
        setup_pg_catalog(&context, &database, Roles(Arc::clone(&shown))).map_err(|error| failed(&error))?;
        if let Some(inner) = catalog.schema("pg_catalog") {
            let own = (Arc::clone(&shown), Arc::clone(&tables), Arc::clone(&relations));
            let all = Arc::new(system::SystemSchema::new(inner, own.0, own.1, own.2));
            tables.set_system(Arc::clone(&all) as _);
            catalog.register_schema("pg_catalog", all).map_err(|error| failed(&error))?;
        }
        let of_relations = functions::of_relations(&relations, &tables);
        for function in functions::all(&shown).into_iter().chain(of_relations) {
            context.register_udf(function);
        }
        Ok(Self { context, tables })
    }

    /// Plans a query. `given` contains the parameter types that the client has declared.
    ///
    /// # Errors
    ///
    /// The statement is not a query, or not one that the catalog can answer.
    pub async fn plan(&self, sql: &str, given: &[Option<DataType>]) -> Result<CataloguePlan> {
        let late = |_| Error::new(ErrorKind::Limit, "the columns of the tables could not be had in time");
        if let Some(known) = known::statement(sql) {
            let planned = tokio::time::timeout(PLANNING_TIME, self.planned(known.sql, &[])).await;
            let (plan, _) = planned.map_err(late)??;
            let parameters = known.parameters.iter().map(|oid| of_parameter(*oid).unwrap_or(DataType::Utf8)).collect();
            return Ok(CataloguePlan { plan, parameters, oids: Some(known.parameters) });
        }
        let planned = tokio::time::timeout(PLANNING_TIME, self.planned(&known::replaced(sql), given)).await;
        let (plan, given) = planned.map_err(late)??;
        let known = plan.get_parameter_types().map_err(|error| failed(&error))?;
        let numbers = known.keys().filter_map(|name| name.strip_prefix('$')?.parse::<usize>().ok());
        let count = numbers.max().unwrap_or_default().max(given.len());
        if count > usize::from(u16::MAX) {
            return Err(Error::invalid("a statement has at most 65535 parameters"));
        }
        let type_of = |place: usize| {
            let inferred = known.get(&format!("${}", place + 1)).cloned().flatten();
            given.get(place).cloned().flatten().or(inferred).unwrap_or(DataType::Utf8)
        };
        let parameters = (0..count).map(type_of).collect();
        Ok(CataloguePlan { plan, parameters, oids: None })
    }

    /// Plans a statement, or a simplified one if it cannot be run. Returns the plan, and `given`
    /// with the types of parameters that are lists.
    async fn planned(&self, sql: &str, given: &[Option<DataType>]) -> Result<Planned> {
        self.tables.refresh().await?;
        if let Some(missing) = simplify::missing_relation(sql, |parts| self.tables.has_relation(parts)) {
            return Err(Error::invalid(format!("there is no table {missing}")));
        }
        let adapted = simplify::adapted(sql);
        let sql = adapted.as_deref().unwrap_or(sql);
        let plan = self.planned_as_written(sql, given).await;
        let Some(simpler) = simplify::simplified(sql) else { return plan };
        match plan {
            Ok(planned) if self.is_runnable(&planned).await => Ok(planned),
            Ok(_) => self.planned_as_written(&simpler, given).await,
            Err(error) => self.planned_as_written(&simpler, given).await.map_err(|_| error),
        }
    }

    /// Whether a physical plan can be created. Parameters get sample values: with NULL, the
    /// optimizer would remove parts of the statement that cannot be run.
    async fn is_runnable(&self, planned: &Planned) -> bool {
        let (plan, given) = planned;
        let Ok(types) = plan.get_parameter_types() else { return false };
        let numbers = types.keys().filter_map(|name| name.trim_start_matches('$').parse::<usize>().ok());
        let last = numbers.max().unwrap_or_default();
        let value = |place: usize| {
            let inferred = types.get(&format!("${}", place + 1)).cloned().flatten();
            some_value(&given.get(place).cloned().flatten().or(inferred).unwrap_or(DataType::Utf8))
        };
        let values: Vec<ScalarValue> = (0..last).map(value).collect();
        let Ok(bound) = plan.clone().with_param_values(ParamValues::from(values)) else { return false };
        self.context.state().create_physical_plan(&bound).await.is_ok()
    }

    async fn planned_as_written(&self, sql: &str, given: &[Option<DataType>]) -> Result<Planned> {
        let mut statements = PARSER
            .parse(sql)
            .map_err(|error| Error::invalid(format!("Expected: a query of the catalogue: {error}")))?;
        let (Some(mut statement), true) = (statements.pop(), statements.is_empty()) else {
            return Err(Error::invalid("one statement runs at a time"));
        };
        let given = lists::typed(&mut statement, given);
        names::distinct(&mut statement);
        let state = self.context.state();
        let plan = state.statement_to_plan(Statement::Statement(Box::new(statement))).await;
        let plan = plan.map_err(|error| failed(&error))?;
        let only_queries = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        only_queries.verify_plan(&plan).map_err(|error| failed(&error))?;
        Ok((plan, given))
    }

    /// Runs a query with these values for its parameters.
    pub async fn run(&self, plan: &CataloguePlan, values: &[ParameterValue]) -> Result<SendableRecordBatchStream> {
        let mut bound = plan.plan.clone();
        if !plan.parameters.is_empty() && plan.oids.is_none() {
            let values = values.iter().zip(&plan.parameters).map(|(value, data_type)| scalar(value, data_type));
            let values: Vec<ScalarValue> = values.collect::<Result<_>>()?;
            bound = bound.with_param_values(ParamValues::from(values)).map_err(|error| failed(&error))?;
        }
        let frame = self.context.execute_logical_plan(bound).await.map_err(|error| failed(&error))?;
        frame.execute_stream().await.map_err(|error| failed(&error))
    }
}

/// A sample value of a type: zero, an empty text, a list with one sample element; NULL for types
/// without such a value.
fn some_value(data_type: &DataType) -> ScalarValue {
    match data_type {
        DataType::List(element) => {
            let element = element.data_type();
            ScalarValue::List(ScalarValue::new_list_nullable(&[some_value(element)], element))
        }
        other => ScalarValue::new_default(other).or_else(|_| ScalarValue::try_from(other)).unwrap_or(ScalarValue::Null),
    }
}

/// Converts the value of a parameter for DataFusion.
fn scalar(value: &ParameterValue, data_type: &DataType) -> Result<ScalarValue> {
    let converted = match value {
        ParameterValue::Null => ScalarValue::try_from(data_type),
        ParameterValue::Text(text) => ScalarValue::try_from_string(text.clone(), data_type),
        ParameterValue::Bytes(bytes) => Ok(ScalarValue::Binary(Some(bytes.clone()))),
        ParameterValue::List(values) => {
            let DataType::List(element) = data_type else {
                return Err(Error::invalid(format!("a list is no value of the type {data_type}")));
            };
            let values = values.iter().map(|value| scalar(value, element.data_type())).collect::<Result<Vec<_>>>()?;
            Ok(ScalarValue::List(ScalarValue::new_list_nullable(&values, element.data_type())))
        }
    };
    converted.map_err(|error| failed(&error))
}

/// Converts an error of DataFusion that a query of the catalog caused.
pub(crate) fn failed(error: &DataFusionError) -> Error {
    let root = error.find_root();
    if let DataFusionError::External(inner) = root
        && let Some(ours) = inner.downcast_ref::<Error>()
    {
        return Error::new(ours.kind(), ours.to_string());
    }
    let kind = match root {
        DataFusionError::NotImplemented(_) => ErrorKind::Unsupported,
        DataFusionError::ResourcesExhausted(_) => ErrorKind::Limit,
        _ => ErrorKind::Invalid,
    };
    let text = error.strip_backtrace();
    let text = text.strip_prefix("Error during planning: ").unwrap_or(&text);
    let missing = text.strip_prefix("table '").and_then(|rest| rest.strip_suffix("' not found"));
    Error::new(kind, missing.map_or_else(|| text.to_owned(), |name| format!("there is no table {name}")))
}

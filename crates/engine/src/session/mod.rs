//! The engine: a session that runs SQL.
//!
//! Each statement runs in its own state, derived from the session's, with its meter, its caps, and
//! stores that count into that meter. Tables, views and functions are shared.

pub(crate) mod access_checks;
mod catalogs;
mod define;
mod execute;
mod folders;
mod functions;
mod information_schema;
mod inputs;
mod kept;
mod limits;
mod memory;
mod prepare;
mod prepared_statements;
mod result;
mod settings;
mod share;
pub(crate) mod spilling;
mod staged;
pub(crate) mod statement_run;
mod tables;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::catalog::{CatalogProviderList, MemoryCatalogProviderList, TableProviderFactory};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::logical_expr::{LogicalPlan, SetVariable, Statement as LogicalStatement};
use datafusion::prelude::SessionConfig;
use object_store::ObjectStore;
use object_store::ObjectStoreExt;
use parking_lot::RwLock;
use pushdowndb_contract::{Error, Result};
use pushdowndb_cost::{Meter, PriceBook};
use pushdowndb_scan::extremes;
use tokio::sync::Mutex;

use crate::access::{Access, AccessPolicy};
use crate::catalog::TableLocation;
use crate::catalog::declared::DeclaredTables;
use crate::context::{QueryContext, RejectLog};
use crate::endpoints::writes::{OpenUploads, QueryStores, Writes};
use crate::endpoints::{Backends, ConnectionConfig, query_meters};
use crate::error::{from_datafusion, from_object_store};
use crate::functions::{
    checked_sum, counted, dates, domain, field_access, json, sampled_splits, texts, timezone, truth_texts, values,
};
use crate::named_tables::NamedTables;
use crate::provider::ObjectTableFactory;
use crate::rules::{analyzer_rules, logical_rules, physical_rules};
use crate::settings::PushdownOptions;
use crate::sql::syntax::settings::full_name;
use crate::sql::user_macros::Macros;
use crate::stages::Cluster;
use crate::statistics::StatisticsCache;
use crate::writing;
use catalogs::StatementCatalogs;
use prepared_statements::PreparedStatements;
use spilling::Spilling;
use statement_run::StatementRun;

pub use folders::FolderEntry;
pub use functions::FunctionInfo;
pub use inputs::{InputTable, Inputs, NestedQuery};
pub use limits::UserLimits;
pub use prepare::{ParameterValue, Prepared};
pub use result::{QueryResult, StatementKind};
pub use settings::Setting;
pub use share::UserConfig;
pub use tables::TableInfo;

/// The configuration of an engine. The default is safe for SQL from strangers: it can use nothing
/// outside of the session unless the policy lists it. For SQL of the program's own user there is
/// [`EngineConfig::unrestricted`].
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use pushdowndb_engine::{AccessPolicy, Engine, EngineConfig};
///
/// let folder = std::env::temp_dir().join(format!("pushdowndb-example-{}", std::process::id()));
/// std::fs::create_dir_all(&folder).unwrap();
/// std::fs::write(folder.join("sales.csv"), "item,price\na,3\nb,4\n").unwrap();
///
/// let access = AccessPolicy::nothing().and_read(&folder.display().to_string())?;
/// let engine = Engine::new(EngineConfig { access, ..EngineConfig::default() }).await?;
/// let query = format!("SELECT sum(price) FROM '{}/sales.csv'", folder.display());
/// assert_eq!(engine.execute(&query).await?.collect().await?[0].num_rows(), 1);
///
/// let refused = engine.execute("SELECT * FROM '/etc/hosts'").await.unwrap_err();
/// assert_eq!(refused.kind(), pushdowndb_contract::ErrorKind::Denied);
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), pushdowndb_contract::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, Default)]
pub struct EngineConfig {
    /// The locations and hosts that SQL may read and write; none by default.
    pub access: AccessPolicy,
    /// The endpoint and credentials of S3.
    pub connection: ConnectionConfig,
    /// Settings, as SET takes them: `("pushdown.level", "none")`.
    pub settings: Vec<(String, String)>,
    /// The catalog file, which keeps declared tables; without one they end with the engine.
    pub catalog: Option<PathBuf>,
    /// The folder of statistics and endpoint profiles; without one they end with the engine.
    pub cache: Option<PathBuf>,
    /// The client of the worker processes that the setting `pushdown.workers` names; without it,
    /// queries run in this process.
    pub cluster: Option<Arc<dyn Cluster>>,
}

impl EngineConfig {
    /// Returns the configuration of a session whose SQL may use everything that the process may.
    pub fn unrestricted() -> Self {
        Self { access: AccessPolicy::Everything, ..Self::default() }
    }
}

/// A session. Cheap to share by reference or `Arc`; statements may run side by side.
#[derive(Debug)]
pub struct Engine {
    backends: Arc<Backends>,
    catalogs: Arc<dyn CatalogProviderList>,
    declared: Arc<DeclaredTables>,
    statistics: Arc<StatisticsCache>,
    /// The state that the states of statements are copied from.
    template: SessionState,
    pub(crate) settings: RwLock<Settings>,
    /// Held while settings change.
    pub(crate) setting: Mutex<()>,
    uploads: OpenUploads,
    spilling: Arc<Spilling>,
    prepared: PreparedStatements,
    /// The macros that CREATE MACRO defined.
    macros: Macros,
    rejects: RejectLog,
    limits: UserLimits,
    cluster: Option<Arc<dyn Cluster>>,
}

/// The state that SET changes.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) config: SessionConfig,
    pub(crate) runtime: Arc<RuntimeEnv>,
    /// The memory that queries share.
    pub(crate) memory: Arc<dyn MemoryPool>,
    pub(crate) prices: Arc<PriceBook>,
}

impl Engine {
    /// Opens a session.
    pub async fn new(config: EngineConfig) -> Result<Self> {
        // The module `catalogs` has its own information schema.
        let mut session =
            SessionConfig::new().with_information_schema(false).with_option_extension(PushdownOptions::default());
        let options = session.options_mut();
        // `0.05` is a decimal, as the standard says: decimals compare and add exactly.
        options.sql_parser.parse_float_as_decimal = true;
        // Without a time zone, a TIMESTAMPTZ would have the type of a TIMESTAMP, and AT TIME ZONE
        // could not distinguish them.
        options.execution.time_zone = Some("UTC".to_owned());
        // It gives wrong results for MIN and MAX over scans that filter (apache/datafusion#24816).
        options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
        let access = Access::new(config.access);
        let runtime = Arc::new(RuntimeEnv::default());
        let factory: Arc<dyn TableProviderFactory> = Arc::new(ObjectTableFactory);
        let mut builder = SessionStateBuilder::new()
            .with_config(session)
            .with_runtime_env(Arc::clone(&runtime))
            .with_catalog_list(Arc::new(MemoryCatalogProviderList::new()))
            .with_default_features()
            .with_analyzer_rules(analyzer_rules())
            .with_physical_optimizer_rules(physical_rules());
        if !access.is_everything() {
            // DataFusion's factories read files without checks.
            builder = builder.with_table_factories(HashMap::new());
        }
        for format in ["CSV", "TSV", "JSON", "NDJSON", "JSONL", "PARQUET"] {
            builder = builder.with_table_factory(format.to_owned(), Arc::clone(&factory));
        }
        writing::take_over(&mut builder);
        add_functions(&mut builder);
        let template = builder.build();
        PushdownOptions::default().check()?;
        let prices = Arc::new(access_checks::price_book(&access, &PushdownOptions::default().price_book)?);
        let engine = Self {
            spilling: Arc::new(Spilling::new(config.connection.clone(), access.clone())),
            backends: Arc::new(Backends::new(config.connection, access, config.cache.as_deref())),
            catalogs: Arc::clone(template.catalog_list()),
            declared: Arc::new(DeclaredTables::open(config.catalog)?),
            statistics: Arc::new(StatisticsCache::new(config.cache.map(|cache| cache.join("statistics")))),
            settings: RwLock::new(Settings {
                // The template has the default catalog already.
                config: template.config().clone().with_create_default_catalog_and_schema(false),
                runtime,
                memory: memory::pool(PushdownOptions::default().memory),
                prices,
            }),
            setting: Mutex::default(),
            uploads: OpenUploads::default(),
            prepared: PreparedStatements::default(),
            macros: Macros::default(),
            rejects: RejectLog::default(),
            limits: UserLimits::default(),
            cluster: config.cluster,
            template,
        };
        for (name, value) in &config.settings {
            let set = SetVariable { variable: full_name(name).to_owned(), value: value.clone() };
            let plan = LogicalPlan::Statement(LogicalStatement::SetVariable(set));
            let set = engine.change_settings(plan, &Access::everything()).await;
            set.map_err(|e| e.context(format!("--set {name}={value}")))?;
        }
        Ok(engine)
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings.read().clone()
    }

    /// Creates the state of a statement with this text.
    pub(crate) fn begin(&self, text: &str) -> Result<StatementRun> {
        self.begin_with(text, self.settings())
    }

    /// Like [`Self::begin`], with other settings than the session's.
    pub(crate) fn begin_with(&self, text: &str, mut settings: Settings) -> Result<StatementRun> {
        let mut options = PushdownOptions::of(settings.config.options());
        self.limits.lower(&mut options);
        let meter = Arc::new(Meter::default());
        let spill = self.spilling.query(&options, &meter)?;
        let disk_manager = spilling::disk_manager(spill.as_ref());
        memory::fit_to_limit(settings.config.options_mut(), &options);
        spilling::set_compression(settings.config.options_mut(), &options);
        let query = Arc::new(QueryContext::new(
            Arc::clone(&self.backends),
            options,
            settings.prices,
            Arc::clone(&self.statistics),
            meter,
            spill.as_ref(),
            self.rejects.clone(),
        ));
        query.meter.cores(settings.config.target_partitions());
        let (backends, meter) = (Arc::clone(&self.backends), Arc::clone(&query.meter));
        let stores = QueryStores { backends, meter, uploads: self.uploads.clone(), writes: query.writes.clone() };
        let runtime = RuntimeEnvBuilder::from_runtime_env(&settings.runtime)
            .with_object_store_registry(Arc::new(stores))
            .with_memory_pool(settings.memory)
            .with_disk_manager_builder(disk_manager)
            .build_arc()
            .map_err(from_datafusion)?;
        let tables = Arc::new(NamedTables::new(Arc::clone(&query), Arc::clone(&self.declared)));
        let catalogs = self.statement_catalogs(&tables);
        let mut state = SessionStateBuilder::new_from_existing(self.template.clone())
            .with_config(settings.config.with_extension(Arc::clone(&query)))
            .with_runtime_env(runtime)
            .with_catalog_list(Arc::new(catalogs))
            .with_optimizer_rules(logical_rules(&query))
            .build();
        state.mark_start_execution();
        Ok(StatementRun { text: text.into(), query, state, tables })
    }

    /// Returns the catalogs of a statement, in which `tables` resolves names that the session
    /// lacks.
    fn statement_catalogs(&self, tables: &Arc<NamedTables>) -> StatementCatalogs {
        let (catalogs, declared) = (Arc::clone(&self.catalogs), Arc::clone(&self.declared));
        let functions = self.template.table_functions().clone();
        StatementCatalogs::new(catalogs, declared, Arc::clone(tables) as _, functions)
    }

    /// Reads a small text object, such as a script, from an address or a local path. The access
    /// policy applies.
    pub async fn read_text(&self, address: &str) -> Result<String> {
        let location = TableLocation::parse(address, self.backends.access())?;
        if location.prefix().as_ref().is_empty() || address.ends_with('/') {
            return Err(Error::invalid(format!("{address}: this names no file")));
        }
        let backend = self.backends.backend(location.store().as_ref())?;
        let store = backend.store(&query_meters(&Arc::new(Meter::new())))?;
        let read = async { store.get(location.prefix()).await?.bytes().await };
        let bytes = read.await.map_err(|e| from_object_store(e).context(address))?;
        String::from_utf8(bytes.into()).map_err(|_| Error::invalid(format!("{address}: this is not UTF-8 text")))
    }

    /// Opens the store of an address for writing, and returns it with the path there. The access
    /// policy applies; nothing is metered.
    pub fn store(&self, address: &str) -> Result<(Arc<dyn ObjectStore>, object_store::path::Path)> {
        let location = TableLocation::parse(address, self.backends.access())?;
        let backend = self.backends.backend(location.store().as_ref())?;
        let store = self.uploads.watch(backend.store(&query_meters(&Arc::new(Meter::new())))?, &Writes::default());
        Ok((store, location.prefix().clone()))
    }

    /// Waits until failed and cancelled uploads are cleaned up, and spilled data in an object store
    /// is deleted. Call it before the process ends.
    pub async fn settle(&self) {
        self.uploads.settle().await;
        self.spilling.settle().await;
    }

    /// Creates the bucket of an `s3://` address. Succeeds, too, if the bucket exists and these
    /// credentials own it. The access policy applies.
    pub async fn create_bucket(&self, address: &str) -> Result<()> {
        let location = TableLocation::parse(address, self.backends.access())?;
        self.backends.backend(location.store().as_ref())?.create_bucket().await
    }
}

/// Adds the functions of this crate, in place of DataFusion's of the same name.
fn add_functions(builder: &mut SessionStateBuilder) {
    if let Some(scalar) = builder.scalar_functions() {
        *scalar = std::mem::take(scalar).into_iter().map(domain::checked).collect();
        scalar.push(timezone::function());
        scalar.extend([json::functions(), dates::functions(), texts::functions(), values::functions()].concat());
        scalar.extend(field_access::functions());
        scalar.push(sampled_splits::function());
    }
    // These precede DataFusion's planners, which match names of fields exactly and support elements
    // of lists only.
    let own: [Arc<dyn ExprPlanner>; 2] = [Arc::new(field_access::FieldAccess), Arc::new(truth_texts::TruthTexts)];
    builder.expr_planners().get_or_insert_default().splice(0..0, own);
    let ours = [extremes::min(), extremes::max(), checked_sum::function()];
    let aggregate = builder.aggregate_functions().get_or_insert_default();
    aggregate.retain(|function| ours.iter().all(|ours| ours.name() != function.name()));
    aggregate.extend(ours);
    aggregate.extend(counted::functions());
}

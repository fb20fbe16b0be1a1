//! The engine: a session that turns SQL into results.
//!
//! Each statement runs in a state of its own, derived from the session's: with its meter, its caps and stores
//! that count into that meter. Tables, views and functions are shared by all of them.

mod doors;
mod functions;
mod names;
mod running;
mod set;
mod syntax;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use datafusion::catalog::{CatalogProviderList, DynamicFileCatalog, MemoryCatalogProviderList, TableProviderFactory};
use datafusion::common::TableReference;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{
    Analyze, DdlStatement, ExplainFormat, LogicalPlan, SetVariable, Statement as LogicalStatement,
};
use datafusion::prelude::SessionConfig;
use object_store::ObjectStore;
use object_store::ObjectStoreExt;
use pushdown::{Error, Result};
use pushdowndb_cost::{Meter, PriceBook};
use tokio::sync::Mutex;

use crate::access::{Access, AccessPolicy};
use crate::backends::{Backends, ConnectionConfig, query_meters};
use crate::error::{from_datafusion, from_object_store};
use crate::index;
use crate::profile;
use crate::provider::{ObjectTableFactory, UndeclaredTables, look_at_tables};
use crate::query::{QueryContext, QueryResult, StatementKind};
use crate::remembered::Remembered;
use crate::rules::{analyzer_rules, logical_rules, physical_rules};
use crate::settings::PushdownOptions;
use crate::statements::{self, Statement};
use crate::statistics::{self, Catalogue};
use crate::stores::{FailedWrite, OpenUploads, QueryStores};
use crate::table::TableLocation;
use functions::Functions;
pub use names::TableInfo;
use running::Running;
pub use set::Setting;

/// How an engine is set up. The default may be given SQL of strangers: it can use nothing outside of the session until the
/// policy lists it. A program that runs the SQL of its own user says so: [`EngineConfig::unrestricted`].
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
/// assert_eq!(refused.kind(), pushdown::ErrorKind::Denied);
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), pushdown::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, Default)]
pub struct EngineConfig {
    /// What SQL may read and write; nothing by default.
    pub access: AccessPolicy,
    /// How to reach S3, and as whom.
    pub connection: ConnectionConfig,
    /// Settings, as SET takes them: `("pushdown.level", "none")`.
    pub settings: Vec<(String, String)>,
    /// The file that remembers declared tables; `None` forgets them with the engine.
    pub catalog: Option<PathBuf>,
    /// The folder that keeps what was learned of tables; `None` forgets it with the engine.
    pub cache: Option<PathBuf>,
}

impl EngineConfig {
    /// A session whose SQL may use everything that the process may.
    pub fn unrestricted() -> Self {
        Self { access: AccessPolicy::Everything, ..Self::default() }
    }
}

/// A session. Cheap to share; statements may run side by side.
#[derive(Debug)]
pub struct Engine {
    backends: Arc<Backends>,
    catalogs: Arc<dyn CatalogProviderList>,
    remembered: Arc<Remembered>,
    statistics: Arc<Catalogue>,
    /// What the states of statements are made of.
    template: SessionState,
    functions: Functions,
    settings: RwLock<Settings>,
    /// Held while settings change.
    setting: Mutex<()>,
    uploads: OpenUploads,
}

/// What SET changes.
#[derive(Clone, Debug)]
struct Settings {
    config: SessionConfig,
    runtime: Arc<RuntimeEnv>,
    prices: Arc<PriceBook>,
}

impl Engine {
    /// Opens a session.
    pub async fn new(config: EngineConfig) -> Result<Self> {
        let mut session =
            SessionConfig::new().with_information_schema(true).with_option_extension(PushdownOptions::default());
        let options = session.options_mut();
        // `0.05` is a decimal, as the standard says: decimals compare and add exactly.
        options.sql_parser.parse_float_as_decimal = true;
        // Wrong results for MIN and MAX over scans that filter (apache/datafusion#24816).
        options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
        let access = Access::new(config.access);
        let runtime = doors::spilling(&access, Arc::new(RuntimeEnv::default()))?;
        let factory: Arc<dyn TableProviderFactory> = Arc::new(ObjectTableFactory);
        let mut builder = SessionStateBuilder::new()
            .with_config(session)
            .with_runtime_env(Arc::clone(&runtime))
            .with_catalog_list(Arc::new(MemoryCatalogProviderList::new()))
            .with_default_features()
            .with_analyzer_rules(analyzer_rules())
            .with_physical_optimizer_rules(physical_rules());
        if !access.is_everything() {
            // Without those of DataFusion, which read files in ways of their own.
            builder = builder.with_table_factories(HashMap::new());
        }
        for format in ["CSV", "TSV", "JSON", "NDJSON", "JSONL", "PARQUET"] {
            builder = builder.with_table_factory(format.to_owned(), Arc::clone(&factory));
        }
        let functions = Functions::taken_from(&mut builder);
        let template = builder.build();
        PushdownOptions::default().check()?;
        let prices = Arc::new(doors::price_book(&access, &PushdownOptions::default().price_book)?);
        let engine = Self {
            backends: Arc::new(Backends::new(config.connection, access, config.cache.as_deref())),
            catalogs: Arc::clone(template.catalog_list()),
            remembered: Arc::new(Remembered::open(config.catalog)?),
            statistics: Arc::new(Catalogue::new(config.cache.map(|cache| cache.join("statistics")))),
            settings: RwLock::new(Settings {
                // The catalogue exists from here on.
                config: template.config().clone().with_create_default_catalog_and_schema(false),
                runtime,
                prices,
            }),
            setting: Mutex::default(),
            uploads: OpenUploads::default(),
            template,
            functions,
        };
        for (name, value) in &config.settings {
            let set = SetVariable { variable: name.clone(), value: value.clone() };
            let plan = LogicalPlan::Statement(LogicalStatement::SetVariable(set));
            let plan = set::as_datafusion_knows_it(plan);
            let set = engine.change_settings(plan, &Access::everything()).await;
            set.map_err(|e| e.context(format!("--set {name}={value}")))?;
        }
        Ok(engine)
    }

    /// Cuts a script into statements.
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        statements::split(sql)
    }

    /// Runs one statement. Rows are computed as they are read from the result.
    pub async fn execute(&self, sql: &str) -> Result<QueryResult> {
        self.execute_watched(sql, |_| ()).await
    }

    /// The same; `watch` is given what the statement carries before anything is done, to see how far it is. CREATE INDEX
    /// does all of its work before there is a result.
    pub async fn execute_watched(
        &self,
        sql: &str,
        watch: impl FnOnce(Arc<QueryContext>) + Send,
    ) -> Result<QueryResult> {
        let running = self.begin()?;
        watch(Arc::clone(&running.query));
        // Finding out about tables takes requests, too, and may hang.
        tokio::select! {
            biased;
            result = self.run(&running, sql) => match result {
                Err(error) => Err(self.with_names(error).await),
                result => result,
            },
            error = running.query.exceeded() => Err(error),
        }
    }

    async fn run(&self, running: &Running, sql: &str) -> Result<QueryResult> {
        if let Some(statement) = index::parse(sql)? {
            let known = if statement.is_about_all() { self.tables().await? } else { vec![] };
            let known = known.into_iter().filter(|table| table.kind != "view");
            let known = known.map(|table| TableReference::parse_str(&table.name)).collect();
            let shown = statement.run(&running.query, &running.context(), known).await?;
            return Ok(match shown {
                Some(rows) => running.rows(rows),
                None => running.nothing_to_print(StatementKind::Definition),
            });
        }
        if let Some(analyze) = statistics::parse(sql)? {
            return Ok(running.rows(analyze.run(&running.query, &running.context()).await?));
        }
        if let Some(shown) = set::shown(sql)? {
            return Ok(running.rows(self.show(&shown)?));
        }
        let explained = |error| set::with_quotes(sql, from_datafusion(error));
        let dialect = running.state.config_options().sql_parser.dialect;
        let mut statement = running.state.sql_to_statement(sql, &dialect).map_err(explained)?;
        syntax::settle(&mut statement)?;
        let plan = running.state.statement_to_plan(statement).await.map_err(explained)?;
        self.run_plan(running, plan, sql).await
    }

    fn settings(&self) -> Settings {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A state for one statement.
    fn begin(&self) -> Result<Running> {
        let settings = self.settings();
        let options = PushdownOptions::of(settings.config.options());
        let query = Arc::new(QueryContext::new(
            Arc::clone(&self.backends),
            options,
            settings.prices,
            Arc::clone(&self.statistics),
        ));
        query.meter.cores(settings.config.target_partitions());
        let (backends, meter) = (Arc::clone(&self.backends), Arc::clone(&query.meter));
        let stores = QueryStores { backends, meter, uploads: self.uploads.clone(), failed: query.failed_write.clone() };
        let runtime = RuntimeEnvBuilder::from_runtime_env(&settings.runtime)
            .with_object_store_registry(Arc::new(stores))
            .build_arc()
            .map_err(from_datafusion)?;
        let undeclared = UndeclaredTables { query: Arc::clone(&query), remembered: Arc::clone(&self.remembered) };
        let catalogs = DynamicFileCatalog::new(Arc::clone(&self.catalogs), Arc::new(undeclared));
        let builder = SessionStateBuilder::new_from_existing(self.template.clone());
        let mut state = (self.functions.given_to(builder))
            .with_config(settings.config.with_extension(Arc::clone(&query)))
            .with_runtime_env(runtime)
            .with_catalog_list(Arc::new(catalogs))
            .with_optimizer_rules(logical_rules(&query))
            .build();
        state.mark_start_execution();
        Ok(Running { query, state })
    }

    async fn run_plan(&self, running: &Running, plan: LogicalPlan, sql: &str) -> Result<QueryResult> {
        let plan = set::as_datafusion_knows_it(plan);
        doors::check(self.backends.access(), &plan)?;
        let kind = match &plan {
            LogicalPlan::Ddl(_) => StatementKind::Definition,
            LogicalPlan::Statement(_) => StatementKind::Setting,
            _ => StatementKind::Rows,
        };
        if let LogicalPlan::Analyze(analyze) = &plan
            && !analyze.verbose
            && analyze.format == ExplainFormat::Indent
        {
            return self.analyze(running, analyze, sql).await;
        }
        let effect = self.effect_of(&plan, running)?;
        match effect {
            Effect::Settled => return Ok(running.nothing_to_print(kind)),
            Effect::Settings => {
                self.change_settings(plan, self.backends.access()).await?;
                return Ok(running.nothing_to_print(kind));
            }
            _ => {}
        }
        if kind != StatementKind::Rows {
            running.context().execute_logical_plan(plan).await.map_err(from_datafusion)?;
            match effect {
                Effect::Declared => self.remembered.put(sql)?,
                Effect::Dropped(name) => self.remembered.remove(&name)?,
                Effect::None | Effect::Settled | Effect::Settings => {}
            }
            return Ok(running.nothing_to_print(kind));
        }
        look_at_tables(&running.query, &plan).await?;
        let physical = running.state.create_physical_plan(&plan).await.map_err(from_datafusion)?;
        let (ran, stream) = running.start(physical, sql)?;
        Ok(QueryResult { schema: stream.schema(), kind, stream, context: Arc::clone(&running.query), ran: Some(ran) })
    }

    /// EXPLAIN ANALYZE in our own words. With VERBOSE or another format it is DataFusion's: all metrics of each operator.
    async fn analyze(&self, running: &Running, analyze: &Analyze, sql: &str) -> Result<QueryResult> {
        let physical = running.state.create_physical_plan(&analyze.input).await.map_err(from_datafusion)?;
        let (ran, rows) = running.start(physical, sql)?;
        let schema = Arc::clone(analyze.schema.inner());
        let (ran, stream) = profile::analyzed(ran, rows, Arc::clone(&schema), Arc::clone(&running.query));
        let (kind, context) = (StatementKind::Rows, Arc::clone(&running.query));
        Ok(QueryResult { schema, kind, stream, context, ran: Some(ran) })
    }

    /// What the statement leaves behind. Remembered tables exist, though DataFusion has not heard of them yet.
    fn effect_of(&self, plan: &LogicalPlan, running: &Running) -> Result<Effect> {
        let exists = |name: &TableReference| running.context().table_exist(name.clone()).map_err(from_datafusion);
        Ok(match plan {
            LogicalPlan::Statement(LogicalStatement::SetVariable(_) | LogicalStatement::ResetVariable(_)) => {
                Effect::Settings
            }
            LogicalPlan::Ddl(DdlStatement::CreateExternalTable(create)) => {
                let name = remembered_name(&create.name);
                let is_remembered = self.remembered.contains(&name);
                let exists = is_remembered || exists(&create.name)?;
                match (exists, create.if_not_exists, create.or_replace) {
                    (true, true, false) => Effect::Settled,
                    (true, false, false) if is_remembered => {
                        return Err(Error::invalid(format!(
                            "table {name} exists already; DROP TABLE it or use CREATE OR REPLACE"
                        )));
                    }
                    _ => Effect::Declared,
                }
            }
            LogicalPlan::Ddl(DdlStatement::DropTable(drop)) => {
                let name = remembered_name(&drop.name);
                if self.remembered.contains(&name) && !exists(&drop.name)? {
                    self.remembered.remove(&name)?;
                    Effect::Settled
                } else {
                    Effect::Dropped(name)
                }
            }
            _ => Effect::None,
        })
    }

    /// A small text object, such as a script: an address or a local path. Held to the access policy.
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

    /// The store behind an address and the path there, to write to; nothing is metered. Held to the access policy.
    pub fn store(&self, address: &str) -> Result<(Arc<dyn ObjectStore>, object_store::path::Path)> {
        let location = TableLocation::parse(address, self.backends.access())?;
        let backend = self.backends.backend(location.store().as_ref())?;
        let store = self.uploads.watch(backend.store(&query_meters(&Arc::new(Meter::new())))?, &FailedWrite::default());
        Ok((store, location.prefix().clone()))
    }

    /// Returns once nothing is left of uploads that failed or were cancelled; before the process ends.
    pub async fn settle(&self) {
        self.uploads.settle().await;
    }

    /// Makes the bucket of an `s3://` address unless it is ours already. Held to the access policy.
    pub async fn create_bucket(&self, address: &str) -> Result<()> {
        let location = TableLocation::parse(address, self.backends.access())?;
        self.backends.backend(location.store().as_ref())?.create_bucket().await
    }
}

/// What a statement leaves behind in the session.
enum Effect {
    None,
    /// Done already, without DataFusion.
    Settled,
    Settings,
    Declared,
    Dropped(String),
}

/// The name of a table in the catalogue file: short where it lies in the default schema.
fn remembered_name(table: &TableReference) -> String {
    match (table.catalog(), table.schema()) {
        (None | Some("datafusion"), None | Some("public")) => table.table().to_owned(),
        _ => table.to_string(),
    }
}

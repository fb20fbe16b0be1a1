//! Sessions that share one engine: those of a server with several users.

use std::sync::Arc;

use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, MemoryCatalogProviderList, MemorySchemaProvider};
use datafusion::catalog::{CatalogProviderList, SchemaProvider};
use datafusion::logical_expr::{LogicalPlan, SetVariable, Statement as LogicalStatement};
use parking_lot::RwLock;
use pushdowndb_contract::Result;
use tokio::sync::Mutex;

use super::limits::UserLimits;
use super::memory::PartOfPool;
use super::prepared_statements::PreparedStatements;
use super::{Engine, Settings};
use crate::access::{Access, AccessPolicy};
use crate::catalog::declared::DeclaredTables;
use crate::context::RejectLog;
use crate::sql::syntax::settings::full_name;
use crate::sql::user_macros::Macros;

/// The configuration of one user of an engine that several users share.
#[derive(Clone, Debug, Default)]
pub struct UserConfig {
    /// The locations and hosts that the user's SQL may read and write; none by default.
    pub access: AccessPolicy,
    /// The settings that the user's sessions start with, as SET takes them.
    pub settings: Vec<(String, String)>,
    /// Limits that no setting of the user's sessions can exceed.
    pub limits: UserLimits,
}

impl Engine {
    /// Returns the engine of one user of a server. It shares this one's memory, statistics, places
    /// for spilled data and declared tables. It has connections of its own, since they enforce the
    /// user's policy. What its sessions define ends with them.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting of `user` does not exist or cannot have its value.
    pub async fn for_user(&self, user: UserConfig) -> Result<Self> {
        let mut engine = self.share(Access::new(user.access), user.limits);
        for (name, value) in &user.settings {
            let set = SetVariable { variable: full_name(name).to_owned(), value: value.clone() };
            let plan = LogicalPlan::Statement(LogicalStatement::SetVariable(set));
            let set = engine.change_settings(plan, &Access::everything()).await;
            set.map_err(|error| error.context(format!("setting {name} = {value}")))?;
        }
        if user.limits.memory_bytes > 0 {
            let limit = usize::try_from(user.limits.memory_bytes).unwrap_or(usize::MAX);
            let settings = engine.settings.get_mut();
            settings.memory = Arc::new(PartOfPool::new(Arc::clone(&settings.memory), limit));
        }
        Ok(engine)
    }

    /// Returns a session beside this one: with settings of its own, which start as they are here,
    /// and tables of its own beside the declared ones. Everything else is shared: access, limits,
    /// connections, memory, statistics.
    pub fn session(&self) -> Self {
        Self { backends: Arc::clone(&self.backends), ..self.share(self.backends.access().clone(), self.limits) }
    }

    /// Returns an engine that shares all but connections, settings and tables.
    fn share(&self, access: Access, limits: UserLimits) -> Self {
        let catalogs: Arc<dyn CatalogProviderList> = Arc::new(MemoryCatalogProviderList::new());
        let catalog = Arc::new(MemoryCatalogProvider::new());
        let names = &self.template.config_options().catalog;
        let schema: Arc<dyn SchemaProvider> = Arc::new(MemorySchemaProvider::new());
        // These fail only for catalogs that nothing can be added to.
        drop(catalog.register_schema(&names.default_schema, schema));
        catalogs.register_catalog(names.default_catalog.clone(), catalog);
        let settings: Settings = self.settings();
        Self {
            backends: Arc::new(self.backends.with_access(access)),
            catalogs,
            declared: Arc::new(DeclaredTables::without_file(&self.declared)),
            statistics: Arc::clone(&self.statistics),
            template: self.template.clone(),
            settings: RwLock::new(settings),
            setting: Mutex::default(),
            uploads: self.uploads.clone(),
            spilling: Arc::clone(&self.spilling),
            prepared: PreparedStatements::default(),
            macros: Macros::default(),
            rejects: RejectLog::default(),
            limits,
            cluster: self.cluster.clone(),
        }
    }
}

//! The services that a stage uses in the process that runs it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::prelude::SessionConfig;
use parking_lot::Mutex;
use prost::Message;
use pushdowndb_contract::{Error, Result};
use url::Url;

use super::messages::{RequestMessage, SettingMessage};
use crate::context::QueryContext;
use crate::endpoints::{Fleet, query_meters};
use crate::plan::join_keys::{BuildKeys, JoinId};

/// The version of the messages between processes. Processes that run a query together must have the
/// same one.
pub const VERSION: u32 = 1;

/// The part of a session that a worker needs to run its stages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageRequest {
    /// The settings that differ from the defaults, by their full names.
    pub(crate) settings: Vec<(String, String)>,
    /// The URL of each store that is read.
    pub(crate) stores: Vec<String>,
    /// The functions of the query that no registry has, as [`super::functions`] encodes them.
    pub(crate) functions: Vec<Vec<u8>>,
}

impl StageRequest {
    /// Encodes the request.
    pub fn to_bytes(&self) -> Vec<u8> {
        let setting = |(name, value): &(String, String)| SettingMessage { name: name.clone(), value: value.clone() };
        let settings = self.settings.iter().map(setting).collect();
        let (stores, functions) = (self.stores.clone(), self.functions.clone());
        RequestMessage { settings, stores, functions }.encode_to_vec()
    }

    /// Decodes the result of [`Self::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let message = RequestMessage::decode(bytes)
            .map_err(|error| Error::invalid("the settings of a stage are malformed").with_source(error))?;
        let setting = |setting: SettingMessage| (setting.name, setting.value);
        Ok(Self {
            settings: message.settings.into_iter().map(setting).collect(),
            stores: message.stores,
            functions: message.functions,
        })
    }
}

/// The services of a stage, an extension of the configuration of its operators.
pub(crate) struct StageServices {
    query: Arc<QueryContext>,
    /// The nodes in front of each store.
    fleets: HashMap<String, Option<Arc<Fleet>>>,
    /// The keys of the stage's joins, by the numbers that they have where the query was planned.
    keys: Mutex<HashMap<JoinId, Arc<BuildKeys>>>,
}

impl fmt::Debug for StageServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageServices").finish_non_exhaustive()
    }
}

impl StageServices {
    /// Finds the nodes in front of each of `stores`.
    pub(crate) async fn open(query: &Arc<QueryContext>, stores: &[String]) -> Result<Self> {
        let mut fleets = HashMap::new();
        for store in stores {
            let nodes = query.backends.nodes(&query.options.nodes).await?;
            let fleet = match nodes.is_empty() {
                true => None,
                false => {
                    let backend = query.backends.backend(&url(store)?)?;
                    backend.fleet(nodes, &query_meters(&query.meter), &query.options).await
                }
            };
            fleets.insert(store.clone(), fleet);
        }
        Ok(Self { query: Arc::clone(query), fleets, keys: Mutex::default() })
    }

    pub(super) fn query(&self) -> &Arc<QueryContext> {
        &self.query
    }

    pub(super) fn fleet(&self, store: &str) -> Option<Arc<Fleet>> {
        self.fleets.get(store).cloned().flatten()
    }

    /// Registers the keys of the join `join`, whose collector is in the stage.
    pub(super) fn collects(&self, join: JoinId, keys: Arc<BuildKeys>) {
        self.keys.lock().insert(join, keys);
    }

    /// Returns the keys of `join`, if the stage collects them.
    pub(super) fn keys_of(&self, join: JoinId) -> Option<Arc<BuildKeys>> {
        self.keys.lock().get(&join).cloned()
    }
}

impl Drop for StageServices {
    fn drop(&mut self) {
        self.query.ended();
    }
}

/// Parses the URL of a store.
pub(super) fn url(store: &str) -> Result<Url> {
    Url::parse(store).map_err(|error| Error::invalid(format!("'{store}' is no store")).with_source(error))
}

/// Copies what the engine's operators need from `from`, the configuration of a stage, to `to`.
pub fn carry(from: &SessionConfig, mut to: SessionConfig) -> SessionConfig {
    if let Some(query) = from.get_extension::<QueryContext>() {
        to.set_extension(query);
    }
    if let Some(services) = from.get_extension::<StageServices>() {
        to.set_extension(services);
    }
    to
}

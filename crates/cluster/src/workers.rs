//! The coordinator: connects a query to the workers that a setting names.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use pushdowndb_contract::{Error, ErrorKind, Result};
use pushdowndb_engine::stages::{Cluster, StagedQuery, WholePlan};

use crate::addresses;
use crate::answers::answering;
use crate::channel::Channels;
use crate::cut::cut;
use crate::run::Query;
use crate::token::Token;

/// The connections of a coordinator to worker processes.
#[derive(Clone, Debug)]
pub struct Workers {
    channels: Channels,
}

impl Workers {
    /// Creates the connections to workers that accept `token`. The certificates of those with
    /// `https` addresses must be signed by an authority in the PEM file `authorities`. Blocks.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn new(token: Token, authorities: Option<&Path>) -> Result<Self> {
        Ok(Self { channels: Channels::new(token, authorities)? })
    }
}

#[async_trait]
impl Cluster for Workers {
    async fn stage(&self, whole: WholePlan) -> Result<Option<Arc<dyn StagedQuery>>> {
        let urls = addresses::parse(&whole.workers)?;
        let (urls, gone) = answering(&self.channels, &urls).await?;
        if urls.is_empty() {
            let message = format!("no worker of pushdown.workers answers: {}", gone.join("; "));
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        for worker in gone {
            tracing::warn!("a worker is left out: {worker}");
            whole.usages.note(format!("a worker is left out: {worker}"));
        }
        let cut = match cut(&whole, &urls, &self.channels).await {
            Ok(Some(cut)) => cut,
            Ok(None) => return Ok(None),
            // The query can still run in one process.
            Err(error) => {
                tracing::warn!(%error, "a plan cannot be cut into stages");
                return Ok(None);
            }
        };
        Ok(Some(Arc::new(Query { whole, cut, urls, channels: self.channels.clone() })))
    }
}

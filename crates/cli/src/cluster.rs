//! Connections to the workers that `pushdown.workers` names.

use std::sync::Arc;

use anyhow::Result;
use pushdowndb_cluster::{Token, Workers};
use pushdowndb_engine::stages::Cluster;

use crate::args::ClusterArgs;

/// Creates the connections of a session to its workers; `None` if no token for them is given.
pub fn cluster(args: &ClusterArgs) -> Result<Option<Arc<dyn Cluster>>> {
    let Some(file) = &args.workers_token_file else { return Ok(None) };
    let workers = Workers::new(Token::from_file(file)?, args.workers_ca.as_deref())?;
    Ok(Some(Arc::new(workers)))
}

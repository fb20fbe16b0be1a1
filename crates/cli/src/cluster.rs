//! Reaching the workers that `pushdown.workers` names.

use std::sync::Arc;

use anyhow::Result;
use pushdowndb_cluster::{Token, Workers};
use pushdowndb_engine::stages::Cluster;

use crate::args::ClusterArgs;

/// What reaches the workers of a session; `None` without a token for them.
pub fn cluster(args: &ClusterArgs) -> Result<Option<Arc<dyn Cluster>>> {
    let Some(file) = &args.workers_token_file else { return Ok(None) };
    let workers = Workers::new(Token::from_file(file)?, args.workers_ca.as_deref())?;
    Ok(Some(Arc::new(workers)))
}

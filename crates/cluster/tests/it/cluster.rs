//! Workers, and engines that use them.

use std::sync::Arc;

use pushdowndb_cluster::{Token, Worker, WorkerConfig, Workers, serve};
use pushdowndb_engine::stages::Cluster;
use pushdowndb_engine::{ConnectionConfig, Engine, EngineConfig, Report};

use crate::world::{KEY, SECRET, World};

/// The token of the workers here.
pub const TOKEN: &str = "the-token-of-these-tests";

/// What the report of a query says that workers ran.
pub const ON_WORKERS: &str = "stages on workers";

pub fn connection(endpoint: &str) -> ConnectionConfig {
    ConnectionConfig {
        endpoint: Some(endpoint.to_owned()),
        region: Some("us-east-1".to_owned()),
        access_key_id: Some(KEY.to_owned()),
        secret_access_key: Some(SECRET.to_owned()),
        ..ConnectionConfig::default()
    }
}

pub fn token(secret: &str) -> Token {
    Token::new(secret).expect("a token")
}

/// The configuration of a worker that reads from `endpoint`.
pub fn config(endpoint: &str) -> WorkerConfig {
    let near = [("pushdown.reads", "1"), ("pushdown.keep_bytes", "0")];
    let settings = near.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let engine = EngineConfig { connection: connection(endpoint), settings, ..EngineConfig::unrestricted() };
    WorkerConfig { listen: ([127, 0, 0, 1], 0).into(), token: token(TOKEN), tls: None, authorities: None, engine }
}

/// Workers in this process that read from the world's node.
pub async fn workers(world: &World, count: usize) -> Vec<Worker> {
    let mut workers = Vec::new();
    for _ in 0..count {
        workers.push(serve(config(&world.endpoint)).await.expect("a worker"));
    }
    workers
}

/// The setting that names these workers.
pub fn named(workers: &[Worker]) -> String {
    workers.iter().map(Worker::url).collect::<Vec<_>>().join(",")
}

/// An engine at this level with the token of the workers, and with the tables of `schema.sql` below
/// `path`; every query that can run on workers does.
pub async fn engine(world: &World, level: &str, workers: &str, path: Option<&str>) -> Engine {
    engine_with(world, TOKEN, &[("level", level), ("workers", workers), ("distribute", "always")], path).await
}

pub async fn engine_with(world: &World, secret: &str, settings: &[(&str, &str)], path: Option<&str>) -> Engine {
    let cluster: Arc<dyn Cluster> = Arc::new(Workers::new(token(secret), None).expect("a cluster"));
    // Tables here are small, but nodes are asked.
    let near = [("reads", "1"), ("keep_bytes", "0")];
    let settings = near.iter().chain(settings);
    let settings = settings.map(|(name, value)| (format!("pushdown.{name}"), (*value).to_owned())).collect();
    let connection = connection(&world.endpoint);
    let config = EngineConfig { connection, settings, cluster: Some(cluster), ..EngineConfig::unrestricted() };
    let engine = Engine::new(config).await.expect("an engine");
    if let Some(path) = path {
        let script = engine.read_text(&world.url(&format!("{path}/schema.sql"))).await.expect("schema.sql");
        for statement in engine.parse(&script).expect("a script") {
            engine.run(&statement, |_| ()).await.expect("a declaration");
        }
    }
    engine
}

/// Whether workers ran the query of this report.
pub fn ran_on_workers(report: &Report) -> bool {
    report.usage.strategies.iter().any(|told| told.contains(ON_WORKERS))
}

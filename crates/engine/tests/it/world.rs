//! A node with TPC-H data, and engines that read from it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use object_store::aws::AmazonS3;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use pushdowndb_datagen::{Destination, Format, Options};
use pushdowndb_engine::{ConnectionConfig, Engine, EngineConfig, Report};
use pushdowndb_node::{Credentials, Limits, Node, NodeConfig};
use pushdowndb_testkit::{process, repository, s3};
use tempfile::TempDir;

pub const KEY: &str = "test-key";
pub const SECRET: &str = "test-secret-key";

/// Small enough for every test to run every query, large enough for every query to have rows.
pub const SCALE: f64 = 0.01;

/// A server of S3 with a bucket.
pub struct World {
    pub endpoint: String,
    pub bucket: String,
    /// Keeps the server running.
    server: Server,
    _folder: Option<TempDir>,
}

pub enum Server {
    Node(Node),
    Process(#[allow(dead_code, reason = "it ends when it is dropped")] process::Server),
    /// Somebody else's.
    Elsewhere,
}

impl World {
    /// Our node on an empty store with one bucket.
    pub async fn node() -> Self {
        Self::node_with(|_| {}).await
    }

    /// Our node with other limits.
    pub async fn node_with(limit: impl FnOnce(&mut Limits)) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut config = NodeConfig::store(folder.path().join("store"));
        limit(&mut config.limits);
        config.listen = ([127, 0, 0, 1], 0).into();
        config.credentials = Some(Credentials { access_key_id: KEY.to_owned(), secret_access_key: SECRET.to_owned() });
        let node = pushdowndb_node::start(config).await.expect("a node");
        let endpoint = node.endpoint().to_string();
        node.create_bucket("data").await.expect("a bucket");
        Self { endpoint, bucket: "data".to_owned(), server: Server::Node(node), _folder: Some(folder) }
    }

    /// A server that runs already and has the bucket.
    pub fn around(endpoint: String, server: Server, folder: TempDir) -> Self {
        Self { endpoint, bucket: "data".to_owned(), server, _folder: Some(folder) }
    }

    /// Our node, or what stands before it, as somebody else keeps it running.
    pub fn at(endpoint: String) -> Self {
        Self { endpoint, bucket: "data".to_owned(), server: Server::Elsewhere, _folder: None }
    }

    /// Whether it is our own node, which has the fragment route.
    pub fn is_ours(&self) -> bool {
        matches!(self.server, Server::Node(_))
    }

    /// Bytes of objects that our node has looked at to answer what was pushed.
    pub fn scanned_bytes(&self) -> u64 {
        match &self.server {
            Server::Node(node) => node.counters().bytes_scanned,
            Server::Process(_) | Server::Elsewhere => 0,
        }
    }

    /// How many requests of an operation our node has had.
    pub fn requests_of(&self, operation: &str) -> u64 {
        match &self.server {
            Server::Node(node) => node.counters().requests_of(operation),
            Server::Process(_) | Server::Elsewhere => 0,
        }
    }

    pub fn store(&self) -> AmazonS3 {
        s3::bucket(&self.endpoint, &self.bucket, (KEY, SECRET)).build().expect("a client")
    }

    pub fn url(&self, path: &str) -> String {
        format!("s3://{}/{path}", self.bucket)
    }

    pub async fn put(&self, path: &str, bytes: impl Into<PutPayload>) {
        self.store().put(&path.into(), bytes.into()).await.expect("a PUT");
    }

    /// TPC-H below `path`.
    pub async fn tpch(&self, path: &str, format: Format) {
        self.tpch_of(SCALE, path, format).await;
    }

    /// TPC-H of this scale below `path`.
    pub async fn tpch_of(&self, scale: f64, path: &str, format: Format) {
        let store: Arc<dyn ObjectStore> = Arc::new(self.store());
        let destination = Destination { store, prefix: path.into(), url: self.url(path), endpoint: None };
        let options = Options { scale, format, parts: 3, overwrite: false };
        pushdowndb_datagen::generate(options, &destination, |_| {}).await.expect("data");
    }

    /// A session at this level, with the tables of `schema.sql` below `path`.
    pub async fn engine_with(&self, level: &str, path: &str) -> Engine {
        let engine = self.engine(level).await;
        let script = engine.read_text(&self.url(&format!("{path}/schema.sql"))).await.expect("schema.sql");
        for statement in engine.parse(&script).expect("a script") {
            engine.run(&statement, |_| ()).await.expect("a declaration");
        }
        engine
    }

    /// A session at this level.
    pub async fn engine(&self, level: &str) -> Engine {
        self.engine_configured(&[("pushdown.level", level)]).await
    }

    /// A session at this level that keeps what it learns in a folder.
    pub async fn engine_in(&self, level: &str, cache: &std::path::Path) -> Engine {
        self.engine_of(&[("pushdown.level", level)], Some(cache.to_owned())).await
    }

    pub async fn engine_configured(&self, settings: &[(&str, &str)]) -> Engine {
        self.engine_of(settings, None).await
    }

    async fn engine_of(&self, settings: &[(&str, &str)], cache: Option<std::path::PathBuf>) -> Engine {
        let connection = ConnectionConfig {
            endpoint: Some(self.endpoint.clone()),
            region: Some("us-east-1".to_owned()),
            access_key_id: Some(KEY.to_owned()),
            secret_access_key: Some(SECRET.to_owned()),
            ..ConnectionConfig::default()
        };
        // A server near by may answer late on a busy machine; requests are counted all the same.
        // Small tables stand for large ones, which are pushed to.
        let near = [("pushdown.reads", "1"), ("pushdown.keep_bytes", "0")];
        let settings = near.iter().chain(settings).map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Engine::new(EngineConfig { connection, settings, cache, ..EngineConfig::unrestricted() })
            .await
            .expect("an engine")
    }
}

/// Rows as text, in the order they came.
pub type Rows = Vec<Vec<String>>;

/// The rows of a statement on servers that work. None of its scans may have given up what it was
/// planned to push: the rows would be right all the same, and hide what is wrong with the pushdown.
pub async fn rows(engine: &Engine, sql: &str) -> pushdowndb_contract::Result<(Rows, Report)> {
    let (rows, report) = rows_in_spite(engine, sql).await?;
    let given_up: Vec<_> = report.usage.strategies.iter().filter(|told| gave_up(told)).collect();
    assert!(given_up.is_empty(), "{sql}: {given_up:?}");
    Ok((rows, report))
}

/// The rows of a statement where a scan may give up its pushdown: the server, the data or an index
/// is no good.
pub async fn rows_in_spite(engine: &Engine, sql: &str) -> pushdowndb_contract::Result<(Rows, Report)> {
    let mut result = engine.execute(sql).await?;
    let batches = result.collect().await?;
    Ok((text(&batches), result.report()))
}

/// Whether a line of the report says that something was planned to be pushed and then was not.
pub fn gave_up(told: &str) -> bool {
    ["fell back to GET", "without the index", " is not used: "].iter().any(|mark| told.contains(mark))
}

/// What the statement fails with.
pub async fn failure(engine: &Engine, sql: &str) -> pushdowndb_contract::Error {
    match rows(engine, sql).await {
        Ok((rows, _)) => panic!("{sql} gave {rows:?}"),
        Err(error) => error,
    }
}

/// Follows the text of floating-point values: all others are compared to the last digit.
const FLOATING: &str = "f";

pub fn text(batches: &[RecordBatch]) -> Rows {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<_> =
            batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options).expect("a printable type")).collect();
        for row in 0..batch.num_rows() {
            let value = |(c, column): (&ArrayFormatter<'_>, &ArrayRef)| match column.data_type().is_floating() {
                true if column.is_valid(row) => format!("{}{FLOATING}", c.value(row)),
                _ => c.value(row).to_string(),
            };
            rows.push(columns.iter().zip(batch.columns()).map(value).collect());
        }
    }
    rows
}

/// The same rows, in any order; doubles agree to 1e-12.
pub fn assert_same(what: &str, got: &Rows, want: &Rows) {
    if let Some(difference) = differ(got, want) {
        panic!("{what}: {difference}");
    }
}

/// How these rows are not those, in any order.
pub fn differ(got: &Rows, want: &Rows) -> Option<String> {
    let (mut got, mut want) = (got.clone(), want.clone());
    got.sort();
    want.sort();
    if got.len() != want.len() {
        let only = got.iter().find(|row| !want.contains(row)).or_else(|| want.iter().find(|row| !got.contains(row)));
        return Some(format!("{} rows instead of {}, {only:?} for one", got.len(), want.len()));
    }
    let same = |a: &[String], b: &[String]| a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x == y || close(x, y));
    let (a, b) = got.iter().zip(&want).find(|(a, b)| !same(a, b))?;
    Some(format!("{a:?} instead of {b:?}"))
}

fn close(x: &str, y: &str) -> bool {
    // What is wanted may be written in a test.
    let x = x.strip_suffix(FLOATING).map(str::parse::<f64>);
    let y = y.strip_suffix(FLOATING).unwrap_or(y).parse::<f64>();
    x.and_then(Result::ok).zip(y.ok()).is_some_and(|(x, y)| (x - y).abs() <= 1e-12 * x.abs().max(y.abs()))
}

/// The queries of `sql/tpch`, by name.
pub fn queries() -> Vec<(String, String)> {
    let folder = repository().join("sql/tpch");
    let mut queries: Vec<_> = std::fs::read_dir(&folder)
        .expect("sql/tpch")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "sql"))
        .map(|path| {
            let sql = std::fs::read_to_string(&path).expect("a query").replace(';', "");
            (path.file_stem().expect("a name").to_string_lossy().into_owned(), sql)
        })
        .collect();
    queries.sort();
    assert!(queries.len() >= 31, "all queries of {} are there", folder.display());
    queries
}

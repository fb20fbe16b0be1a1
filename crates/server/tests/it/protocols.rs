//! A query gives the same rows, and moves the same bytes from storage, whichever protocol it comes
//! by.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use pushdowndb_datagen::{DataSet, Destination, Format, Options, generate, schema_sql};
use pushdowndb_engine::{AccessPolicy, ConnectionConfig, Engine, EngineConfig};
use pushdowndb_node::{Credentials, Node, NodeConfig};
use pushdowndb_testkit::{python, repository, s3};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::raw;
use crate::world::World;

const KEYS: (&str, &str) = ("test-key", "test-secret-key");

const SCALE: f64 = 0.01;

/// A node with TPC-H.
struct Storage {
    node: Node,
    catalog: String,
    folder: TempDir,
    runtime: Runtime,
}

impl Storage {
    fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut config = NodeConfig::store(folder.path().join("store"));
        config.listen = ([127, 0, 0, 1], 0).into();
        let (id, secret) = KEYS;
        config.credentials = Some(Credentials { access_key_id: id.to_owned(), secret_access_key: secret.to_owned() });
        let node = runtime.block_on(pushdowndb_node::start(config)).unwrap();
        let url = "s3://data/tpch";
        runtime.block_on(async {
            node.create_bucket("data").await.unwrap();
            let store = s3::bucket(node.endpoint().to_string(), "data", KEYS).build().unwrap();
            let destination =
                Destination { store: Arc::new(store), prefix: "tpch".into(), url: url.to_owned(), endpoint: None };
            let options = Options { scale: SCALE, format: Format::Parquet, parts: 3, overwrite: false };
            generate(options, &destination, |_| {}).await.unwrap();
        });
        let catalog = schema_sql(DataSet::Tpch, url, Format::Parquet, SCALE).unwrap();
        Self { node, catalog, folder, runtime }
    }

    /// An engine that knows the tables and has learned nothing.
    fn config(&self, name: &str, level: &str) -> EngineConfig {
        let catalog = self.folder.path().join(format!("{name}-{level}.sql"));
        std::fs::write(&catalog, &self.catalog).unwrap();
        let setting = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        EngineConfig {
            connection: ConnectionConfig {
                endpoint: Some(self.node.endpoint().to_string()),
                region: Some("us-east-1".to_owned()),
                access_key_id: Some(KEYS.0.to_owned()),
                secret_access_key: Some(KEYS.1.to_owned()),
                ..ConnectionConfig::default()
            },
            // How many requests are made at once depends on how fast the machine is.
            settings: vec![setting("pushdown.level", level), setting("pushdown.reads", "1")],
            catalog: Some(catalog),
            ..EngineConfig::unrestricted()
        }
    }

    /// What the node has been asked for.
    fn requests(&self) -> BTreeMap<String, u64> {
        self.node.counters().requests
    }

    /// A server over this storage.
    fn server(&self, name: &str, level: &str) -> World {
        let engine = self.config(name, level);
        World::start_with(|config, _| {
            config.engine = engine;
            config.access = AccessPolicy::nothing().and_read("s3://data/").unwrap();
            config.admin = Some("127.0.0.1:0".parse().unwrap());
        })
    }
}

/// The rows of the queries, and what they moved.
#[derive(Default)]
struct Answered {
    rows: Vec<Vec<Vec<String>>>,
    requests: Vec<BTreeMap<String, u64>>,
    bytes: Vec<u64>,
}

impl Answered {
    /// Runs the queries one after the other. `network` tells the bytes of all queries so far.
    fn of(
        storage: &Storage,
        queries: &[(String, String)],
        network: impl Fn() -> u64,
        run: impl Fn(&str) -> Vec<Vec<String>>,
    ) -> Self {
        let mut answered = Self::default();
        for (_, sql) in queries {
            let (requests, bytes) = (storage.requests(), network());
            answered.rows.push(run(sql));
            let now = storage.requests();
            let since = now.into_iter().map(|(operation, count)| {
                let before = requests.get(&operation).copied().unwrap_or_default();
                (operation, count - before)
            });
            answered.requests.push(since.filter(|(_, count)| *count > 0).collect());
            answered.bytes.push(network() - bytes);
        }
        answered
    }
}

fn text(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        rows.extend((0..batch.num_rows()).map(|row| columns.iter().map(|c| c.value(row).to_string()).collect()));
    }
    rows
}

/// The bytes that the queries of a server have moved, from its metrics.
fn network_bytes(world: &World) -> u64 {
    use std::io::{Read, Write};
    let address = world.server.as_ref().unwrap().admin_address().unwrap();
    let mut socket = std::net::TcpStream::connect(address).unwrap();
    socket.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut metrics = String::new();
    socket.read_to_string(&mut metrics).unwrap();
    let line = metrics.lines().find_map(|line| line.strip_prefix("pushdowndb_sql_network_bytes_total "));
    line.unwrap().parse::<f64>().unwrap() as u64
}

/// Waits until all queries have left their lines in the log, and so their bytes in the metrics.
fn settled(world: &World, queries: u64) -> u64 {
    let began = std::time::Instant::now();
    loop {
        let before = network_bytes(world);
        let counted = world.server.as_ref().unwrap().queries();
        if counted >= queries {
            return network_bytes(world).max(before);
        }
        assert!(began.elapsed().as_secs() < 60, "{counted} of {queries} queries have ended");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// Bytes by which answers of the fragment route differ: they tell two times, in as many digits as
/// these have.
const TIMES_BYTES: u64 = 8;

/// Whether two values are the same, but for the last digits of a floating-point number.
fn is_same(one: &str, other: &str) -> bool {
    one == other
        || one
            .parse::<f64>()
            .ok()
            .zip(other.parse::<f64>().ok())
            .is_some_and(|(one, other)| (one - other).abs() <= 1e-9 * one.abs().max(other.abs()))
}

fn assert_same_rows(what: &str, got: &[Vec<String>], wanted: &[Vec<String>]) {
    assert_eq!(got.len(), wanted.len(), "{what}");
    let (mut got, mut wanted) = (got.to_vec(), wanted.to_vec());
    got.sort();
    wanted.sort();
    for (got, wanted) in got.iter().zip(&wanted) {
        let same = got.len() == wanted.len() && got.iter().zip(wanted).all(|(one, other)| is_same(one, other));
        assert!(same, "{what}: {got:?} is not {wanted:?}");
    }
}

/// The queries of TPC-H by their names.
fn queries(names: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let named = (1..=22).map(|number| format!("q{number:02}")).filter(|name| names(name));
    let read = |name: String| {
        let path = repository().join("sql/tpch").join(format!("{name}.sql"));
        let sql = std::fs::read_to_string(path).unwrap().replace(';', "");
        (name, sql)
    };
    named.map(read).collect()
}

fn compare(storage: &Storage, level: &str, queries: &[(String, String)], are_bytes_compared: bool) {
    let engine = storage.runtime.block_on(Engine::new(storage.config("engine", level))).unwrap();
    let moved = std::cell::Cell::new(0);
    let own = Answered::of(
        storage,
        queries,
        || moved.get(),
        |sql| {
            storage.runtime.block_on(async {
                let mut result = engine.execute(sql).await.unwrap();
                let rows = text(&result.collect().await.unwrap());
                moved.set(moved.get() + result.report().usage.bytes_network);
                rows
            })
        },
    );
    for protocol in ["simple", "extended", "flight"] {
        let world = storage.server(protocol, level);
        let ran = std::cell::Cell::new(0);
        let client = std::cell::RefCell::new(world.flight_client());
        let answered = Answered::of(
            storage,
            queries,
            || settled(&world, ran.get()),
            |sql| {
                ran.set(ran.get() + 1);
                match protocol {
                    "flight" => {
                        let (announced, rows) = world.fetch(&mut client.borrow_mut(), sql).unwrap();
                        assert!(rows.iter().all(|rows| **rows.schema_ref() == announced), "{sql}");
                        text(&rows)
                    }
                    protocol => raw::rows(&world, sql, protocol == "extended"),
                }
            },
        );
        for (at, (name, _)) in queries.iter().enumerate() {
            let what = format!("{name} by {protocol} at level {level}");
            assert_same_rows(&what, &answered.rows[at], &own.rows[at]);
            if are_bytes_compared {
                assert_eq!(answered.requests[at], own.requests[at], "requests of {what}");
                let (got, wanted) = (answered.bytes[at], own.bytes[at]);
                let times = TIMES_BYTES * own.requests[at].get("RunFragment").copied().unwrap_or_default();
                assert!(got.abs_diff(wanted) <= times, "bytes of {what}: {got} instead of {wanted}");
            }
        }
    }
}

#[test]
fn every_protocol_answers_tpch_as_the_engine_does() {
    let storage = Storage::start();
    compare(&storage, "fragment", &queries(|_| true), false);
}

#[test]
fn every_protocol_moves_the_bytes_that_the_engine_moves() {
    let storage = Storage::start();
    // Without joins: what those ask of storage may depend on which side is ready first.
    let queries = queries(|name| ["q01", "q06"].contains(&name));
    for level in ["none", "select", "fragment"] {
        compare(&storage, level, &queries, true);
    }
}

#[test]
fn ibis_answers_tpch_as_the_engine_does() {
    let storage = Storage::start();
    let engine = storage.runtime.block_on(Engine::new(storage.config("engine", "auto"))).unwrap();
    let world = storage.server("ibis", "auto");
    let folder = repository().join("sql/tpch");
    let arguments = [world.address.to_string(), folder.to_str().unwrap().to_owned(), "ibis_tpch".to_owned()];
    let printed = python::run_script("conformance/postgres/reflection.py", arguments);
    let first = printed.lines().next().unwrap();
    if first.starts_with("SKIPPED") {
        println!("{first}");
        return;
    }
    let answers: Vec<Vec<Vec<String>>> = serde_json::from_str(first).unwrap();
    let queries = queries(|_| true);
    assert_eq!(answers.len(), queries.len());
    for ((name, sql), got) in queries.iter().zip(&answers) {
        let rows = storage.runtime.block_on(async { engine.execute(sql).await.unwrap().collect().await.unwrap() });
        assert_same_rows(&format!("{name} by ibis"), got, &text(&rows));
    }
}

//! The examples, run on TPC-H in a node.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;

use pushdowndb_datagen::{Destination, Format, Options, generate};
use pushdowndb_engine::{ConnectionConfig, Engine, EngineConfig};
use pushdowndb_node::{Node, NodeConfig, start};
use pushdowndb_testkit::{python, s3};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A node with TPC-H at scale 0.001 as CSV in the bucket `tpch`; a table is one object.
struct World {
    // Dropped in this order.
    node: Node,
    _runtime: Runtime,
    _folder: TempDir,
}

impl World {
    fn new() -> Self {
        let (runtime, folder) = (Runtime::new().unwrap(), tempfile::tempdir().unwrap());
        let node = runtime.block_on(async {
            let node = start(NodeConfig::store(folder.path())).await.unwrap();
            let keys = node.credentials();
            let connection = ConnectionConfig {
                endpoint: Some(node.endpoint()),
                access_key_id: Some(keys.access_key_id.clone()),
                secret_access_key: Some(keys.secret_access_key.clone()),
                ..ConnectionConfig::default()
            };
            let engine = Engine::new(EngineConfig { connection, ..EngineConfig::unrestricted() }).await.unwrap();
            engine.create_bucket("s3://tpch/").await.unwrap();
            let client =
                s3::bucket(node.endpoint(), "tpch", (&keys.access_key_id, &keys.secret_access_key)).build().unwrap();
            let url = "s3://tpch".to_owned();
            let destination = Destination { store: Arc::new(client), prefix: Default::default(), url, endpoint: None };
            let options = Options { scale: 0.001, format: Format::Csv, parts: 1, overwrite: false };
            generate(options, &destination, |_| {}).await.unwrap();
            node
        });
        Self { node, _runtime: runtime, _folder: folder }
    }

    /// Runs a program with the node's address in its environment, as users do.
    fn run(&self, mut command: Command) -> (String, String) {
        texts(self.with_keys(&mut command).output().unwrap())
    }

    fn with_keys<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let keys = self.node.credentials();
        command
            .env("AWS_ENDPOINT_URL", self.node.endpoint())
            .env("AWS_ACCESS_KEY_ID", &keys.access_key_id)
            .env("AWS_SECRET_ACCESS_KEY", &keys.secret_access_key)
            .env("AWS_REGION", s3::REGION)
    }
}

fn texts(output: Output) -> (String, String) {
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{stdout}{stderr}");
    (stdout, stderr)
}

/// An example that `cargo test` has built.
fn example(name: &str) -> Command {
    let here = std::env::current_exe().unwrap();
    let path: PathBuf = here.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(path.is_file(), "{} is missing: cargo test builds it unless it is given --test", path.display());
    Command::new(path)
}

#[test]
fn the_engine_in_a_program() {
    let mut embed = example("embed");
    embed.args(["s3://tpch/lineitem/", "SELECT count(*) AS rows, max(l_shipdate) AS last FROM 's3://tpch/lineitem/'"]);
    let world = World::new();
    let (stdout, _) = world.run(embed);
    assert!(stdout.contains("| 6005 | 1998-"), "{stdout}");
    assert!(stdout.contains("bytes over the network"), "{stdout}");

    // Another location is none of its.
    let mut other = example("embed");
    other.args(["s3://tpch/orders/", "SELECT count(*) FROM 's3://tpch/lineitem/'"]);
    let refused = world.with_keys(&mut other).output().unwrap();
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("s3://tpch/lineitem"));
}

#[test]
fn a_node_in_a_program() {
    let (stdout, _) = texts(example("node").output().unwrap());
    let bytes = |side: &str| -> u64 {
        let line = stdout.lines().find_map(|line| line.strip_prefix(&format!("filter={side}: 1 row, ")));
        let bytes = line.and_then(|rest| rest.split(' ').next()).and_then(|bytes| bytes.parse().ok());
        bytes.unwrap_or_else(|| panic!("{stdout}"))
    };
    assert!(bytes("compute") > 1_000_000 && bytes("storage") < 10_000, "{stdout}");
}

#[test]
fn s3_select_with_boto3() {
    if !python::has("boto3") {
        return;
    }
    let world = World::new();
    let mut select = Command::new("python3");
    select.args(["s3_select.py", &world.node.endpoint(), "tpch", "region/region.csv"]);
    select.arg("SELECT r_name FROM S3Object WHERE CAST(r_regionkey AS INT) < 2");
    let (stdout, stderr) = world.run(select);
    assert_eq!(stdout, "AFRICA\nAMERICA\n");
    assert!(stderr.contains("bytes scanned"), "{stderr}");
}

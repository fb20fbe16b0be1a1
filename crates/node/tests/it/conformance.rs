//! The conformance suites of `conformance/` against a node, as anybody would run them against any
//! server.

use std::path::Path;

use pushdowndb_node::{Keyring, Node, NodeConfig, start};
use pushdowndb_testkit::python;
use pushdowndb_testkit::skip::show;

/// Below this name buckets are names of hosts.
const DOMAIN: &str = "s3.conformance.test";

/// A key that may only read one bucket, as the suite is told.
const LIMITED: [&str; 3] = ["LIMITEDKEY", "limited-secret", "conformance-limited"];

/// Everything that a suite may ask for.
async fn node(dir: &Path) -> Node {
    let [access, secret, bucket] = LIMITED;
    let keys = format!(
        "[[key]]\naccess_key_id = \"CONFORMANCE\"\nsecret_access_key = \"conformance-secret\"\n\n\
         [[key]]\naccess_key_id = \"{access}\"\nsecret_access_key = \"{secret}\"\nread = [\"{bucket}\"]\n"
    );
    let mut config = NodeConfig::store(dir.join("store"));
    config.keyring = Some(Keyring::parse(&keys).unwrap());
    config.domains = vec![DOMAIN.to_owned()];
    start(config).await.unwrap()
}

async fn run(suite: &str) {
    if !python::has("boto3") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path()).await;
    let mut run = python::script("conformance/run.py");
    run.args(["--suite", suite, "--endpoint", &node.endpoint(), "--domain", DOMAIN])
        .args(["--access-key", "CONFORMANCE", "--secret-key", "conformance-secret", "--limited"])
        .args(LIMITED);
    let text = tokio::task::spawn_blocking(move || python::run(&mut run)).await.unwrap();
    // Programs that are not installed here; what needs no program is never skipped.
    for line in text.lines().filter_map(|line| line.strip_prefix("SKIPPED ")) {
        show(&format!("not run: {line}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s3() {
    run("s3").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn select() {
    run("select").await;
}

/// Serves what the suites are run against until it is killed, in the folder of
/// `PUSHDOWNDB_CONFORMANCE_STORE`:
///
/// ```sh
/// PUSHDOWNDB_CONFORMANCE_STORE=/tmp/store cargo test --release -p pushdowndb-node -- \
///     --exact conformance::serve --ignored --nocapture
/// ```
#[tokio::test(flavor = "multi_thread")]
#[ignore = "serves until it is killed"]
async fn serve() {
    let Ok(dir) = std::env::var("PUSHDOWNDB_CONFORMANCE_STORE") else { return };
    std::fs::create_dir_all(&dir).unwrap();
    let node = node(Path::new(&dir)).await;
    println!("serving {}", node.endpoint());
    node.stopped().await;
}

//! A node that is killed in the middle of an answer and started again, on the same port and store.
//!
//! The node is a process of its own, killed as the kernel would; what it does after its start is
//! all it has. The rows are right whatever the query was at, or the error is that of a server that
//! is gone. `PUSHDOWNDB_SEED` and `PUSHDOWNDB_CASES` as in [`super::sweep`].

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use pushdowndb_contract::ErrorKind;
use pushdowndb_node::{Credentials, NodeConfig};
use pushdowndb_testkit::process;
use pushdowndb_testkit::seed::seed;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::proxy::{Fault, Proxy};
use super::sweep::{OPERATORS, cases, engine, tables};
use crate::world::{KEY, SECRET, World, differ, rows, rows_in_spite};

const STORE: &str = "PUSHDOWNDB_TEST_STORE";
const PORT: &str = "PUSHDOWNDB_TEST_PORT";

/// What the process runs: this test binary, asked for this one test.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by other tests in a process of its own"]
async fn serve_until_killed() {
    let (Ok(store), Ok(port)) = (std::env::var(STORE), std::env::var(PORT)) else { return };
    let mut config = NodeConfig::store(store);
    config.listen = ([127, 0, 0, 1], port.parse().expect("a port")).into();
    config.credentials = Some(Credentials { access_key_id: KEY.to_owned(), secret_access_key: SECRET.to_owned() });
    let node = pushdowndb_node::start(config).await.expect("a node");
    // It is there already after the first start.
    let _ = node.create_bucket("data").await;
    println!("serving {}", node.endpoint());
    node.stopped().await;
}

/// A node in a process of its own.
struct Process {
    child: Mutex<Child>,
    starting: Mutex<Option<JoinHandle<()>>>,
    endpoint: String,
    store: PathBuf,
}

impl Process {
    fn start(store: &Path) -> Arc<Self> {
        let (child, endpoint) = serve(store, "0");
        Arc::new(Self { child: Mutex::new(child), starting: Mutex::default(), endpoint, store: store.to_owned() })
    }

    /// Kills it, and starts it again after a while.
    fn restart(self: &Arc<Self>, pause: Duration) {
        let mut child = self.child.lock().expect("no panic");
        child.kill().expect("killed");
        child.wait().expect("gone");
        let node = Arc::clone(self);
        let starting = std::thread::spawn(move || {
            std::thread::sleep(pause);
            let port = node.endpoint.rsplit(':').next().expect("a port");
            let started = serve(&node.store, port).0;
            *node.child.lock().expect("no panic") = started;
        });
        *self.starting.lock().expect("no panic") = Some(starting);
    }

    /// Returns when it serves again.
    fn wait(&self) {
        if let Some(starting) = self.starting.lock().expect("no panic").take() {
            starting.join().expect("it serves again");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        process::kill(&mut self.child.lock().expect("no panic"));
    }
}

/// Starts a node; it is serving when this returns.
fn serve(store: &Path, port: &str) -> (Child, String) {
    let mut command = process::this_test_binary("faults::restart::serve_until_killed");
    command.envs([(STORE, store.as_os_str()), (PORT, port.as_ref())]).stderr(Stdio::null());
    let (child, endpoint) = process::spawn_until(&mut command, "serving ");
    (child, endpoint.trim_end_matches('/').to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_and_comes_back_in_the_middle_gives_the_rows() {
    let mut random = StdRng::seed_from_u64(seed());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let node = Process::start(&folder.path().join("store"));
    let world = World::at(node.endpoint.clone());
    tables(&world).await;
    let mut failed = 0;
    let all = cases(2 * OPERATORS.len());
    for case in 0..all {
        let operator = OPERATORS[case % OPERATORS.len()];
        let level = *operator.levels.choose(&mut random).expect("a level");
        let plain = rows(&engine(&world, "none", &[]).await, operator.sql).await.expect("rows").0;
        // How many answers there are, and how many messages.
        let proxy = Proxy::start(&world.endpoint, |_, _| None, || {}).await;
        rows(&engine(&World::at(proxy.endpoint()), level, operator.settings).await, operator.sql).await.expect("rows");
        let answers = proxy.seen().answers;
        let request = random.random_range(0..answers.len());
        let messages = random.random_range(0..answers[request].1);
        let pause = Duration::from_millis(random.random_range(0..400));
        let what = format!("{} at {level}, request {request}, message {messages}, {pause:?}", operator.name);

        let died = Arc::new(AtomicBool::new(false));
        let kill = {
            let (node, died) = (Arc::clone(&node), Arc::clone(&died));
            move || {
                died.store(true, Ordering::SeqCst);
                node.restart(pause);
            }
        };
        let strikes = Arc::clone(&died);
        let plan =
            move |place, _| (place == request && !strikes.load(Ordering::SeqCst)).then_some(Fault::Die { messages });
        let proxy = Proxy::start(&world.endpoint, plan, kill).await;
        let engine = engine(&World::at(proxy.endpoint()), level, operator.settings).await;
        match rows_in_spite(&engine, operator.sql).await {
            Ok((got, _)) => assert_eq!(differ(&got, &plain), None, "{what}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{what}: {error}");
                failed += 1;
            }
        }
        assert!(died.load(Ordering::SeqCst), "{what}: it died");
        node.wait();
    }
    println!("{all} deaths, {failed} queries failed");
    assert!(failed * 2 < all, "{failed} of {all} queries failed though the node came back");
}

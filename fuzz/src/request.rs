//! HTTP requests to a node: paths, ranges, signatures and other parts of the head.
//!
//! An input is a request as text, `METHOD TARGET`, then headers, an empty line and a body. It is
//! sent unchanged, signed, or signed and then corrupted.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::{env, fs, panic, process};

use pushdowndb_node::{Credentials, Node, NodeConfig, start};
use tokio::runtime::{Builder, Runtime};

use crate::choices::Choices;
use crate::http::{Connection, Request};

/// A node with a bucket and an object.
struct World {
    connection: Mutex<Connection>,
    _node: Node,
    _runtime: Runtime,
}

/// Whether anything in the process has panicked; a panic in a task of the node does not end the
/// process.
static PANICKED: AtomicBool = AtomicBool::new(false);

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        PANICKED.store(true, Ordering::SeqCst);
        hook(info);
    }));
    let dir = folder();
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let node = runtime.block_on(async {
        let mut config = NodeConfig::store(dir);
        let keys = (crate::http::ACCESS_KEY.to_owned(), crate::http::SECRET_KEY.to_owned());
        config.credentials = Some(Credentials { access_key_id: keys.0, secret_access_key: keys.1 });
        let node = start(config).await.expect("a node");
        node.create_bucket("bucket").await.expect("a bucket");
        node
    });
    let mut connection = Connection::new(node.address());
    let put = Request::parse(b"PUT /bucket/key\r\n\r\nid,name\n1,apple\n2,pear\n").expect("a request");
    let answer = connection.send(&put.signed(0));
    assert!(answer.is_some_and(|answer| answer.starts_with(b"HTTP/1.1 200")), "the object was not stored");
    World { connection: Mutex::new(connection), _node: node, _runtime: runtime }
});

/// Returns the folder for the node's objects, in memory if possible, since requests would wait for
/// the disk otherwise. The fuzzer exits without cleaning up, so each process removes the folders of
/// processes that have ended.
fn folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_owned() } else { env::temp_dir() };
    let prefix = "pushdowndb-fuzz-";
    for entry in fs::read_dir(&base).expect("a folder").flatten() {
        let name = entry.file_name();
        let process: Option<u32> = name.to_str().and_then(|name| name.strip_prefix(prefix)?.parse().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
    base.join(format!("{prefix}{}", process::id()))
}

pub fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    let how = choices.byte();
    let Some(request) = Request::parse(choices.rest()) else { return };
    let bytes = match how % 4 {
        0 => request.unsigned(),
        1 | 2 => request.signed(0),
        _ => request.signed(how / 4),
    };
    WORLD.connection.lock().unwrap_or_else(PoisonError::into_inner).send(&bytes);
    assert!(!PANICKED.load(Ordering::SeqCst), "the node panicked");
}

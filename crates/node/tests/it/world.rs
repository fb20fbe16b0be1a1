//! A node in a folder of its own, and clients for it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use object_store::aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut};
use pushdowndb_node::{Limits, Node, NodeConfig, start};
use pushdowndb_testkit::s3;
use tempfile::TempDir;

pub const BUCKET: &str = "things";

/// A node that serves a fresh store with one bucket.
pub struct World {
    pub dir: TempDir,
    pub node: Node,
}

impl World {
    pub async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// A node with other limits.
    pub async fn with(change: impl FnOnce(&mut Limits)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = NodeConfig::store(dir.path().join("store"));
        change(&mut config.limits);
        let node = start(config).await.unwrap();
        node.create_bucket(BUCKET).await.unwrap();
        Self { dir, node }
    }

    pub fn client(&self) -> AmazonS3 {
        client(&self.node, BUCKET)
    }

    /// Stops the node and starts it again on the same folder.
    pub async fn restart(self) -> Self {
        self.node.shutdown().await;
        let node = serve(self.dir.path()).await;
        Self { dir: self.dir, node }
    }
}

/// A node on the store in `dir`, with one bucket.
pub async fn serve(dir: &Path) -> Node {
    let node = start(NodeConfig::store(dir.join("store"))).await.unwrap();
    node.create_bucket(BUCKET).await.unwrap();
    node
}

/// A client with the node's keys.
pub fn client(node: &Node, bucket: &str) -> AmazonS3 {
    builder(node, bucket).build().unwrap()
}

pub fn builder(node: &Node, bucket: &str) -> AmazonS3Builder {
    let keys = node.credentials();
    s3::bucket(node.endpoint(), bucket, (&keys.access_key_id, &keys.secret_access_key))
        .with_conditional_put(S3ConditionalPut::ETagMatch)
}

/// Sends a request as it is and returns all of the answer.
pub fn raw(node: &Node, request: &str) -> String {
    let mut stream = TcpStream::connect(node.address()).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

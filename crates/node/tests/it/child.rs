//! A node in a process of its own, to be killed or measured from outside.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use object_store::RetryConfig;
use object_store::aws::AmazonS3;
use pushdowndb_node::{NodeConfig, start};
use pushdowndb_testkit::{process, s3};

use crate::world::BUCKET;

const STORE: &str = "PUSHDOWNDB_TEST_STORE";

/// What the process runs: this test binary, asked for this one test.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by other tests in a process of its own"]
async fn serve_until_killed() {
    let Ok(dir) = std::env::var(STORE) else { return };
    let mut config = NodeConfig::store(Path::new(&dir).join("store"));
    // Parts of any size, so that uploads take no longer than other writes.
    config.limits.part_min_bytes = 1;
    let node = start(config).await.unwrap();
    node.create_bucket(BUCKET).await.unwrap();
    println!("serving {}", node.endpoint());
    node.stopped().await;
}

/// The process. Dropping it kills it.
pub struct Child {
    process: std::process::Child,
    endpoint: String,
    dir: PathBuf,
}

impl Child {
    /// Serves the store in `dir`; it is serving when this returns.
    pub fn serve(dir: &Path) -> Self {
        let mut command = process::this_test_binary("child::serve_until_killed");
        let (process, endpoint) = process::spawn_until(command.env(STORE, dir).stderr(Stdio::null()), "serving ");
        Self { process, endpoint, dir: dir.to_owned() }
    }

    /// A client that does not try again.
    pub fn client(&self) -> AmazonS3 {
        let keys = fs::read(self.dir.join("store/credentials.json")).unwrap();
        let keys: serde_json::Value = serde_json::from_slice(&keys).unwrap();
        let text = |name: &str| keys[name].as_str().unwrap();
        s3::bucket(&self.endpoint, BUCKET, (text("access_key_id"), text("secret_access_key")))
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
            .build()
            .unwrap()
    }

    /// Its peak memory in bytes, if the system reports it.
    pub fn peak_bytes(&self) -> Option<u64> {
        process::peak_bytes(self.process.id())
    }

    /// Kills it as the kernel would, with no chance to tidy up.
    pub fn kill(&mut self) {
        process::kill(&mut self.process);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

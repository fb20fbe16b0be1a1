//! A node in a process of its own, to be killed or measured from outside.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};

use object_store::RetryConfig;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use pushdowndb_node::{NodeConfig, start};

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
    process: process::Child,
    endpoint: String,
    dir: PathBuf,
}

impl Child {
    /// Serves the store in `dir`; it is serving when this returns.
    pub fn serve(dir: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child::serve_until_killed", "--ignored", "--nocapture"])
            .env(STORE, dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let served = |line: String| line.split_once("serving ").map(|(_, endpoint)| endpoint.to_owned());
        let endpoint = lines.map_while(Result::ok).find_map(served).unwrap();
        Self { process, endpoint, dir: dir.to_owned() }
    }

    /// A client that does not try again.
    pub fn client(&self) -> AmazonS3 {
        let keys = fs::read(self.dir.join("store/credentials.json")).unwrap();
        let keys: serde_json::Value = serde_json::from_slice(&keys).unwrap();
        AmazonS3Builder::new()
            .with_endpoint(&self.endpoint)
            .with_allow_http(true)
            .with_region("us-east-1")
            .with_bucket_name(BUCKET)
            .with_access_key_id(keys["access_key_id"].as_str().unwrap())
            .with_secret_access_key(keys["secret_access_key"].as_str().unwrap())
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
            .build()
            .unwrap()
    }

    /// The most memory it has held so far, in MiB, where the system tells.
    pub fn peak_mib(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
        Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024)
    }

    /// Kills it as the kernel would, with no chance to tidy up.
    pub fn kill(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

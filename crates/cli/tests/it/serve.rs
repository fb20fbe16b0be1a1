//! `serve` with a bucket, generated data, queries at both levels, and a clean stop.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use pushdowndb_testkit::program::Outcome;
use pushdowndb_testkit::{process, s3};
use serde_json::Value;

use crate::pushdowndb;

pub const KEY: &str = "test-key";
pub const SECRET: &str = "test-secret";

/// A running node, stopped at the latest when the test ends.
pub struct Served {
    child: Option<Child>,
    pub endpoint: String,
}

impl Served {
    pub fn start(args: &[&str]) -> Self {
        Self::start_with(&[], args)
    }

    /// With these variables.
    pub fn start_with(variables: &[(&str, &str)], args: &[&str]) -> Self {
        let mut command = pushdowndb(["serve", "--listen", "127.0.0.1:0"].iter().chain(args));
        command.envs(variables.iter().copied());
        Self::run(command)
    }

    /// A node that a command starts, which prints where it serves.
    pub fn run(mut command: Command) -> Self {
        command.env("PUSHDOWNDB_ACCESS_KEY_ID", KEY).env("PUSHDOWNDB_SECRET_ACCESS_KEY", SECRET);
        let (child, endpoint) = process::spawn_until(command.stderr(Stdio::piped()), "serving S3 on ");
        Self { child: Some(child), endpoint }
    }

    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The most memory that the process held so far, in bytes.
    pub fn peak_bytes(&self) -> u64 {
        process::peak_bytes(self.id()).unwrap()
    }

    pub fn client(&self, args: &[&str]) -> Outcome {
        self.client_with(&[], args)
    }

    /// With these variables.
    pub fn client_with(&self, variables: &[(&str, &str)], args: &[&str]) -> Outcome {
        let mut command = pushdowndb(args);
        command.envs(variables.iter().copied());
        command.env("AWS_ENDPOINT_URL", &self.endpoint).env("AWS_REGION", "us-east-1");
        command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
        Outcome::of(&mut command)
    }

    pub fn stop(mut self, signal: &str) -> Outcome {
        self.signal(signal);
        Outcome(self.child.take().unwrap().wait_with_output().unwrap())
    }

    pub fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.id().to_string()]).status().unwrap().success());
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Returns the following lines of stderr.
    pub fn stderr(&mut self) -> impl Iterator<Item = String> + use<> {
        let stderr = self.child.as_mut().unwrap().stderr.take().unwrap();
        BufReader::new(stderr).lines().map_while(Result::ok)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            process::kill(&mut child);
        }
    }
}

#[test]
fn a_node_serves_generated_data_at_both_levels() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let node = Served::start(&["--store", store.to_str().unwrap()]);
    let generate = ["generate", "tpch", "--scale", "0.001", "--parts", "2", "--to", "s3://bench/tpch"];
    assert!(node.client(&generate).fails(3).contains("bench"), "the bucket is missing");
    node.client(&[&generate[..], &["--create-bucket"]].concat()).ok();

    let mut bytes = Vec::new();
    let mut answers = Vec::new();
    for level in ["none", "select"] {
        let level = format!("pushdown.level={level}");
        let q6 = "../../sql/tpch/q06.sql";
        let args =
            ["--set", &level, "--stats", "json", "--format", "csv", "-f", "s3://bench/tpch/schema.sql", "-f", q6];
        let done = node.client(&args);
        answers.push(done.ok());
        let stats: Value = serde_json::from_str(done.stderr().trim()).unwrap();
        bytes.push(stats["bytes_network"].as_u64().unwrap());
    }
    assert_eq!(answers[0], answers[1]);
    assert!(bytes[1] * 4 < bytes[0], "{bytes:?}");

    let denied =
        ["--access-key-id", KEY, "--secret-access-key", "wrong", "-c", "SELECT * FROM 's3://bench/tpch/nation/'"];
    node.client(&denied).fails(4);
    node.client(&["-c", "SELECT * FROM 's3://no-such-bucket/x.csv'"]).fails(3);
    node.stop("-TERM").ok();

    // Objects outlive the node.
    let node = Served::start(&["--store", store.to_str().unwrap()]);
    let count =
        node.client(&["--format", "csv", "-c", "SELECT count(*) AS n FROM 's3://bench/tpch/nation/nation.csv'"]);
    assert_eq!(count.ok(), "n\n25\n");
    node.stop("-INT").ok();
}

/// Returns a temporary folder and the path of a bucket in it with two rows in `t.csv`.
fn folder_with_a_table() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let bucket = dir.path().join("bucket");
    std::fs::create_dir(&bucket).unwrap();
    std::fs::write(bucket.join("t.csv"), "a,b\n1,x\n2,y\n").unwrap();
    let bucket = bucket.to_str().unwrap().to_owned();
    (dir, bucket)
}

#[test]
fn a_gateway_serves_a_folder_as_it_is() {
    let (_dir, bucket) = folder_with_a_table();
    let node = Served::start(&["--gateway", &bucket]);
    let rows = node.client(&["--format", "csv", "-c", "SELECT b FROM 's3://bucket/t.csv' WHERE a = 2"]);
    assert_eq!(rows.ok(), "b\ny\n");
    node.stop("-TERM").ok();
}

#[test]
fn a_node_that_only_stores_is_read_plainly() {
    let (_dir, bucket) = folder_with_a_table();
    let node = Served::start(&["--gateway", &bucket, "--max-scans", "0", "--max-scans-waiting", "0"]);
    let sql = "SELECT b FROM 's3://bucket/t.csv' WHERE a = 2";
    // A table this small would be kept, not pushed to.
    let set = ["--set", "pushdown.level=auto", "--set", "pushdown.keep_bytes=0"];
    let done = node.client(&[&set[..], &["--stats", "json", "--format", "csv", "-c", sql]].concat());
    assert_eq!(done.ok(), "b\ny\n");
    let stats: Value = serde_json::from_str(done.stderr().lines().last().unwrap()).unwrap();
    assert!(stats["requests"]["get"].as_u64().unwrap() > 0, "{stats}");
    assert!(stats["strategies"].to_string().contains("storage was busy"), "it was asked first: {stats}");
}

/// A client of the bucket `bucket` that does not try again.
fn client(endpoint: &str) -> object_store::aws::AmazonS3 {
    let retry = object_store::RetryConfig { max_retries: 0, ..Default::default() };
    s3::bucket(endpoint, "bucket", (KEY, SECRET)).with_retry(retry).build().unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// The path and query of a presigned GET.
fn presigned(endpoint: &str, key: &str) -> String {
    use object_store::signer::Signer;
    let (path, valid) = (object_store::path::Path::from(key), std::time::Duration::from_secs(60));
    let url = runtime().block_on(client(endpoint).signed_url(http::Method::GET, &path, valid)).unwrap();
    format!("{}?{}", url.path(), url.query().unwrap())
}

/// The data file of the one object whose bytes are all this one.
fn data_file(store: &std::path::Path, byte: u8) -> std::path::PathBuf {
    let folders = std::fs::read_dir(store.join("data")).unwrap().map(|folder| folder.unwrap().path());
    let mut files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()));
    files.find(|file| std::fs::read(file).unwrap().first() == Some(&byte)).unwrap()
}

#[test]
fn damage_is_logged_with_the_key_of_the_object() {
    use object_store::ObjectStoreExt;
    use object_store::path::Path;
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let node = Served::start(&["--store", store.to_str().unwrap(), "--log-format", "json"]);
    node.client(&["generate", "floats", "--scale", "0.001", "--to", "s3://bucket/any", "--create-bucket"]).ok();
    let (client, runtime) = (client(&node.endpoint), runtime());
    let keys = ["a/cut-short", "a/missing", "a/copied"];
    for (byte, key) in (1..).zip(keys) {
        runtime.block_on(client.put(&Path::from(key), vec![byte; 3 << 20].into())).unwrap();
    }
    for byte in [1, 3] {
        std::fs::File::options().write(true).open(data_file(&store, byte)).unwrap().set_len(1 << 20).unwrap();
    }
    std::fs::remove_file(data_file(&store, 2)).unwrap();
    for key in ["a/cut-short", "a/missing"] {
        let read = runtime.block_on(async { client.get(&Path::from(key)).await?.bytes().await });
        assert!(read.is_err(), "{key}: {read:?}");
    }
    // Another checksum than the object has makes its bytes be read.
    let address = node.endpoint.strip_prefix("http://").unwrap();
    let headers = [("x-amz-copy-source", "/bucket/a/copied"), ("x-amz-checksum-algorithm", "SHA1")];
    let head = s3::signed_head(address, (KEY, SECRET), ("PUT", "/bucket/copy"), &headers, s3::Payload::Signed(&[]));
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "{head}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 5"), "{answer}");

    let log = node.stop("-TERM").stderr();
    let events: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for key in keys {
        // Beside the line that each request has.
        let named = events.iter().find(|event| {
            let is_alarm = event["level"] == "ERROR" || event["level"] == "WARN";
            is_alarm && event["target"] != "pushdowndb::request" && event.to_string().contains(key)
        });
        let named = named.unwrap_or_else(|| panic!("{key} is not named: {log}"));
        assert!(named.to_string().contains("bucket"), "{named}");
    }
    let failed = events.iter().find(|event| event["target"] == "pushdowndb::request" && event["status"] == 500);
    assert_eq!(failed.unwrap_or_else(|| panic!("{log}"))["level"], "WARN");
}

#[test]
fn each_request_is_logged_and_no_secret_is() {
    let (_dir, bucket) = folder_with_a_table();
    // Whatever a filter lets through, signatures are not among it.
    let node = Served::start(&["--gateway", &bucket, "--log-format", "json", "--log", "trace"]);
    node.client(&["--format", "csv", "-c", "SELECT b FROM 's3://bucket/t.csv' WHERE a = 2"]).ok();
    let denied = ["--access-key-id", KEY, "--secret-access-key", "wrong", "-c", "SELECT * FROM 's3://bucket/t.csv'"];
    node.client(&denied).fails(4);
    let target = presigned(&node.endpoint, "t.csv");
    let address = node.endpoint.strip_prefix("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("2,y\n"), "{answer}");

    let log = node.stop("-TERM").stderr();
    let signature = target.split("X-Amz-Signature=").nth(1).unwrap();
    for secret in [SECRET, signature, "Authorization", "Signature="] {
        assert!(!log.contains(secret), "the log holds {secret}");
    }
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let requests: Vec<Value> = events.filter(|event| event["target"] == "pushdowndb::request").collect();
    let of = |operation: &str, status: u64| {
        let mut found = requests.iter().filter(|event| event["operation"] == operation && event["status"] == status);
        found.next().unwrap_or_else(|| panic!("no {operation} {status} in {log}"))
    };
    let read = of("GetObject", 200);
    assert_eq!((&read["key"], &read["outcome"]), (&Value::from("t.csv"), &Value::from("complete")), "{read}");
    assert_eq!(read["id"].as_str().unwrap().len(), 32);
    assert!(requests.iter().any(|event| event["code"] == "SignatureDoesNotMatch"), "{log}");
}

#[test]
fn credentials_are_made_and_only_their_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = pushdowndb(["serve", "--listen", "127.0.0.1:0", "--store", dir.path().to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let done = Outcome(child.wait_with_output().unwrap());
    assert_eq!(done.code(), 0, "{}", done.stderr());
    let shown = done.stderr();
    let file =
        shown.lines().find_map(|line| line.strip_prefix("credentials: in ")).unwrap_or_else(|| panic!("{shown}"));
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert!(!shown.contains(kept["secret_access_key"].as_str().unwrap()));
}

#[test]
fn what_cannot_start_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().to_str().unwrap();
    let half = pushdowndb(["serve", "--store", store]).env("PUSHDOWNDB_ACCESS_KEY_ID", "a").output().unwrap();
    assert!(Outcome(half).fails(2).contains("both"));
    let gateway = pushdowndb(["serve", "--gateway", store]).output().unwrap();
    assert!(Outcome(gateway).fails(2).contains("PUSHDOWNDB_ACCESS_KEY_ID"));
    for (flag, value) in [
        ("--max-requests", "0"),
        ("--max-connections", "0"),
        ("--max-scans", "none"),
        ("--scan-threads", "0"),
        ("--log", "pushdowndb=quiet"),
        ("--domain", "http://s3.example.com"),
        ("--domain", "s3.example.com:9000"),
    ] {
        let refused = pushdowndb(["serve", "--store", store, flag, value]).output().unwrap();
        assert!(Outcome(refused).fails(2).contains(flag), "{flag} {value}");
    }
    let mut nowhere = pushdowndb(["serve", "--gateway", "s3://"]);
    nowhere.env("PUSHDOWNDB_ACCESS_KEY_ID", "a").env("PUSHDOWNDB_SECRET_ACCESS_KEY", "secret-of-a");
    assert!(Outcome(nowhere.output().unwrap()).fails(2).contains("names no bucket"));
}

#[test]
fn keys_are_read_again_at_a_hangup() {
    let dir = tempfile::tempdir().unwrap();
    let (store, file) = (dir.path().join("store"), dir.path().join("keys.toml"));
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write("[[key]]\naccess_key_id = \"first\"\nsecret_access_key = \"first-secret\"\n");
    let mut served = Served::start(&["--store", store.to_str().unwrap(), "--credentials", file.to_str().unwrap()]);
    let child = served.child.as_mut().unwrap();
    let (id, stderr) = (child.id().to_string(), child.stderr.take().unwrap());
    let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
    let mut hang_up = |said: &str| {
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
        lines.find(|line| line.starts_with("credentials: ") && line.contains(said)).unwrap();
    };
    // An invalid file is reported, and changes nothing.
    write("[[key]]\naccess_key_id = \"second\"\n");
    hang_up("the old ones stay in use");
    write("[[key]]\naccess_key_id = \"second\"\nsecret_access_key = \"second-secret\"\n");
    hang_up("read again");
    let code = |id: &str| {
        let mut command = pushdowndb(["-c", "SELECT * FROM 's3://none/x.csv'"]);
        command.env("AWS_ENDPOINT_URL", &served.endpoint).env("AWS_REGION", "us-east-1");
        command.env("AWS_ACCESS_KEY_ID", id).env("AWS_SECRET_ACCESS_KEY", format!("{id}-secret"));
        Outcome::of(&mut command).stderr()
    };
    assert!(code("first").contains("403 Forbidden"), "{}", code("first"));
    assert!(code("second").contains("NoSuchBucket"), "{}", code("second"));
}

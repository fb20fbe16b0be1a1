//! A bucket of another server, served through a gateway: by a second node of ours and by MinIO.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions,
    PutPayload,
};
use pushdowndb_node::{Backing, Credentials, Gateway, Node, NodeConfig, start};
use tempfile::TempDir;
use url::Url;

use crate::wire;
use crate::world::{BUCKET, World, client};

/// A gateway in front of `bucket/below` at another server.
async fn gateway(endpoint: &str, keys: &Credentials, change: impl FnOnce(&mut Gateway)) -> Node {
    let mut gateway = Gateway::new(Url::parse(&format!("s3://{BUCKET}/below")).unwrap());
    gateway.endpoint = Some(endpoint.to_owned());
    let option = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    gateway.options = vec![
        option("aws_access_key_id", &keys.access_key_id),
        option("aws_secret_access_key", &keys.secret_access_key),
        option("aws_region", "us-east-1"),
    ];
    change(&mut gateway);
    let mut config = NodeConfig::new(Backing::Gateway(gateway));
    config.limits.upstream_part_bytes = 5 << 20;
    start(config).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn in_front_of_a_node() {
    let behind = World::new().await;
    let endpoint = behind.node.endpoint();
    let front = gateway(&endpoint, behind.node.credentials(), |_| {}).await;
    serves(&client(&front, BUCKET), &behind.client()).await;
    selects(&front);

    let read_only = gateway(&endpoint, behind.node.credentials(), |gateway| gateway.read_only = true).await;
    let reader = client(&read_only, BUCKET);
    assert_eq!(reader.get(&Path::from("a/b")).await.unwrap().bytes().await.unwrap(), "deep");
    assert!(matches!(reader.put(&Path::from("n"), "n".into()).await, Err(Error::PermissionDenied { .. })));
    assert!(matches!(reader.delete(&Path::from("a/b")).await, Err(Error::PermissionDenied { .. })));

    // The gateway's own credentials are what counts behind it, and its refusal does not tell them.
    let wrong = Credentials { access_key_id: "nobody".into(), secret_access_key: "wrong-secret".into() };
    let refused = gateway(&endpoint, &wrong, |_| {}).await;
    let error = client(&refused, BUCKET).get(&Path::from("a/b")).await.unwrap_err();
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error:?}");
    assert!(!format!("{error:?}").contains("nobody"), "{error:?}");

    // Nobody there is an error that may be tried again.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut config = NodeConfig::new(Backing::Gateway(Gateway {
        endpoint: Some(format!("http://{gone}")),
        options: vec![("aws_access_key_id".into(), "a".into()), ("aws_secret_access_key".into(), "b".into())],
        ..Gateway::new(Url::parse("s3://things").unwrap())
    }));
    config.limits.upstream_wait = Duration::from_millis(100);
    let alone = start(config).await.unwrap();
    let retry = object_store::RetryConfig { max_retries: 0, ..Default::default() };
    let alone = crate::world::builder(&alone, BUCKET).with_retry(retry).build().unwrap();
    let error = alone.get(&Path::from("x")).await.unwrap_err().to_string();
    assert!(error.contains("503"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_front_of_minio() {
    let Some(minio) = Minio::start() else {
        writeln!(std::io::stderr(), "SKIPPED: MinIO is not built; .ci/minio builds it").unwrap();
        return;
    };
    let front = gateway(&minio.endpoint, &Minio::keys(), |_| {}).await;
    serves(&client(&front, BUCKET), &minio.client()).await;
    selects(&front);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_front_of_a_web_server() {
    let site = WebServer::start("id,name\n1,one\n2,two\n3,three\n");
    let mut gateway = Gateway::new(Url::parse(&format!("http://{}/data", site.address)).unwrap());
    gateway.bucket = Some(BUCKET.to_owned());
    gateway.read_only = true;
    let front = start(NodeConfig::new(Backing::Gateway(gateway))).await.unwrap();
    let client = client(&front, BUCKET);
    let path = Path::from("t.csv");
    let got = client.get(&path).await.unwrap();
    assert_eq!(got.meta.e_tag.as_deref(), Some("\"v1\""));
    assert_eq!(got.bytes().await.unwrap(), *site.text);
    assert_eq!(client.get_range(&path, 8..13).await.unwrap(), "1,one");
    assert!(matches!(client.get(&Path::from("missing")).await, Err(Error::NotFound { .. })));
    let retry = object_store::RetryConfig { max_retries: 0, ..Default::default() };
    let impatient = crate::world::builder(&front, BUCKET).with_retry(retry).build().unwrap();
    assert!(impatient.list(None).try_collect::<Vec<_>>().await.is_err(), "it cannot list");
    selects(&front);
}

/// A server of one page that knows HEAD, GET and ranges, and the ETag `"v1"`.
struct WebServer {
    address: std::net::SocketAddr,
    text: &'static str,
}

impl WebServer {
    fn start(text: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                    head.push(byte[0]);
                }
                let head = String::from_utf8_lossy(&head).to_lowercase();
                let range = head.lines().find_map(|line| line.strip_prefix("range: bytes=")?.split_once('-'));
                let range = range.map(|(from, to)| (from.parse::<usize>().unwrap(), to.parse::<usize>().unwrap() + 1));
                let (status, extra, body) = match range {
                    _ if head.starts_with("propfind") => ("405 Method Not Allowed", String::new(), ""),
                    _ if !head.contains(" /data/t.csv ") => ("404 Not Found", String::new(), ""),
                    None => ("200 OK", String::new(), text),
                    Some((from, to)) => {
                        let to = to.min(text.len());
                        let place = format!("Content-Range: bytes {from}-{}/{}\r\n", to - 1, text.len());
                        ("206 Partial Content", place, &text[from..to])
                    }
                };
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\nETag: \"v1\"\r\nLast-Modified: Sat, 01 Nov 2025 10:00:00 GMT\r\n{extra}\
                     Content-Length: {}\r\nConnection: close\r\n\r\n{}",
                    body.len(),
                    if head.starts_with("head") { "" } else { body },
                );
            }
        });
        Self { address, text }
    }
}

/// What a client of the gateway sees and does, checked against what is behind it.
async fn serves(front: &AmazonS3, behind: &AmazonS3) {
    let below = |key: &str| Path::from(format!("below/{key}"));
    behind.put(&Path::from("outside"), "not served".into()).await.unwrap();
    for (key, text) in [("a/b", "deep"), ("a-b", "dash"), ("a/c/d", "deeper"), ("b", "0123456789"), ("empty", "")] {
        behind.put(&below(key), text.into()).await.unwrap();
    }

    // Reads: whole, ranged, conditional, missing.
    let b = Path::from("b");
    let got = front.get(&b).await.unwrap();
    let etag = got.meta.e_tag.clone();
    assert_eq!(etag, behind.head(&below("b")).await.unwrap().e_tag);
    assert_eq!(got.bytes().await.unwrap(), "0123456789");
    assert_eq!(front.get_range(&b, 2..5).await.unwrap(), "234");
    assert_eq!(front.get(&Path::from("empty")).await.unwrap().bytes().await.unwrap(), "");
    let conditional = GetOptions { if_none_match: etag.clone(), ..GetOptions::default() };
    assert!(matches!(front.get_opts(&b, conditional).await, Err(Error::NotModified { .. })));
    let stale = GetOptions { if_match: Some("\"stale\"".into()), ..GetOptions::default() };
    assert!(matches!(front.get_opts(&b, stale).await, Err(Error::Precondition { .. })));
    for missing in ["outside", "no-such", "../outside", "a"] {
        let error = front.get(&Path::from(missing)).await.unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{missing}: {error:?}");
    }

    // Listings: whole, rolled up, in pages of one.
    let names = |listed: Vec<object_store::ObjectMeta>| -> Vec<String> {
        listed.into_iter().map(|meta| meta.location.to_string()).collect()
    };
    let all = ["a-b", "a/b", "a/c/d", "b", "empty"];
    assert_eq!(names(front.list(None).try_collect().await.unwrap()), all);
    let rolled = front.list_with_delimiter(None).await.unwrap();
    assert_eq!(names(rolled.objects), ["a-b", "b", "empty"]);
    assert_eq!(rolled.common_prefixes, [Path::from("a")]);
    assert_eq!(paged(front, "").await, all);
    assert_eq!(paged(front, "/").await, ["a-b", "a/", "b", "empty"]);

    // Writes: what a client says of the object arrives behind.
    let mut attributes = Attributes::new();
    attributes.insert(Attribute::ContentType, "text/csv".into());
    attributes.insert(Attribute::Metadata("colour".into()), "blue".into());
    let options = PutOptions { attributes: attributes.clone(), ..PutOptions::default() };
    let put = front.put_opts(&Path::from("new"), "fresh".into(), options).await.unwrap();
    let seen = behind.get(&below("new")).await.unwrap();
    assert_eq!((seen.attributes.clone(), seen.meta.e_tag.clone()), (attributes.clone(), put.e_tag));
    assert_eq!(seen.bytes().await.unwrap(), "fresh");
    let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    let twice = front.put_opts(&Path::from("new"), "again".into(), create).await;
    assert!(matches!(twice, Err(Error::AlreadyExists { .. } | Error::Precondition { .. })), "{twice:?}");
    front.copy(&Path::from("new"), &Path::from("copied")).await.unwrap();
    assert_eq!(behind.get(&below("copied")).await.unwrap().bytes().await.unwrap(), "fresh");

    // In parts, larger than one request behind: the bytes arrive whole or not at all.
    let parts: Vec<Vec<u8>> = (1..=3).map(|part: u8| vec![part; 6 << 20]).collect();
    let options = PutMultipartOptions { attributes: attributes.clone(), ..PutMultipartOptions::default() };
    let mut upload = front.put_multipart_opts(&Path::from("large"), options.clone()).await.unwrap();
    for part in &parts {
        upload.put_part(PutPayload::from(part.clone())).await.unwrap();
    }
    assert!(matches!(behind.head(&below("large")).await, Err(Error::NotFound { .. })), "visible too early");
    upload.complete().await.unwrap();
    let seen = behind.get(&below("large")).await.unwrap();
    assert_eq!(seen.attributes, attributes);
    assert!(seen.bytes().await.unwrap() == parts.concat(), "other bytes");
    let back = front.get(&Path::from("large")).await.unwrap().bytes().await.unwrap();
    assert!(back == parts.concat(), "other bytes");
    let mut given_up = front.put_multipart_opts(&Path::from("given-up"), options).await.unwrap();
    given_up.put_part(PutPayload::from(parts[0].clone())).await.unwrap();
    given_up.abort().await.unwrap();

    front.delete(&Path::from("large")).await.unwrap();
    front.delete(&Path::from("new")).await.unwrap();
    front.delete(&Path::from("never-was")).await.unwrap();
    assert!(matches!(behind.head(&below("large")).await, Err(Error::NotFound { .. })));
    let left: Vec<_> = behind.list(None).map_ok(|meta| meta.location.to_string()).try_collect().await.unwrap();
    assert_eq!(left, ["below/a-b", "below/a/b", "below/a/c/d", "below/b", "below/copied", "below/empty", "outside"]);

    // What the node refuses of an upload never reaches the server behind.
    behind.put(&below("t.csv"), "id,name\n1,one\n2,two\n3,three\n".into()).await.unwrap();
}

/// All keys and rolled-up prefixes, asked for one at a time.
async fn paged(front: &AmazonS3, delimiter: &str) -> Vec<String> {
    use object_store::list::{PaginatedListOptions, PaginatedListStore};
    let mut found = Vec::new();
    let mut token = None;
    loop {
        let options = PaginatedListOptions {
            max_keys: Some(1),
            delimiter: (!delimiter.is_empty()).then(|| delimiter.to_owned().into()),
            page_token: token,
            ..PaginatedListOptions::default()
        };
        let page = front.list_paginated(None, options).await.unwrap();
        found.extend(page.result.objects.into_iter().map(|meta| meta.location.to_string()));
        found.extend(page.result.common_prefixes.into_iter().map(|prefix| format!("{prefix}/")));
        assert!(found.len() < 20, "{found:?}");
        token = page.page_token;
        if token.is_none() {
            return found;
        }
    }
}

/// S3 Select runs in the gateway, over ranged reads of what is behind it.
fn selects(front: &Node) {
    let sql = wire::select_csv("USE", "SELECT s.name FROM S3Object s WHERE CAST(s.id AS INT) > 1");
    let answer = wire::rest(wire::send(front, "POST", "/things/t.csv?select&select-type=2", &sql));
    assert!(answer.contains("two\nthree\n") && answer.contains("End"), "{answer}");
}

/// A MinIO of its own, stopped with the test.
struct Minio {
    process: Child,
    endpoint: String,
    _dir: TempDir,
}

impl Minio {
    fn keys() -> Credentials {
        Credentials { access_key_id: "minioadmin".into(), secret_access_key: "minioadmin".into() }
    }

    fn start() -> Option<Self> {
        let cache = std::env::var_os("PUSHDOWNDB_CACHE").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/pushdowndb")))?;
        let minio = cache.join("bin/minio");
        if !minio.exists() {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(BUCKET)).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let process = Command::new(minio)
            .args(["server", "--quiet", "--address", &address])
            .arg(dir.path())
            .env("MINIO_ROOT_USER", "minioadmin")
            .env("MINIO_ROOT_PASSWORD", "minioadmin")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let minio = Self { process, endpoint: format!("http://{address}"), _dir: dir };
        let since = Instant::now();
        while std::net::TcpStream::connect(&address).is_err() {
            assert!(since.elapsed() < Duration::from_secs(60), "MinIO does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(minio)
    }

    fn client(&self) -> AmazonS3 {
        let keys = Self::keys();
        AmazonS3Builder::new()
            .with_endpoint(&self.endpoint)
            .with_allow_http(true)
            .with_region("us-east-1")
            .with_bucket_name(BUCKET)
            .with_access_key_id(keys.access_key_id)
            .with_secret_access_key(keys.secret_access_key)
            .build()
            .unwrap()
    }
}

impl Drop for Minio {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

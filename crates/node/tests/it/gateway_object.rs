//! A bucket of another server, served through a gateway: of a second node of ours, of MinIO, of
//! clouds.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use futures::TryStreamExt;
use object_store::aws::AmazonS3;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions,
    PutPayload, UpdateVersion,
};
use pushdowndb_node::{Credentials, Gateway, Node, NodeConfig, Storage, start};
use url::Url;

use crate::foreign::{Azurite, Gcs, Minio};
use crate::wire;
use crate::world::{BUCKET, World, client};

/// A gateway in front of `bucket/below` at another server that speaks S3.
async fn gateway(endpoint: &str, keys: &Credentials, change: impl FnOnce(&mut Gateway)) -> Node {
    let options = [
        ("aws_access_key_id", keys.access_key_id.as_str()),
        ("aws_secret_access_key", &keys.secret_access_key),
        ("aws_region", "us-east-1"),
    ];
    gateway_to(&format!("s3://{BUCKET}/below"), endpoint, &options, change).await
}

async fn gateway_to(url: &str, endpoint: &str, options: &[(&str, &str)], change: impl FnOnce(&mut Gateway)) -> Node {
    let mut gateway = Gateway::new(Url::parse(url).unwrap());
    gateway.endpoint = Some(endpoint.to_owned());
    gateway.options = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    change(&mut gateway);
    let mut config = NodeConfig::new(Storage::Gateway(gateway));
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
    refuses_writes(&read_only).await;

    // The gateway's own credentials are what counts behind it, and its refusal does not tell them.
    let wrong = Credentials { access_key_id: "nobody".into(), secret_access_key: "wrong-secret".into() };
    let refused = gateway(&endpoint, &wrong, |_| {}).await;
    let error = client(&refused, BUCKET).get(&Path::from("a/b")).await.unwrap_err();
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error:?}");
    assert!(!format!("{error:?}").contains("nobody"), "{error:?}");

    // Nobody there is an error that may be tried again.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut config = NodeConfig::new(Storage::Gateway(Gateway {
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
    let Some(minio) = Minio::start() else { return };
    let front = gateway(&minio.endpoint, &Minio::keys(), |_| {}).await;
    serves(&client(&front, BUCKET), &minio.client()).await;
    selects(&front);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_front_of_google() {
    let Some(google) = Gcs::start() else { return };
    let options = [("google_skip_signature", "true")];
    let url = format!("gs://{BUCKET}/below");
    let front = gateway_to(&url, &google.endpoint, &options, |_| {}).await;
    let (client, behind) = (client(&front, BUCKET), google.client());
    serves(&client, &behind).await;
    selects(&front);
    replaces_what_was_seen(&client).await;

    // Google unpacks gzip for whoever does not say that it takes it; here bytes are bytes, whole
    // and in ranges.
    let mut gzip = Attributes::new();
    gzip.insert(Attribute::ContentEncoding, "gzip".into());
    let packed = [&b"\x1f\x8b\x08\0\0\0\0\0\0\x03"[..], b"\x01\x05\0\xfa\xff", b"plain", b"\xcf\x62\x20\x19\x05\0\0\0"];
    let packed = packed.concat();
    let options = PutOptions { attributes: gzip, ..PutOptions::default() };
    client.put_opts(&Path::from("t.gz"), packed.clone().into(), options).await.unwrap();
    assert_eq!(client.get(&Path::from("t.gz")).await.unwrap().bytes().await.unwrap(), packed);
    assert_eq!(client.get_range(&Path::from("t.gz"), 2..9).await.unwrap(), packed[2..9]);

    let mut tags = object_store::TagSet::default();
    tags.push("a", "b");
    let refused = client.put_opts(&Path::from("tagged"), "x".into(), PutOptions { tags, ..Default::default() }).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("keeps no tags")));

    let read_only = gateway_to(&url, &google.endpoint, &[("google_skip_signature", "true")], |gateway| {
        gateway.read_only = true;
    });
    refuses_writes(&read_only.await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_front_of_azure() {
    let Some(azure) = Azurite::start() else { return };
    let url = format!("az://{BUCKET}/below");
    let key = [("azure_storage_account_name", Azurite::ACCOUNT), ("azure_storage_account_key", Azurite::KEY)];
    let front = gateway_to(&url, &azure.endpoint, &key, |_| {}).await;
    let (client, behind) = (client(&front, BUCKET), azure.client());
    serves(&client, &behind).await;
    selects(&front);
    replaces_what_was_seen(&client).await;

    // A name that Azure would not keep is refused before anything is sent.
    let mut attributes = Attributes::new();
    attributes.insert(Attribute::Metadata("two-words".into()), "x".into());
    let options = PutOptions { attributes, ..PutOptions::default() };
    let refused = client.put_opts(&Path::from("named"), "x".into(), options).await.unwrap_err().to_string();
    assert!(refused.contains("501") && refused.contains("two-words"), "{refused}");

    // Other credentials, and the URL of an account with folders: listed whole and sorted here.
    let sas = [("azure_storage_account_name", Azurite::ACCOUNT), ("azure_storage_sas_key", Azurite::SAS)];
    let folders = format!("abfss://{BUCKET}/below");
    let read_only = gateway_to(&folders, &azure.endpoint, &sas, |gateway| gateway.read_only = true).await;
    refuses_writes(&read_only).await;
    assert_eq!(paged(&crate::world::client(&read_only, BUCKET), "/").await, paged(&client, "/").await);

    let wrong = [("azure_storage_account_name", Azurite::ACCOUNT), ("azure_storage_account_key", "d3Jvbmc=")];
    let refused = gateway_to(&url, &azure.endpoint, &wrong, |_| {}).await;
    let error = crate::world::client(&refused, BUCKET).get(&Path::from("a/b")).await.unwrap_err();
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error:?}");
}

/// `If-Match` on a write holds for what was seen and for nothing else.
async fn replaces_what_was_seen(front: &AmazonS3) {
    let path = Path::from("seen");
    let first = front.put(&path, "one".into()).await.unwrap();
    let matching = |e_tag: Option<String>| PutOptions {
        mode: PutMode::Update(UpdateVersion { e_tag, version: None }),
        ..PutOptions::default()
    };
    let second = front.put_opts(&path, "two".into(), matching(first.e_tag.clone())).await.unwrap();
    assert_ne!(first.e_tag, second.e_tag);
    let late = front.put_opts(&path, "three".into(), matching(first.e_tag)).await;
    assert!(matches!(late, Err(Error::Precondition { .. })), "{late:?}");
    assert_eq!(front.get(&path).await.unwrap().bytes().await.unwrap(), "two");
    front.delete(&path).await.unwrap();
}

/// A gateway that reads what [`serves`] left and writes nothing.
async fn refuses_writes(front: &Node) {
    let reader = client(front, BUCKET);
    assert_eq!(reader.get(&Path::from("a/b")).await.unwrap().bytes().await.unwrap(), "deep");
    assert!(matches!(reader.put(&Path::from("n"), "n".into()).await, Err(Error::PermissionDenied { .. })));
    assert!(matches!(reader.delete(&Path::from("a/b")).await, Err(Error::PermissionDenied { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn in_front_of_a_web_server() {
    let site = WebServer::start("id,name\n1,one\n2,two\n3,three\n");
    let mut gateway = Gateway::new(Url::parse(&format!("http://{}/data", site.address)).unwrap());
    gateway.bucket = Some(BUCKET.to_owned());
    gateway.read_only = true;
    let front = start(NodeConfig::new(Storage::Gateway(gateway))).await.unwrap();
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
async fn serves(front: &AmazonS3, behind: &dyn ObjectStore) {
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

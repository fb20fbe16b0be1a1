//! A gateway in front of a server that answers wrongly, in every way there is.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use pushdowndb_node::{Gateway, Node, NodeConfig, Storage, start};
use url::Url;

use crate::wire;
use crate::world::BUCKET;

/// What the object holds, where it is told truly.
const TEXT: &str = "0123456789";

/// A server whose answers are those of a script: by method, path and range, and how often that path
/// was asked for.
struct Scripted {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
}

/// One request, as far as scripts look at it.
struct Asked<'a> {
    method: &'a str,
    name: &'a str,
    range: Option<&'a str>,
    /// GETs of this path before this one.
    before: usize,
}

impl Scripted {
    fn start(script: impl Fn(&Asked<'_>, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let (script, counter) = (Arc::new(script), Arc::clone(&asked));
        let gets = Arc::new(std::sync::Mutex::new(std::collections::HashMap::<String, usize>::new()));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (script, counter, gets) = (Arc::clone(&script), Arc::clone(&counter), Arc::clone(&gets));
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    let mut head = Vec::new();
                    let mut byte = [0];
                    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                        head.push(byte[0]);
                    }
                    if head.is_empty() {
                        return;
                    }
                    counter.fetch_add(1, SeqCst);
                    let head = String::from_utf8_lossy(&head).into_owned();
                    let mut line = head.split([' ', '?']);
                    let (method, path) = (line.next().unwrap(), line.next().unwrap());
                    let range = head.lines().find_map(|line| {
                        let (name, value) = line.split_once(": ")?;
                        name.eq_ignore_ascii_case("range").then(|| value.trim())
                    });
                    let before = match method {
                        "GET" => {
                            let mut gets = gets.lock().unwrap();
                            let count = gets.entry(path.to_owned()).or_default();
                            *count += 1;
                            *count - 1
                        }
                        _ => 0,
                    };
                    let name = path.rsplit('/').next().unwrap();
                    script(&Asked { method, name, range, before }, &mut stream);
                });
            }
        });
        Self { address, asked }
    }
}

const HEAD: &str = "ETag: \"v1\"\r\nLast-Modified: Sat, 01 Nov 2025 10:00:00 GMT\r\nConnection: close\r\n";

fn say(stream: &mut TcpStream, status: &str, headers: &str, body: &str) {
    let _ = write!(stream, "HTTP/1.1 {status}\r\n{headers}\r\n{body}");
}

/// HEAD tells truly of ten bytes; GETs lie as the name says.
fn lies(asked: &Asked<'_>, stream: &mut TcpStream) {
    let whole = format!("{HEAD}Content-Length: 10\r\n");
    let part =
        |range: &str, length: usize| format!("{HEAD}Content-Range: bytes {range}\r\nContent-Length: {length}\r\n");
    let chunked = |range: &str| format!("{HEAD}Content-Range: bytes {range}\r\nTransfer-Encoding: chunked\r\n");
    let partial = "206 Partial Content";
    match (asked.method, asked.name) {
        ("HEAD", "silent-head") => std::thread::sleep(Duration::from_secs(20)),
        ("HEAD", _) => say(stream, "200 OK", &whole, ""),
        ("GET", "true") => {
            let (from, to) = asked.range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-')).unwrap();
            let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
            say(stream, partial, &part(&format!("{from}-{to}/10"), to + 1 - from), &TEXT[from..=to]);
        }
        ("GET", "cut") => say(stream, partial, &part("0-9/10", 10), "01234"),
        ("GET", "short") => say(stream, partial, &part("0-9/10", 5), "01234"),
        ("GET", "long") => say(stream, partial, &part("0-9/10", 12), "0123456789ab"),
        ("GET", "short-chunks") => say(stream, partial, &chunked("0-9/10"), "5\r\n01234\r\n0\r\n\r\n"),
        ("GET", "long-chunks") => say(stream, partial, &chunked("0-9/10"), "c\r\n0123456789ab\r\n0\r\n\r\n"),
        ("GET", "shifted") => say(stream, partial, &part("1-10/11", 10), "123456789a"),
        ("GET", "fewer") => say(stream, partial, &part("0-4/10", 5), "01234"),
        ("GET", "grown") => say(stream, partial, &part("0-9/12", 10), TEXT),
        ("GET", "whole") => say(stream, "200 OK", &whole, "ABCDEFGHIJ"),
        ("GET", "nowhere") => say(stream, partial, &whole, "ABCDEFGHIJ"),
        ("GET", "other") => {
            let other = part("0-9/10", 10).replace("v1", "v2");
            say(stream, partial, &other, "ABCDEFGHIJ");
        }
        // Breaks off, and goes on elsewhere when it is asked to go on.
        ("GET", "resumed") if asked.before == 0 => say(stream, partial, &part("0-9/10", 10), "0123"),
        ("GET", "resumed") => say(stream, "200 OK", &whole, TEXT),
        ("GET", "silent-body") => {
            say(stream, partial, &part("0-9/10", 10), "0123");
            std::thread::sleep(Duration::from_secs(20));
        }
        // A listing that never ends.
        ("PROPFIND", _) => {
            say(stream, "207 Multi-Status", "Transfer-Encoding: chunked\r\n", "");
            while write!(stream, "1\r\n \r\n").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        _ => say(stream, "404 Not Found", "Content-Length: 0\r\n", ""),
    }
}

async fn gateway(change: impl FnOnce(&mut Gateway), url: &str) -> Node {
    let mut gateway = Gateway::new(Url::parse(url).unwrap());
    (gateway.bucket, gateway.read_only) = (Some(BUCKET.to_owned()), true);
    change(&mut gateway);
    let mut config = NodeConfig::new(Storage::Gateway(gateway));
    config.limits.upstream_wait = Duration::from_millis(300);
    start(config).await.unwrap()
}

/// The status of an answer and its body; `None` where the body is not as long as was promised.
fn get(node: &Node, key: &str) -> (u16, Option<String>) {
    let stream = wire::send(node, "GET", &format!("/{BUCKET}/{key}"), "");
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut answer = Vec::new();
    let ended = (&stream).read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{key}: {ended:?} {answer}"));
    let status = head[9..12].parse().unwrap();
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let is_whole = ended.is_ok() && length.is_none_or(|length: usize| length == body.len());
    (status, is_whole.then(|| body.to_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_is_not_the_object_is_served() {
    let server = Scripted::start(lies);
    let node = gateway(|_| {}, &format!("http://{}/data", server.address)).await;
    assert_eq!(get(&node, "true"), (200, Some(TEXT.to_owned())));
    for key in [
        "cut",
        "short",
        "long",
        "short-chunks",
        "long-chunks",
        "shifted",
        "fewer",
        "grown",
        "whole",
        "nowhere",
        "other",
        "resumed",
        "silent-body",
        "silent-head",
    ] {
        let since = Instant::now();
        let (status, body) = get(&node, key);
        assert!(status >= 400 || body.is_none(), "{key}: {status} {body:?}");
        assert!(since.elapsed() < Duration::from_secs(15), "{key}");
    }
    assert_eq!(get(&node, "true"), (200, Some(TEXT.to_owned())));
    let listing = wire::rest(wire::send(&node, "GET", &format!("/{BUCKET}?list-type=2"), ""));
    assert!(listing.starts_with("HTTP/1.1 503"), "{listing}");
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_lead_nowhere() {
    let inner = Scripted::start(|_, stream| say(stream, "200 OK", &format!("{HEAD}Content-Length: 6\r\n"), "SECRET"));
    let to = inner.address;
    let server = Scripted::start(move |asked, stream| {
        let status = match asked.name {
            "301" => "301 Moved Permanently",
            "302" => "302 Found",
            "303" => "303 See Other",
            "307" => "307 Temporary Redirect",
            // Only the GET, after a HEAD that was answered.
            "late" if asked.method == "HEAD" => {
                return say(stream, "200 OK", &format!("{HEAD}Content-Length: 6\r\n"), "");
            }
            _ => "308 Permanent Redirect",
        };
        let headers = format!("Location: http://{to}/latest/meta-data\r\nContent-Length: 0\r\nConnection: close\r\n");
        say(stream, status, &headers, "");
    });
    let keys = ["aws_access_key_id", "aws_secret_access_key"].map(|key| (key.to_owned(), "k".to_owned()));
    let s3 = |gateway: &mut Gateway| {
        gateway.endpoint = Some(format!("http://{}", server.address));
        gateway.options = keys.to_vec();
    };
    let google = |gateway: &mut Gateway| {
        gateway.endpoint = Some(format!("http://{}", server.address));
        gateway.options = vec![("google_skip_signature".to_owned(), "true".to_owned())];
    };
    let azure = |gateway: &mut Gateway| {
        gateway.endpoint = Some(format!("http://{}/acc", server.address));
        let options = [("azure_storage_account_name", "acc"), ("azure_storage_account_key", "a2V5")];
        gateway.options = options.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    };
    let nodes = [
        gateway(|_| {}, &format!("http://{}/data", server.address)).await,
        gateway(s3, "s3://bucket").await,
        gateway(google, "gs://bucket").await,
        gateway(azure, "az://bucket").await,
    ];
    for node in nodes {
        for key in ["301", "302", "303", "307", "308", "late"] {
            let (status, body) = get(&node, key);
            assert!(status >= 400 || body.is_none(), "{key}: {status} {body:?}");
            assert!(!body.unwrap_or_default().contains("SECRET"), "{key}");
        }
        node.shutdown().await;
    }
    assert!(server.asked.load(SeqCst) >= 24);
    assert_eq!(inner.asked.load(SeqCst), 0, "a redirect was followed");
}

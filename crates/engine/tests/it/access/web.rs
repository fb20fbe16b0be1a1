//! Hosts: which are reached, by which addresses, and with whose keys.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use pushdowndb_engine::AccessPolicy;

use super::{Canary, engine, refuses, run};
use crate::world::World;

/// A web server of one object, which remembers what it was asked for.
struct Web {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Web {
    /// Everything is there; what is called `moved` is at `to`.
    fn new(to: String) -> Self {
        const TEXT: &str = "a\n1\n2\n";
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let remembered = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let first = lines.next().unwrap().unwrap();
                let rest: Vec<String> = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
                let range = rest
                    .iter()
                    .find_map(|line| line.to_ascii_lowercase().strip_prefix("range: bytes=").map(str::to_owned));
                remembered.lock().unwrap().push(first.clone());
                let size = TEXT.len();
                let common = "etag: \"1\"\r\nlast-modified: Wed, 21 Oct 2026 07:28:00 GMT\r\nconnection: close\r\n";
                let answer = match range {
                    _ if first.contains("/moved") => {
                        format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\n{common}content-length: 0\r\n\r\n")
                    }
                    _ if first.starts_with("HEAD") => {
                        format!("HTTP/1.1 200 OK\r\n{common}content-length: {size}\r\n\r\n")
                    }
                    Some(range) => {
                        let (from, last) = range.split_once('-').unwrap();
                        let from: usize = from.parse().unwrap();
                        let last = last.parse().unwrap_or(size - 1).min(size - 1);
                        let part = &TEXT[from..=last];
                        format!(
                            "HTTP/1.1 206 Partial Content\r\n{common}content-range: bytes {from}-{last}/{size}\r\ncontent-length: {}\r\n\r\n{part}",
                            part.len()
                        )
                    }
                    None => format!("HTTP/1.1 200 OK\r\n{common}content-length: {size}\r\n\r\n{TEXT}"),
                };
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self { port, asked }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn listed_hosts_are_reached_and_no_others() {
    let canary = Canary::new();
    let web = Web::new(format!("http://127.0.0.1:{}/in/x.csv", canary.port()));
    let port = web.port;
    let policy = AccessPolicy::nothing().and_read(&format!("http://127.0.0.1:{port}/in/")).unwrap();
    let engine_of = |policy| engine(policy, "http://127.0.0.1:9");
    let one = engine_of(policy.clone()).await;
    for host in ["127.0.0.1", "0x7f.0.0.1", "127.1"] {
        let sql = format!("SELECT sum(a) FROM 'http://{host}:{port}/in/x.csv'");
        assert_eq!(run(&one, &sql).await.unwrap(), [["3"]], "{host}");
    }
    assert!(!web.asked().is_empty());
    for place in [
        format!("http://127.0.0.1:{port}/secret.csv"),
        format!("http://127.0.0.1:{port}/in/../secret.csv"),
        format!("http://127.0.0.1:{port}/in/%2e%2e/secret.csv"),
        format!("http://127.0.0.1:{port}/in/%252e%252e/secret.csv"),
        format!("https://127.0.0.1:{port}/in/x.csv"),
        format!("http://127.0.0.1:{}/in/x.csv", canary.port()),
        format!("http://127.0.0.2:{port}/in/x.csv"),
        // Another name of the same address.
        format!("http://localhost:{port}/in/x.csv"),
    ] {
        refuses(&one, &format!("SELECT sum(a) FROM '{place}'")).await;
    }
    refuses(&one, &format!("COPY (SELECT 1 AS a) TO 'http://127.0.0.1:{port}/in/new.csv'")).await;
    assert_eq!(web.asked(), Vec::<String>::new());
    let moved = run(&one, &format!("SELECT sum(a) FROM 'http://127.0.0.1:{port}/in/moved.csv'")).await;
    assert!(moved.is_err(), "a redirect is not followed: {moved:?}");
    canary.is_alone();

    // All hosts are listed, but not their addresses.
    let any = engine_of(AccessPolicy::nothing().and_read("http://").unwrap()).await;
    web.asked();
    for host in ["127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "10.255.255.1"]
    {
        refuses(&any, &format!("SELECT sum(a) FROM 'http://{host}:{port}/in/x.csv'")).await;
    }
    assert_eq!(web.asked(), Vec::<String>::new());
    // Now they are, and the name of this machine is one that was written.
    let local =
        engine_of(AccessPolicy::nothing().and_read("http://").unwrap().and_addresses("127.0.0.0/8").unwrap()).await;
    let named = engine_of(AccessPolicy::nothing().and_read(&format!("http://localhost:{port}/")).unwrap()).await;
    for engine in [local, named] {
        let sum = run(&engine, &format!("SELECT sum(a) FROM 'http://localhost:{port}/in/x.csv'")).await;
        assert_eq!(sum.unwrap(), [["3"]]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_cannot_choose_where_credentials_go() {
    let (canary, world) = (Canary::new(), World::node().await);
    world.put("in/x.csv", "a\n1\n").await;
    let policy = AccessPolicy::nothing().and_read("s3://data/").unwrap().and_write("s3://data/").unwrap();
    let engine = engine(policy, &world.endpoint).await;
    let to = format!("http://127.0.0.1:{}", canary.port());
    for option in ["aws.endpoint", "s3.endpoint", "format.aws.endpoint", "aws.access_key_id", "http.proxy_url"] {
        let sql = format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 's3://data/in/' OPTIONS ('{option}' '{to}')");
        assert!(run(&engine, &sql).await.is_err(), "{option}");
        let sql = format!("COPY (SELECT 1 AS a) TO 's3://data/out.csv' OPTIONS ('{option}' '{to}')");
        let _ = run(&engine, &sql).await;
    }
    for bucket in
        [format!("127.0.0.1:{}", canary.port()), "data%2f..%2fother".to_owned(), "..".to_owned(), "a@b".to_owned()]
    {
        let refused = run(&engine, &format!("SELECT * FROM 's3://{bucket}/x.csv'")).await;
        assert!(refused.is_err(), "{bucket}");
    }
    // Nor does a bucket with an endpoint of its own, unless that is listed.
    for place in [format!("s3://data/in/x.csv@{to}"), "s3://data/in/x.csv@http://10.255.255.1".to_owned()] {
        refuses(&engine, &format!("SELECT * FROM '{place}'")).await;
        refuses(&engine, &format!("SELECT * FROM read_csv(['s3://data/in/x.csv', '{place}'])")).await;
        refuses(&engine, &format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION ('s3://data/in/', '{place}')")).await;
        refuses(&engine, &format!("COPY (SELECT 1 AS a) TO '{place}' STORED AS CSV")).await;
    }
    let at = format!("s3://data/in/x.csv@{}", world.endpoint.trim_end_matches('/'));
    let policy = AccessPolicy::nothing().and_read("s3://data/in/").unwrap().and_read(&world.endpoint).unwrap();
    let listed = super::engine(policy, &to).await;
    assert_eq!(run(&listed, &format!("SELECT a FROM '{at}'")).await.unwrap(), [["1"]]);
    refuses(&listed, &format!("SELECT a FROM '{}'", at.replace("/in/", "/out/"))).await;
    for nodes in [to, format!("dns+http://localhost:{}", canary.port())] {
        run(&engine, &format!("SET pushdown.nodes = '{nodes}'")).await.unwrap();
        refuses(&engine, "SELECT * FROM 's3://data/in/x.csv'").await;
    }
    canary.is_alone();
}

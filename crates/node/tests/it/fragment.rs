//! The fragment route as a peer sees it: who may use it, what it answers, what it refuses.

use std::io::Read;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::datatypes::{DataType, Field, Schema};
use object_store::ObjectStoreExt;
use object_store::path::Path;
use pushdowndb_contract::wire::{Encoding, FragmentRequest, Lookups, RangesRequest, Request, RouteEvent};
use pushdowndb_contract::{CompareOp, CsvOptions, ErrorKind, Expr, Format, Fragment, Split};
use pushdowndb_node::{Gateway, Keyring, Node, NodeConfig, Storage, start};
use pushdowndb_select::EventDecoder;
use url::Url;

use crate::wire;
use crate::world::{BUCKET, World, builder, raw};

const TARGET: &str = "/things?pushdowndb-fragment";

pub fn fragment() -> Fragment {
    let fields = vec![Field::new("id", DataType::Int64, false), Field::new("name", DataType::Utf8, true)];
    let predicate = Expr::compare(CompareOp::Gt, Expr::Column(0), Expr::int(1));
    let all = Fragment::all(Format::Csv(CsvOptions::default()), Arc::new(Schema::new(fields)));
    Fragment { predicate: Some(predicate), ..all }
}

pub fn split(key: &str, size: usize) -> Split {
    Split { key: key.into(), etag: None, size: size as u64, range: None }
}

pub fn request(fragment: Fragment, splits: Vec<Split>) -> Vec<u8> {
    let (deadline, encoding) = (Duration::ZERO, Encoding::Lz4);
    let request = FragmentRequest {
        fragment,
        splits,
        deadline,
        encoding,
        partial_group_bytes: None,
        lookups: Lookups::default(),
        positions: false,
        dictionaries: false,
    };
    Request::Fragment(Box::new(request)).to_bytes().unwrap()
}

/// The head of an answer, and its body put together from chunks.
fn answer(mut stream: TcpStream) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    if !head.to_lowercase().contains("transfer-encoding: chunked") {
        return (head, bytes[end..].to_vec());
    }
    let (mut rest, mut body) = (&bytes[end..], Vec::new());
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n").unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        if length == 0 {
            return (head, body);
        }
        body.extend_from_slice(&rest[line + 2..line + 2 + length]);
        rest = &rest[line + 2 + length + 2..];
    }
}

pub fn events(node: &Node, body: &[u8]) -> Vec<RouteEvent> {
    let (head, body) = answer(wire::send(node, "POST", TARGET, body));
    assert!(head.starts_with("HTTP/1.1 200"), "{head}{}", String::from_utf8_lossy(&body));
    let mut decoder = EventDecoder::default();
    decoder.feed(&body);
    let mut events = Vec::new();
    while let Some(event) = decoder.next().unwrap() {
        events.push(event);
    }
    decoder.finish().unwrap();
    events
}

/// What rows came of which split, as they were sent, and which splits failed how.
pub fn outcome(node: &Node, body: &[u8]) -> (Vec<Vec<u8>>, Vec<(u32, ErrorKind)>) {
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for event in events(node, body) {
        match event {
            RouteEvent::Batch { bytes, .. } => rows.push(bytes.to_vec()),
            RouteEvent::SplitFailed { split, failure } => failed.push((split, failure.kind)),
            _ => {}
        }
    }
    failed.sort_unstable_by_key(|(split, _)| *split);
    (rows, failed)
}

fn refused(node: &Node, body: &[u8]) -> String {
    let (head, body) = answer(wire::send(node, "POST", TARGET, body));
    head + &String::from_utf8(body).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn splits_end_and_fail_each_on_its_own() {
    let world = World::new().await;
    let csv = "id,name\n1,a\n2,b\n3,\n";
    for key in ["a b/ö.csv", "second"] {
        world.client().put(&Path::parse(key).unwrap(), csv.into()).await.unwrap();
    }
    world.client().put(&Path::from("broken"), "id,name\n2,x\nno number,y\n".into()).await.unwrap();
    let stale = Split { etag: Some("\"0123\"".to_owned()), ..split("second", csv.len()) };
    let splits = vec![
        split("a b/ö.csv", csv.len()),
        split("missing", 1),
        stale,
        split("second", csv.len() + 1),
        split("broken", 24),
        split("second", csv.len()),
    ];
    let events = events(&world.node, &request(fragment(), splits));
    let end = |event: &RouteEvent| match event {
        RouteEvent::SplitEnd { split, stats } => Some((*split, stats.rows)),
        _ => None,
    };
    let mut ended: Vec<_> = events.iter().filter_map(end).collect();
    ended.sort_unstable();
    assert_eq!(ended, [(0, 2), (5, 2)]);
    let failure = |wanted: u32| {
        let found = events.iter().find_map(|event| match event {
            RouteEvent::SplitFailed { split, failure } if *split == wanted => Some(failure.clone()),
            _ => None,
        });
        found.unwrap_or_else(|| panic!("split {wanted} did not fail"))
    };
    for (split, kind, key) in [
        (1, ErrorKind::NotFound, "missing"),
        (2, ErrorKind::Conflict, "second"),
        (3, ErrorKind::Conflict, "second"),
        (4, ErrorKind::Invalid, "broken"),
    ] {
        assert_eq!(failure(split).kind, kind, "{:?}", failure(split));
        assert!(failure(split).message.contains(key), "{:?}", failure(split));
    }
    let [.., RouteEvent::Stats(stats), RouteEvent::End] = events.as_slice() else { panic!("{events:?}") };
    assert!(stats.bytes_scanned >= 2 * csv.len() as u64 && stats.rows_scanned >= 6 && stats.cpu_ns > 0, "{stats:?}");
    let sent: usize =
        events.iter().map(|e| if let RouteEvent::Batch { bytes, .. } = e { bytes.len() } else { 0 }).sum();
    assert_eq!(stats.bytes_returned, sent as u64);
    let counters = world.node.counters();
    assert_eq!(counters.requests_of("RunFragment"), 1);
    assert_eq!((counters.bytes_scanned, counters.bytes_returned), (stats.bytes_scanned, stats.bytes_returned));
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_come_in_their_order() {
    let world = World::new().await;
    let bytes: Vec<u8> = (0..6_000_000u32).map(|at| (at % 251) as u8).collect();
    world.client().put(&Path::from("k"), bytes.clone().into()).await.unwrap();
    let ranges = vec![5..6, 0..5_500_000, 7..7_000, 5_999_999..6_000_000, 5..6];
    let ask = |object| Request::Ranges(RangesRequest { object, ranges: ranges.clone() }).to_bytes().unwrap();
    let events = events(&world.node, &ask(split("k", bytes.len())));
    let mut got = vec![Vec::new(); ranges.len()];
    for event in &events {
        if let RouteEvent::Range { range, bytes } = event {
            got[*range as usize].extend_from_slice(bytes);
        }
    }
    for (range, got) in ranges.iter().zip(&got) {
        assert!(*got == bytes[range.start as usize..range.end as usize], "{range:?}");
    }
    let stale = Split { etag: Some("other".to_owned()), ..split("k", bytes.len()) };
    let events = events_until_failure(&world.node, &ask(stale));
    assert!(matches!(events.as_slice(), [RouteEvent::Failed(failure)] if failure.kind == ErrorKind::Conflict));
}

/// The events of an answer that ends with a failure in the place of its End event.
pub fn events_until_failure(node: &Node, body: &[u8]) -> Vec<RouteEvent> {
    let (_, body) = answer(wire::send(node, "POST", TARGET, body));
    let mut decoder = EventDecoder::default();
    decoder.feed(&body);
    let mut events = Vec::new();
    while let Some(event) = decoder.next().unwrap() {
        events.push(event);
    }
    assert!(decoder.finish().is_err());
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_refused_before_the_answer() {
    let world = World::new().await;
    let good = request(fragment(), vec![split("k", 1)]);
    let answer = refused(&world.node, b"nonsense");
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("InvalidRequest"), "{answer}");
    assert!(answer.to_lowercase().contains("x-pushdowndb-fragment: 1"), "{answer}");
    let mut newer = good.clone();
    newer[1] = 9;
    let answer = refused(&world.node, &newer);
    assert!(answer.starts_with("HTTP/1.1 501") && answer.contains("version 9"), "{answer}");
    let mut odd = fragment();
    odd.predicate = Some(Expr::Negate(Box::new(Expr::Column(1))));
    let answer = refused(&world.node, &request(odd, vec![split("k", 1)]));
    assert!(answer.starts_with("HTTP/1.1 400"), "the minus of a text: {answer}");
    let unsigned =
        raw(&world.node, "POST /things?pushdowndb-fragment HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(unsigned.starts_with("HTTP/1.1 403"), "{unsigned}");
    assert_eq!(world.node.counters().requests_of("RunFragment"), 3);

    let world = World::with(|limits| (limits.selects, limits.selects_waiting) = (0, 0)).await;
    let answer = refused(&world.node, &good);
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("SlowDown"), "{answer}");
    assert!(answer.to_lowercase().contains("retry-after: "), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fragment_is_a_read_of_its_bucket() {
    let keys = r#"
        [[key]]
        access_key_id = "writer"
        secret_access_key = "everything"
        [[key]]
        access_key_id = "reader"
        secret_access_key = "only-reads"
        read = ["things"]
    "#;
    let dir = tempfile::tempdir().unwrap();
    let mut config = NodeConfig::store(dir.path().join("store"));
    config.keyring = Some(Keyring::parse(keys).unwrap());
    let node = start(config).await.unwrap();
    for bucket in [BUCKET, "secrets"] {
        node.create_bucket(bucket).await.unwrap();
        let writer = builder(&node, bucket).build().unwrap();
        writer.put(&Path::from("k"), "id,name\n2,x\n".into()).await.unwrap();
    }
    let status = |key: &str, secret: &str, bucket: &str| {
        let body = request(fragment(), vec![split("k", 12)]);
        let target = format!("/{bucket}?pushdowndb-fragment");
        answer(wire::send_as(&node, (key, secret), "POST", &target, body)).0
    };
    assert!(status("reader", "only-reads", BUCKET).starts_with("HTTP/1.1 200"));
    assert!(status("writer", "everything", "secrets").starts_with("HTTP/1.1 200"));
    assert!(status("reader", "only-reads", "secrets").starts_with("HTTP/1.1 403"));
    assert!(status("reader", "wrong", BUCKET).starts_with("HTTP/1.1 403"));
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_ends_its_scans() {
    let world = World::new().await;
    let csv = format!("id,name\n{}", "22,some text to fill the socket with\n".repeat(400_000));
    world.client().put(&Path::from("k"), csv.clone().into()).await.unwrap();
    let active = || {
        let reading = raw(&world.node, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let line = reading.lines().find_map(|line| line.strip_prefix("pushdowndb_scans_active ")).unwrap().to_owned();
        line.trim().parse::<f64>().unwrap()
    };
    let mut fragment = fragment();
    fragment.predicate = None;
    let body = request(fragment, vec![split("k", csv.len()); 8]);
    let mut stream = wire::send(&world.node, "POST", TARGET, &body);
    stream.read_exact(&mut [0; 1000]).unwrap();
    assert!(active() >= 1.0);
    drop(stream);
    let deadline = Instant::now() + Duration::from_secs(20);
    while active() > 0.0 {
        assert!(Instant::now() < deadline, "the scans went on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(world.node.counters().bytes_scanned < 8 * csv.len() as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_that_were_read_are_counted_though_the_client_goes_away() {
    let world = World::new().await;
    let bytes = vec![b'x'; 64 << 20];
    world.client().put(&Path::from("k"), bytes.clone().into()).await.unwrap();
    let ranges = vec![0..bytes.len() as u64];
    let body = Request::Ranges(RangesRequest { object: split("k", bytes.len()), ranges }).to_bytes().unwrap();
    let mut stream = wire::send(&world.node, "POST", TARGET, &body);
    stream.read_exact(&mut [0; 1000]).unwrap();
    drop(stream);
    let deadline = Instant::now() + Duration::from_secs(20);
    while world.node.counters().bytes_scanned == 0 {
        assert!(Instant::now() < deadline, "nothing was counted");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(world.node.counters().bytes_scanned < bytes.len() as u64, "it read on for nobody");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_answers_as_the_store_behind_it() {
    let world = World::new().await;
    let csv = "id,name\n1,a\n2,b\n3,\n";
    world.client().put(&Path::from("k"), csv.into()).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("k"), csv).unwrap();
    let folder = Gateway { bucket: Some(BUCKET.to_owned()), ..Gateway::new(Url::from_file_path(dir.path()).unwrap()) };
    let mut other = Gateway::new(Url::parse(&format!("s3://{BUCKET}")).unwrap());
    other.endpoint = Some(world.node.endpoint());
    let keys = world.node.credentials();
    other.options = [
        ("aws_access_key_id", keys.access_key_id.as_str()),
        ("aws_secret_access_key", &keys.secret_access_key),
        ("aws_region", "us-east-1"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .to_vec();

    let stale = Split { etag: Some("\"0123\"".to_owned()), ..split("k", csv.len()) };
    let body = request(fragment(), vec![split("k", csv.len()), split("missing", 1), stale]);
    let wanted = outcome(&world.node, &body);
    assert_eq!((wanted.0.len(), &wanted.1[..]), (1, &[(1, ErrorKind::NotFound), (2, ErrorKind::Conflict)][..]));
    for gateway in [folder, other] {
        let url = gateway.url.clone();
        let front = start(NodeConfig::new(Storage::Gateway(gateway))).await.unwrap();
        assert_eq!(outcome(&front, &body), wanted, "{url}");
        assert_eq!(front.counters().requests_of("RunFragment"), 1, "{url}");
        front.shutdown().await;
    }
}

//! Whatever a request has the node compute ends soon after its client has left, or its time is up.

use std::fmt::Write;
use std::io::Read;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use object_store::ObjectStoreExt;
use object_store::path::Path;
use parquet::arrow::ArrowWriter;
use pushdowndb_contract::wire::{Encoding, FragmentRequest, Lookups, Request};
use pushdowndb_contract::{CsvOptions, Expr, Format, Fragment, Literal, SortKey, Split};
use pushdowndb_node::Node;
use tokio::time::sleep;

use crate::wire;
use crate::world::{World, raw};

/// Nothing here takes so long but by mistake.
const PATIENCE: Duration = Duration::from_secs(20);

/// The value of a metric.
fn metric(node: &Node, name: &str) -> f64 {
    let reading = raw(node, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let line = reading.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {reading}")).trim().parse().unwrap()
}

fn active(node: &Node) -> f64 {
    metric(node, "pushdowndb_scans_active")
}

fn cpu(node: &Node) -> f64 {
    metric(node, "pushdowndb_scan_cpu_seconds_total")
}

/// Waits until no scan is active, and none goes on using a core behind that.
async fn ends(node: &Node, what: &str) {
    let since = Instant::now();
    while active(node) > 0.0 {
        assert!(since.elapsed() < PATIENCE, "{what}: a scan goes on without its client");
        sleep(Duration::from_millis(20)).await;
    }
    let (before, mut quiet) = (cpu(node), false);
    while !quiet {
        assert!(since.elapsed() < PATIENCE, "{what}: a core is still busy");
        let now = cpu(node);
        sleep(Duration::from_millis(100)).await;
        quiet = cpu(node) == now;
    }
    let more = cpu(node) - before;
    assert!(more < 2.0, "{what}: {more} s of a core after the turn was given back");
}

/// Lets the request run for a moment, and hangs up.
async fn hang_up(node: &Node, what: &str, stream: TcpStream) {
    let since = Instant::now();
    while active(node) == 0.0 && since.elapsed() < Duration::from_millis(500) {
        sleep(Duration::from_millis(5)).await;
    }
    sleep(Duration::from_millis(100)).await;
    drop(stream);
    ends(node, what).await;
}

fn select(node: &Node, key: &str, input: &str, sql: &str) -> TcpStream {
    let sql = sql.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let body = format!(
        "<SelectObjectContentRequest><Expression>{sql}</Expression><ExpressionType>SQL</ExpressionType>\
         <InputSerialization>{input}</InputSerialization><OutputSerialization><CSV/></OutputSerialization>\
         </SelectObjectContentRequest>"
    );
    wire::send(node, "POST", &format!("/things/{key}?select&select-type=2"), body)
}

const CSV: &str = "<CSV><FileHeaderInfo>NONE</FileHeaderInfo></CSV>";
const JSON: &str = "<JSON><Type>LINES</Type></JSON>";
const PARQUET: &str = "<Parquet/>";

/// A Parquet object with a dictionary of two long texts, which each row refers to.
fn parquet(rows: usize) -> Vec<u8> {
    let (long, longer) = ("a".repeat(1_000_000), "a".repeat(1_000_001));
    let texts = StringArray::from_iter_values((0..rows).map(|row| if row % 2 == 0 { &long } else { &longer }));
    let batch = RecordBatch::try_from_iter([("c", Arc::new(texts) as ArrayRef)]).unwrap();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file
}

/// `_a` so many times: each place of a text of `a` is tried.
fn pattern(pairs: usize) -> String {
    format!("%{}_b%", "_a".repeat(pairs))
}

async fn put(world: &World, key: &str, bytes: impl Into<Vec<u8>>) -> usize {
    let bytes = bytes.into();
    let size = bytes.len();
    world.client().put(&Path::from(key), bytes.into()).await.unwrap();
    size
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_end_when_their_client_hangs_up() {
    let world = World::with(|limits| limits.select_threads = 2).await;
    let long = "a".repeat(1_000_000);
    put(&world, "long.csv", format!("{long},1\n").repeat(8)).await;
    put(&world, "umlauts.csv", format!("{}\n", "äöü".repeat(150_000)).repeat(20)).await;
    put(&world, "short.csv", "abc,1\n".repeat(500_000)).await;
    put(&world, "long.json", format!("{{\"a\":\"{long}\"}}\n").repeat(8)).await;
    put(&world, "keys.json", format!("{{{}\"z\":0}}\n", "\"a\":1,".repeat(150_000)).repeat(8)).await;
    put(&world, "blank.csv", "\n".repeat(50_000_000)).await;
    put(&world, "blank.json", "\n".repeat(50_000_000)).await;
    put(&world, "long.parquet", parquet(64)).await;

    let like = |column: &str| format!("SELECT COUNT(*) FROM S3Object s WHERE {column} LIKE '{}'", pattern(20_000));
    let ors: Vec<String> = (0..8_000).map(|n| format!("s._1 LIKE '%{n}%'")).collect();
    let cases: String = (0..5_000).fold(String::new(), |mut cases, n| {
        write!(cases, " WHEN s._1||'{n}'='x' THEN {n}").unwrap();
        cases
    });
    let list: Vec<String> = (0..5_000).map(|n| format!("UPPER(s._1)||'{n}'")).collect();
    let set: String = (0x4E00..0x9C20).filter_map(char::from_u32).collect();
    let last = set.chars().next_back().unwrap().to_string();
    put(&world, "trim.csv", format!("{}\n", last.repeat(300_000)).repeat(20)).await;
    let uppers = format!("{}s._1{}", "UPPER(LOWER(".repeat(40), "))".repeat(40));
    let concat = (0..12).fold("s._1".to_owned(), |text, _| format!("({text}||{text})"));
    let paths: Vec<String> = (0..3_000).map(|n| format!("s.p{n}.q")).collect();
    let matched: Vec<String> = (0..3_000).map(|n| format!("s.a.q{n}")).collect();

    for (what, key, input, sql) in [
        ("LIKE on CSV", "long.csv", CSV, like("s._1")),
        ("NOT LIKE in an OR", "long.csv", CSV, format!("{} OR s._2='2'", like("s._1"))),
        (
            "LIKE with a pattern that is computed",
            "long.csv",
            CSV,
            like("s._1").replace("LIKE '", "LIKE SUBSTRING(s._2 FROM 2)||'"),
        ),
        ("LIKE on JSON", "long.json", JSON, like("s.a")),
        ("LIKE on Parquet", "long.parquet", PARQUET, like("s.c")),
        ("LIKE of a projection", "long.csv", CSV, format!("SELECT s._1 LIKE '{}' FROM S3Object s", pattern(20_000))),
        ("many LIKEs", "short.csv", CSV, format!("SELECT COUNT(*) FROM S3Object s WHERE {}", ors.join(" OR "))),
        (
            "many LIKEs at once",
            "short.csv",
            CSV,
            format!("SELECT COUNT(*) FROM S3Object s WHERE {}", ors.join(" AND NOT ")),
        ),
        ("TRIM", "trim.csv", CSV, format!("SELECT COUNT(*) FROM S3Object s WHERE TRIM(BOTH '{set}' FROM s._1)='x'")),
        ("UPPER and LOWER", "umlauts.csv", CSV, format!("SELECT COUNT(*) FROM S3Object s WHERE {uppers}='x'")),
        ("CASE", "short.csv", CSV, format!("SELECT SUM(CASE{cases} ELSE 0 END) FROM S3Object s")),
        ("IN", "short.csv", CSV, format!("SELECT COUNT(*) FROM S3Object s WHERE s._1 IN ({})", list.join(","))),
        ("concatenation", "short.csv", CSV, format!("SELECT COUNT(*) FROM S3Object s WHERE {concat}='x'")),
        ("paths that are not there", "keys.json", JSON, format!("SELECT {} FROM S3Object s", paths.join(","))),
        ("paths that are", "keys.json", JSON, format!("SELECT {} FROM S3Object s", matched.join(","))),
        ("blank lines", "blank.csv", CSV, "SELECT COUNT(*) FROM S3Object s WHERE s._1='x'".to_owned()),
        ("blank lines of JSON", "blank.json", JSON, "SELECT COUNT(*) FROM S3Object s WHERE s.a=1".to_owned()),
    ] {
        let stream = select(&world.node, key, input, &sql);
        hang_up(&world.node, what, stream).await;
    }
    let answer = wire::rest(select(&world.node, "short.csv", CSV, "SELECT COUNT(*) FROM S3Object s WHERE s._2='1'"));
    assert!(answer.contains("500000"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn others_have_their_turn_when_clients_of_long_scans_are_gone() {
    let world =
        World::with(|limits| (limits.select_threads, limits.selects, limits.key_share_percent) = (1, 4, 100)).await;
    put(&world, "long.csv", format!("{}\n", "a".repeat(1_000_000)).repeat(4)).await;
    put(&world, "short.csv", "1\n2\n").await;
    let sql = format!("SELECT COUNT(*) FROM S3Object s WHERE s._1 LIKE '{}'", pattern(50_000));
    let attacks: Vec<TcpStream> = (0..2).map(|_| select(&world.node, "long.csv", CSV, &sql)).collect();
    let since = Instant::now();
    while active(&world.node) < 2.0 {
        assert!(since.elapsed() < PATIENCE, "both scan");
        sleep(Duration::from_millis(5)).await;
    }
    drop(attacks);
    let answer = wire::rest(select(&world.node, "short.csv", CSV, "SELECT COUNT(*) FROM S3Object s"));
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains('2'), "{answer}");
    ends(&world.node, "LIKE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_end_when_their_time_is_up() {
    let world = World::with(|limits| limits.select_time = Duration::from_secs(1)).await;
    let size = put(&world, "long.csv", format!("{}\n", "a".repeat(1_000_000)).repeat(4)).await;
    let sql = format!("SELECT COUNT(*) FROM S3Object s WHERE s._1 LIKE '{}'", pattern(50_000));
    let answer = wire::rest(select(&world.node, "long.csv", CSV, &sql));
    assert!(answer.contains("RequestTimeout") && answer.contains("took more than 1 s"), "{answer}");
    ends(&world.node, "a Select whose time is up").await;

    let world = World::new().await;
    put(&world, "long.csv", format!("{}\n", "a".repeat(1_000_000)).repeat(4)).await;
    let request = fragment(like(&pattern(50_000)), Duration::from_secs(1), "long.csv", size);
    let answer = wire::rest(wire::send(&world.node, "POST", "/things?pushdowndb-fragment", request));
    assert!(answer.contains("took more than 1 s"), "{answer}");
    ends(&world.node, "a fragment whose time is up").await;
}

fn like(pattern: &str) -> Fragment {
    let schema = Arc::new(Schema::new(vec![Field::new("c", DataType::Utf8, true)]));
    let predicate = Expr::Like {
        expr: Expr::Column(0).into(),
        pattern: Expr::Literal(Literal::Utf8(pattern.to_owned())).into(),
        negated: false,
        case_insensitive: false,
    };
    let format = Format::Csv(CsvOptions { header: false, ..CsvOptions::default() });
    Fragment { predicate: Some(predicate), ..Fragment::all(format, schema) }
}

fn fragment(fragment: Fragment, deadline: Duration, key: &str, size: usize) -> Vec<u8> {
    let split = Split { key: key.into(), etag: None, size: size as u64, range: None };
    let request = FragmentRequest {
        fragment,
        splits: vec![split; 4],
        deadline,
        encoding: Encoding::None,
        partial_group_bytes: None,
        lookups: Lookups::default(),
        positions: false,
        dictionaries: false,
    };
    Request::Fragment(Box::new(request)).to_bytes().unwrap()
}

/// What is left of an engine that was killed is a closed connection.
#[tokio::test(flavor = "multi_thread")]
async fn fragments_end_when_their_engine_was_killed() {
    let world = World::with(|limits| limits.select_threads = 2).await;
    let text = put(&world, "long.csv", format!("{}\n", "a".repeat(4_000_000)).repeat(3)).await;
    let parquet = parquet(64);
    let stored = put(&world, "long.parquet", parquet).await;
    let of_parquet = |fragment: Fragment| Fragment { format: Format::Parquet, ..fragment };
    let insensitive = |fragment: Fragment| match fragment.predicate {
        Some(Expr::Like { expr, pattern, negated, .. }) => {
            let predicate = Some(Expr::Like { expr, pattern, negated, case_insensitive: true });
            Fragment { predicate, ..fragment }
        }
        _ => fragment,
    };
    let sorted = |fragment: Fragment| {
        let key = SortKey { expr: Expr::Column(0), descending: false, nulls_first: false };
        Fragment { predicate: None, order: vec![key], limit: Some(10), ..fragment }
    };
    for (what, fragment, key, size) in [
        ("LIKE", like(&pattern(50_000)), "long.csv", text),
        ("ILIKE", insensitive(like(&pattern(50_000))), "long.csv", text),
        ("LIKE on Parquet", of_parquet(like(&pattern(20_000))), "long.parquet", stored),
        ("ORDER BY on Parquet", of_parquet(sorted(like("x"))), "long.parquet", stored),
    ] {
        let request = self::fragment(fragment, Duration::ZERO, key, size);
        let mut stream = wire::send(&world.node, "POST", "/things?pushdowndb-fragment", request);
        // The answer has begun.
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200", "{what}");
        hang_up(&world.node, what, stream).await;
    }
}

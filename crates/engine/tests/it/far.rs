//! Plain reads of a store that answers late: many at a time, and the rows of a store near by.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use pushdowndb_datagen::Format;
use pushdowndb_engine::{Engine, Report};
use pushdowndb_node::{Credentials, Gateway, NodeConfig, Storage};

use crate::faults::proxy::{Fault, Kind, Proxy};
use crate::world::{KEY, Rows, SECRET, World, assert_same, rows};

const LATENCY: Duration = Duration::from_millis(30);

/// The bytes of a part, and the reads in flight that an endpoint begins with.
const PART_BYTES: u64 = 4 * 1024 * 1024;
const FIRST_LIMIT: usize = 32;

/// The scale of the data: lineitem has 36 MB of CSV, 11 MB of Parquet.
const SCALE: f64 = 0.05;

/// Queries that read all of a table, some columns, few rows, several tables.
const QUERIES: [&str; 5] = [
    "SELECT count(*), sum(l_extendedprice), max(l_comment) FROM lineitem",
    "SELECT l_orderkey, l_linenumber, l_comment FROM lineitem WHERE l_quantity = 7 AND l_shipmode = 'AIR'",
    "SELECT l_returnflag, count(*), sum(l_quantity) FROM lineitem GROUP BY l_returnflag",
    "SELECT l_orderkey, l_extendedprice FROM lineitem ORDER BY l_extendedprice DESC, l_orderkey LIMIT 20",
    "SELECT o_orderpriority, count(*), sum(l_tax) FROM orders JOIN lineitem ON l_orderkey = o_orderkey \
     WHERE o_orderdate < DATE '1995-01-01' GROUP BY o_orderpriority",
];

async fn engine(world: &mut World, endpoint: String, format: Format, threads: usize) -> Engine {
    world.endpoint = endpoint;
    let engine = world.engine_with("none", folder(format)).await;
    for setting in [format!("pushdown.threads = {threads}"), "pushdown.reads = 0".to_owned()] {
        engine.execute(&format!("SET {setting}")).await.expect("a setting");
    }
    engine
}

fn folder(format: Format) -> &'static str {
    if format == Format::Csv { "csv" } else { "parquet" }
}

async fn run(engine: &Engine, sql: &str) -> (Rows, Report) {
    rows(engine, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Compares all queries behind `proxy` with those at the node itself. Returns what the last engine
/// reported of each.
async fn agree(world: &mut World, format: Format, proxy: &Proxy) -> Vec<Report> {
    let near = world.endpoint.clone();
    let near = engine(world, near, format, 2).await;
    let mut reports = Vec::new();
    // By more threads than there are objects, too, and by one last.
    for threads in [4, 3, 1] {
        let far = engine(world, proxy.endpoint(), format, threads).await;
        reports.clear();
        for sql in QUERIES {
            let ((want, _), (got, report)) = (run(&near, sql).await, run(&far, sql).await);
            assert_same(&format!("{sql} by {threads} threads"), &got, &want);
            reports.push(report);
        }
    }
    reports
}

async fn world(format: Format) -> World {
    let world = World::node().await;
    world.tpch_of(SCALE, folder(format), format).await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn text_is_read_in_parts_of_which_many_are_in_flight() {
    let mut world = world(Format::Csv).await;
    let proxy = Proxy::far(&world.endpoint, LATENCY, |_, _| None).await;
    let reports = agree(&mut world, Format::Csv, &proxy).await;
    let usage = &reports[0].usage;
    // An object has a part more for what is left of it.
    let least = usage.bytes_network / PART_BYTES;
    // Few reads that take long are sent a second time.
    let most = least + 3 + usage.requests.get / 16;
    assert!((least..=most).contains(&usage.requests.get), "{usage:?}");
    let most = proxy.seen().most_in_flight;
    assert!((4..=FIRST_LIMIT).contains(&most), "{most} in flight");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_groups_are_read_together() {
    let mut world = world(Format::Parquet).await;
    let proxy = Proxy::far(&world.endpoint, LATENCY, |_, _| None).await;
    agree(&mut world, Format::Parquet, &proxy).await;
    let most = proxy.seen().most_in_flight;
    assert!((3..=FIRST_LIMIT).contains(&most), "{most} in flight");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_reads_little() {
    let mut world = world(Format::Csv).await;
    let proxy = Proxy::far(&world.endpoint, LATENCY, |_, _| None).await;
    let far = engine(&mut world, proxy.endpoint(), Format::Csv, 1).await;
    let (rows, report) = run(&far, "SELECT l_orderkey FROM lineitem LIMIT 10").await;
    assert_eq!(rows.len(), 10);
    assert!(report.usage.bytes_network < PART_BYTES, "{:?}", report.usage);
}

/// Many objects of a few rows are many reads, which do not wait for each other.
#[tokio::test(flavor = "multi_thread")]
async fn small_objects_are_read_together() {
    let mut world = World::node().await;
    for n in 0..100 {
        world.put(&format!("many/{n}.csv"), format!("id,v\n{n},x\n")).await;
    }
    let proxy = Proxy::far(&world.endpoint, LATENCY, |_, _| None).await;
    world.endpoint = proxy.endpoint();
    let engine = world.engine("none").await;
    for setting in ["pushdown.threads = 1", "pushdown.reads = 0"] {
        engine.execute(&format!("SET {setting}")).await.expect("a setting");
    }
    let table = format!(
        "CREATE EXTERNAL TABLE m (id BIGINT, v VARCHAR) STORED AS CSV LOCATION '{}' OPTIONS ('format.has_header' 'true')",
        world.url("many/")
    );
    engine.execute(&table).await.expect("a table");
    let (got, report) = run(&engine, "SELECT count(*), sum(id) FROM m").await;
    assert_eq!(got, [["100", "4950"]]);
    // One in sixteen may be sent a second time.
    let gets = report.usage.requests.get;
    assert!((100..=106).contains(&gets), "{gets} GETs");
    let most = proxy.seen().most_in_flight;
    // The limit may grow beyond the first one.
    assert!((4..=64).contains(&most), "{most} in flight");
}

/// A probe side that waits for no keys is read while the build side is, unless dollars count.
#[tokio::test(flavor = "multi_thread")]
async fn both_sides_of_a_join_are_read_at_the_same_time() {
    let mut world = world(Format::Csv).await;
    let proxy = Proxy::far(&world.endpoint, LATENCY, |_, _| None).await;
    let far = engine(&mut world, proxy.endpoint(), Format::Csv, 1).await;
    // The build side turns out to be empty, so that no row of the probe side is wanted.
    let sql = "SELECT count(*) FROM orders JOIN lineitem ON l_orderkey = o_orderkey WHERE o_comment = 'none like it'";
    let mut reads = Vec::new();
    for objective in ["cost", "latency"] {
        far.execute(&format!("SET pushdown.objective = '{objective}'")).await.expect("a setting");
        let before = proxy.seen().answers.len();
        assert_eq!(run(&far, sql).await.0, [["0"]]);
        reads.push(proxy.seen().answers.len() - before);
    }
    let [cost, latency] = reads[..] else { panic!("{reads:?}") };
    assert!(latency >= cost + 3, "{cost} reads, and {latency} at the same time");
}

/// Answers that break off, and a server that says every other time that it is overloaded.
#[tokio::test(flavor = "multi_thread")]
async fn what_fails_is_read_again() {
    let mut world = world(Format::Csv).await;
    let broken = AtomicUsize::new(0);
    let plan = move |place: usize, kind: Kind| match place {
        // Looking at the tables first shows that the server is far.
        0..4 => None,
        _ if kind != Kind::Get || broken.fetch_add(1, SeqCst) >= 60 => None,
        place if place % 3 == 0 => Some(Fault::Refuse("503 Slow Down")),
        place if place % 3 == 1 => Some(Fault::Break { messages: 0, bytes: 100_000 }),
        _ => None,
    };
    let proxy = Proxy::far(&world.endpoint, LATENCY, plan).await;
    let reports = agree(&mut world, Format::Csv, &proxy).await;
    assert!(proxy.seen().spoiled >= 30, "{:?}", proxy.seen().spoiled);
    assert!(reports[0].usage.requests.get > reports[0].usage.bytes_network / PART_BYTES);
}

/// A read whose answer does not come is sent a second time long before the connection counts as dead.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_stalls_is_sent_again() {
    let mut world = world(Format::Csv).await;
    let stalled =
        |place: usize, kind| (kind == Kind::Get && place >= 60 && place.is_multiple_of(40)).then_some(Fault::Stall);
    let proxy = Proxy::far(&world.endpoint, LATENCY, stalled).await;
    let far = engine(&mut world, proxy.endpoint(), Format::Csv, 1).await;
    far.execute("SET pushdown.timeout_s = 3600").await.expect("a setting");
    let (want, _) = run(&far, QUERIES[0]).await;
    let queries = async {
        while proxy.seen().spoiled < 3 {
            assert_same(QUERIES[0], &run(&far, QUERIES[0]).await.0, &want);
        }
    };
    tokio::time::timeout(Duration::from_secs(300), queries).await.expect("an end without an answer that never comes");
}

/// A gateway before the far store scans what it reads ahead, and its answers have the rows.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_reads_ahead_too() {
    for format in [Format::Csv, Format::Parquet] {
        let mut behind = world(format).await;
        let proxy = Proxy::far(&behind.endpoint, LATENCY, |_, _| None).await;
        let mut gateway = Gateway::new("s3://data".parse().expect("a URL"));
        gateway.endpoint = Some(proxy.endpoint());
        let options = [("aws_access_key_id", KEY), ("aws_secret_access_key", SECRET), ("aws_region", "us-east-1")];
        gateway.options = options.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let mut config = NodeConfig::new(Storage::Gateway(gateway));
        config.credentials = Some(Credentials { access_key_id: KEY.to_owned(), secret_access_key: SECRET.to_owned() });
        let front = pushdowndb_node::start(config).await.expect("a gateway");
        let near = behind.endpoint.clone();
        let near = engine(&mut behind, near, format, 1).await;
        behind.endpoint = front.endpoint().to_string();
        let far = behind.engine_with("fragment", folder(format)).await;
        for sql in QUERIES {
            let ((want, _), (got, _)) = (run(&near, sql).await, run(&far, sql).await);
            assert_same(sql, &got, &want);
        }
        let most = proxy.seen().most_in_flight;
        assert!(most >= 3, "{most} in flight of {format:?}");
    }
}

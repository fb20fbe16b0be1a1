//! Servers that die, refuse and lie: the rows stay right, or the query fails; never anything
//! between.

pub mod proxy;
mod restart;
mod sweep;

use std::sync::atomic::{AtomicUsize, Ordering};

use object_store::ObjectStoreExt;
use pushdowndb_contract::ErrorKind;

use crate::indexes::{declare_scattered, private_objects, scattered, told};
use crate::world::{World, assert_same, failure, gave_up, rows, rows_in_spite};
use proxy::{Fault, Kind, Proxy};

/// As many as `pushdown.retries` by default.
const RETRIES: usize = 3;

/// A proxy that spoils the first `times` answers to requests that push something.
async fn spoiling(world: &World, fault: Fault, times: usize) -> Proxy {
    let left = AtomicUsize::new(times);
    let plan = move |_, kind| {
        let one_less = || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        (kind != Kind::Get && one_less().is_ok()).then_some(fault)
    };
    Proxy::start(&world.endpoint, plan, || {}).await
}

async fn table(world: &World) -> usize {
    let mut csv = String::from("id,text\n");
    let count = 20_000;
    for id in 0..count {
        csv.push_str(&format!("{id},row number {id}\n"));
    }
    world.put("t/1.csv", csv).await;
    count
}

fn declare(world: &World) -> String {
    format!(
        "CREATE EXTERNAL TABLE t (id BIGINT NOT NULL, text VARCHAR NOT NULL) STORED AS CSV LOCATION '{}' \
         OPTIONS ('format.has_header' 'true', 'backend' 'pushdowndb')",
        world.url("t/")
    )
}

const SQL: &str = "SELECT id FROM t WHERE id % 3 = 1";

/// The rows through a spoiled connection, and what the report says.
async fn through(level: &str, fault: Fault, times: usize) {
    let mut world = World::node().await;
    let count = table(&world).await;
    let want: Vec<Vec<String>> = (0..count).filter(|id| id % 3 == 1).map(|id| vec![id.to_string()]).collect();
    let proxy = spoiling(&world, fault, times).await;
    world.endpoint = proxy.endpoint();
    let engine = world.engine(level).await;
    engine.execute(&declare(&world)).await.expect("a table");
    let what = format!("{fault:?} {times} times at {level}");
    let (got, report) = rows_in_spite(&engine, SQL).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_same(&what, &got, &want);
    assert!(proxy.seen().spoiled > 0, "{what}: the fault was met");
    let fell_back = report.usage.strategies.iter().any(|told| gave_up(told));
    let repeated = match fault {
        Fault::Break { .. } | Fault::End { .. } => times <= RETRIES,
        Fault::Refuse(status) => status.starts_with("503") && times <= RETRIES,
        _ => false,
    };
    assert_eq!(fell_back, !repeated, "{what}: {:?}", report.usage.strategies);
    if matches!(fault, Fault::Refuse(status) if !status.starts_with("503")) {
        let (_, report) = rows_in_spite(&engine, SQL).await.expect("rows");
        let requests = report.usage.requests;
        let again = if level == "select" { requests.select } else { requests.fragment };
        assert_eq!(again, 0, "{what}: an endpoint that refused is not asked again");
    }
}

const LEVELS: [&str; 2] = ["select", "fragment"];

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_node_is_left_alone() {
    for level in LEVELS {
        let mut world = World::node().await;
        let count = table(&world).await;
        let want: Vec<Vec<String>> = (0..count).filter(|id| id % 3 == 1).map(|id| vec![id.to_string()]).collect();
        let proxy = spoiling(&world, Fault::Refuse("429 Too Many Requests"), usize::MAX).await;
        world.endpoint = proxy.endpoint();
        let engine = world.engine(level).await;
        engine.execute(&declare(&world)).await.expect("a table");
        let (got, report) = rows(&engine, SQL).await.expect("rows");
        assert_same(level, &got, &want);
        let told = &report.usage.strategies;
        assert!(told.iter().any(|told| told.contains("storage was busy")), "{level}: {told:?}");
        let requests = report.usage.requests;
        // Our node has a queue, in which the request waited already.
        let asked = if level == "select" { 2 } else { 1 };
        assert_eq!(requests.select + requests.fragment, asked, "{level}: asked so often, then read plainly");
    }
}

/// With objective cost one request is for the whole table: a refusal costs no more of it than where
/// seconds count.
#[tokio::test(flavor = "multi_thread")]
async fn storage_that_was_busy_is_asked_again_for_what_is_left() {
    let mut world = World::node().await;
    let (objects, rows_each) = (6, 150_000);
    for object in 0..objects {
        let mut csv = String::from("id,text\n");
        for id in object * rows_each..(object + 1) * rows_each {
            csv.push_str(&format!("{id},{id:-<90}\n"));
        }
        world.put(&format!("t/{object}.csv"), csv).await;
    }
    let proxy = spoiling(&world, Fault::Refuse("429 Too Many Requests"), 1).await;
    world.endpoint = proxy.endpoint();
    let engine = world.engine("fragment").await;
    engine.execute("SET pushdown.objective = 'cost'").await.expect("a setting");
    engine.execute("SET pushdown.threads = 1").await.expect("a setting");
    engine.execute(&declare(&world)).await.expect("a table");
    let sql = "SELECT id FROM t WHERE id % 100000 = 1 ORDER BY id";
    let (got, report) = rows(&engine, sql).await.expect("rows");
    let want: Vec<_> = (0..objects * rows_each).filter(|id| id % 100_000 == 1).map(|id| vec![id.to_string()]).collect();
    assert_same("cost", &got, &want);
    assert_eq!(report.usage.requests.fragment, 2, "{:?}", report.usage.strategies);
    assert!(report.usage.bytes_network < 80_000_000, "not all of the 87 MB: {:?}", report.usage);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_answer_is_asked_for_again() {
    for level in LEVELS {
        for bytes in [1, 300, 20_000] {
            through(level, Fault::Break { messages: 0, bytes }, 2).await;
            through(level, Fault::End { messages: 0, bytes }, 2).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_cut_again_and_again_are_read_plainly() {
    for level in LEVELS {
        through(level, Fault::Break { messages: 0, bytes: 20_000 }, usize::MAX).await;
        through(level, Fault::End { messages: 0, bytes: 20_000 }, usize::MAX).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_answer_is_read_plainly() {
    for level in LEVELS {
        through(level, Fault::Damage { message: 0, bit: 1001 }, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_is_read_plainly() {
    through("select", Fault::Refuse("501 Not Implemented"), usize::MAX).await;
    for status in ["501 Not Implemented", "405 Method Not Allowed", "404 Not Found"] {
        through("fragment", Fault::Refuse(status), usize::MAX).await;
    }
    for level in LEVELS {
        through(level, Fault::Refuse("503 Slow Down"), 2).await;
        through(level, Fault::Refuse("503 Slow Down"), usize::MAX).await;
    }
}

/// The first requests are told to slow down; meanwhile the object is replaced.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_replaced_between_tries_is_a_conflict() {
    for level in LEVELS {
        let mut world = World::node().await;
        table(&world).await;
        let store = world.store();
        let proxy = spoiling(&world, Fault::Refuse("503 Slow Down"), 3).await;
        world.endpoint = proxy.endpoint();
        let engine = world.engine(level).await;
        engine.execute(&declare(&world)).await.expect("a table");
        let replace = async {
            while proxy.seen().spoiled == 0 {
                tokio::task::yield_now().await;
            }
            store.put(&"t/1.csv".into(), "id,text\n1,new\n".into()).await.expect("a PUT");
        };
        let (error, ()) = tokio::join!(failure(&engine, SQL), replace);
        assert_eq!(error.kind(), ErrorKind::Conflict, "{level}: {error}");
        assert!(error.message().contains("t/1.csv"), "{level}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_released_early_are_never_repeated() {
    // As many messages as make a batch of rows.
    for (level, messages) in [("select", 4), ("fragment", 2)] {
        let mut world = World::node().await;
        table(&world).await;
        let proxy = spoiling(&world, Fault::Break { messages, bytes: 0 }, usize::MAX).await;
        world.endpoint = proxy.endpoint();
        let engine = world.engine_configured(&[("pushdown.level", level), ("pushdown.buffer_bytes", "1")]).await;
        engine.execute(&declare(&world)).await.expect("a table");
        let error = failure(&engine, "SELECT id, text FROM t WHERE id >= 0").await;
        assert!(error.message().contains("after rows of a large split were passed on"), "{level}: {error}");
    }
}

/// After planning an index object is replaced, then one is gone: the node scans what it stood for,
/// and says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_index_is_gone_scans_and_says_so() {
    let world = World::node().await;
    let engine = scattered(&world).await;
    engine.execute("SET pushdown.filter = 'index'").await.expect("SET");
    engine.execute("SET pushdown.level = 'fragment'").await.expect("SET");
    let sql = "SELECT code FROM c WHERE code IN (20000, 20001)";
    let (analyzed, _) = rows(&engine, &format!("EXPLAIN ANALYZE VERBOSE {sql}")).await.expect("a plan");
    let analyzed = analyzed.concat().join("\n");
    assert!(analyzed.contains("looked up by the node") && analyzed.contains("index_rows=2"), "{analyzed}");
    assert!(analyzed.contains("index_objects=2") && analyzed.contains("index_unused=0"), "{analyzed}");
    let (analyzed, _) = rows(&engine, &format!("EXPLAIN ANALYZE {sql}")).await.expect("a plan");
    let analyzed = analyzed.concat().join("\n");
    assert!(analyzed.contains("2 rows in 2 objects, 0 objects scanned without it"), "{analyzed}");

    let objects: Vec<_> =
        private_objects(&world).await.into_iter().filter(|path| path.as_ref().ends_with(".csv")).collect();
    for is_there in [true, false] {
        // The node tells the engine to come back later, and meanwhile it happens.
        let proxy = spoiling(&world, Fault::Refuse("503 Slow Down"), RETRIES).await;
        let through = World::at(proxy.endpoint());
        let settings = [("pushdown.level", "fragment"), ("pushdown.filter", "index"), ("pushdown.threads", "1")];
        let engine = through.engine_configured(&settings).await;
        engine.execute(&declare_scattered(&through)).await.expect("a table");
        let damage = async {
            while proxy.seen().spoiled == 0 {
                tokio::task::yield_now().await;
            }
            match is_there {
                true => world.put(objects[0].as_ref(), "value,first_byte_offset,last_byte_offset\n20000,0,3\n").await,
                false => world.store().delete(&objects[1]).await.expect("a deletion"),
            }
        };
        let (answered, ()) = tokio::join!(rows_in_spite(&engine, sql), damage);
        let (got, report) = answered.expect("rows in spite of it");
        assert_same(sql, &got, &vec![vec!["20000".to_owned()], vec!["20001".to_owned()]]);
        let strategies = &report.usage.strategies;
        assert!(told(&report, "it is gone or was replaced"), "{strategies:?}");
        assert!(told(&report, "led to 1 rows in 1 objects") == is_there, "{strategies:?}");
    }
}

/// A node that does not look rows up: the engine does, and reads them in one request.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_node_is_asked_what_it_knows() {
    let world = World::node().await;
    sweep::tables(&world).await;
    let index = sweep::OPERATORS.iter().find(|operator| operator.name == "index").expect("one");
    let proxy = Proxy::older(&world.endpoint).await;
    let through = World::at(proxy.endpoint());
    let mut counts = Vec::new();
    for world in [&world, &through] {
        let engine = sweep::engine(world, "fragment", index.settings).await;
        // What a node can do it says with any answer.
        let (_, _) = rows(&engine, "SELECT count(*) FROM u").await.expect("rows");
        let (got, report) = rows(&engine, index.sql).await.expect("rows");
        assert_eq!(got.len(), 5);
        // The manifest is read plainly.
        let requests = &report.usage.requests;
        assert_eq!(requests.get, 1, "{requests:?}");
        counts.push((got.len(), requests.fragment));
    }
    assert_eq!(counts[0], (5, 1), "the node looks up");
    assert!(counts[1].1 > 1, "the engine looks up: {counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_server_is_said_so() {
    let mut world = World::node().await;
    world.endpoint = "http://127.0.0.1:1".to_owned();
    let engine = world.engine_configured(&[("pushdown.retries", "0")]).await;
    engine.execute(&declare(&world)).await.expect("declared columns need no server");
    let error = failure(&engine, SQL).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

/// Requests that fail and pushdown that is given up are counted, for the scan as for the query.
#[tokio::test(flavor = "multi_thread")]
async fn a_profile_tells_what_failed() {
    for (level, status, times, fell_back) in
        [("fragment", "503 Slow Down", 2, false), ("select", "503 Slow Down", 2, false), ("select", "501 No", 1, true)]
    {
        let mut world = World::node().await;
        table(&world).await;
        let proxy = spoiling(&world, Fault::Refuse(status), times).await;
        world.endpoint = proxy.endpoint();
        let engine = world.engine_configured(&[("pushdown.level", level), ("pushdown.threads", "1")]).await;
        engine.execute(&declare(&world)).await.expect("a table");
        let mut result = engine.execute(SQL).await.expect("a plan");
        result.collect().await.expect("rows");
        let (profile, what) = (result.profile().expect("a plan"), format!("{status} at {level}"));
        let scan = profile.operators().into_iter().find_map(|operator| operator.scan.clone()).expect("a scan").usage;
        assert_eq!(scan.requests_failed, times as u64, "{what}");
        assert_eq!(scan.fall_backs > 0, fell_back, "{what}");
        let usage = &profile.usage;
        assert_eq!((usage.requests_failed, usage.fall_backs), (scan.requests_failed, scan.fall_backs), "{what}");
    }
}

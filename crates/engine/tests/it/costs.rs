//! What pushdown saves, as exact counts; what a query may cost; what EXPLAIN says.

use pushdowndb_datagen::Format;

use crate::world::{World, failure, rows, text};

async fn network(world: &World, level: &str, query: &str) -> u64 {
    let engine = world.engine_with(level, "csv").await;
    let sql = crate::world::queries().into_iter().find(|(name, _)| name == query).expect("a query").1;
    rows(&engine, &sql).await.expect("rows").1.usage.bytes_network
}

#[tokio::test(flavor = "multi_thread")]
async fn pushdown_returns_few_bytes() {
    let world = World::node().await;
    world.tpch("csv", Format::Csv).await;
    for (query, percent) in [("op_filter_1em4", 2), ("q06", 10)] {
        let (none, select) = (network(&world, "none", query).await, network(&world, "select", query).await);
        assert!(select * 100 < none * percent, "{query}: {select} bytes at select, {none} at none");
    }
    for (query, percent) in [("op_filter_1em4", 1), ("q06", 1), ("op_topk_100", 1)] {
        let (none, fragment) = (network(&world, "none", query).await, network(&world, "fragment", query).await);
        assert!(fragment * 100 < none * percent, "{query}: {fragment} bytes at fragment, {none} at none");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_meter_counts_requests_and_bytes() {
    let world = World::node().await;
    let csv = "a,b\n1,x\n2,y\n3,z\n";
    world.put("t/1.csv", csv).await;
    let engine = world.engine("none").await;
    let declare = format!(
        "CREATE EXTERNAL TABLE t (a BIGINT NOT NULL, b VARCHAR NOT NULL) STORED AS CSV LOCATION '{}' \
         OPTIONS ('format.has_header' 'true')",
        world.url("t/")
    );
    engine.execute(&declare).await.expect("a table");
    let (_, report) = rows(&engine, "SELECT a FROM t WHERE a > 1").await.expect("rows");
    let requests = &report.usage.requests;
    assert_eq!((requests.list, requests.get, requests.select, requests.head), (1, 1, 0, 0));
    assert!(report.usage.bytes_network > csv.len() as u64);
    assert_eq!(report.usage.rows, 2);

    engine.execute("SET pushdown.level = 'select'").await.expect("SET");
    let (_, report) = rows(&engine, "SELECT a FROM t WHERE a > 1").await.expect("rows");
    let requests = &report.usage.requests;
    assert_eq!((requests.list, requests.get, requests.select), (1, 0, 1));
    assert_eq!(report.usage.bytes_scanned, csv.len() as u64);
    assert!(report.bill.scan > 0.0 && report.bill.request > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn caps_refuse_before_and_stop_during() {
    let world = World::node().await;
    world.tpch("csv", Format::Csv).await;
    let engine = world.engine_with("none", "csv").await;
    engine.execute("SET pushdown.max_bytes = 1000").await.expect("SET");
    let error = failure(&engine, "SELECT count(*) FROM lineitem WHERE l_comment LIKE '%x%'").await;
    assert_eq!(error.kind(), pushdowndb_contract::ErrorKind::Limit);
    assert!(error.message().contains("refused before running"), "{error}");
    engine.execute("SET pushdown.max_bytes = 0").await.expect("SET");
    engine.execute("SET pushdown.max_usd = 0.000000001").await.expect("SET");
    let error = failure(&engine, "SELECT count(*) FROM lineitem WHERE l_comment LIKE '%x%'").await;
    assert_eq!(error.kind(), pushdowndb_contract::ErrorKind::Limit, "{error}");

    // The estimate of a filter that keeps everything is too low: the query is stopped while it
    // runs.
    let engine = world.engine_with("select", "csv").await;
    engine.execute("SET pushdown.max_bytes = 2500000").await.expect("SET");
    let error = failure(&engine, "SELECT * FROM lineitem WHERE l_quantity > -1").await;
    assert_eq!(error.kind(), pushdowndb_contract::ErrorKind::Limit);
    assert!(error.message().contains("stopped after"), "{error}");
    // Storage sends no more rows of a split than the limit, and the estimate knows.
    let engine = world.engine_with("fragment", "csv").await;
    engine.execute("SET pushdown.max_bytes = 50000").await.expect("SET");
    let first = rows(&engine, "SELECT * FROM lineitem LIMIT 3").await.expect("rows of a limit").0;
    assert_eq!(first.len(), 3);
    failure(&engine, "SELECT * FROM lineitem").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_tells_what_is_pushed() {
    let world = World::node().await;
    world.tpch("csv", Format::Csv).await;
    let engine = world.engine_with("select", "csv").await;
    let explain = async |sql: &str| {
        let mut result = engine.execute(sql).await.expect("a plan");
        text(&result.collect().await.expect("rows")).concat().join("\n")
    };
    let plan = explain("EXPLAIN SELECT l_orderkey FROM lineitem WHERE l_quantity < 2").await;
    assert!(plan.contains("level=select (pushdowndb)") && plan.contains("l_quantity < 2"), "{plan}");
    assert!(!plan.contains("FilterExec"), "the scan filters exactly: {plan}");
    let plan = explain("EXPLAIN SELECT sum(l_quantity), count(*) FROM lineitem WHERE l_quantity < 2").await;
    assert!(plan.contains("aggregates=[SUM(l_quantity), COUNT(*)]"), "{plan}");
    let plan = explain("EXPLAIN ANALYZE VERBOSE SELECT l_orderkey FROM lineitem WHERE l_quantity < 2").await;
    for counter in ["bytes_network=", "requests_select=", "bytes_scanned="] {
        assert!(plan.contains(counter), "{counter} in {plan}");
    }
    engine.execute("SET pushdown.filter = 'compute'").await.expect("SET");
    let plan = explain("EXPLAIN SELECT l_orderkey FROM lineitem WHERE l_quantity < 2").await;
    assert!(plan.contains("level=none (asked for by SET)"), "{plan}");
}

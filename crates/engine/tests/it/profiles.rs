//! What a profile says of the parts of a plan makes up what the meter says of the query.

use pushdowndb_cost::RequestKind;
use pushdowndb_datagen::Format;
use pushdowndb_engine::{Engine, Profile};

use crate::indexes::scattered;
use crate::world::{World, queries, rows, text};

/// Runs a statement and holds its profile against its report.
async fn profiled(engine: &Engine, what: &str, sql: &str) -> Profile {
    let mut result = engine.execute(sql).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    let batches = result.collect().await.unwrap_or_else(|error| panic!("{what}: {error}"));
    let (profile, usage) = (result.profile().expect("a plan"), result.report().usage);
    let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    assert_eq!((profile.root.actual.rows, profile.usage.rows), (Some(rows as u64), rows as u64), "{what}: rows");

    let operators = profile.operators();
    let scans: Vec<_> = operators.iter().filter_map(|operator| operator.scan.as_ref()).collect();
    let parts = || scans.iter().map(|scan| &scan.usage).chain([&profile.planning]);
    assert_eq!(parts().map(|part| part.bytes_network).sum::<u64>(), usage.bytes_network, "{what}: bytes");
    assert_eq!(parts().map(|part| part.bytes_sent).sum::<u64>(), usage.bytes_sent, "{what}: bytes sent");
    assert_eq!(parts().map(|part| part.bytes_scanned).sum::<u64>(), usage.bytes_scanned, "{what}: bytes scanned");
    assert_eq!(parts().map(|part| part.bytes_returned).sum::<u64>(), usage.bytes_returned, "{what}: bytes returned");
    for kind in RequestKind::ALL {
        let requests = parts().map(|part| part.requests.of(kind)).sum::<u64>();
        assert_eq!(requests, usage.requests.of(kind), "{what}: {kind:?}");
    }
    let storage = parts().map(|part| part.storage_cpu_s).sum::<f64>();
    assert!((storage - usage.storage_cpu_s).abs() < 1e-6, "{what}: {storage} s of {} s", usage.storage_cpu_s);
    // What a scan says of itself in two places is the same.
    for (operator, scan) in operators.iter().filter_map(|operator| Some((operator, operator.scan.as_ref()?))) {
        assert_eq!(operator.actual.bytes, Some(scan.usage.bytes_network), "{what}");
        assert_eq!(operator.actual.requests, Some(scan.usage.requests.total()), "{what}");
        assert!(operator.actual.seconds.expect("seconds") <= usage.wall_s, "{what}: {operator:?}");
    }
    profile
}

#[tokio::test(flavor = "multi_thread")]
async fn the_parts_make_up_the_whole_at_every_level() {
    let world = World::node().await;
    world.tpch("csv", Format::Csv).await;
    let of_interest = ["op_filter_1em4", "op_topk_100", "q01", "q03", "q06", "q14", "q18"];
    let queries: Vec<_> = queries().into_iter().filter(|(name, _)| of_interest.contains(&name.as_str())).collect();
    assert_eq!(queries.len(), of_interest.len());
    for level in ["none", "select", "fragment"] {
        let engine = world.engine_with(level, "csv").await;
        for (name, sql) in &queries {
            let profile = profiled(&engine, &format!("{name} at {level}"), sql).await;
            assert!(profile.planning.requests.list > 0, "{name}: tables are listed before the plan runs");
        }
    }
}

/// Strategies in several phases: what they read first is paid by the scan, and none of its rows.
#[tokio::test(flavor = "multi_thread")]
async fn first_phases_cost_and_give_no_rows() {
    let world = World::node().await;
    world.tpch("csv", Format::Csv).await;
    let engine = world.engine_with("select", "csv").await;
    for setting in ["top_k = 'sampling'", "group_by = 'storage'", "join = 'bloom'"] {
        engine.execute(&format!("SET pushdown.{setting}")).await.expect("SET");
    }
    let scan_of = |profile: &Profile, table: &str| {
        let operators = profile.operators();
        let mut scans = operators.iter().filter_map(|operator| operator.scan.as_ref());
        scans.find(|scan| scan.table == table).expect("the table's scan").usage.clone()
    };
    let top = "SELECT l_orderkey, l_extendedprice FROM lineitem ORDER BY l_extendedprice DESC LIMIT 10";
    let scan = scan_of(&profiled(&engine, "top-k", top).await, "lineitem");
    assert!(scan.rows >= 10 && scan.rows < 2000, "{} rows up to the bound", scan.rows);
    // A state for each of the four groups of a split, where it has them all.
    let groups = "SELECT l_linestatus, l_returnflag, count(*), sum(l_quantity) FROM lineitem GROUP BY 1, 2";
    let profile = profiled(&engine, "groups", groups).await;
    let told = profile.operators().into_iter().find(|operator| operator.title == "Group by").expect("a GroupByExec");
    assert!(told.actual.rows.is_some_and(|rows| (4..200).contains(&rows)), "{told:?}");
    assert_eq!(told.decisions.first().map(|decision| decision.taken.as_str()), Some("storage"));
    assert!(scan_of(&profile, "lineitem").requests.select > 1);
    let join = "SELECT count(*) FROM orders JOIN customer ON o_custkey = c_custkey WHERE c_acctbal < -900";
    let (profile, (counted, _)) = (profiled(&engine, "join", join).await, rows(&engine, join).await.expect("rows"));
    let joined: u64 = counted[0][0].parse().expect("a count");
    assert!(scan_of(&profile, "orders").rows >= joined && joined > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn look_ups_count_for_their_scan() {
    let world = World::node().await;
    let engine = scattered(&world).await;
    engine.execute("SET pushdown.filter = 'index'").await.expect("SET");
    for level in ["none", "select", "fragment"] {
        engine.execute(&format!("SET pushdown.level = '{level}'")).await.expect("SET");
        let profile = profiled(&engine, level, "SELECT code FROM c WHERE code IN (20000, 20001)").await;
        let operators = profile.operators();
        let scan = operators.iter().find_map(|operator| operator.scan.as_ref()).expect("a scan");
        assert_eq!(scan.usage.rows, 2, "{level}");
    }
}

/// EXPLAIN ANALYZE is the same profile as text, of the rows that it does not show.
#[tokio::test(flavor = "multi_thread")]
async fn explain_analyze_runs_what_it_explains() {
    let world = World::node().await;
    world.tpch("csv", Format::Csv).await;
    let engine = world.engine_with("fragment", "csv").await;
    let sql = "SELECT o_orderkey FROM orders JOIN customer ON o_custkey = c_custkey WHERE c_acctbal < 0";
    let (want, report) = rows(&engine, sql).await.expect("rows");
    let mut result = engine.execute(&format!("EXPLAIN ANALYZE {sql}")).await.expect("a plan");
    let shown = text(&result.collect().await.expect("rows"));
    let profile = result.profile().expect("a plan");
    assert_eq!((shown.len(), profile.usage.rows), (1, want.len() as u64));
    assert_eq!(profile.usage.requests.fragment, report.usage.requests.fragment);
    let shown = &shown[0][1];
    for line in [
        "Hybrid hash join",
        "├─ Scan of ",
        "└─ Scan of ",
        "expected      actual",
        "join = ",
        "rather than ",
        "planning  ",
    ] {
        assert!(shown.contains(line), "{line} in\n{shown}");
    }
    assert!(!shown.contains("Repartition"), "plumbing is not shown\n{shown}");
    // What may not run, or would change something, is not run.
    assert!(engine.execute("EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1").await.is_err());
    assert!(engine.execute("SELECT * FROM t").await.is_err());
    engine.execute("SET pushdown.max_bytes = 10").await.expect("SET");
    let refused = engine.execute(&format!("EXPLAIN ANALYZE {sql}")).await.map(|_| ()).expect_err("a cap");
    assert_eq!(refused.kind(), pushdowndb_contract::ErrorKind::Limit);
}

//! Tables are sampled once for as long as they stay as they are, and samples change no rows.

use pushdowndb_engine::Engine;

use crate::world::{World, rows};

/// A table of 17 MiB: one in a thousand rows is rare, and there are 40 groups.
async fn table(world: &World) -> String {
    let mut csv = String::from("id,kind,note\n");
    let mut id: i64 = 0;
    while csv.len() < 17 << 20 {
        let kind = id * 7919 % 40;
        let note = if id % 1000 == 7 { "rare" } else { "a common note and nothing to look for" };
        csv.push_str(&format!("{id},{kind},{note}\n"));
        id += 1;
    }
    world.put("t/1.csv", csv).await;
    format!(
        "CREATE EXTERNAL TABLE t (id BIGINT NOT NULL, kind BIGINT NOT NULL, note VARCHAR NOT NULL) STORED AS CSV \
         LOCATION '{}' OPTIONS ('format.has_header' 'true')",
        world.url("t/")
    )
}

async fn engine(world: &World, cache: Option<&std::path::Path>, level: &str) -> Engine {
    match cache {
        Some(cache) => world.engine_in(level, cache).await,
        None => world.engine(level).await,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_sampled_once_for_each_version_of_it() {
    let world = World::node().await;
    let declare = table(&world).await;
    let folder = tempfile::tempdir().expect("a folder");
    let sql = "SELECT count(*), min(id) FROM t WHERE note = 'rare'";
    let gets = async |engine: &Engine| {
        let (rows, report) = rows(engine, sql).await.expect("rows");
        (rows, report.usage.requests.get)
    };

    let baseline = engine(&world, None, "none").await;
    baseline.execute(&declare).await.expect("a table");
    let (want, _) = gets(&baseline).await;

    let first = engine(&world, Some(folder.path()), "fragment").await;
    first.execute(&declare).await.expect("a table");
    let (got, cold) = gets(&first).await;
    assert_eq!(got, want);
    assert_eq!(cold, 2, "43 KiB in pieces of 16 KiB");
    assert_eq!(gets(&first).await.1, 0, "known by now");

    let second = engine(&world, Some(folder.path()), "fragment").await;
    second.execute(&declare).await.expect("a table");
    assert_eq!(gets(&second).await.1, 0, "known from the folder");

    world.put("t/2.csv", "id,kind,note\n-1,0,rare\n").await;
    let (got, again) = gets(&second).await;
    assert_eq!(got[0][1], "-1");
    assert!(again > 0, "another table by now");

    second.execute("SET pushdown.statistics = 'none'").await.expect("SET");
    world.put("t/3.csv", "id,kind,note\n-2,0,rare\n").await;
    assert_eq!(gets(&second).await.1, 0, "not asked for");
}

/// What the node knows of the values in an object it does not look at again, and the next scan for
/// the same is planned so: as one request, in this session and in another.
#[tokio::test(flavor = "multi_thread")]
async fn what_storage_passes_over_is_remembered() {
    let world = World::node().await;
    let declare = table(&world).await;
    let folder = tempfile::tempdir().expect("a folder");
    let sql = "SELECT id, kind FROM t WHERE id < 5";
    let one_thread = async |engine: &Engine| engine.execute("SET pushdown.threads = 1").await.expect("SET");
    let first = engine(&world, Some(folder.path()), "fragment").await;
    one_thread(&first).await;
    first.execute(&declare).await.expect("a table");
    let (want, cold) = rows(&first, sql).await.expect("rows");
    assert_eq!(want.len(), 5);
    assert!(cold.usage.bytes_scanned > 16 << 20 && cold.usage.requests.fragment > 1, "{:?}", cold.usage);

    let second = engine(&world, Some(folder.path()), "fragment").await;
    one_thread(&second).await;
    second.execute(&declare).await.expect("a table");
    for engine in [&first, &second] {
        let (got, warm) = rows(engine, sql).await.expect("rows");
        assert_eq!(got, want);
        assert!(warm.usage.bytes_scanned < 3 << 20, "{:?}", warm.usage);
        assert_eq!(warm.usage.requests.fragment, 1, "of both splits next to nothing is left");
    }
    second.execute("SET pushdown.statistics = 'none'").await.expect("SET");
    let (got, unasked) = rows(&second, sql).await.expect("rows");
    assert_eq!((got, unasked.usage.requests.fragment), (want, cold.usage.requests.fragment), "as if nothing was seen");
}

/// Keys that nobody can tell the number of are waited for once. As they left nothing out, they are
/// not waited for again.
#[tokio::test(flavor = "multi_thread")]
async fn what_earlier_queries_found_is_remembered() {
    let world = World::node().await;
    let declare = table(&world).await;
    let kinds: String = (0..40).map(|kind| format!("{kind}\n")).collect();
    world.put("u/1.csv", format!("k\n{kinds}")).await;
    let folder = tempfile::tempdir().expect("a folder");
    let sql = "SELECT count(*), sum(id) FROM (SELECT k FROM u GROUP BY k HAVING count(*) < 5) JOIN t ON kind = k \
               WHERE id % 3 = 1";
    for (first_time, join) in [(true, "bloom"), (false, "filtered")] {
        let engine = engine(&world, Some(folder.path()), "fragment").await;
        engine.execute(&declare).await.expect("a table");
        let declare = format!(
            "CREATE EXTERNAL TABLE u (k BIGINT NOT NULL) STORED AS CSV LOCATION '{}' OPTIONS ('format.has_header' 'true')",
            world.url("u/")
        );
        engine.execute(&declare).await.expect("a table");
        let (plan, _) = rows(&engine, &format!("EXPLAIN {sql}")).await.expect("a plan");
        let plan = plan.concat().join("\n");
        assert!(plan.contains(&format!("join={join}")), "first time: {first_time}\n{plan}");
        rows(&engine, sql).await.expect("rows");
    }
}

/// A listing, then the pieces of the sample at the same time; the listing alone once that is known.
#[tokio::test(flavor = "multi_thread")]
async fn choosing_takes_two_rounds_of_requests_and_later_one() {
    let world = World::node().await;
    let declare = table(&world).await;
    let engine = engine(&world, None, "auto").await;
    engine.execute(&declare).await.expect("a table");
    for pieces in [2, 0] {
        let mut result =
            engine.execute("SELECT kind, count(*) FROM t WHERE note = 'rare' GROUP BY kind").await.expect("a plan");
        let planning = result.profile().expect("a plan").planning.requests;
        assert_eq!((planning.list, planning.get, planning.total()), (1, pieces, 1 + pieces));
        result.collect().await.expect("rows");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn estimates_are_those_of_the_sample() {
    let world = World::node().await;
    let declare = table(&world).await;
    let engine = engine(&world, None, "fragment").await;
    engine.execute(&declare).await.expect("a table");
    // Columns that are long to send and few groups, as the sample shows.
    let sql = "SELECT kind, count(*), max(id), max(note) FROM t GROUP BY kind";
    let (plan, _) = rows(&engine, &format!("EXPLAIN {sql}")).await.expect("a plan");
    let plan = plan.concat().join("\n");
    assert!(plan.contains("group_by=storage"), "{plan}");
    let (rows, _) = rows(&engine, sql).await.expect("rows");
    assert_eq!(rows.len(), 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_counted_and_told_to_others() {
    let world = World::node().await;
    world.put("s/1.csv", "k,v\n1,a\n2,b\n3,b\n").await;
    world.put("s/2.csv", "k,v\n4,\n").await;
    let declare = format!(
        "CREATE EXTERNAL TABLE s (k BIGINT, v VARCHAR) STORED AS CSV LOCATION '{}' OPTIONS ('format.has_header' 'true')",
        world.url("s/")
    );
    let one = engine(&world, None, "fragment").await;
    one.execute(&declare).await.expect("a table");
    let (counted, _) = rows(&one, "ANALYZE TABLE s WITH (beside = true)").await.expect("counts");
    let row = |values: [&str; 7]| values.map(str::to_owned).to_vec();
    assert_eq!(counted[0], row(["k", "BIGINT", "4", "0", "4", "1", "4"]));
    assert_eq!(counted[1][..5], row(["v", "VARCHAR", "4", "1", "2", "", ""])[..5]);

    // Another session knows it from the data's own folder, for as long as the objects stay as they
    // are.
    let gets =
        async |engine: &Engine| rows(engine, "SELECT v FROM s WHERE k = 4").await.expect("rows").1.usage.requests.get;
    let other = engine(&world, None, "fragment").await;
    other.execute(&declare).await.expect("a table");
    assert_eq!(gets(&other).await, 1, "what was counted");
    assert_eq!(gets(&other).await, 0, "known by now");
    world.put("s/3.csv", "k,v\n5,c\n").await;
    let later = engine(&world, None, "fragment").await;
    later.execute(&declare).await.expect("a table");
    let (got, _) = rows(&later, "SELECT count(*) FROM s").await.expect("rows");
    assert_eq!(got[0][0], "5");

    for (sql, part) in [("ANALYZE TABLE nothing", "nothing"), ("ANALYZE s WITH (beside = 1)", "beside = true")] {
        let error = rows(&later, sql).await.map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(part), "{sql}: {error}");
    }
}

/// Three tables that hang together: many lines of few orders, each of one of ten customers.
async fn shop(world: &World, engine: &Engine) {
    let lines: String = (0..3000).map(|i| format!("{},{}\n", i % 300, i)).collect();
    let orders: String = (0..300).map(|i| format!("{i},{}\n", i % 10)).collect();
    let customers: String = (0..10).map(|i| format!("{i},name {i}\n")).collect();
    for (name, columns, rows) in [
        ("lines", "l_order BIGINT, price BIGINT", lines),
        ("orders", "o_order BIGINT, o_customer BIGINT", orders),
        ("customers", "c_customer BIGINT, name VARCHAR", customers),
    ] {
        world.put(&format!("shop/{name}/1.csv"), rows).await;
        let location = world.url(&format!("shop/{name}/"));
        let declare = format!(
            "CREATE EXTERNAL TABLE {name} ({columns}) STORED AS CSV LOCATION '{location}' OPTIONS ('format.has_header' 'false')"
        );
        engine.execute(&declare).await.expect("a table");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_begin_where_most_is_left_out() {
    let world = World::node().await;
    let sql = "SELECT l.*, o.*, c.name FROM lines l JOIN orders o ON l_order = o_order AND price + o_customer <> 7 \
               JOIN customers c ON o_customer = c_customer WHERE name = 'name 3' ORDER BY price, l_order";
    let none = engine(&world, None, "none").await;
    shop(&world, &none).await;
    let (want, _) = rows(&none, sql).await.expect("rows");
    assert_eq!(want.len(), 300);

    let engine = engine(&world, None, "fragment").await;
    shop(&world, &engine).await;
    let places = async || {
        let (plan, _) = rows(&engine, &format!("EXPLAIN {sql}")).await.expect("a plan");
        let plan = plan.concat().join("\n");
        let place = |name: &str| plan.find(&format!("TableScan: {name}")).unwrap_or_else(|| panic!("{name}: {plan}"));
        ["customers", "orders", "lines"].map(place)
    };
    assert!(!places().await.is_sorted(), "nothing is known, so they stay as written");
    for table in ["lines", "orders", "customers"] {
        rows(&engine, &format!("ANALYZE TABLE {table}")).await.expect("counts");
    }
    assert!(places().await.is_sorted(), "customers, then orders, then lines");
    let (got, _) = rows(&engine, sql).await.expect("rows");
    assert_eq!(got, want);
}

//! Tables whose objects lie at several endpoints: lists of locations, and manifests with replicas.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use futures::TryStreamExt;
use object_store::{ObjectStore, ObjectStoreExt};
use pushdowndb_datagen::{DataSet, Destination, Format, Options, generate_over};
use pushdowndb_engine::Engine;

use crate::fleet::{Door, Way};
use crate::world::{Rows, SCALE, World, assert_same, failure, queries, rows, rows_in_spite};

/// The node's names of what is pushed.
const FRAGMENT: &str = "RunFragment";
const SELECT: &str = "SelectObjectContent";

/// A few of the queries, which filter, aggregate, join and sort.
const SOME: [&str; 5] = ["q01", "q03", "q06", "q14", "q18"];

/// Nodes with a store each, behind doors.
struct Disks {
    worlds: Vec<World>,
    doors: Vec<Door>,
}

impl Disks {
    /// Nodes over which TPC-H is dealt, each table in this many objects.
    async fn with_tpch(nodes: usize, parts: u32, format: Format) -> Self {
        let mut disks = Self { worlds: vec![], doors: vec![] };
        for _ in 0..nodes {
            let world = World::node().await;
            let address = world.endpoint.trim_start_matches("http://").trim_end_matches('/').parse();
            disks.doors.push(Door::before(address.expect("an address")).await);
            disks.worlds.push(world);
        }
        let place = |(number, world): (usize, &World)| Destination {
            store: Arc::new(world.store()),
            prefix: "t".into(),
            url: world.url("t"),
            endpoint: Some(disks.endpoint(number)),
        };
        let places: Vec<Destination> = disks.worlds.iter().enumerate().map(place).collect();
        let options = Options { scale: SCALE, format, parts, overwrite: false };
        generate_over(DataSet::Tpch, options, &places, 1, |_| {}).await.expect("data");
        disks
    }

    fn endpoint(&self, number: usize) -> String {
        format!("http://{}", self.doors[number].address)
    }

    /// A session at this level with all tables; its own endpoint is the first node's.
    async fn engine(&self, level: &str) -> Engine {
        self.worlds[0].engine_with(level, "t").await
    }

    /// The requests of an operation that each node has had.
    fn requests(&self, operation: &str) -> Vec<u64> {
        self.worlds.iter().map(|world| world.requests_of(operation)).collect()
    }

    /// Lists `table` in a manifest of which each object has a replica on the next node, and declares
    /// it in `engine`.
    async fn replicate(&self, table: &str, format: Format, engine: &Engine) {
        let nodes = self.worlds.len();
        let mut listed = String::new();
        for (home, world) in self.worlds.iter().enumerate() {
            let other = (home + 1) % nodes;
            let found: Vec<_> =
                world.store().list(Some(&format!("t/{table}").into())).try_collect().await.expect("a list");
            for object in found {
                // A replica is no object of the list of the table's folders, so it has another key there.
                let bytes = world.store().get(&object.location).await.expect("an object").bytes().await.expect("bytes");
                let key = object.location.as_ref().replace("t/", "r/");
                for number in [home, other] {
                    self.worlds[number].put(&key, bytes.clone()).await;
                }
                let stores = [home, other].map(|number| format!("\"s3://data@{}\"", self.endpoint(number)));
                let comma = if listed.is_empty() { "" } else { ",\n" };
                let (size, stores) = (object.size, stores.join(", "));
                write!(listed, "{comma}{{\"key\": \"{key}\", \"size\": {size}, \"stores\": [{stores}]}}").unwrap();
            }
        }
        let manifest = format!("{{\"version\": 1, \"objects\": [{listed}]}}");
        self.worlds[0].put(&format!("{table}.manifest.json"), manifest).await;
        let schema = pushdowndb_datagen::schema(table).expect("a table");
        let columns: Vec<String> =
            schema.fields().iter().map(|field| format!("{} {}", field.name(), sql_type(field.data_type()))).collect();
        let (kind, options) = match format {
            Format::Csv => ("CSV", " OPTIONS ('format.has_header' 'true')"),
            _ => ("PARQUET", ""),
        };
        let sql = format!(
            "CREATE OR REPLACE EXTERNAL TABLE {table} ({}) STORED AS {kind} LOCATION 's3://data/{table}.manifest.json'{options}",
            columns.join(", ")
        );
        engine.execute(&sql).await.expect("a declaration");
    }
}

fn sql_type(kind: &arrow::datatypes::DataType) -> String {
    use arrow::datatypes::DataType;
    match kind {
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::Int32 => "INT".to_owned(),
        DataType::Date32 => "DATE".to_owned(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        _ => "VARCHAR".to_owned(),
    }
}

/// The rows of every query over the same data in one store.
async fn wanted() -> BTreeMap<String, Rows> {
    let world = World::node().await;
    world.tpch("t", Format::Csv).await;
    let engine = world.engine_with("none", "t").await;
    let mut all = BTreeMap::new();
    for (name, sql) in queries() {
        all.insert(name, rows(&engine, &sql).await.expect("rows").0);
    }
    all
}

/// Nodes with a bound on their disks answer like others, and what is read is what was written.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_with_a_bound_is_read_like_another() {
    let (world, bounded) = (World::node().await, World::node_with(|limits| limits.disk_bytes = 200_000_000).await);
    for world in [&world, &bounded] {
        world.tpch("t", Format::Csv).await;
    }
    for level in ["none", "select", "fragment"] {
        let (engine, slow) = (world.engine_with(level, "t").await, bounded.engine_with(level, "t").await);
        for (name, sql) in queries().into_iter().filter(|(name, _)| SOME.contains(&name.as_str())) {
            let (want, _) = rows(&engine, &sql).await.expect("rows");
            let (got, _) = rows(&slow, &sql).await.unwrap_or_else(|error| panic!("{name} at {level}: {error}"));
            assert_same(&format!("{name} at {level}"), &got, &want);
        }
    }
}

/// Every query has the rows of one store, at every level, and every node is asked for what is pushed.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_over_three_nodes_is_that_of_one() {
    let want = wanted().await;
    for format in [Format::Csv, Format::Parquet] {
        let disks = Disks::with_tpch(3, 5, format).await;
        for level in ["none", "select", "fragment", "auto"] {
            let engine = disks.engine(level).await;
            let before = (disks.requests(FRAGMENT), disks.requests(SELECT));
            for (name, sql) in queries() {
                let (got, _) = rows(&engine, &sql).await.unwrap_or_else(|error| panic!("{name} at {level}: {error}"));
                assert_same(&format!("{name} at {level}, {format:?}"), &got, &want[&name]);
            }
            let more = |after: Vec<u64>, before: Vec<u64>| after.into_iter().zip(before).map(|(a, b)| a - b).collect();
            let (fragments, selects): (Vec<u64>, Vec<u64>) =
                (more(disks.requests(FRAGMENT), before.0), more(disks.requests(SELECT), before.1));
            let all = |counts: &[u64]| counts.iter().all(|count| *count > 5);
            match level {
                "none" => {
                    assert!(fragments.iter().chain(&selects).all(|count| *count == 0), "{fragments:?} {selects:?}")
                }
                "select" => assert!(all(&selects), "{format:?}: {selects:?}"),
                "fragment" => assert!(all(&fragments), "{format:?}: {fragments:?}"),
                _ => {}
            }
        }
        let engine = disks.engine("fragment").await;
        let sql = "EXPLAIN SELECT count(*) FROM lineitem WHERE l_quantity < 3";
        let (plan, _) = rows(&engine, sql).await.expect("a plan");
        assert!(format!("{plan:?}").contains("3 stores"), "{plan:?}");
        let index = engine.execute("CREATE INDEX ON lineitem (l_orderkey)").await.expect_err("no index");
        assert!(index.to_string().contains("several stores"), "{index}");
    }
}

/// A node that is down is an error that names it. Where a manifest names replicas they are read, at
/// every level, and by the next query at once.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_stand_in_for_a_node_that_is_down() {
    let want = wanted().await;
    for format in [Format::Csv, Format::Parquet] {
        let disks = Disks::with_tpch(3, 5, format).await;
        for level in ["none", "select", "fragment"] {
            let engine = disks.engine(level).await;
            for table in ["lineitem", "orders", "customer", "part"] {
                disks.replicate(table, format, &engine).await;
            }
            for down in [false, true] {
                disks.doors[1].set(if down { Way::Gone } else { Way::Open });
                for (name, sql) in queries().into_iter().filter(|(name, _)| SOME.contains(&name.as_str())) {
                    let what = format!("{name} at {level}, {format:?}, down: {down}");
                    let ran = if down { rows_in_spite(&engine, &sql).await } else { rows(&engine, &sql).await };
                    let (got, _) = ran.unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert_same(&what, &got, &want[&name]);
                }
            }
            let error = failure(&engine, "SELECT sum(s_acctbal) FROM supplier").await.to_string();
            assert!(error.contains(&disks.endpoint(1)), "{level}: {error}");
            disks.doors[1].set(Way::Open);
            let (back, _) = rows_in_spite(&engine, "SELECT count(*) FROM supplier").await.expect("rows");
            assert_eq!(back, [["100"]], "{level}");
        }
    }
}

/// A node that is slow scans less of what others have, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_node_gets_less() {
    let disks = Disks::with_tpch(3, 24, Format::Csv).await;
    let engine = disks.engine("select").await;
    disks.replicate("lineitem", Format::Csv, &engine).await;
    for set in ["pushdown.requests = 1", "datafusion.execution.target_partitions = 1"] {
        engine.execute(&format!("SET {set}")).await.expect("a setting");
    }
    let sql = "SELECT l_orderkey, l_comment FROM lineitem WHERE l_quantity < 40";
    let (want, _) = rows(&engine, sql).await.expect("rows");
    let before = disks.requests(SELECT);
    disks.doors[0].set(Way::Slow);
    let (got, _) = rows(&engine, sql).await.expect("rows");
    let shares: Vec<u64> = disks.requests(SELECT).iter().zip(before).map(|(after, before)| after - before).collect();
    assert_same("beside a slow node", &got, &want);
    assert_eq!(shares.iter().sum::<u64>(), 24, "each object once: {shares:?}");
    assert!(shares[0] < 8 && shares[1] > shares[0], "a third without stealing: {shares:?}");
}

/// A small table is read once: later queries ask for nothing but its listing, until it changes.
#[tokio::test(flavor = "multi_thread")]
async fn small_tables_are_read_once_and_kept() {
    for format in [Format::Csv, Format::Parquet] {
        let world = World::node().await;
        world.tpch("t", format).await;
        let engine = world.engine_with("auto", "t").await;
        engine.execute("SET pushdown.keep_bytes = 67108864").await.expect("a setting");
        let small = "SELECT count(*), max(s_name) FROM supplier WHERE s_nationkey < 12";
        let join = "SELECT count(*) FROM lineitem, supplier WHERE l_suppkey = s_suppkey AND s_nationkey = 3";
        let (want, first) = rows(&engine, small).await.expect("rows");
        assert!(first.usage.requests.get > 0 && first.usage.requests.fragment == 0, "{:?}", first.usage.requests);
        let (plan, _) = rows(&engine, &format!("EXPLAIN {small}")).await.expect("a plan");
        assert!(format!("{plan:?}").contains("small, read once and kept"), "{plan:?}");
        for _ in 0..2 {
            let (got, again) = rows(&engine, small).await.expect("rows");
            assert_same("kept", &got, &want);
            let requests = again.usage.requests;
            assert_eq!((requests.list, requests.total()), (1, 1), "{format:?}: {requests:?}");
        }
        // The other table of a join is pushed to all the same.
        let (of_both, _) = rows(&engine, join).await.expect("rows");
        let (got, report) = rows(&engine, join).await.expect("rows");
        assert_same("a join", &got, &of_both);
        let requests = report.usage.requests;
        assert_eq!((requests.list, requests.head), (2, 0), "{requests:?}");
        assert!(requests.fragment > 0, "{requests:?}");
        let plain = world.engine_with("none", "t").await;
        assert_same("a join", &rows(&plain, join).await.expect("rows").0, &of_both);
        // What is not to be kept is pushed again.
        engine.execute("SET pushdown.keep_bytes = 0").await.expect("a setting");
        let (got, report) = rows(&engine, small).await.expect("rows");
        assert_same("not kept", &got, &want);
        assert!(report.usage.requests.total() > 1, "{:?}", report.usage.requests);
        engine.execute("SET pushdown.keep_bytes = 67108864").await.expect("a setting");
        // Another version has another ETag.
        let found: Vec<_> = world.store().list(Some(&"t/supplier".into())).try_collect().await.expect("a list");
        for object in found.iter().skip(1) {
            world.store().delete(&object.location).await.expect("a deletion");
        }
        let (got, _) = rows(&engine, "SELECT count(*) FROM supplier").await.expect("rows");
        let (want, _) = rows(&plain, "SELECT count(*) FROM supplier").await.expect("rows");
        assert_same("with fewer objects", &got, &want);
        assert_ne!(got, [["100"]]);
    }
}

/// COPY deals objects over several endpoints, or writes to one, and what it wrote is read back.
#[tokio::test(flavor = "multi_thread")]
async fn objects_are_written_over_several_endpoints() {
    let disks = Disks::with_tpch(3, 3, Format::Csv).await;
    let engine = disks.engine("auto").await;
    engine.execute("SET datafusion.execution.target_partitions = 8").await.expect("a setting");
    let endpoints: Vec<String> = (0..3).map(|number| disks.endpoint(number)).collect();
    let (want, _) = rows(&engine, "SELECT * FROM orders").await.expect("rows");
    for (kind, place) in [
        ("PARQUET", format!("s3://data/w/@{}", endpoints.join(","))),
        ("CSV", format!("s3://data/one/@{}", endpoints[2])),
    ] {
        let copy =
            format!("COPY (SELECT * FROM orders) TO '{place}' STORED AS {kind} PARTITIONED BY (o_orderpriority)");
        rows(&engine, &copy).await.unwrap_or_else(|error| panic!("{copy}: {error}"));
        let read = format!("SELECT * FROM '{place}'");
        let columns = "o_orderkey, o_custkey, o_totalprice, o_orderpriority, o_comment";
        let (got, _) = rows(&engine, &read.replace('*', columns)).await.expect("rows");
        let (of_orders, _) = rows(&engine, &format!("SELECT {columns} FROM orders")).await.expect("rows");
        assert_same(&place, &got, &of_orders);
        let again = failure(&engine, &copy).await.to_string();
        assert!(again.contains("append true"), "{again}");
        rows(&engine, &format!("{copy} OPTIONS (overwrite true)")).await.expect("rows");
        let (got, _) = rows(&engine, &format!("SELECT count(*) FROM '{place}'")).await.expect("rows");
        assert_eq!(got, [[want.len().to_string()]], "{place}");
    }
    let mut held = Vec::new();
    for world in &disks.worlds {
        for folder in ["w", "one"] {
            let found: Vec<_> = world.store().list(Some(&folder.into())).try_collect().await.expect("a list");
            held.push(found.len());
        }
    }
    let dealt = [held[0], held[2], held[4]];
    assert!(dealt.iter().filter(|count| **count > 0).count() > 1, "{held:?}");
    assert_eq!((held[1], held[3]), (0, 0), "{held:?}");
    let file = format!("s3://data/x.csv@{}", endpoints.join(","));
    let error = failure(&engine, &format!("COPY (SELECT 1 AS a) TO '{file}' STORED AS CSV")).await.to_string();
    assert!(error.contains("below a folder"), "{error}");
}

/// Mistakes of a manifest or of a list of locations are errors that name them.
#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_told() {
    let world = World::node().await;
    world.put("t/a.csv", "a\n1\n").await;
    world.put("bad.manifest.json", "{\"version\": 9, \"objects\": []}").await;
    world
        .put(
            "gone.manifest.json",
            "{\"version\": 1, \"objects\": [{\"key\": \"t/b.csv\", \"size\": 4, \"stores\": [\"s3://data\"]}]}",
        )
        .await;
    world
        .put(
            "one.manifest.json",
            "{\"version\": 1, \"objects\": [{\"key\": \"t/a.csv\", \"size\": 4, \"stores\": [\"s3://data\"]}]}",
        )
        .await;
    let engine = world.engine("auto").await;
    let (one, _) = rows(&engine, "SELECT a FROM 's3://data/one.manifest.json'").await.expect("rows");
    assert_eq!(one, [["1"]]);
    let (file, _) = rows(&engine, "SELECT filename FROM read_csv('s3://data/one.manifest.json', filename = true)")
        .await
        .expect("rows");
    assert_eq!(file, [["s3://data/t/a.csv"]]);
    for (place, told) in [
        ("s3://data/bad.manifest.json", "version 9"),
        ("s3://data/none.manifest.json", "none.manifest.json"),
        ("s3://data/gone.manifest.json", "t/b.csv"),
        ("s3://data/t/a.csv@http://127.0.0.1:9/path", "without a path"),
        ("s3://data/t/a.csv@profile:no-such-profile", "no-such-profile"),
        ("s3://data/t/a.csv@http://127.0.0.1:9", "127.0.0.1:9"),
    ] {
        let error = failure(&engine, &format!("SELECT * FROM '{place}'")).await.to_string();
        assert!(error.contains(told), "{place}: {error}");
    }
}

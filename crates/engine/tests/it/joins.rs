//! Joins: filtering a side by the keys of the other changes what is read, never the rows.

use std::fmt::Write as _;
use std::path::Path;

use futures::TryStreamExt;
use object_store::ObjectStore;
use pushdowndb_datagen::Format;
use pushdowndb_engine::Engine;

use crate::faults::proxy::Proxy;
use crate::oracle::Oracle;
use crate::world::{World, assert_same, queries, rows};

const COLUMNS: [&str; 7] =
    ["id BIGINT NOT NULL", "k BIGINT", "n INT", "d DECIMAL(15,2)", "day DATE", "s VARCHAR", "f DOUBLE"];

/// Rows of a table: hard keys first, then ordinary ones from `from` on, every third of them twice.
fn table(hard: bool, from: i64, count: i64) -> String {
    let mut csv = String::from("id,k,n,d,day,s,f\n");
    let mut id = 0;
    let mut row = |k: String, n: String, d: &str, day: &str, s: &str, f: &str| {
        id += 1;
        let s = if s.contains(['"', ',']) { format!("\"{}\"", s.replace('"', "\"\"")) } else { s.to_owned() };
        writeln!(csv, "{id},{k},{n},{d},{day},{s},{f}").expect("text");
    };
    if hard {
        for k in [i64::MIN, i64::MAX, -1, 0, 9_007_199_254_740_993, -2_147_483_648] {
            row(k.to_string(), String::new(), "-0.01", "0001-01-01", "it's", "-0.0");
        }
        row(String::new(), String::new(), "", "", "", "");
        row(String::new(), "7".into(), "0.00", "1970-01-01", "say \"hi\", öl 🌏", "0.0");
        row("7".into(), String::new(), "9999999999999.99", "9999-12-31", "50% _", "1e300");
        row("-7".into(), "-7".into(), "7.00", "1969-12-31", " x ", "7");
    }
    for i in from..from + count {
        for _ in 0..=u8::from(i % 3 == 0) {
            let (k, n) = (i * 37 - 5000, if i % 11 == 0 { String::new() } else { (i % 900).to_string() });
            let (d, day) = (format!("{}.{:02}", i * 3, i % 100), format!("{}-{:02}-11", 1900 + i % 200, 1 + i % 12));
            row(k.to_string(), n, &d, &day, &format!("s{}", i % 1500), &format!("{}.5", i % 700));
        }
    }
    csv
}

/// `small`, `mid` (too many keys for a list) and `big`, with keys of all of them in all, and
/// `empty`.
pub(crate) async fn tables(world: &World) {
    for (name, csv) in [
        ("small", vec![table(true, 0, 12)]),
        ("mid", vec![table(true, 0, 300), table(false, 300, 400)]),
        ("big", vec![table(true, 100, 900), table(false, 1000, 900), table(false, 9000, 500)]),
        ("empty", vec![table(false, 0, 0)]),
    ] {
        for (i, csv) in csv.into_iter().enumerate() {
            world.put(&format!("csv/{name}/{i}.csv"), csv).await;
        }
    }
    let writer = declared(world, "csv", "none").await;
    for (format, ending) in [("PARQUET", "parquet"), ("JSON", "json")] {
        for name in NAMES {
            for part in 0..2 {
                let to = world.url(&format!("{ending}/{name}/{part}.{ending}"));
                let sql = format!("COPY (SELECT * FROM {name} WHERE id % 2 = {part}) TO '{to}' STORED AS {format}");
                rows(&writer, &sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
            }
        }
    }
}

const NAMES: [&str; 4] = ["small", "mid", "big", "empty"];

pub(crate) async fn declared(world: &World, folder: &str, level: &str) -> Engine {
    let engine = world.engine(level).await;
    for name in NAMES {
        let header = if folder == "csv" { " OPTIONS ('format.has_header' 'true')" } else { "" };
        let (columns, format) = (COLUMNS.join(", "), folder.to_uppercase());
        let place = world.url(&format!("{folder}/{name}/"));
        let sql = format!("CREATE EXTERNAL TABLE {name} ({columns}) STORED AS {format} LOCATION '{place}'{header}");
        engine.execute(&sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
    engine
}

pub(crate) async fn oracle(world: &World) -> Oracle {
    let oracle = Oracle::new(world);
    for name in NAMES {
        let (columns, place) = (COLUMNS.join(", "), world.url(&format!("csv/{name}/")));
        let options = "OPTIONS ('format.has_header' 'true')";
        let sql = format!("CREATE EXTERNAL TABLE {name} ({columns}) STORED AS CSV LOCATION '{place}' {options}");
        oracle.execute(&sql).await;
    }
    oracle
}

/// Each kind of join on a key; those that depend on its type only, or `all`.
fn by_kind(key: &str, every: bool) -> Vec<String> {
    let (few, some) = ("(SELECT * FROM small WHERE id < 20)", "(SELECT * FROM mid WHERE id % 5 <> 3)");
    let mut all = Vec::new();
    for kind in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
        for build in [some, few].into_iter().take(1 + usize::from(every)) {
            all.push(format!("SELECT x.id, y.id, y.s FROM {build} x {kind} big y ON x.{key} = y.{key}"));
        }
    }
    all.push(format!("SELECT x.id, y.id FROM {some} x LEFT JOIN big y ON x.{key} = y.{key} AND x.id < y.id"));
    all.push(format!("SELECT x.id, y.id FROM {few} x JOIN big y ON x.{key} IS NOT DISTINCT FROM y.{key}"));
    all.push(format!("SELECT x.id, y.id FROM {some} x JOIN big y ON x.{key} IS NOT DISTINCT FROM y.{key}"));
    let sides = [("big", some), ("small", "(SELECT * FROM big WHERE id > 5)"), ("big", few)];
    for (outer, inner) in sides.into_iter().take(if every { 3 } else { 1 }) {
        for test in [
            format!("{key} IN (SELECT {key} FROM {inner} i)"),
            format!("EXISTS (SELECT * FROM {inner} i WHERE i.{key} = x.{key})"),
            format!("EXISTS (SELECT * FROM {inner} i WHERE i.{key} = x.{key} AND i.id <> x.id)"),
            format!("NOT EXISTS (SELECT * FROM {inner} i WHERE i.{key} = x.{key})"),
            format!("{key} NOT IN (SELECT {key} FROM {inner} i)"),
            format!("{key} NOT IN (SELECT {key} FROM {inner} i WHERE {key} IS NOT NULL)"),
            format!("(id < 3 OR {key} IN (SELECT {key} FROM {inner} i))"),
        ] {
            all.push(format!("SELECT x.id FROM {outer} x WHERE {test}"));
        }
    }
    all
}

/// Several keys, several tables, and what may stand between a join and a scan.
const SHAPES: &[&str] = &[
    "SELECT x.id, y.id FROM small x JOIN big y ON x.k = y.k AND x.s = y.s WHERE x.id < 30",
    "SELECT x.id, y.id FROM mid x JOIN big y ON x.n = y.n AND x.day = y.day WHERE x.id < 400",
    "SELECT x.id, y.id FROM mid x JOIN big y ON x.k = y.n WHERE x.id < 400",
    "SELECT x.id, y.id FROM mid x JOIN big y ON x.k = y.d WHERE x.id < 400",
    "SELECT x.id, y.id FROM mid x JOIN big y ON x.k + 37 = y.k WHERE x.id < 400 AND x.k < 9000000000000000000",
    "SELECT x.id, y.id FROM mid x JOIN big y ON x.k = y.k * 2 WHERE x.id BETWEEN 20 AND 400 AND y.k BETWEEN -4000000000000000000 AND 4000000000000000000",
    "SELECT x.id, y.id FROM small x JOIN big y ON upper(x.s) = upper(y.s) WHERE x.id < 30",
    "SELECT x.id, y.id FROM mid x JOIN mid y ON x.k = y.id WHERE x.d > 100",
    "SELECT x.id, y.id, z.id FROM small x JOIN mid y ON x.k = y.k JOIN big z ON y.s = z.s WHERE x.id < 30",
    "SELECT x.id, y.id, z.id FROM small x JOIN mid y ON x.k = y.k JOIN big z ON x.k = z.k WHERE y.id < 30",
    "SELECT x.id, y.id, z.id FROM mid x LEFT JOIN small y ON x.k = y.k JOIN big z ON x.s = z.s WHERE x.id < 30",
    "SELECT x.id, z.id FROM small x JOIN (SELECT b.* FROM big b LEFT JOIN mid m ON b.k = m.n) z ON x.k = z.k \
     WHERE x.id < 20",
    "SELECT x.id, z.n FROM small x JOIN (SELECT m.n, b.id FROM big b LEFT JOIN mid m ON b.k = m.k) z ON x.n = z.n \
     WHERE x.id < 20",
    "SELECT x.id, y.c FROM small x JOIN (SELECT k, count(*) AS c, max(id) FROM big GROUP BY k) y ON x.k = y.k \
     WHERE x.id < 20",
    "SELECT x.id, y.c FROM small x JOIN (SELECT k, count(*) AS c FROM big GROUP BY k) y ON x.id = y.c WHERE x.id < 5",
    "SELECT x.id, y.id FROM small x JOIN (SELECT id, k FROM big ORDER BY id DESC LIMIT 900) y ON x.k = y.k",
    "SELECT x.id, y.r FROM small x JOIN (SELECT k, row_number() OVER (ORDER BY id, k, s) AS r FROM big) y ON x.k = y.k \
     WHERE x.id < 20",
    "SELECT x.id, y.id FROM small x JOIN (SELECT id, k FROM mid UNION ALL SELECT n, k FROM big) y ON x.k = y.k \
     WHERE x.id < 20",
    "SELECT x.id, y.v FROM small x JOIN (SELECT DISTINCT k, k % 10 AS v FROM big) y ON x.k = y.k WHERE x.id < 20",
    "SELECT x.id, y.s FROM (SELECT * FROM big WHERE id % 8 <> 1) x JOIN big y ON x.id = y.id",
    "SELECT x.id, y.s FROM (SELECT * FROM big WHERE id % 8 <> 1) x JOIN big y ON x.id + 7 = y.id WHERE y.d > 100",
    "SELECT count(*), sum(y.d) FROM big y WHERE y.id NOT IN (SELECT id FROM big WHERE id % 8 <> 1)",
    "SELECT x.id, y.id FROM empty x JOIN big y ON x.k = y.k",
    "SELECT x.id, y.id FROM empty x RIGHT JOIN mid y ON x.k = y.k",
    "SELECT x.id, y.id FROM mid x LEFT JOIN empty y ON x.k = y.k",
    "SELECT x.id, y.id FROM (SELECT * FROM small WHERE id < 0) x JOIN big y ON x.k = y.k",
    "SELECT id FROM big WHERE k NOT IN (SELECT k FROM small WHERE id < 0)",
    "SELECT count(*), sum(y.d) FROM small x JOIN big y ON x.k = y.k WHERE x.k IS NULL",
    "SELECT x.id, y.id FROM small x JOIN big y ON x.k IS NOT DISTINCT FROM y.k WHERE x.k IS NULL",
    "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT r.i + 1 FROM r JOIN mid m ON m.id = r.i WHERE m.id < 5) \
     SELECT i FROM r",
    "SELECT sum(y.d), count(*) FROM mid x JOIN big y ON x.k = y.k WHERE x.id < 300 AND y.id > 10",
    "SELECT count(*) FROM (SELECT x.id FROM mid x JOIN big y ON x.k = y.k LIMIT 3)",
    "SELECT count(*) FROM (SELECT x.id FROM small x JOIN mid y ON x.k = y.k JOIN big z ON y.k = z.k LIMIT 1)",
    "SELECT x.id FROM mid x WHERE (SELECT count(*) FROM big y WHERE y.k = x.k) > 1 AND x.id < 300",
    "SELECT x.id, y.id FROM mid x JOIN big y ON x.k = y.k WHERE y.s IN (SELECT s FROM big GROUP BY s HAVING count(*) > 2)",
    "SELECT x.id, y.id FROM small x JOIN mid y ON x.n = y.n JOIN big z ON z.n = y.n \
     WHERE EXISTS (SELECT * FROM mid m WHERE m.k = y.k AND m.id <> x.id)",
];

/// All of it on one format; tells how often keys were looked for in which form.
async fn agrees(world: &World, folder: &str, levels: &[&str]) -> String {
    let oracle = oracle(world).await;
    let mut all: Vec<String> =
        ["k", "n", "d", "day", "s", "f"].into_iter().flat_map(|key| by_kind(key, matches!(key, "k" | "s"))).collect();
    // JSON without a record has no columns.
    let there = |sql: &&&str| folder != "json" || !sql.contains("empty");
    all.extend(SHAPES.iter().filter(there).map(|sql| (*sql).to_owned()));
    let mut told = String::new();
    let mut engines = Vec::new();
    for level in levels {
        // The others do not depend on the level.
        for strategy in
            ["auto", "bloom", "filtered", "baseline"].into_iter().take(if *level == "select" { 4 } else { 2 })
        {
            let engine = declared(world, folder, level).await;
            engine.execute(&format!("SET pushdown.join = '{strategy}'")).await.expect("SET");
            // The same choices every time, however fast the machine is.
            engine.execute("SET pushdown.statistics = 'none'").await.expect("SET");
            // Both ways of building: collected for all, and by partition of the keys.
            let collect = if strategy == "auto" { 0 } else { 1 << 20 };
            for setting in ["", "_rows"] {
                let set = format!("SET datafusion.optimizer.hash_join_single_partition_threshold{setting} = {collect}");
                engine.execute(&set).await.expect("SET");
            }
            engines.push((format!("{folder} at {level} with {strategy}"), engine));
        }
    }
    // Removed when the test ends.
    let book = tempfile::NamedTempFile::new().expect("a file");
    if levels.contains(&"fragment") {
        engines.push((format!("{folder} read plainly, with keys"), dear_storage(world, folder, book.path()).await));
    }
    for sql in all {
        let want = oracle.rows(&sql).await;
        for (what, engine) in &engines {
            let (got, report) = rows(engine, &sql).await.unwrap_or_else(|e| panic!("{sql} on {what}: {e}"));
            assert_same(&format!("{sql} on {what}"), &got, &want);
            for strategy in &report.usage.strategies {
                assert!(!strategy.contains("fell back"), "{sql} on {what}: {strategy}");
                told.push_str(strategy);
                told.push('\n');
            }
        }
    }
    told
}

/// An engine that collects keys wherever it can and reads everything plainly, because a request to
/// storage costs a fortune.
async fn dear_storage(world: &World, folder: &str, book: &Path) -> Engine {
    let paper = include_str!("../../../cost/prices/paper.toml");
    let (price, dear) = ("fragment_usd_per_1000 = 0.0004", "fragment_usd_per_1000 = 1000");
    assert!(paper.contains(price));
    std::fs::write(book, paper.replace(price, dear)).expect("a price book");
    let engine = declared(world, folder, "fragment").await;
    // Choices are made by what is known of tables.
    for name in NAMES.into_iter().filter(|name| *name != "empty") {
        rows(&engine, &format!("ANALYZE TABLE {name}")).await.unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let book = format!("pushdown.price_book = '{}'", book.display());
    for set in ["pushdown.join = 'bloom'", "pushdown.objective = 'cost'", &book] {
        engine.execute(&format!("SET {set}")).await.expect("SET");
    }
    engine
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_knows_no_sets_of_numbers_gets_bloom_filters() {
    let world = World::node().await;
    tables(&world).await;
    let proxy = Proxy::older(&world.endpoint).await;
    let through = World::at(proxy.endpoint());
    let sql = "SELECT x.id, y.s FROM (SELECT * FROM big WHERE id % 8 <> 1) x JOIN big y ON x.id = y.id";
    let mut all = Vec::new();
    for (world, form) in [(&world, "set of numbers in"), (&through, "Bloom filter of")] {
        let engine = declared(world, "csv", "fragment").await;
        engine.execute("SET pushdown.join = 'bloom'").await.expect("SET");
        // What a node can do it says with any answer, here of a scan.
        let (_, _) = rows(&engine, "SELECT count(*) FROM big").await.expect("rows");
        let (got, report) = rows(&engine, sql).await.expect("rows");
        let strategies = &report.usage.strategies;
        assert!(strategies.iter().any(|told| told.contains(form)), "{form}: {strategies:?}");
        all.push(got);
    }
    assert!(all[0].len() > 1000);
    assert_same(sql, &all[1], &all[0]);
}

/// How many scans were filtered in each form.
fn forms(told: &str) -> [usize; 3] {
    ["listed", "Bloom filter of", "set of numbers in"].map(|form| told.matches(form).count())
}

/// How many scans were read plainly and looked keys up, in a list and in a Bloom filter or set of
/// numbers.
fn keyed_plainly(told: &str) -> [usize; 2] {
    let plain: Vec<&str> = told.lines().filter(|line| line.contains("level=none (plain reads would take")).collect();
    ["k IN (", "BLOOM_CONTAINS("].map(|form| plain.iter().filter(|line| line.contains(form)).count())
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_on_the_node() {
    let world = World::node().await;
    tables(&world).await;
    let told = agrees(&world, "csv", &["select", "fragment"]).await;
    let [listed, bloom, set] = forms(&told);
    let [in_lists, in_filters] = keyed_plainly(&told);
    assert!(in_lists > 20 && in_filters > 5, "{in_lists} {in_filters}");
    assert!(listed > 150 && bloom > 30 && set > 1, "{listed} {bloom} {set}");
}

#[tokio::test(flavor = "multi_thread")]
async fn parquet_on_the_node() {
    let world = World::node().await;
    tables(&world).await;
    let told = agrees(&world, "parquet", &["select", "fragment"]).await;
    let [listed, bloom, set] = forms(&told);
    let [in_lists, in_filters] = keyed_plainly(&told);
    assert!(in_lists > 20 && in_filters > 5, "{in_lists} {in_filters}");
    assert!(listed > 140 && bloom > 30 && set > 1, "{listed} {bloom} {set}");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_on_the_node() {
    let world = World::node().await;
    tables(&world).await;
    let told = agrees(&world, "json", &["select", "fragment"]).await;
    let [listed, bloom, set] = forms(&told);
    let [in_lists, in_filters] = keyed_plainly(&told);
    assert!(in_lists > 20 && in_filters > 5, "{in_lists} {in_filters}");
    assert!(listed > 150 && bloom > 30 && set > 1, "{listed} {bloom} {set}");
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_on_minio() {
    let Some(world) = crate::minio::world().await else { return };
    tables(&world).await;
    let [listed, bloom, set] = forms(&agrees(&world, "csv", &["select"]).await);
    assert!(listed > 80 && bloom == 0 && set == 0, "{listed} {bloom} {set}");
}

/// Every value of each key occurs on the other side, few of their combinations do.
#[tokio::test(flavor = "multi_thread")]
async fn several_keys_are_one() {
    let world = World::node().await;
    // b is a permutation of a for the parts, and every pair is a stock.
    let parts: String = (0..700).map(|a| format!("{},{},{}\n", a % 100, a % 7, a * 31 % 70)).collect();
    let stocks: String = (0..70_000)
        .map(|i| {
            format!(
                "{i},{},{},{}\n",
                i / 700,
                i % 7,
                if i % 50 == 0 { String::new() } else { (i / 10 % 70).to_string() }
            )
        })
        .collect();
    world.put("pairs/parts.csv", format!("a,w,b\n{parts}")).await;
    world.put("pairs/stocks.csv", format!("i,a,w,b\n{stocks}")).await;
    let oracle = Oracle::new(&world);
    let join = "SELECT s.i, p.w FROM parts p JOIN stocks s ON p.a = s.a AND p.b = s.b WHERE p.w > 2";
    let shifted = "SELECT s.i FROM parts p JOIN stocks s ON p.a = s.a + 1 AND 70 - p.b = s.b + 2 WHERE p.w > 2";
    let anti = "SELECT p.a FROM parts p WHERE NOT EXISTS (SELECT * FROM stocks s WHERE p.a = s.a AND p.b = s.b AND s.i < 9000)";
    let declare = |name: &str, columns: &str| {
        format!(
            "CREATE EXTERNAL TABLE {name} ({columns}) STORED AS CSV LOCATION '{}' OPTIONS ('format.has_header' 'true')",
            world.url(&format!("pairs/{name}.csv"))
        )
    };
    let tables =
        [declare("parts", "a BIGINT, w INT, b BIGINT"), declare("stocks", "i BIGINT, a BIGINT, w INT, b BIGINT")];
    for table in &tables {
        oracle.execute(table).await;
    }
    for level in ["select", "fragment"] {
        let engine = world.engine(level).await;
        for set in ["pushdown.join = 'bloom'", "datafusion.optimizer.join_reordering = false"] {
            engine.execute(&format!("SET {set}")).await.expect("SET");
        }
        for table in &tables {
            engine.execute(table).await.expect("a table");
        }
        for (sql, form) in [(join, "(a, b): "), (anti, "(a, b): "), (shifted, "of a@0 - 1")] {
            let (got, report) = rows(&engine, sql).await.unwrap_or_else(|e| panic!("{sql} at {level}: {e}"));
            assert_same(&format!("{sql} at {level}"), &got, &oracle.rows(sql).await);
            let told = report.usage.strategies.join("\n");
            assert!(told.contains(form), "{sql} at {level}: {told}");
            let matched = u64::try_from(got.len()).expect("few");
            if sql == join {
                let returned = report.usage.bytes_returned;
                assert!(returned < matched * 60 + 20_000, "{returned} bytes for {matched} rows at {level}: {told}");
            }
        }
    }
}

/// As the keys become more, the filter passes more, until only their range is left.
async fn many_keys(world: &World, expected: &[(i64, &str)]) {
    let keys: String = (0..300_000).map(|i| format!("{i},{}\n", i - 500)).collect();
    world.put("many/keys.csv", format!("i,k\n{keys}")).await;
    let all: String = (0..2000).map(|i| format!("{}\n", i * 311 - 500)).collect();
    world.put("many/all.csv", format!("k\n{all}")).await;
    let engine = world.engine("select").await;
    for set in ["pushdown.join = 'bloom'", "datafusion.optimizer.join_reordering = false"] {
        engine.execute(&format!("SET {set}")).await.expect("SET");
    }
    for (keys, form) in expected {
        let sql = format!(
            "SELECT count(*), sum(b.k) FROM 's3://data/many/keys.csv' a JOIN 's3://data/many/all.csv' b ON a.k = b.k \
             WHERE a.i < {keys}"
        );
        let matches = (keys + 310) / 311;
        let sum = (0..matches).map(|i| i * 311 - 500).sum::<i64>();
        let (got, report) = rows(&engine, &sql).await.expect("rows");
        assert_eq!(got, [[matches.to_string(), sum.to_string()]], "{keys} keys");
        let told = report.usage.strategies.join("\n");
        assert!(told.contains(&format!("{keys} keys of k@0")) && told.contains(form), "{keys} keys: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_keys_on_the_node() {
    let expected =
        [(200, "listed"), (300, "rate 0.010"), (60_000, "rate 0.1"), (100_000, "rate 0.3"), (300_000, "their range")];
    many_keys(&World::node().await, &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_keys_on_minio() {
    let Some(world) = crate::minio::world().await else { return };
    many_keys(&world, &[(200, "listed"), (2_000, "listed"), (60_000, "their range")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tpch_is_the_same_with_every_strategy() {
    let world = World::node().await;
    world.tpch("csv", Format::Csv).await;
    let oracle = Oracle::tpch(&world, "csv", Format::Csv).await;
    let mut told = String::new();
    for strategy in ["bloom", "baseline"] {
        let engine = world.engine_with("select", "csv").await;
        engine.execute(&format!("SET pushdown.join = '{strategy}'")).await.expect("SET");
        for (name, sql) in queries().into_iter().filter(|(_, sql)| sql.contains("orders") || sql.contains("part")) {
            let (got, report) = rows(&engine, &sql).await.unwrap_or_else(|e| panic!("{name} with {strategy}: {e}"));
            assert_same(&format!("{name} with {strategy}"), &got, &oracle.rows(&sql).await);
            told.extend(report.usage.strategies);
        }
    }
    let [listed, bloom, ..] = forms(&told);
    assert!(listed > 10 && bloom > 10, "{listed} {bloom}");
}

/// `op_join_c950`: orders of the few customers with the lowest balances.
#[tokio::test(flavor = "multi_thread")]
async fn only_rows_with_a_partner_are_sent() {
    let world = World::node().await;
    world.tpch("csv", Format::Csv).await;
    let sql = queries().into_iter().find(|(name, _)| name == "op_join_c950").expect("the query").1;
    let listed: Vec<_> = world.store().list(Some(&"csv/orders".into())).try_collect().await.expect("a listing");
    let orders: u64 = listed.iter().map(|object| object.size).sum();
    let (want, all) = rows(&world.engine_with("none", "csv").await, &sql).await.expect("rows");
    for level in ["select", "fragment"] {
        let engine = world.engine_with(level, "csv").await;
        // Of so few orders it need not be chosen: waiting for the keys takes longer.
        engine.execute("SET pushdown.join = 'bloom'").await.expect("SET");
        let (plan, _) = rows(&engine, &format!("EXPLAIN {sql}")).await.expect("a plan");
        let plan = plan.concat().join("\n");
        for part in
            ["BuildKeysExec: keys=[c_custkey@0]", "keys=[o_custkey of c_custkey@0]", "join=bloom (", "; filtered "]
        {
            assert!(plan.contains(part), "{part} at {level}: {plan}");
        }
        let (got, keyed) = rows(&engine, &sql).await.expect("rows");
        assert_eq!(got, want, "{level}");
        engine.execute("SET pushdown.join = 'filtered'").await.expect("SET");
        let (got, filtered) = rows(&engine, &sql).await.expect("rows");
        assert_eq!(got, want, "{level}");
        engine.execute("SET pushdown.join = 'baseline'").await.expect("SET");
        let (got, baseline) = rows(&engine, &sql).await.expect("rows");
        assert_eq!(got, want, "{level}");
        let network = [&keyed, &filtered, &baseline].map(|report| report.usage.bytes_network);
        let told = format!("{level}: {network:?} {:?}", keyed.usage.strategies);
        assert!(network[0] * 10 < network[1] && network[1] * 2 < network[2], "{told}");
        assert_eq!(network[2], all.usage.bytes_network, "{told}");
        let returned = keyed.usage.bytes_returned;
        assert!(returned > 0 && returned * 100 < orders, "{returned} of {orders} bytes, {told}");
    }
}

/// Q17: averages are taken only of parts that the query around them asks for, because few are left
/// by its filter.
#[tokio::test(flavor = "multi_thread")]
async fn a_subquery_is_filtered_by_the_query_around_it() {
    let world = World::node().await;
    world.tpch("csv", Format::Csv).await;
    let sql = queries().into_iter().find(|(name, _)| name == "q17").expect("the query").1;
    let engine = world.engine_with("fragment", "csv").await;
    engine.execute("SET pushdown.join = 'bloom'").await.expect("SET");
    let plan = rows(&engine, &format!("EXPLAIN {sql}")).await.expect("a plan").0.concat().join("\n");
    assert_eq!(plan.matches("keys=[l_partkey of p_partkey").count(), 2, "{plan}");
}

/// Where the build side leaves nothing out, `auto` does not wait for its keys.
#[tokio::test(flavor = "multi_thread")]
async fn useless_filters_are_not_asked_for() {
    let world = World::node().await;
    world.tpch("csv", Format::Csv).await;
    let engine = world.engine_with("select", "csv").await;
    let sql = "EXPLAIN SELECT sum(o_totalprice) FROM customer JOIN orders ON o_custkey = c_custkey";
    let plan = rows(&engine, sql).await.expect("a plan").0.concat().join("\n");
    assert!(!plan.contains("BuildKeysExec") && plan.contains("join=filtered ("), "{plan}");
}

/// Q18: orders joined with lineitem are many rows, of which a subquery keeps few.
#[tokio::test(flavor = "multi_thread")]
async fn a_semijoin_is_built_from_its_subquery() {
    let world = World::node().await;
    world.tpch("csv", Format::Csv).await;
    let sql = queries().into_iter().find(|(name, _)| name == "q18").expect("the query").1;
    for level in ["none", "fragment"] {
        let engine = world.engine_with(level, "csv").await;
        let plan = rows(&engine, &format!("EXPLAIN {sql}")).await.expect("a plan").0.concat().join("\n");
        assert!(plan.contains("join_type=RightSemi") && !plan.contains("join_type=LeftSemi"), "{level}: {plan}");
    }
}

//! What users expect of a reader, at every level: inference, compression, partitions, globs, NULLs,
//! writing.

use std::io::Write;

use crate::world::{World, assert_same, failure, rows};

const LEVELS: [&str; 3] = ["none", "select", "fragment"];

async fn expect(world: &World, sql: &str, want: &[&[&str]]) {
    let want = want.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect();
    for level in LEVELS {
        let engine = world.engine(level).await;
        let (got, _) = rows(&engine, sql).await.unwrap_or_else(|e| panic!("{sql} at {level}: {e}"));
        assert_same(&format!("{sql} at {level}"), &got, &want);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_without_declaration() {
    let world = World::node().await;
    world.put("u/a.csv", "\u{feff}id;name;born;share\n1;Ann;1990-02-28;0.5\n2;\"B;ob\";2001-12-31;1.25\n").await;
    expect(
        &world,
        "SELECT id + 1, name, born, share * 2 FROM 's3://data/u/a.csv' WHERE born > DATE '2000-01-01'",
        &[&["3", "B;ob", "2001-12-31", "2.5"]],
    )
    .await;
    world.put("u/a.ndjson", "{\"id\":1,\"tag\":\"x\"}\n{\"id\":2,\"tag\":null}\n{\"id\":3}\n").await;
    expect(&world, "SELECT id FROM 's3://data/u/a.ndjson' WHERE tag IS NULL", &[&["2"], &["3"]]).await;
    expect(&world, "SELECT count(tag), sum(id) FROM 's3://data/u/a.ndjson'", &[&["1", "6"]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_text() {
    let world = World::node().await;
    let csv: String = std::iter::once("n,t\n".to_owned()).chain((0..5000).map(|n| format!("{n},text {n}\n"))).collect();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gz.write_all(csv.as_bytes()).expect("gzip");
    world.put("z/a.csv.gz", gz.finish().expect("gzip")).await;
    world.put("z/b.csv.zst", zstd::encode_all(csv.as_bytes(), 3).expect("zstd")).await;
    for name in ["a.csv.gz", "b.csv.zst"] {
        expect(&world, &format!("SELECT t FROM 's3://data/z/{name}' WHERE n = 4321"), &[&["text 4321"]]).await;
        expect(&world, &format!("SELECT count(*), max(n) FROM 's3://data/z/{name}'"), &[&["5000", "4999"]]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_pruned() {
    let world = World::node().await;
    for year in [2022, 2023, 2024] {
        world.put(&format!("h/year={year}/a.csv"), format!("v\n{year}1\n{year}2\n")).await;
    }
    let sql = "SELECT v, year FROM 's3://data/h/' WHERE year = 2023 AND v > 20231";
    expect(&world, sql, &[&["20232", "2023"]]).await;
    let engine = world.engine("none").await;
    engine
        .execute(
            "CREATE EXTERNAL TABLE h (v BIGINT, year INT) STORED AS CSV PARTITIONED BY (year) \
             LOCATION 's3://data/h/' OPTIONS ('format.has_header' 'true')",
        )
        .await
        .expect("a table");
    let (got, report) = rows(&engine, "SELECT sum(v) FROM h WHERE year = 2024").await.expect("rows");
    assert_eq!(got, [["40483"]]);
    assert_eq!(report.usage.requests.get, 1, "two of three objects are not read");
    let (got, _) = rows(&engine, "SELECT year, count(*) FROM h GROUP BY year ORDER BY year").await.expect("rows");
    assert_eq!(got, [["2022", "2"], ["2023", "2"], ["2024", "2"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn globs() {
    let world = World::node().await;
    for name in ["x1", "x2", "y1"] {
        world.put(&format!("g/{name}.csv"), format!("name\n{name}\n")).await;
    }
    expect(&world, "SELECT name FROM 's3://data/g/x*.csv'", &[&["x1"], &["x2"]]).await;
    expect(&world, "SELECT name FROM 's3://data/g/{x2,y1}.csv'", &[&["x2"], &["y1"]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_between_files() {
    let world = World::node().await;
    world.put("d/1.csv", "id,a\n1,x\n").await;
    world.put("d/2.csv", "a,id,b\ny,2,7\n").await;
    let engine = world.engine("none").await;
    let strict = "CREATE EXTERNAL TABLE d STORED AS CSV LOCATION 's3://data/d/' OPTIONS ('union_by_name' 'false')";
    let error = failure(&engine, strict).await;
    assert!(error.message().contains("union_by_name"), "{error}");
    for level in LEVELS {
        let engine = world.engine(level).await;
        let declare = "CREATE EXTERNAL TABLE d STORED AS CSV LOCATION 's3://data/d/' OPTIONS ('union_by_name' 'true')";
        engine.execute(declare).await.expect("a table");
        let (got, _) = rows(&engine, "SELECT id, a, b FROM d ORDER BY id").await.expect("rows");
        assert_eq!(got, [["1", "x", "NULL"], ["2", "y", "7"]], "{level}");
        let (got, _) = rows(&engine, "SELECT a FROM d WHERE b IS NULL").await.expect("rows");
        assert_eq!(got, [["x"]], "{level}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nulls_mean_the_same_everywhere() {
    let minio = crate::minio::world().await;
    for world in [Some(World::node().await), minio].into_iter().flatten() {
        let csv = "a,s,d,m\n1,x,1995-01-01,1.10\n,,,\n3,\"\",1996-02-29,-0.05\n-4,\"q\"\"u,o\",1997-01-01,0.00\n";
        world.put("n/1.csv", csv).await;
        world.put("n/2.csv", "a,s,d,m\n").await;
        world.put("n/3.csv", "a,s,d,m\n5,y%z,1999-12-31,1.1\n").await;
        let mut engines = Vec::new();
        for level in LEVELS {
            let engine = world.engine(level).await;
            let declare = "CREATE EXTERNAL TABLE n (a BIGINT, s VARCHAR, d DATE, m DECIMAL(15,2)) STORED AS CSV \
                           LOCATION 's3://data/n/' OPTIONS ('format.has_header' 'true')";
            engine.execute(declare).await.expect("a table");
            for (table, format) in [("np", "PARQUET"), ("nj", "JSON")] {
                if engines.is_empty() {
                    let copy = format!("COPY n TO 's3://data/{table}/1.{}' STORED AS {format}", format.to_lowercase());
                    rows(&engine, &copy).await.expect("a copy");
                }
                let declare =
                    declare.replace("TABLE n ", &format!("TABLE {table} ")).replace("/n/", &format!("/{table}/"));
                let declare = declare.replace("CSV", format).replace(" OPTIONS ('format.has_header' 'true')", "");
                engine.execute(&declare).await.expect("a table");
            }
            engines.push(engine);
        }
        for (predicate, count) in [
            ("a > 0", 3),
            ("NOT (a > 0)", 1),
            ("a IS NULL", 1),
            ("a IS NOT NULL", 4),
            ("a <> 1", 3),
            ("a IN (1, 5)", 2),
            ("a NOT IN (1, 5)", 2),
            ("a NOT IN (1, NULL)", 0),
            ("a = 1 OR s = 'x'", 1),
            ("a > 100 OR s IS NULL", 1),
            ("NOT (s = 'x' AND a = 1)", 3),
            ("s = ''", 1),
            ("s <> 'x'", 3),
            ("s IS NULL", 1),
            ("s LIKE '%u,o'", 1),
            ("s NOT LIKE 'x%'", 3),
            ("s LIKE 'y\\%z'", 1),
            ("s > 'q'", 3),
            ("d >= DATE '1996-02-29'", 3),
            ("d <> DATE '1995-01-01'", 3),
            ("d BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'", 2),
            ("m = 1.1", 2),
            ("m < 0", 1),
            ("m BETWEEN -0.05 AND 0.00", 2),
            ("m IS NULL OR m > 1", 3),
            ("a % 2 = 1 AND m > 0", 2),
            ("a * 2 > 5", 2),
            ("coalesce(a, 7) = 7", 1),
            ("char_length(s) = 5", 1),
            ("upper(s) = 'X'", 1),
            ("CASE WHEN a > 0 THEN s ELSE 'neg' END = 'neg'", 2),
            ("TRUE", 5),
            ("a = a", 4),
            ("a IS DISTINCT FROM 1", 4),
            ("date_part('year', d) = 1996", 1),
        ] {
            let aggregates =
                "count(*), count(s), sum(a), sum(m), min(d), max(d), min(m), max(m), avg(m), min(s), max(s)";
            for table in ["n", "np", "nj"] {
                let mut aggregated = Vec::new();
                for (level, engine) in LEVELS.iter().zip(&engines) {
                    let what = format!("{predicate} on {table} at {level} of {}", world.endpoint);
                    let all = format!("SELECT a, s, d, m FROM {table} WHERE {predicate}");
                    let (got, _) = rows(engine, &all).await.unwrap_or_else(|e| panic!("{what}: {e}"));
                    assert_eq!(got.len(), count, "{what}: {got:?}");
                    let all = format!("SELECT {aggregates} FROM {table} WHERE {predicate}");
                    let (got, _) = rows(engine, &all).await.unwrap_or_else(|e| panic!("{what}: {e}"));
                    assert_eq!(got[0][0], count.to_string(), "{what}");
                    aggregated.push(got);
                }
                assert_same(&format!("{predicate} on {table}"), &aggregated[1], &aggregated[0]);
            }
        }
        // One column that may be NULL: its empty records must not get lost on the wire.
        for engine in &engines {
            let (got, _) = rows(engine, "SELECT s FROM n WHERE a IS NULL OR a = 3 OR a = 1").await.expect("rows");
            assert_same("one column", &got, &vec![vec!["NULL".into()], vec!["".into()], vec!["x".into()]]);
            let (got, _) = rows(engine, "SELECT a FROM n LIMIT 2").await.expect("rows");
            assert_eq!(got.len(), 2);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_written_back() {
    let world = World::node().await;
    world.put("w/in.csv", "k,v\n1,2.5\n2,3.5\n").await;
    let engine = world.engine("select").await;
    engine.execute("CREATE TABLE kept AS SELECT k, v FROM 's3://data/w/in.csv' WHERE k > 1").await.expect("a table");
    assert_eq!(rows(&engine, "SELECT k FROM kept").await.expect("rows").0, [["2"]]);
    for (format, file) in [("CSV", "out.csv"), ("PARQUET", "out.parquet"), ("JSON", "out.json")] {
        let copy = format!("COPY (SELECT k, v FROM 's3://data/w/in.csv') TO 's3://data/w/{file}' STORED AS {format}");
        let (count, report) = rows(&engine, &copy).await.unwrap_or_else(|e| panic!("{copy}: {e}"));
        assert_eq!(count, [["2"]]);
        assert!(report.usage.requests.put > 0);
        expect(&world, &format!("SELECT k, v FROM 's3://data/w/{file}' WHERE v > 3"), &[&["2", "3.5"]]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_remembered() {
    let world = World::node().await;
    world.put("r/1.csv", "a\n1\n2\n").await;
    let folder = tempfile::tempdir().expect("a folder");
    let open = async || {
        let connection = pushdowndb_engine::ConnectionConfig {
            endpoint: Some(world.endpoint.clone()),
            access_key_id: Some(crate::world::KEY.to_owned()),
            secret_access_key: Some(crate::world::SECRET.to_owned()),
            ..Default::default()
        };
        let catalog = Some(folder.path().join("catalog.sql"));
        let config =
            pushdowndb_engine::EngineConfig { connection, catalog, ..pushdowndb_engine::EngineConfig::unrestricted() };
        pushdowndb_engine::Engine::new(config).await.expect("an engine")
    };
    let engine = open().await;
    engine.execute("CREATE EXTERNAL TABLE r STORED AS CSV LOCATION 's3://data/r/'").await.expect("a table");
    drop(engine);
    let engine = open().await;
    assert_eq!(engine.tables().await.expect("tables")[0].name, "r");
    assert_eq!(rows(&engine, "SELECT sum(a) FROM r").await.expect("rows").0, [["3"]]);
    engine.execute("DROP TABLE r").await.expect("a drop");
    drop(engine);
    assert!(open().await.tables().await.expect("tables").is_empty());
}

/// Partitions that are done go on with the splits of others: each row comes once, however often a
/// table is scanned.
#[tokio::test(flavor = "multi_thread")]
async fn cores_share_files_of_this_machine() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    // Which Parquet does not make much shorter.
    let noise = |n: u64| u128::from(n + 1).wrapping_pow(9).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    let row = |n: u64| format!("{n},{},{:032x}{:032x}{:022x}\n", n % 8, noise(n), noise(n + 7), n);
    let text: String = (0..800_000).map(row).collect();
    assert!(text.len() > 70 << 20);
    std::fs::write(at("t.csv"), format!("n,g,a\n{text}")).expect("a file");
    let world = World::at("http://127.0.0.1:1".to_owned());
    let engine = world.engine("auto").await;
    let copy = format!("COPY (SELECT * FROM '{}') TO '{}'", at("t.csv"), at("t.parquet"));
    rows(&engine, &copy).await.expect("a copy");
    for name in ["t.csv", "t.parquet"] {
        let from = format!("FROM '{}'", at(name));
        for threads in [1, 2, 4] {
            engine.execute(&format!("SET pushdown.threads = {threads}")).await.expect("SET");
            let some = format!("SELECT n {from} WHERE g = 3");
            for (sql, want) in [
                (
                    format!("SELECT count(*), sum(n), count(DISTINCT n) {from}"),
                    vec![vec!["800000", "319999600000", "800000"]],
                ),
                (format!("SELECT count(*), max(n) FROM ({some} UNION ALL {some})"), vec![vec!["200000", "799995"]]),
                (format!("SELECT count(*) FROM (SELECT n {from} LIMIT 1000)"), vec![vec!["1000"]]),
                (format!("SELECT n {from} ORDER BY n DESC LIMIT 2"), vec![vec!["799999"], vec!["799998"]]),
                (format!("SELECT g, count(*) {from} GROUP BY g ORDER BY g LIMIT 1"), vec![vec!["0", "100000"]]),
            ] {
                let (got, _) = rows(&engine, &sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
                assert_eq!(got, want, "{sql} with {threads} threads");
            }
            let (plan, _) = rows(&engine, &format!("EXPLAIN SELECT n {from}")).await.expect("a plan");
            let splits = match (name, threads) {
                (_, 1) => 1,
                ("t.csv", 2) => 8,
                ("t.csv", _) => 12,
                // Of 24 MB, which are dealt to no more than three; a third is too little to be cut
                // further.
                (_, 2) => 4,
                (_, _) => 3,
            };
            assert!(plan.concat().concat().contains(&format!(" {splits} splits")), "{plan:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cores_that_share_a_row_group_find_what_one_finds() {
    let world = World::node().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("one.parquet");
    let engines = [
        world.engine_configured(&[("pushdown.threads", "1")]).await,
        world.engine_configured(&[("pushdown.threads", "4")]).await,
    ];
    let written = format!(
        "COPY (SELECT value AS i, CASE WHEN value % 7 > 0 THEN md5(CAST(value AS VARCHAR)) END AS t, value % 5 AS few \
         FROM generate_series(1, 900000)) TO '{}'",
        file.display()
    );
    rows(&engines[0], &written).await.expect("a file");
    let queries = [
        "SELECT count(*), count(t), sum(i), min(t), max(t) FROM 'F' WHERE i % 3 = 0",
        "SELECT few, count(*), sum(i) FROM 'F' WHERE t LIKE '%ab%' GROUP BY few ORDER BY few",
        "SELECT i, t, few FROM 'F' WHERE i BETWEEN 449990 AND 450010 OR t LIKE 'abcd%' ORDER BY i",
        "SELECT i, t FROM 'F' ORDER BY t DESC, i LIMIT 20",
    ];
    for sql in queries.map(|sql| sql.replace("'F'", &format!("'{}'", file.display()))) {
        let (one, _) = rows(&engines[0], &sql).await.expect("rows");
        let (four, _) = rows(&engines[1], &sql).await.expect("rows");
        assert!(!one.is_empty());
        assert_same(&sql, &four, &one);
        let (plan, _) = rows(&engines[1], &format!("EXPLAIN {sql}")).await.expect("a plan");
        assert!(!plan.concat().concat().contains(" 1 splits"), "{plan:?}");
    }
}

//! Files as people have them: what inference makes of their values at every level, and what COPY
//! does to folders.

use std::fs;
use std::path::Path;

use object_store::ObjectStoreExt;
use pushdowndb_contract::ErrorKind;
use pushdowndb_engine::Engine;

use crate::world::{Rows, World, failure, rows};

const LEVELS: [&str; 3] = ["none", "select", "fragment"];

/// Puts these objects below `t/` and asks for the same rows at every level.
async fn everywhere(objects: &[(&str, &str)], statements: &[(&str, &[&[&str]])]) {
    let world = World::node().await;
    for (path, text) in objects {
        world.put(&format!("t/{path}"), text.to_string()).await;
    }
    for level in LEVELS {
        let engine = world.engine(level).await;
        for (sql, expected) in statements {
            let (got, _) = rows(&engine, sql).await.unwrap_or_else(|error| panic!("{sql} at {level}: {error}"));
            assert_eq!(got, *expected, "{sql} at {level}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn digits_with_leading_zeros_are_text() {
    everywhere(
        &[
            ("zip.csv", "name,zip,n\nAdams,01247,1\nDenver,80202,-0\n"),
            ("zip.tsv", "name\tzip\nAdams\t\"01247\"\n"),
            ("two/1.csv", "zip,n\n80202,1\n"),
            ("two/2.csv", "zip,n\n01247,2\n"),
            ("parts/zip=01247/month=01/a.csv", "n\n1\n"),
            ("parts/zip=80202/month=12/a.csv", "n\n2\n"),
        ],
        &[
            ("SELECT zip, n FROM 's3://data/t/zip.csv' ORDER BY name", &[&["01247", "1"], &["80202", "0"]]),
            ("SELECT name FROM 's3://data/t/zip.csv' WHERE zip = '01247'", &[&["Adams"]]),
            ("SELECT zip FROM 's3://data/t/zip.tsv'", &[&["01247"]]),
            ("SELECT zip FROM 's3://data/t/two/' ORDER BY n", &[&["80202"], &["01247"]]),
            ("SELECT zip, month FROM 's3://data/t/parts/' ORDER BY n", &[&["01247", "01"], &["80202", "12"]]),
            ("SELECT n FROM 's3://data/t/parts/' WHERE month = 1", &[&["1"]]),
        ],
    )
    .await;
}

/// What the sample could not show is an error, and no number that lost its zeros.
#[tokio::test(flavor = "multi_thread")]
async fn zeros_after_the_sample_are_an_error() {
    let world = World::node().await;
    let many: String = (0..200_000).map(|n| format!("{n},x\n")).collect();
    assert!(many.len() > 1 << 20);
    world.put("late.csv", format!("zip,t\n{many}01247,x\n")).await;
    for level in LEVELS {
        let engine = world.engine(level).await;
        for sql in [
            "SELECT max(zip) FROM 's3://data/late.csv'",
            "SELECT zip FROM 's3://data/late.csv' WHERE zip > 1246 AND zip < 1248",
        ] {
            // S3 Select computes with such numbers without showing them.
            if level == "select" && sql.contains("max") {
                continue;
            }
            let error = failure(&engine, sql).await.to_string();
            assert!(error.contains("cannot parse '01247' as BIGINT"), "{sql} at {level}: {error}");
        }
    }
}

/// Fields without a column, integers that would be rounded and fractions that would be cut are
/// errors where they are read.
#[tokio::test(flavor = "multi_thread")]
async fn json_after_the_sample_is_not_lost() {
    let world = World::node().await;
    let record = |id: i64, d: &str, o: &str, more: &str| format!("{{\"id\":{id},\"d\":{d},\"o\":{{{o}}}{more}}}\n");
    let many: String = (0..40_000).map(|id| record(id, "0.5", "\"x\":1", "")).collect();
    assert!(many.len() > 1 << 20);
    let long = "9007199254740993";
    let cases = [
        ("field", record(-1, "1", "\"x\":2", ",\"late\":7"), "the field \"late\""),
        ("nested", record(-1, "1", "\"x\":2,\"late\":7", ""), "the field \"o.late\""),
        ("fraction", record(-1, "1", "\"x\":2.5", ""), "field \"o.x\""),
        ("rounded", record(-1, long, "\"x\":2", ""), "field \"d\""),
        ("inside", record(-1, "1", &format!("\"x\":2,\"late\":{long}"), ""), "the field \"o.late\""),
    ];
    for (name, late, _) in &cases {
        world.put(&format!("{name}.ndjson"), format!("{many}{late}")).await;
    }
    for level in LEVELS {
        let engine = world.engine(level).await;
        for (name, _, named) in &cases {
            let table = format!("'s3://data/{name}.ndjson'");
            let error = failure(&engine, &format!("SELECT * FROM {table} WHERE id < 1")).await.to_string();
            assert!(error.contains(named) && error.contains("CREATE EXTERNAL TABLE"), "{name} at {level}: {error}");
            // Records that do not pass, and columns that are not read, lose nothing.
            for (sql, expected) in [("SELECT * FROM {} WHERE id = 1", "1"), ("SELECT id FROM {} WHERE id < 0", "-1")] {
                let (got, _) = rows(&engine, &sql.replace("{}", &table)).await.expect("rows");
                assert_eq!(got.iter().map(|row| row[0].as_str()).collect::<Vec<_>>(), [expected], "{name} at {level}");
            }
        }
        // Declared columns leave other fields out, and cut no fractions either.
        for (name, expected) in [("field", Some("-1")), ("rounded", Some("-1")), ("fraction", None)] {
            let table = format!("declared_{name}");
            let declare = format!(
                "CREATE EXTERNAL TABLE {table} (id BIGINT, d DOUBLE, o STRUCT<x BIGINT>) STORED AS NDJSON \
                 LOCATION 's3://data/{name}.ndjson'"
            );
            engine.execute(&declare).await.expect("a table");
            let sql = format!("SELECT * FROM {table} WHERE id < 0");
            match expected {
                Some(id) => assert_eq!(rows(&engine, &sql).await.expect("rows").0[0][0], id, "{name} at {level}"),
                None => {
                    let error = failure(&engine, &sql).await.to_string();
                    assert!(error.contains("field \"o.x\": cannot parse '2.5' as BIGINT"), "{level}: {error}");
                }
            }
        }
    }
}

/// Where all sampled objects have the same columns they go by position, so an object that was not
/// sampled has to have them in the same places.
#[tokio::test(flavor = "multi_thread")]
async fn other_headers_than_those_of_the_sample_are_an_error() {
    let world = World::node().await;
    for number in 0..70 {
        let text = if number == 11 { "b,a\n100,1\n".to_owned() } else { format!("a,B\n{number},100\n") };
        world.put(&format!("h/{number:02}.csv"), text).await;
        world.put(&format!("same/{number:02}.csv"), format!("a,b\n{number},100\n")).await;
    }
    for level in LEVELS {
        let engine = world.engine(level).await;
        for sql in ["SELECT sum(a) FROM 's3://data/h/'", "SELECT a FROM 's3://data/h/' WHERE a > 50"] {
            let error = failure(&engine, sql).await.to_string();
            assert!(error.contains("h/11.csv: column 1 is 'b'") && error.contains("union_by_name"), "{level}: {error}");
        }
        let declare = "CREATE EXTERNAL TABLE h STORED AS CSV LOCATION 's3://data/h/' OPTIONS ('union_by_name' 'true')";
        engine.execute(declare).await.expect("a table");
        let (got, _) = rows(&engine, "SELECT sum(a), count(*) FROM h").await.expect("rows");
        assert_eq!(got, [["2405", "70"]], "{level}");
        let (got, _) = rows(&engine, "SELECT sum(a) FROM 's3://data/same/' WHERE b = 100").await.expect("rows");
        assert_eq!(got, [["2415"]], "{level}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn json_integers_keep_their_digits() {
    everywhere(
        &[
            ("n.ndjson", "{\"k\":1,\"n\":5}\n{\"k\":2,\"n\":18446744073709551615}\n{\"k\":3,\"n\":-1}\n"),
            ("long.ndjson", "{\"n\":18446744073709551616}\n"),
            ("mixed.ndjson", "{\"n\":1.5}\n{\"n\":9007199254740993}\n"),
            ("lists/1.ndjson", "{\"k\":1,\"l\":[]}\n"),
            ("lists/2.ndjson", "{\"k\":2,\"l\":[9223372036854775808]}\n"),
        ],
        &[
            (
                "SELECT CAST(n AS VARCHAR) FROM 's3://data/t/n.ndjson' ORDER BY k",
                &[&["5"], &["18446744073709551615"], &["-1"]],
            ),
            ("SELECT k FROM 's3://data/t/n.ndjson' WHERE n > 9223372036854775807", &[&["2"]]),
            ("SELECT k FROM 's3://data/t/n.ndjson' WHERE n = -1 OR n = 5 ORDER BY k", &[&["1"], &["3"]]),
            ("SELECT CAST(sum(n) AS VARCHAR) FROM 's3://data/t/n.ndjson'", &[&["18446744073709551619"]]),
            ("SELECT CAST(n AS VARCHAR) FROM 's3://data/t/long.ndjson'", &[&["18446744073709551616"]]),
            ("SELECT n FROM 's3://data/t/mixed.ndjson' ORDER BY n", &[&["1.5"], &["9007199254740993"]]),
            (
                "SELECT CAST(l[1] AS VARCHAR) FROM 's3://data/t/lists/' ORDER BY k",
                &[&["NULL"], &["9223372036854775808"]],
            ),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn years_are_names_of_columns() {
    everywhere(
        &[("y.csv", "region,2022,2023\nnorth,10,20\nsouth,30,40\n"), ("data.csv", "ann,1950\nbob,1940\n")],
        &[
            ("SELECT region, \"2023\" FROM 's3://data/t/y.csv' WHERE \"2022\" > 10", &[&["south", "40"]]),
            ("SELECT count(*), sum(column_2) FROM 's3://data/t/data.csv'", &[&["2", "3890"]]),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_read_where_they_were_declared() {
    let world = World::node().await;
    let gzip = |text: &str| {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text.as_bytes()).expect("a write");
        encoder.finish().expect("gzip")
    };
    world.put("logs/a.log", "{\"n\":1}\n").await;
    world.put("logs/b.log.gz", gzip("{\"n\":2}\n")).await;
    world.put("logs/c.json.gz", gzip("{\"n\":4}\n")).await;
    for level in LEVELS {
        for format in ["JSON", "NDJSON"] {
            let engine = world.engine(level).await;
            let declare = format!("CREATE EXTERNAL TABLE l STORED AS {format} LOCATION 's3://data/logs/'");
            engine.execute(&declare).await.expect("a table");
            let (got, _) = rows(&engine, "SELECT count(*), sum(n) FROM l").await.expect("rows");
            assert_eq!(got, [["3", "7"]], "{level}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_empty_text_is_not_null() {
    let world = World::node().await;
    let text = "k,t,n,u\n1,a,1,x\n2,\"\",2,x\n3,,3,x\n4,\"\",\"\",x\n5,b\"\",5,x\n";
    world.put("e/1.csv", text).await;
    world.put("e/2.csv", "k,t,n,u\n6,c,6,x\n").await;
    for level in LEVELS {
        let engine = world.engine(level).await;
        let declare = "CREATE EXTERNAL TABLE e (k BIGINT, t VARCHAR, n BIGINT, u VARCHAR) STORED AS CSV LOCATION \
                       's3://data/e/'";
        engine.execute(declare).await.expect("a table");
        engine.execute("CREATE TABLE memory AS SELECT * FROM e").await.expect("a table");
        for (condition, keys) in [
            ("t = ''", "2 4"),
            ("t IS NULL", "3"),
            ("t IS NOT NULL", "1 2 4 5 6"),
            ("t <> 'a'", "2 4 5 6"),
            ("t < 'b'", "1 2 4"),
            ("t > 'a'", "5 6"),
            ("t = 'a'", "1"),
            ("t IN ('', 'a')", "1 2 4"),
            ("t NOT IN ('a', 'c')", "2 4 5"),
            ("t LIKE '%'", "1 2 4 5 6"),
            ("t NOT LIKE 'a%'", "2 4 5 6"),
            ("t = '' OR n = 6", "2 4 6"),
            ("t IS NULL OR n = 1", "1 3"),
            ("coalesce(t, 'none') = 'none'", "3"),
            ("char_length(t) = 0", "2 4"),
            ("n IS NULL", "4"),
            ("CASE WHEN t = '' THEN 1 ELSE 2 END = 1", "2 4"),
        ] {
            let keys: Rows = keys.split(' ').map(|key| vec![key.to_owned()]).collect();
            for table in ["e", "memory"] {
                let sql = format!("SELECT k FROM {table} WHERE {condition} ORDER BY k");
                assert_eq!(rows(&engine, &sql).await.expect(&sql).0, keys, "{sql} at {level}");
                let sql = format!("SELECT count(*) FROM {table} WHERE {condition}");
                assert_eq!(rows(&engine, &sql).await.expect(&sql).0, [[keys.len().to_string()]], "{sql} at {level}");
            }
        }
        for (sql, expected) in [
            ("SELECT count(t), count(n), min(t), count(DISTINCT t) FROM e", vec![vec!["5", "5", "", "4"]]),
            (
                "SELECT t, count(*) FROM e GROUP BY t ORDER BY t NULLS LAST",
                vec![vec!["", "2"], vec!["a", "1"], vec!["b\"\"", "1"], vec!["c", "1"], vec!["NULL", "1"]],
            ),
            ("SELECT k FROM e ORDER BY t NULLS LAST, k LIMIT 2", vec![vec!["2"], vec!["4"]]),
            ("SELECT count(*) FROM e a JOIN e b ON a.t = b.t", vec![vec!["7"]]),
            ("SELECT sum(n) FROM e WHERE t = 'a' OR t = 'c'", vec![vec!["7"]]),
        ] {
            assert_eq!(rows(&engine, sql).await.expect(sql).0, expected, "{sql} at {level}");
        }
    }
}

/// Below `folder`, the paths of files.
fn files(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => all.extend(files(&path)),
            false => all.push(path.display().to_string()),
        }
    }
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn null_and_the_empty_text_survive_being_written() {
    let world = World::node().await;
    let engine = world.engine("auto").await;
    let folder = tempfile::tempdir().expect("a folder");
    let rows_of = async |sql: &str| rows(&engine, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")).0;
    let local = folder.path().display().to_string();
    let values = "(VALUES (1, 'a', 10, DATE '2024-01-31'), (2, '', NULL, NULL), (3, NULL, -1, DATE '2024-02-01'), \
                  (4, 'x/y=%', 0, NULL)) AS v (k, t, n, d)";
    let expected = [
        ["1", "a", "10", "2024-01-31"],
        ["2", "", "NULL", "NULL"],
        ["3", "NULL", "-1", "2024-02-01"],
        ["4", "x/y=%", "0", "NULL"],
    ];
    for place in [local.as_str(), "s3://data/w"] {
        for format in ["CSV", "PARQUET", "JSON"] {
            for partitioned in ["", " PARTITIONED BY (t)", " PARTITIONED BY (n)", " PARTITIONED BY (d, t)"] {
                let to = format!("{place}/{format}{}/", partitioned.replace([' ', ',', '(', ')'], ""));
                rows_of(&format!("COPY (SELECT * FROM {values}) TO '{to}' STORED AS {format}{partitioned}")).await;
                let read = format!("SELECT k, t, n, d FROM '{to}' ORDER BY k");
                let read = if format == "JSON" { read.replace(", d FROM", ", CAST(d AS DATE) FROM") } else { read };
                assert_eq!(rows_of(&read).await, expected, "{to}");
            }
        }
    }
    let text = files(&folder.path().join("CSV")).into_iter().map(|file| fs::read_to_string(file).expect("text"));
    assert_eq!(text.collect::<String>(), "k,t,n,d\n1,a,10,2024-01-31\n2,\"\",,\n3,,-1,2024-02-01\n4,x/y=%,0,\n");
    let paths = files(&folder.path().join("CSVPARTITIONEDBYt")).join("\n");
    assert!(paths.contains("/t=__HIVE_DEFAULT_PARTITION__/") && paths.contains("/t=/"), "{paths}");

    let to = format!("{local}/no/");
    let hive =
        format!("COPY (SELECT 1 AS k, '__HIVE_DEFAULT_PARTITION__' AS t) TO '{to}' STORED AS CSV PARTITIONED BY (t)");
    assert!(failure(&engine, &hive).await.to_string().contains("means NULL in a path"));
    let alone = format!("COPY (SELECT CAST(NULL AS VARCHAR) AS t) TO '{local}/one.csv'");
    assert!(failure(&engine, &alone).await.to_string().contains("null_value"));
    rows_of(&format!("{alone} OPTIONS (null_value 'NULL')")).await;
    assert_eq!(fs::read_to_string(format!("{local}/one.csv")).expect("text"), "t\nNULL\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_appended_to_or_replaced_when_asked() {
    let world = World::node().await;
    let folder = tempfile::tempdir().expect("a folder");
    let engine = world.engine("auto").await;
    let local = folder.path().display().to_string();
    for place in [local.as_str(), "s3://data/o"] {
        for format in ["CSV", "PARQUET", "JSON"] {
            for partitioned in ["", " PARTITIONED BY (p)"] {
                let to = format!("{place}/{format}{}/", partitioned.len());
                let copy = |value: i32, options: &str| {
                    format!(
                        "COPY (SELECT {value} AS n, {} AS p) TO '{to}' STORED AS {format}{partitioned}{options}",
                        value % 2
                    )
                };
                check(&engine, &to, copy).await;
            }
        }
    }
}

/// What COPY into the folder `to` does, as `copy` writes the statement with a value and options.
async fn check(engine: &Engine, to: &str, copy: impl Fn(i32, &str) -> String) {
    let run = async |sql: &str| rows(engine, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let holds = async || run(&format!("SELECT n FROM '{to}' ORDER BY n")).await.0;
    run(&copy(1, "")).await;
    for sql in [copy(2, ""), copy(2, " OPTIONS (overwrite false)")] {
        let refused = failure(engine, &sql).await;
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(
            refused.to_string().contains("holds 1 objects already") && refused.to_string().contains("append"),
            "{refused}"
        );
    }
    assert_eq!(holds().await, [["1"]]);
    run(&copy(2, " OPTIONS (append true)")).await;
    assert_eq!(holds().await, [["1"], ["2"]]);
    run(&copy(3, " OPTIONS ('overwrite' 'true')")).await;
    assert_eq!(holds().await, [["3"]]);
    // What is replaced may be read for that.
    let sql = copy(3, " OPTIONS (format.overwrite true)")
        .replace("SELECT 3 AS n, 1 AS p", &format!("SELECT n + 1 AS n, 1 AS p FROM '{to}'"));
    run(&sql).await;
    assert_eq!(holds().await, [["4"]]);
    assert!(failure(engine, &copy(5, " OPTIONS (append true, overwrite true)")).await.to_string().contains("either"));
    assert!(failure(engine, &copy(5, " OPTIONS (overwrite perhaps)")).await.to_string().contains("'overwrite'"));
    // A query that fails leaves what was there, and nothing else: the rows before the bad one fill
    // an object or two.
    let many = "SELECT CASE WHEN value = 300000 THEN CAST('x' || value AS BIGINT) ELSE value END AS n, value / 100000 AS p \
                FROM generate_series(1, 300000)";
    run("SET datafusion.execution.soft_max_rows_per_output_file = 50000").await;
    for options in [" OPTIONS (overwrite true)", " OPTIONS (append true)"] {
        let sql = copy(7, options).replace("SELECT 7 AS n, 1 AS p", many);
        failure(engine, &sql).await;
        assert_eq!(holds().await, [["4"]], "{sql}");
    }
    run("RESET datafusion.execution.soft_max_rows_per_output_file").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_objects_of_a_folder_stay() {
    let world = World::node().await;
    let engine = world.engine("auto").await;
    world.put("s/readme.md", "x").await;
    world.put("s/old.parquet", "x").await;
    world.put("s/_pushdowndb/x.csv", "x").await;
    world.put("s2/x.csv", "n\n1\n").await;
    for options in ["", " OPTIONS (overwrite true)"] {
        let copy = format!("COPY (SELECT 1 AS n) TO 's3://data/s/' STORED AS CSV{options}");
        rows(&engine, &copy).await.expect("a copy");
    }
    for path in ["s/readme.md", "s/old.parquet", "s/_pushdowndb/x.csv", "s2/x.csv"] {
        assert!(world.store().head(&path.into()).await.is_ok(), "{path}");
    }
    let (got, _) = rows(&engine, "SELECT count(*) FROM 's3://data/s/*.csv'").await.expect("rows");
    assert_eq!(got, [["1"]]);
}

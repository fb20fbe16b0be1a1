//! Statements that people type every day, held to DuckDB's rows: functions of dates, texts, lists
//! and JSON under the names they have elsewhere, and clauses that DataFusion lacks.

use pushdowndb_contract::ErrorKind;
use pushdowndb_engine::Engine;

use crate::world::{Rows, World, failure, rows};

const CSV: &str = r#"id,name,seen,amount,note,grp
1,ann,2024-01-31T23:59:00,10.5,"{""a"": {""b"": 1}, ""l"": [1,2,3]}",x
2,bob,2024-02-29T00:00:00,20.25,"{""a"":{""b"":2}}",y
3,cy,2024-03-01T12:30:15,,"{""a"":null}",x
4,,2023-12-31T08:00:00,7,,y
"#;

/// The statements and their rows.
const ANSWERS: &str = include_str!("everyday.txt");

async fn run(engine: &Engine, sql: &str) {
    engine.execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")).collect().await.unwrap();
}

async fn declare(engine: &Engine, world: &World, format: &str) {
    let options = if format == "CSV" { "OPTIONS ('format.has_header' 'true')" } else { "" };
    let columns = "id BIGINT, name VARCHAR, seen TIMESTAMP, amount DOUBLE, note JSON, grp VARCHAR";
    let place = world.url(&format!("{format}/"));
    run(engine, &format!("CREATE EXTERNAL TABLE {format} ({columns}) STORED AS {format} LOCATION '{place}' {options}"))
        .await;
}

/// The table in CSV, NDJSON and Parquet.
async fn world() -> World {
    let world = World::node().await;
    world.put("CSV/1.csv", CSV).await;
    let engine = world.engine("none").await;
    declare(&engine, &world, "CSV").await;
    run(&engine, &format!("COPY csv TO '{}'", world.url("JSON/1.json"))).await;
    run(&engine, &format!("COPY csv TO '{}'", world.url("PARQUET/1.parquet"))).await;
    world
}

/// The statements of `everyday.txt`, with their rows.
fn answers() -> Vec<(&'static str, Rows)> {
    let blocks = ANSWERS.split("\n\n").skip(1);
    let row = |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    blocks
        .map(|block| {
            let mut lines = block.lines();
            (lines.next().expect("a statement"), lines.map(row).collect())
        })
        .collect()
}

fn is_same(got: &str, want: &str) -> bool {
    let floating = got.strip_suffix('f').and_then(|got| got.parse::<f64>().ok());
    got == want || floating.is_some_and(|got| want.parse::<f64>().is_ok_and(|want| (got - want).abs() <= 1e-12))
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_answer_as_duckdb_does_at_every_level() {
    let world = world().await;
    let answers = answers();
    assert!(answers.len() >= 60, "{} statements", answers.len());
    let mut wrong = Vec::new();
    for level in ["none", "select", "fragment"] {
        let engine = world.engine(level).await;
        for format in ["CSV", "JSON", "PARQUET"] {
            declare(&engine, &world, format).await;
            for (sql, want) in &answers {
                let got = match rows(&engine, &sql.replace("{t}", format)).await {
                    Ok((got, _)) => got,
                    Err(error) => {
                        wrong.push(format!("{level}, {format}: {sql}: {error}"));
                        continue;
                    }
                };
                let (mut got, mut want) = (got, want.clone());
                if !sql.contains("ORDER BY") {
                    got.sort();
                    want.sort();
                }
                let same = got.len() == want.len()
                    && got.iter().zip(&want).all(|(got, want)| {
                        got.len() == want.len() && got.iter().zip(want).all(|(got, want)| is_same(got, want))
                    });
                if !same {
                    wrong.push(format!("{level}, {format}: {sql}: {got:?} instead of {want:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn arrows_of_json_bind_before_comparisons() {
    let world = world().await;
    for level in ["none", "select", "fragment"] {
        let engine = world.engine(level).await;
        declare(&engine, &world, "CSV").await;
        for (sql, want) in [
            ("SELECT id FROM csv WHERE note->'a'->>'b' = '2'", "2"),
            ("SELECT id FROM csv WHERE id < 2 AND '1' = note->'a'->>'b' AND note->>'a' IS NOT NULL", "1"),
            ("SELECT count(*) FROM csv WHERE note->'a'->>'b'::INT IN (1, 2)", "2"),
            ("SELECT count(*) FROM csv WHERE note->'a'->'b' > 1", "1"),
            ("SELECT 'b' || note->'a'->>'b' FROM csv WHERE grp = 'y' AND note->>'a' LIKE '{%'", "b2"),
            ("SELECT json_get_int(note, 'a', 'b') FROM csv WHERE id = 2", "2"),
        ] {
            assert_eq!(rows(&engine, sql).await.unwrap_or_else(|e| panic!("{sql}: {e}")).0, [[want]], "{level}: {sql}");
        }
    }
}

/// The names of the columns of a statement's result.
async fn names(engine: &Engine, sql: &str) -> Vec<String> {
    let result = engine.execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    result.schema.fields().iter().map(|field| field.name().clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_of_results_are_called_what_was_written() {
    let world = world().await;
    let engine = world.engine("fragment").await;
    let file = format!("'{}'", world.url("CSV/1.csv"));
    for (sql, want) in [
        ("SELECT Median(amount), COUNT(*), 1, 'x', NULL FROM {t}", "median(amount), count(*), 1, 'x', NULL"),
        (
            "SELECT amount + 1, -amount, amount IS NULL, amount IN (1, 2) FROM {t}",
            "amount + 1, -amount, amount IS NULL, amount IN (1, 2)",
        ),
        ("SELECT id::INT, CAST(t.id AS VARCHAR), 3.7::INT, t.name FROM {t} t", "id, id, 3.7::INT, name"),
        ("SELECT sum(id), sum(id), id FROM {t} GROUP BY id", "sum(id), sum(id), id"),
        ("SELECT *, id FROM (SELECT id, grp FROM {t})", "id, grp, id"),
        (
            "SELECT count(*) FILTER (WHERE id > 1), year(seen) FROM {t} GROUP BY 2",
            "count(*) FILTER (WHERE id > 1), year(seen)",
        ),
        ("SELECT s.a FROM (SELECT {'a': id} AS s FROM {t})", "a"),
        ("SELECT note->>'a' FROM {t}", "note ->> 'a'"),
        ("SELECT list_transform([1], x -> x + 1)", "list_transform([1], x -> x + 1)"),
        ("SELECT * FROM (SELECT max(id), max(id) FROM {t})", "max(id), max(id)_1"),
        ("SELECT 1, 1 UNION ALL SELECT 2, 2", "1, 1"),
        ("SELECT INTERVAL '14 months', DATE '2024-01-01'", "INTERVAL '14 months', DATE '2024-01-01'"),
    ] {
        assert_eq!(names(&engine, &sql.replace("{t}", &file)).await.join(", "), want, "{sql}");
    }
    run(&engine, "CREATE TABLE made AS SELECT count(*), 1 AS a, 2 AS a").await;
    assert_eq!(names(&engine, "SELECT * FROM made").await, ["count(*)", "a", "a_1"]);
    assert_eq!(rows(&engine, "SELECT \"count(*)\", a_1 FROM made").await.unwrap().0, [["1", "2"]]);
    // Batches have the names of the result.
    let mut result = engine.execute("SELECT 1, 1").await.unwrap();
    let schema = result.schema.clone();
    assert_eq!(result.collect().await.unwrap()[0].schema(), schema);
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_take_values() {
    let world = world().await;
    let engine = world.engine("fragment").await;
    declare(&engine, &world, "CSV").await;
    run(&engine, "PREPARE of AS SELECT name FROM csv WHERE id = $1 AND grp = $2").await;
    run(&engine, "PREPARE sum2 (INT, VARCHAR) AS SELECT $1 + 1, length($2)").await;
    run(&engine, "PREPARE marks AS SELECT ? - ?").await;
    for (sql, want) in [
        ("EXECUTE of(2, 'y')", vec!["bob"]),
        ("EXECUTE of(1, 'x')", vec!["ann"]),
        ("EXECUTE sum2('41', 'abc')", vec!["42", "3"]),
        ("EXECUTE marks(5, 3)", vec!["2"]),
    ] {
        assert_eq!(rows(&engine, sql).await.unwrap().0, [want], "{sql}");
    }
    for (sql, said) in [
        ("EXECUTE of(1)", "parameter $2 has no value"),
        ("EXECUTE of(1, 'x', 3)", "has 2 parameters, and 3 values are given"),
        ("EXECUTE off(1)", "did you mean of?"),
        ("PREPARE of AS SELECT 1", "exists already"),
    ] {
        assert!(failure(&engine, sql).await.to_string().contains(said), "{sql}");
    }
    run(&engine, "DEALLOCATE of").await;
    assert!(failure(&engine, "EXECUTE of(1, 'x')").await.to_string().contains("no prepared statement of"));
    run(&engine, "DEALLOCATE ALL").await;
    assert!(failure(&engine, "EXECUTE marks(1, 2)").await.to_string().contains("no prepared statement"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_summarized_by_one_scan() {
    let world = world().await;
    for level in ["none", "fragment"] {
        let engine = world.engine(level).await;
        declare(&engine, &world, "CSV").await;
        let summary = rows(&engine, "SUMMARIZE csv").await.unwrap().0;
        assert_eq!(summary.len(), 6);
        assert_eq!(
            summary[0],
            ["id", "BIGINT", "1", "4", "4", "2.5", "1.2909944487358056", "1.5", "2.5", "3.5", "4", "0.00"]
        );
        assert_eq!(summary[1][..4], ["name", "VARCHAR", "ann", "cy"]);
        assert_eq!(summary[1][10..], ["4", "25.00"]);
        let query = rows(&engine, "SUMMARIZE SELECT id + 1 AS n FROM csv WHERE id > 2").await.unwrap().0;
        assert_eq!(query[0][..5], ["n", "BIGINT", "4", "5", "2"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_reads_the_options_of_duckdb_and_postgresql() {
    let world = world().await;
    let engine = world.engine("fragment").await;
    declare(&engine, &world, "CSV").await;
    let count = async |place: &str| {
        let sql = format!("SELECT count(*), sum(id) FROM '{}'", world.url(place));
        rows(&engine, &sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")).0
    };
    for (to, options) in [
        ("o/1.csv", "(FORMAT csv, HEADER, DELIMITER ',')"),
        ("o/2.csv.gz", ""),
        ("o/3.tsv", ""),
        ("o/4.ndjson", ""),
        ("o/5.parquet", "(FORMAT parquet, COMPRESSION zstd)"),
        ("o/6.csv.zst", "(COMPRESSION zstd)"),
        ("o/7.json.gz", ""),
    ] {
        run(&engine, &format!("COPY csv TO '{}' {options}", world.url(to))).await;
        assert_eq!(count(to).await, [["4", "10"]], "{to}");
    }
    // NULL and the empty text are two partitions, and a second run does not double the rows.
    let folder = world.url("parts/");
    let copy = |more: &str| {
        format!(
            "COPY (SELECT id, CASE id WHEN 1 THEN '' ELSE name END AS k FROM csv) TO '{folder}' \
             (FORMAT parquet, PARTITION_BY (k){more})"
        )
    };
    run(&engine, &copy("")).await;
    let again = failure(&engine, &copy("")).await.to_string();
    assert!(again.contains("holds 4 objects already"), "{again}");
    run(&engine, &copy(", OVERWRITE true")).await;
    let sql = format!("SELECT k, id FROM '{folder}' ORDER BY id");
    assert_eq!(rows(&engine, &sql).await.unwrap().0, [["", "1"], ["bob", "2"], ["cy", "3"], ["NULL", "4"]]);
    run(&engine, &format!("CREATE TABLE mem AS SELECT * FROM '{}' LIMIT 0", world.url("o/5.parquet"))).await;
    run(&engine, &format!("COPY mem FROM '{}'", world.url("o/5.parquet"))).await;
    assert_eq!(rows(&engine, "SELECT count(*) FROM mem").await.unwrap().0, [["4"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_supported_is_said_in_one_line() {
    let world = world().await;
    let engine = world.engine("fragment").await;
    declare(&engine, &world, "CSV").await;
    for (sql, said) in [
        ("SELECT nosuchfunction(1)", "there is no function nosuchfunction"),
        ("SELECT strftme(seen, '%Y') FROM csv", "did you mean strftime?"),
        ("SELECT list_reduce([1], (x, y) -> x + y)", "there is no function list_reduce; write list_sum"),
        ("SELECT sum(name) FROM csv", "sum does not take VARCHAR"),
        ("SELECT CAST('2026-02-30' AS DATE)", "Cannot cast string '2026-02-30'"),
        ("SELECT id FROM csv WHERE amount = 'two'", "Cannot cast string 'two'"),
        ("SELECT 300::TINYINT", "Can't cast value 300 to type TINYINT"),
        ("CREATE SEQUENCE s", "CREATE SEQUENCE is not supported"),
        ("SET TIME ZONE 'UTC'", "not"),
        ("SELECT note->'a' FROM (SELECT '{bad' AS note)", "this is not JSON: a key in double quotes is missing"),
        ("SELECT strptime('x', '%Y')", "'x' is no time of the format '%Y'"),
        ("SELECT date_diff('fortnight', seen, seen) FROM csv", "there is no unit of time 'fortnight'"),
        ("SELECT * FROM csv TABLESAMPLE (101 PERCENT)", "from 0 to 100 percent"),
        ("SELECT * FROM csv WHERE (id, grp) NOT IN (SELECT 1, 'x')", "NOT EXISTS"),
        ("COPY csv TO 's3://data/x' (FORMT csv)", "did you mean format?"),
    ] {
        let error = failure(&engine, sql).await;
        let text = error.to_string();
        assert!(text.contains(said), "{sql}: {text}");
        assert!(!text.contains("Span(") && !text.contains("caused by") && text.lines().count() <= 3, "{sql}: {text}");
        assert_ne!(error.kind(), ErrorKind::Internal, "{sql}: {text}");
    }
}

/// `docs/functions.md` is what this writes with `PUSHDOWNDB_WRITE_DOCS=1`.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_functions_is_current() {
    let engine = Engine::new(pushdowndb_engine::EngineConfig::default()).await.unwrap();
    let functions = engine.described_functions();
    for name in ["json_extract", "strftime", "list_transform", "arg_max", "date_part", "row_number", "mode"] {
        assert!(functions.iter().any(|function| function.name == name), "{name}");
    }
    let mut page = String::from(
        "# Functions\n\nAll functions that SQL can call, by kind. A test writes this page (`everyday`, with\n\
         `PUSHDOWNDB_WRITE_DOCS=1`). DataFusion's are described at length in [its\n\
         manual](https://datafusion.apache.org/user-guide/sql/scalar_functions.html). What differs from\nDuckDB and \
         PostgreSQL is in [sql.md](sql.md).\n",
    );
    for (kind, title) in [
        ("alias", "Names of other systems, and what they mean here"),
        ("scalar", "Scalar functions"),
        ("aggregate", "Aggregates"),
        ("window", "Window functions"),
    ] {
        page += &format!("\n## {title}\n\n| function | |\n| --- | --- |\n");
        for function in functions.iter().filter(|function| function.kind == kind) {
            page += &format!("| `{}` | {} |\n", function.name, function.description.replace('|', "\\|"));
        }
    }
    let path = pushdowndb_testkit::repository().join("docs/functions.md");
    if std::env::var_os("PUSHDOWNDB_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), page, "run this test with PUSHDOWNDB_WRITE_DOCS=1");
}

#[tokio::test(flavor = "multi_thread")]
async fn insert_adds_an_object_to_a_table() {
    let world = world().await;
    let engine = world.engine("fragment").await;
    for format in ["CSV", "JSON", "PARQUET"] {
        declare(&engine, &world, format).await;
        let sql =
            format!("INSERT INTO {format} SELECT id + 10, name, seen, amount, note, grp FROM {format} WHERE id > 2");
        assert_eq!(rows(&engine, &sql).await.unwrap().0, [["2"]], "{sql}");
        let sql = format!("SELECT count(*), sum(id), count(name), count(note) FROM {format}");
        assert_eq!(rows(&engine, &sql).await.unwrap().0, [["6", "37", "4", "4"]], "{sql}");
        // A failed one leaves nothing.
        failure(&engine, &format!("INSERT INTO {format} SELECT id, name, seen, 1 / (id - 4), note, grp FROM {format}"))
            .await;
        assert_eq!(rows(&engine, &format!("SELECT count(*) FROM {format}")).await.unwrap().0, [["6"]]);
    }
    let one = world.url("CSV/1.csv");
    run(&engine, &format!("CREATE EXTERNAL TABLE one STORED AS CSV LOCATION '{one}'")).await;
    let error = failure(&engine, "INSERT INTO one SELECT * FROM one").await.to_string();
    assert!(error.contains("no folder"), "{error}");
    let error = failure(&engine, "DELETE FROM csv WHERE id = 1").await.to_string();
    assert!(error.contains("DELETE of a table of objects is not supported"), "{error}");
}

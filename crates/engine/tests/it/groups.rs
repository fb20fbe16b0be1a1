//! GROUP BY and DISTINCT by every strategy, at every level: the rows of plain DataFusion on the
//! same objects.

use std::fmt::Write as _;

use pushdowndb_engine::{Engine, Report};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::oracle::Oracle;
use crate::world::{Rows, World, assert_same, rows};

const STRATEGIES: [&str; 5] = ["auto", "compute", "filtered", "storage", "hybrid"];
const LEVELS: [&str; 2] = ["select", "fragment"];

/// A table in some formats, each in three objects.
struct Table {
    /// Names and types of its columns.
    columns: &'static str,
    options: &'static str,
}

impl Table {
    fn declare(&self, format: &str) -> String {
        let options = if format == "CSV" { self.options } else { "" };
        let columns = self.columns;
        format!(
            "CREATE EXTERNAL TABLE {format} ({columns}) STORED AS {format} LOCATION 's3://data/{format}/' {options}"
        )
    }

    /// Writes the CSV text (with its header) and copies in the other formats; gives the oracle with
    /// all of them.
    async fn create(&self, world: &World, header: &str, lines: &[String], formats: &[&str]) -> Oracle {
        for object in 0..3 {
            let lines = lines.iter().skip(object).step_by(3).map(String::as_str);
            let text: Vec<&str> = std::iter::once(header).chain(lines).collect();
            world.put(&format!("CSV/{object}.csv"), text.join("\n") + "\n").await;
        }
        let oracle = Oracle::new(world);
        oracle.execute(&self.declare("CSV")).await;
        for format in formats.iter().filter(|format| **format != "CSV") {
            for object in 0..3 {
                let copy = format!(
                    "COPY (SELECT * FROM \"CSV\" WHERE coalesce(id, 0) % 3 = {object}) \
                     TO 's3://data/{format}/{object}.{}' STORED AS {format}",
                    format.to_lowercase()
                );
                oracle.execute(&copy.replace("\"CSV\"", "csv")).await;
            }
            oracle.execute(&self.declare(format)).await;
        }
        oracle
    }

    async fn engine(&self, world: &World, level: &str, strategy: &str, formats: &[&str]) -> Engine {
        let engine = world.engine_configured(&[("pushdown.level", level), ("pushdown.group_by", strategy)]).await;
        for format in formats {
            engine.execute(&self.declare(format)).await.expect("a table");
        }
        engine
    }
}

/// How many groups the two phases of S3 Select aggregated in storage, and whether the fragment
/// route did.
fn pushed(report: &Report) -> (u64, bool) {
    let mut groups = 0;
    for told in &report.usage.strategies {
        if let Some((_, rest)) = told.split_once("group-by by ")
            && let Some((_, rest)) = rest.split_once(": ")
        {
            groups += rest.split(' ').next().and_then(|n| n.parse::<u64>().ok()).expect("a number of groups");
        }
    }
    (groups, report.usage.strategies.iter().any(|told| told.contains("storage: groups=[")))
}

/// Everything that is hard about keys and values, in columns of each type.
const HARD: Table = Table {
    columns: "id BIGINT NOT NULL, g BIGINT, s VARCHAR, d DATE, b BOOLEAN, v BIGINT, m DECIMAL(15,2), \
              w DECIMAL(38,10), x DOUBLE, e BIGINT",
    options: "OPTIONS ('format.has_header' 'true', 'format.newlines_in_values' 'true')",
};

const HARD_HEADER: &str = "id,g,s,d,b,v,m,w,x,e";

fn hard_lines(count: u64, seed: u64) -> Vec<String> {
    let mut random = StdRng::seed_from_u64(seed);
    let texts = [
        "",
        "plain",
        "it's",
        "\"quo\"\"ted\"",
        "\"a,b\"",
        "\"two\nlines\"",
        "Ünïcödé ✓ 猫",
        " blank ",
        "NULL",
        "100%_",
        "\"\"\"\"",
        "\\back",
    ];
    let keys = ["", "-1", "0", "1", "2", "7", "-9223372036854775808", "9223372036854775807", "-7"];
    let days = ["", "1970-01-01", "1969-12-31", "1996-02-29", "9999-12-31", "0001-01-01"];
    let wide = [
        "",
        "0.0000000000",
        "9999999999999999999999999999.9999999999",
        "-9999999999999999999999999999.9999999999",
        "0.0000000001",
        "-0.0000000001",
    ];
    let mut any = |all: &[&'static str]| all[random.random_range(0..all.len())];
    let mut lines = Vec::new();
    for id in 0..count {
        // Values of some groups are missing in some objects: id decides both.
        let g = if id % 3 == 1 { any(&keys[..6]) } else { any(&keys) };
        let (s, d, b) = (any(&texts), any(&days), any(&["", "true", "false"]));
        let v = any(&["", "-5", "0", "3", "1000", "-999"]);
        let m = any(&["", "0.00", "-0.01", "9999999999999.99", "-9999999999999.99", "12.50"]);
        let x = any(&["", "0.5", "-2.25", "1024", "-0.125", "3e10"]);
        lines.push(format!("{id},{g},{s},{d},{b},{v},{m},{},{x},", any(&wide)));
    }
    lines
}

/// `t` is the table. Those that S3 Select on our node can compute as CASE come first.
const BY_CASE: usize = 12;
const HARD_QUERIES: &[&str] = &[
    "SELECT g, count(*), count(v), sum(v), min(v), max(v), avg(v) FROM t GROUP BY g",
    "SELECT s, sum(m), min(m), max(m), avg(m), count(d), count(*) FROM t GROUP BY s",
    "SELECT d, b, count(*), sum(v * 2 + 1) FROM t GROUP BY d, b",
    "SELECT g % 3 AS k, sum(m * (1 - m)), max(v) FROM t WHERE v < 0 OR v IS NULL GROUP BY k",
    "SELECT g, s, count(e), sum(e), min(e), avg(e), count(*) FROM t GROUP BY g, s HAVING count(*) > 1",
    "SELECT m, count(*), min(v) FROM t GROUP BY m",
    "SELECT w, max(w), min(w), count(*) FROM t GROUP BY w",
    "SELECT b, sum(x), avg(x), min(x), max(x) FROM t GROUP BY b",
    "SELECT count(*) AS c, e FROM t WHERE s LIKE '%,%' OR d > DATE '1990-01-01' GROUP BY e",
    "SELECT upper(s) AS u, char_length(s) AS l, sum(v) FROM t GROUP BY u, l",
    "SELECT CASE WHEN v < 0 THEN 'negative' ELSE s END AS k, max(v), count(m) FROM t GROUP BY k",
    "SELECT g + 0 AS k, v, sum(m) - min(m), count(*) FROM t WHERE b GROUP BY g + 0, v HAVING min(m) < 0",
    // S3 Select does not do these.
    "SELECT g, min(s), max(s), min(d), max(d), min(b) FROM t GROUP BY g",
    "SELECT x, count(*), sum(v) FROM t GROUP BY x",
    "SELECT DISTINCT s, b FROM t",
    "SELECT DISTINCT g FROM t WHERE g > 0",
    "SELECT count(DISTINCT s), count(DISTINCT e) FROM t",
    "SELECT count(DISTINCT g) FROM t",
    "SELECT b, count(DISTINCT s), sum(v) FROM t GROUP BY b",
    "SELECT g, round(stddev(v), 6), round(var_pop(x), 3), round(stddev_pop(m), 1), round(var(v), 4) FROM t GROUP BY g",
    "SELECT round(stddev(v), 6), round(var_pop(v), 4), stddev(e), count(*) FROM t",
    "SELECT g, sum(v) FILTER (WHERE b) FROM t GROUP BY g",
    "SELECT b, d, sum(v) FROM t GROUP BY ROLLUP (b, d)",
    "SELECT max(c), min(c) FROM (SELECT g, count(*) AS c FROM t GROUP BY g)",
    "SELECT g, count(*) FROM (SELECT * FROM t LIMIT 0) GROUP BY g",
];

async fn agree(world: &World, table: &Table, oracle: &Oracle, formats: &[&str], queries: &[&str]) -> Vec<(u64, bool)> {
    let mut all = Vec::new();
    let mut wanted: Vec<(&str, &str, Rows)> = Vec::new();
    for format in formats {
        for query in queries {
            wanted.push((format, query, oracle.rows(&of(query, format)).await));
        }
    }
    for level in LEVELS {
        for strategy in STRATEGIES {
            let engine = table.engine(world, level, strategy, formats).await;
            for (format, query, want) in &wanted {
                let sql = of(query, format);
                let what = format!("{sql} by {strategy} at {level} of {}", world.endpoint);
                let (got, report) = rows(&engine, &sql).await.unwrap_or_else(|e| panic!("{what}: {e}"));
                assert_same(&what, &got, want);
                let fell_back: Vec<_> = report.usage.strategies.iter().filter(|s| s.contains("fell back")).collect();
                assert!(fell_back.is_empty(), "{what}: {fell_back:?}");
                let pushed = pushed(&report);
                if strategy == "compute" || strategy == "filtered" {
                    assert_eq!(pushed, (0, false), "{what}: {:?}", report.usage.strategies);
                }
                if level == "select" && strategy == "storage" {
                    all.push(pushed);
                }
            }
        }
    }
    all
}

/// The query over the table in this format.
fn of(query: &str, format: &str) -> String {
    query.replace("FROM t", &format!("FROM {}", format.to_lowercase()))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_strategy_gives_the_rows_of_datafusion() {
    let world = World::node().await;
    let formats = ["CSV", "PARQUET", "JSON"];
    let oracle = HARD.create(&world, HARD_HEADER, &hard_lines(700, 11), &formats).await;
    let pushed = agree(&world, &HARD, &oracle, &formats, HARD_QUERIES).await;
    for (format, pushed) in formats.iter().zip(pushed.chunks(HARD_QUERIES.len())) {
        let by_case = pushed.iter().take(BY_CASE).filter(|(groups, _)| *groups > 0).count();
        assert!(by_case >= BY_CASE - 2, "{by_case} of the first {BY_CASE} queries on {format}: {pushed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_strategy_on_minio() {
    let Some(world) = crate::minio::world().await else { return };
    let plain = Table { options: "OPTIONS ('format.has_header' 'true')", ..HARD };
    let lines: Vec<String> = hard_lines(300, 12).into_iter().filter(|line| !line.contains('\n')).collect();
    let oracle = plain.create(&world, HARD_HEADER, &lines, &["CSV"]).await;
    agree(&world, &plain, &oracle, &["CSV"], HARD_QUERIES).await;
}

/// Of a store that does nothing but store: the scan has the few groups that were counted, whoever
/// reads.
#[tokio::test(flavor = "multi_thread")]
async fn the_engine_groups_where_it_reads() {
    let world = World::node().await;
    let formats = ["CSV", "PARQUET", "JSON"];
    let oracle = HARD.create(&world, HARD_HEADER, &hard_lines(700, 13), &formats).await;
    let engine = world.engine("auto").await;
    for format in formats {
        let declared = HARD.declare(format).replace("EXTERNAL TABLE", "OR REPLACE EXTERNAL TABLE");
        let (head, options) = declared.split_once("OPTIONS (").unwrap_or((&declared, ")"));
        let comma = if options == ")" { "" } else { ", " };
        let plain = format!("{head} OPTIONS ('backend' 'plain'{comma}{options}");
        engine.execute(&plain).await.unwrap_or_else(|error| panic!("{plain}: {error}"));
        rows(&engine, &format!("ANALYZE TABLE {format}")).await.expect("counts");
        let mut grouped = 0;
        for query in HARD_QUERIES {
            let sql = of(query, format);
            let (plan, _) = rows(&engine, &format!("EXPLAIN {sql}")).await.expect("a plan");
            let by_scan = plan.concat().concat().contains("engine: groups=[");
            grouped += usize::from(by_scan);
            let (got, report) = rows(&engine, &sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            assert_same(&format!("{sql}, grouped by the scan: {by_scan}"), &got, &oracle.rows(&sql).await);
            assert_eq!(report.usage.requests.fragment + report.usage.requests.select, 0, "{sql}");
        }
        assert!(grouped >= 10, "{grouped} queries on {format}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn few_rows_and_none() {
    for lines in [0, 1, 2] {
        let world = World::node().await;
        let formats = ["CSV", "JSON", "PARQUET"];
        let oracle = HARD.create(&world, HARD_HEADER, &hard_lines(lines, 3), &formats[..1]).await;
        agree(&world, &HARD, &oracle, &formats[..1], HARD_QUERIES).await;
    }
}

const SKEWED: Table = Table {
    columns: "id BIGINT, k BIGINT, name VARCHAR, v BIGINT, p DECIMAL(12,2)",
    options: "OPTIONS ('format.has_header' 'true')",
};

/// Rows whose keys have Zipf's distribution with this exponent.
fn skewed_lines(groups: usize, exponent: f64, count: u64, seed: u64) -> Vec<String> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut total = 0.0;
    let weights: Vec<f64> = (1..=groups)
        .map(|rank| {
            total += (rank as f64).powf(-exponent);
            total
        })
        .collect();
    let line = |id: u64| {
        let at = random.random_range(0.0..total);
        // The first groups of a uniform distribution are all there.
        let rank =
            if (id as usize) < groups && exponent == 0.0 { id as usize } else { weights.partition_point(|w| *w < at) };
        let (v, p) = (random.random_range(-1000..1000), random.random_range(-99_999..99_999));
        let mut line = format!("{id},{},name {rank},{v},", rank as i64 - 50);
        write!(line, "{}{}.{:02}", if p < 0 { "-" } else { "" }, i32::abs(p) / 100, i32::abs(p) % 100).expect("text");
        line
    };
    (0..count).map(line).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_to_a_hundred_thousand_groups_of_any_skew() {
    let queries = [
        "SELECT k, count(*), sum(v), min(v), max(v), sum(p), avg(p) FROM t GROUP BY k",
        "SELECT name, sum(v) FROM t WHERE v > 0 GROUP BY name",
        "SELECT count(DISTINCT name) FROM t",
    ];
    for (groups, exponent, count) in
        [(1, 0.0, 3_000), (40, 0.0, 20_000), (40, 1.3, 20_000), (5_000, 0.7, 40_000), (100_000, 0.0, 130_000)]
    {
        let world = World::node().await;
        let formats = if groups == 40 { &["CSV", "PARQUET"][..] } else { &["CSV"] };
        let lines = skewed_lines(groups, exponent, count, groups as u64);
        let oracle = SKEWED.create(&world, "id,k,name,v,p", &lines, formats).await;
        let pushed = agree(&world, &SKEWED, &oracle, formats, &queries).await;
        if groups <= 40 {
            assert_eq!(pushed[0].0, groups as u64, "all groups are in storage");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_at_the_fragment_route_are_few_bytes() {
    let world = World::node().await;
    world.tpch("csv", pushdowndb_datagen::Format::Csv).await;
    let oracle = Oracle::tpch(&world, "csv", pushdowndb_datagen::Format::Csv).await;
    let (_, sql) = crate::world::queries().into_iter().find(|(name, _)| name == "op_group_32").expect("a query");
    let want = oracle.rows(&sql).await;
    let engine = world.engine_with("fragment", "csv").await;
    let (got, report) = rows(&engine, &sql).await.expect("rows");
    assert_same(&sql, &got, &want);
    assert!(pushed(&report).1, "{:?}", report.usage.strategies);
    let objects = 3;
    let (returned, network) = (report.usage.bytes_returned, report.usage.bytes_network);
    assert!(returned > 0 && returned < 10_000 * objects, "{returned} bytes from {objects} objects");
    assert!(network < 10_000 * objects, "{network} bytes over the network");
    assert!(report.usage.requests.fragment <= objects, "{:?}", report.usage.requests);
}

/// FILTER and grouping sets are pushed; ROLLUP, CUBE and DISTINCT of several are left to the
/// engine.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_decomposed_is_pushed() {
    let world = World::node().await;
    let oracle = SKEWED.create(&world, "id,k,name,v,p", &skewed_lines(12, 1.0, 4_000, 5), &["CSV", "PARQUET"]).await;
    for (sql, told) in [
        (
            "SELECT k, count(*) FILTER (WHERE v > 3), avg(p) FILTER (WHERE name <> 'x') FROM {t} GROUP BY k",
            "COUNT(CASE WHEN",
        ),
        ("SELECT count(*) FILTER (WHERE v > 3), sum(p) FILTER (WHERE v > 1000000) FROM {t}", "COUNT(CASE WHEN"),
        ("SELECT k, v % 3, sum(p), count(*) FROM {t} GROUP BY ROLLUP (k, v % 3)", "gby=["),
        ("SELECT k, v % 3, avg(p), min(name) FROM {t} GROUP BY CUBE (k, v % 3) HAVING count(*) > 2", "gby=["),
        ("SELECT k, v % 3, grouping(k), max(p) FROM {t} GROUP BY GROUPING SETS ((k), (v % 3))", "mode=PartialReduce"),
        ("SELECT k, sum(p) FROM {t} WHERE v < -1000 GROUP BY ROLLUP (k)", "gby=["),
        ("SELECT count(DISTINCT k), count(DISTINCT v % 3), max(k) FROM {t}", "gby=["),
        ("SELECT k, count(DISTINCT v), sum(DISTINCT v) FROM {t} GROUP BY k", "gby=["),
    ] {
        for (level, table) in [("select", "csv"), ("fragment", "csv"), ("fragment", "parquet")] {
            let sql = sql.replace("{t}", table);
            let strategy = if level == "select" { "hybrid" } else { "storage" };
            let engine = SKEWED.engine(&world, level, strategy, &["CSV", "PARQUET"]).await;
            let (got, _) = rows(&engine, &sql).await.unwrap_or_else(|e| panic!("{sql} at {level}: {e}"));
            assert_same(&format!("{sql} at {level}"), &got, &oracle.rows(&sql).await);
            if level == "fragment" {
                let plan = rows(&engine, &format!("EXPLAIN {sql}")).await.expect("a plan").0.concat().join("\n");
                assert!(plan.contains(told), "{sql} at {level}: {plan}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_tells_the_choice_and_what_lost() {
    let world = World::node().await;
    let oracle = SKEWED.create(&world, "id,k,name,v,p", &skewed_lines(9, 1.0, 3_000, 5), &["CSV"]).await;
    let sql = "SELECT k, sum(p) FROM csv GROUP BY k";
    for (level, strategy, told) in [
        ("select", "auto", &["group_by=", "filtered", "compute", "storage", "hybrid", " requests, ", " MB"][..]),
        ("select", "hybrid", &["GroupByExec: groups=[k], aggregates=[SUM(p)]", "group_by=hybrid", "asked for by SET"]),
        ("select", "compute", &["group_by=compute", "level=none", "; storage "]),
        ("fragment", "storage", &["level=fragment", "groups=[k], aggregates=[SUM(p)]", "group_by=storage"]),
        ("fragment", "hybrid", &["groups=[k], aggregates=[SUM(p)]", "group_by=hybrid", "asked for by SET"]),
    ] {
        let engine = SKEWED.engine(&world, level, strategy, &["CSV"]).await;
        let plan = format!("{:?}", rows(&engine, &format!("EXPLAIN {sql}")).await.expect("a plan").0);
        for text in told {
            assert!(plan.contains(text), "no {text:?} by {strategy} at {level}: {plan}");
        }
        assert_same(sql, &rows(&engine, sql).await.expect("rows").0, &oracle.rows(sql).await);
    }
    let engine = SKEWED.engine(&world, "select", "auto", &["CSV"]).await;
    let error = crate::world::failure(&engine, "SET pushdown.group_by = 'bloom'").await;
    assert!(error.message().contains("auto, compute, filtered, storage, hybrid"), "{error}");
}

/// Queries and data made from a seed: every strategy against DataFusion. `GROUP_BY_SEED` repeats
/// one, `GROUP_BY_CASES` runs more.
#[tokio::test(flavor = "multi_thread")]
async fn generated_queries_agree() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, cases) = match number("GROUP_BY_SEED") {
        Some(seed) => (seed, 1),
        None => (1, number("GROUP_BY_CASES").unwrap_or(4)),
    };
    for seed in first..first + cases {
        let mut random = StdRng::seed_from_u64(seed);
        let world = World::node().await;
        let formats = [&["CSV"][..], &["CSV", "PARQUET"], &["CSV", "JSON"]][random.random_range(0..3)];
        let count = [3, 60, 900][random.random_range(0..3)];
        let oracle = HARD.create(&world, HARD_HEADER, &hard_lines(count, seed), formats).await;
        let queries: Vec<String> = (0..12).map(|_| generated(&mut random)).collect();
        let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
        eprintln!("GROUP_BY_SEED={seed}: {count} rows, {formats:?}");
        agree(&world, &HARD, &oracle, formats, &queries).await;
    }
}

fn generated(random: &mut StdRng) -> String {
    let keys = [
        "g",
        "s",
        "d",
        "b",
        "m",
        "w",
        "e",
        "v",
        "g % 5",
        "coalesce(v, 0) + 1",
        "upper(s)",
        "CASE WHEN b THEN g END",
        "substr(s, 1, 2)",
        "nullif(v, 3)",
    ];
    let calls = [
        "count(*)",
        "count(v)",
        "count(e)",
        "sum(v)",
        "sum(m)",
        "avg(m)",
        "avg(v)",
        "min(m)",
        "max(v)",
        "min(e)",
        "max(w)",
        "sum(m * 2)",
        "sum(v + 1)",
        "min(-v)",
        "max(s)",
        "min(d)",
        "avg(x)",
        "sum(x)",
        "avg(e)",
        "sum(CASE WHEN b THEN v END)",
    ];
    let filters = [
        "",
        " WHERE v > -10",
        " WHERE s IS NOT NULL",
        " WHERE b OR g < 3",
        " WHERE m BETWEEN -1 AND 20",
        " WHERE s LIKE '%a%' OR s IS NULL",
        " WHERE g IN (1, 2, -9223372036854775808)",
        " WHERE e IS NOT NULL",
        " WHERE d < DATE '1990-01-01' AND v <> 3",
    ];
    let pick = |random: &mut StdRng, from: &[&'static str], most: usize| -> Vec<&'static str> {
        (0..random.random_range(1..=most)).map(|_| from[random.random_range(0..from.len())]).collect()
    };
    let (keys, calls) = (pick(random, &keys, 3), pick(random, &calls, 4));
    let named = |all: &[&str], letter: char| -> Vec<String> {
        all.iter().enumerate().map(|(place, expr)| format!("{expr} AS {letter}{place}")).collect()
    };
    let having = if random.random_range(0..4) == 0 { " HAVING count(*) > 2" } else { "" };
    let filter = filters[random.random_range(0..filters.len())];
    format!(
        "SELECT {}, {} FROM t{filter} GROUP BY {}{having}",
        named(&keys, 'k').join(", "),
        named(&calls, 'c').join(", "),
        keys.join(", ")
    )
}

//! Queries whose data is larger than memory: the same rows, and nothing left behind.

use std::path::Path;

use futures::TryStreamExt;
use object_store::ObjectStore;
use pushdowndb_contract::{Error, ErrorKind};
use pushdowndb_cost::Spill;
use pushdowndb_datagen::Format;
use pushdowndb_engine::{Engine, Report};
use tempfile::TempDir;

use crate::world::{World, assert_same, queries, rows, rows_in_spite, text};

/// Sorts, aggregates, joins and windows whose rows do not fit into eight megabytes.
const LARGE: [(&str, &str); 8] = [
    ("sort", "SELECT * FROM lineitem ORDER BY l_comment, l_orderkey DESC, l_linenumber"),
    ("sort of a column", "SELECT l_comment FROM lineitem ORDER BY l_comment LIMIT 100000000"),
    ("groups", "SELECT l_comment, count(*), sum(l_quantity), min(l_shipdate) FROM lineitem GROUP BY l_comment"),
    ("distinct", "SELECT count(*), max(l_comment) FROM (SELECT DISTINCT l_comment FROM lineitem)"),
    (
        "join",
        "SELECT count(*), sum(a.l_quantity), max(b.l_comment) FROM lineitem a JOIN lineitem b \
         ON a.l_orderkey = b.l_orderkey AND a.l_comment < b.l_comment",
    ),
    (
        "outer join",
        "SELECT count(*), count(b.l_comment), max(b.l_comment) FROM lineitem a FULL JOIN lineitem b \
         ON a.l_orderkey = b.l_partkey",
    ),
    (
        "anti join",
        "SELECT count(*), max(l_comment) FROM lineitem a WHERE NOT EXISTS \
         (SELECT 1 FROM lineitem b WHERE b.l_partkey = a.l_orderkey AND b.l_comment > a.l_comment)",
    ),
    (
        "window",
        "SELECT sum(n) FROM (SELECT row_number() OVER (ORDER BY l_comment, l_orderkey, l_linenumber) * l_linenumber \
         AS n FROM lineitem)",
    ),
];

/// A session whose queries have `memory` and spill to `folder`, with further settings.
async fn engine(world: &World, level: &str, memory: &str, folder: &Path, more: &[(&str, &str)]) -> Engine {
    let engine = world.engine_with(level, "data").await;
    let folder = folder.display().to_string();
    let settings = [("pushdown.threads", "2"), ("pushdown.memory", memory), ("pushdown.spill_disk", folder.as_str())];
    for (name, value) in settings.iter().chain(more) {
        engine.execute(&format!("SET {name} = '{value}'")).await.expect("a setting");
    }
    engine
}

/// The memory of the queries.
const MEMORY: &str = "8MB";

/// The scale of the data: several times the memory of the queries.
const SCALE: f64 = 0.08;

async fn world() -> World {
    let world = World::node().await;
    world.tpch_of(SCALE, "data", Format::Parquet).await;
    world
}

/// The keys of everything below the prefix for spilled data.
async fn spilled_keys(world: &World) -> Vec<String> {
    let listed = world.store().list(Some(&"spill".into())).try_collect::<Vec<_>>().await.expect("a listing");
    listed.into_iter().map(|object| object.location.to_string()).collect()
}

/// The files below a folder, but those that mark the process.
fn files(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return vec![] };
    let mut all = Vec::new();
    for entry in entries.flatten() {
        match entry.path().is_dir() {
            true => all.extend(files(&entry.path())),
            false if entry.file_name() == "lock" => {}
            false => all.push(entry.path().display().to_string()),
        }
    }
    all
}

/// The rows of a query, a line each: many rows as [`Rows`](crate::world::Rows) would take more memory
/// than the node of the test has.
async fn lines(engine: &Engine, sql: &str) -> pushdowndb_contract::Result<(Vec<String>, Report)> {
    let mut result = engine.execute(sql).await?;
    let mut lines = Vec::new();
    while let Some(batch) = result.try_next().await? {
        lines.extend(text(&[batch]).into_iter().map(|row| row.join("|")));
    }
    Ok((lines, result.report()))
}

/// Runs every query with little memory, and compares its rows with those without a limit. Returns
/// what all of them spilled.
async fn agrees(world: &World, level: &str, more: &[(&str, &str)]) -> Spill {
    let folder = tempfile::tempdir().expect("a folder");
    let unlimited = engine(world, level, "none", folder.path(), &[]).await;
    let limited = engine(world, level, MEMORY, folder.path(), more).await;
    let mut all = Spill::default();
    let mut add = |name: &str, of_unlimited: Report, of_limited: Report| {
        assert_eq!(of_unlimited.usage.spill, Spill::default(), "{name} without a limit");
        let spill = of_limited.usage.spill;
        all.disk_bytes += spill.disk_bytes;
        all.remote_bytes += spill.remote_bytes;
        all.parts += spill.parts;
    };
    for (name, sql) in queries() {
        let (want, of_unlimited) = rows(&unlimited, &sql).await.unwrap_or_else(|e| panic!("{name} unlimited: {e}"));
        let (got, of_limited) = rows(&limited, &sql).await.unwrap_or_else(|e| panic!("{name} at {level}: {e}"));
        assert_same(&format!("{name} at {level} with 8 MB"), &got, &want);
        add(&name, of_unlimited, of_limited);
        limited.settle().await;
        assert_eq!(files(folder.path()), Vec::<String>::new(), "{name} left files");
    }
    for (name, sql) in LARGE {
        let (mut want, of_unlimited) = lines(&unlimited, sql).await.unwrap_or_else(|e| panic!("{name} unlimited: {e}"));
        let (mut got, of_limited) = lines(&limited, sql).await.unwrap_or_else(|e| panic!("{name} at {level}: {e}"));
        if name != "sort" {
            want.sort_unstable();
            got.sort_unstable();
        }
        let differs = got.iter().zip(&want).find(|(got, want)| got != want);
        assert_eq!((got.len(), differs), (want.len(), None), "{name} at {level} with 8 MB");
        add(name, of_unlimited, of_limited);
        limited.settle().await;
        assert_eq!(files(folder.path()), Vec::<String>::new(), "{name} left files");
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn to_disk_without_pushdown() {
    let spill = agrees(&world().await, "none", &[]).await;
    assert!(spill.disk_bytes > 10_000_000 && spill.remote_bytes == 0, "{spill}");
}

#[tokio::test(flavor = "multi_thread")]
async fn to_disk_beside_fragments() {
    let spill = agrees(&world().await, "fragment", &[]).await;
    assert!(spill.disk_bytes > 10_000_000 && spill.remote_bytes == 0, "{spill}");
}

#[tokio::test(flavor = "multi_thread")]
async fn to_a_bucket_encrypted() {
    let world = world().await;
    let settings = [
        ("pushdown.spill_disk_bytes", "0"),
        ("pushdown.spill_location", "s3://data/spill"),
        ("pushdown.spill_encryption", "true"),
    ];
    let listings = world.requests_of("ListObjectsV2");
    let spill = agrees(&world, "none", &settings).await;
    assert!(spill.remote_bytes > 10_000_000 && spill.disk_bytes == 0, "{spill}");
    // Tables are listed; that nothing else is, the next test shows.
    assert!(world.requests_of("ListObjectsV2") > listings);
    assert_eq!(spilled_keys(&world).await, Vec::<String>::new());
}

/// Requests that a spilling sort sends beyond those of its scan.
#[tokio::test(flavor = "multi_thread")]
async fn no_listing_and_few_requests() {
    let world = world().await;
    let folder = tempfile::tempdir().expect("a folder");
    let sql = LARGE[0].1;
    let unlimited = engine(&world, "none", "none", folder.path(), &[]).await;
    let settings =
        [("pushdown.spill_disk_bytes", "0"), ("pushdown.spill_location", "s3://data/spill"), ("pushdown.threads", "1")];
    let limited = engine(&world, "none", MEMORY, folder.path(), &settings).await;
    let (want, plain) = lines(&unlimited, sql).await.unwrap();
    let (got, report) = lines(&limited, sql).await.unwrap();
    limited.settle().await;
    assert_eq!(got, want);
    let (plain, spilled) = (plain.usage.requests, report.usage.requests);
    assert_eq!(spilled.list, plain.list, "spilling lists nothing");
    let parts = report.usage.spill.parts;
    assert!(parts > 1, "{}", report.usage.spill);
    // One manifest is written, and again when there are more than 64 parts.
    let manifests = spilled.put - plain.put - parts;
    assert!((1..=5).contains(&manifests), "{manifests} manifests for {parts} parts");
    // Parts that are still in memory when they are asked for are not fetched.
    assert!((1..=parts).contains(&(spilled.get - plain.get)), "each part is read once at most");
    assert_eq!(spilled_keys(&world).await, Vec::<String>::new());
}

/// Grouping sets over groups of storage: the engine rolls them up, and spills them.
#[tokio::test(flavor = "multi_thread")]
async fn grouping_sets_of_pushed_groups_spill() {
    let world = world().await;
    let folder = tempfile::tempdir().expect("a folder");
    let sql = "SELECT l_comment, l_orderkey, l_linenumber, grouping(l_comment), count(*), sum(l_quantity) \
               FROM lineitem GROUP BY GROUPING SETS ((l_comment), (l_orderkey, l_linenumber), (l_comment))";
    let unlimited = engine(&world, "none", "none", folder.path(), &[]).await;
    let (mut want, _) = lines(&unlimited, sql).await.unwrap();
    want.sort_unstable();
    for strategy in ["compute", "storage"] {
        // A thread keeps blocks of 2 MB for each column.
        let settings = [("pushdown.group_by", strategy), ("pushdown.threads", "1")];
        let limited = engine(&world, "fragment", "32MB", folder.path(), &settings).await;
        let (mut got, report) = lines(&limited, sql).await.unwrap_or_else(|e| panic!("{strategy}: {e}"));
        got.sort_unstable();
        assert!(report.usage.spill.disk_bytes > 1_000_000, "{strategy}: {}", report.usage.spill);
        let differs = got.iter().zip(&want).find(|(got, want)| got != want);
        assert_eq!((got.len(), differs), (want.len(), None), "{strategy}");
    }
}

/// EXPLAIN tells which operators are expected to spill.
#[tokio::test(flavor = "multi_thread")]
async fn explain_tells_what_is_expected_to_be_spilled() {
    let world = world().await;
    let folder = tempfile::tempdir().expect("a folder");
    for (memory, is_expected) in [("8MB", true), ("4GB", false)] {
        let engine = engine(&world, "none", memory, folder.path(), &[]).await;
        for (name, operator) in [(LARGE[0].1, "RangeSortExec"), (LARGE[4].1, "HybridHashJoinExec")] {
            let (plan, _) = lines(&engine, &format!("EXPLAIN {name}")).await.unwrap();
            let plan = plan.join("\n");
            let shown = plan.lines().find(|line| line.contains(operator)).unwrap_or_else(|| panic!("{plan}"));
            assert_eq!(shown.contains("expected to spill"), is_expected, "with {memory}: {shown}");
        }
    }
}

/// A query that is dropped, and one that fails, leave nothing.
#[tokio::test(flavor = "multi_thread")]
async fn ended_queries_leave_nothing() {
    let world = world().await;
    let folder = tempfile::tempdir().expect("a folder");
    let settings = [("pushdown.spill_disk_bytes", "0"), ("pushdown.spill_location", "s3://data/spill")];
    let limited = engine(&world, "none", MEMORY, folder.path(), &settings).await;
    let mut result = limited.execute(LARGE[0].1).await.unwrap();
    assert!(result.try_next().await.unwrap().is_some());
    assert!(!spilled_keys(&world).await.is_empty());
    drop(result);
    limited.settle().await;
    assert_eq!(spilled_keys(&world).await, Vec::<String>::new());
    let sql = "SELECT l_comment, 1 / (l_orderkey - 480000) FROM lineitem ORDER BY l_comment";
    assert!(rows_in_spite(&limited, sql).await.is_err());
    limited.settle().await;
    assert_eq!(spilled_keys(&world).await, Vec::<String>::new());
}

/// VACUUM shows and deletes what a dead process left, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn vacuum_frees_what_dead_processes_left() {
    let world = world().await;
    let folder = tempfile::tempdir().expect("a folder");
    let settings = [("pushdown.spill_disk_bytes", "0"), ("pushdown.spill_location", "s3://data/spill")];
    let limited = engine(&world, "none", MEMORY, folder.path(), &settings).await;
    let mut running = limited.execute(LARGE[0].1).await.unwrap();
    assert!(running.try_next().await.unwrap().is_some());
    let before = spilled_keys(&world).await;
    world.put("spill/other.txt", "not ours").await;
    world.put("spill/0123456789abcdef0123456789abcdef_fedcba9876543210fedcba9876543210/0", "left").await;
    let (freed, _) = rows(&limited, "VACUUM TEMPORARY FILES OLDER THAN '0 s'").await.unwrap();
    assert_eq!(freed.len(), 1, "{freed:?}");
    assert_eq!(freed[0][2..4], ["1", "4"], "{freed:?}");
    let after = spilled_keys(&world).await;
    assert!(before.iter().all(|key| after.contains(key)), "{before:?} became {after:?}");
    assert!(after.contains(&"spill/other.txt".to_owned()) && !after.iter().any(|key| key.contains("0123456789abcdef")));
    let rest = running.try_fold(0, |rows, batch| async move { Ok(rows + batch.num_rows()) }).await.unwrap();
    assert!(rest > 0);
}

/// What a statement fails with.
async fn fails(engine: &Engine, sql: &str) -> Error {
    match rows_in_spite(engine, sql).await {
        Ok((rows, _)) => panic!("{sql} gave {} rows", rows.len()),
        Err(error) => error,
    }
}

/// Operators that hold all of their rows and cannot spill them say so in one line, and how much
/// they needed.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_spill_says_so() {
    let world = world().await;
    let folder: TempDir = tempfile::tempdir().expect("a folder");
    let limited = engine(&world, "none", MEMORY, folder.path(), &[]).await;
    for (sql, operator) in [
        ("SELECT count(DISTINCT l_comment), count(DISTINCT l_orderkey) FROM lineitem", "AggregateStream"),
        ("SELECT max(l_comment) OVER () FROM lineitem", "WindowAggExec"),
    ] {
        let error = fails(&limited, sql).await;
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        let text = error.to_string();
        assert!(text.contains(operator) && text.contains(" needs ") && !text.contains('\n'), "{text}");
    }
}

/// Without a place to spill to, or too little of one, the error says what to set.
#[tokio::test(flavor = "multi_thread")]
async fn nowhere_to_spill_is_an_error_with_a_way_out() {
    let world = world().await;
    let folder: TempDir = tempfile::tempdir().expect("a folder");
    for bytes in ["0", "100KB"] {
        let limited = engine(&world, "none", MEMORY, folder.path(), &[("pushdown.spill_disk_bytes", bytes)]).await;
        let error = fails(&limited, LARGE[0].1).await;
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        assert!(error.to_string().contains("pushdown.spill_"), "{error}");
        assert_eq!(files(folder.path()), Vec::<String>::new());
    }
    let wrong = [("pushdown.spill_location", "/tmp/x", "pushdown.spill_disk"), ("pushdown.memory", "much", "512MiB")];
    let engine = world.engine("none").await;
    for (name, value, hint) in wrong {
        let error = fails(&engine, &format!("SET {name} = '{value}'")).await;
        assert!(error.to_string().contains(hint), "{error}");
    }
}

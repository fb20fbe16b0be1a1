//! Indexes of local files, and indexes at locations of their own.

use futures::TryStreamExt;
use object_store::ObjectStore;
use pushdowndb_contract::ErrorKind;
use pushdowndb_engine::Engine;

use crate::indexes::{index, looked_up, told};
use crate::world::{World, failure, rows, rows_in_spite};

#[tokio::test(flavor = "multi_thread")]
async fn local_files() {
    let world = World::node().await;
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("1.csv"), "a,b\n1,x\n2,y\n3,z\n").expect("a file");
    let engine = world.engine("auto").await;
    let path = folder.path().to_str().expect("a path");
    let declare = format!("CREATE EXTERNAL TABLE l (a BIGINT, b VARCHAR) STORED AS CSV LOCATION '{path}/'");
    engine.execute(&declare).await.expect("a table");
    index(&engine, "l", &["a"]).await;
    let (got, report) = looked_up(&engine, "auto", "index", "SELECT b FROM l WHERE a = 2").await;
    assert_eq!(got, [["y"]]);
    assert!(told(&report, "led to 1 rows"), "{:?}", report.usage.strategies);
    assert_eq!(rows(&engine, "SELECT count(*) FROM l").await.expect("rows").0, [["3"]]);
    engine.execute("DROP INDEX a_index").await.expect("dropped");
}

/// Each row comes once, however many partitions scan instead of the index.
#[tokio::test(flavor = "multi_thread")]
async fn local_files_whose_index_is_damaged_are_scanned_once() {
    let world = World::node().await;
    let folder = tempfile::tempdir().expect("a folder");
    for (file, from) in [("1.csv", 0), ("2.csv", 5_000)] {
        let lines: String = (from..from + 5_000).map(|id| format!("{id},x\n")).collect();
        std::fs::write(folder.path().join(file), format!("a,b\n{lines}")).expect("a file");
    }
    let engine = world.engine_configured(&[("pushdown.threads", "2")]).await;
    let path = folder.path().to_str().expect("a path");
    let declare = format!("CREATE EXTERNAL TABLE l (a BIGINT, b VARCHAR) STORED AS CSV LOCATION '{path}/'");
    engine.execute(&declare).await.expect("a table");
    index(&engine, "l", &["a"]).await;
    for entry in std::fs::read_dir(folder.path().join("_pushdowndb/indexes/a_index/a")).expect("an index") {
        let file = entry.expect("an entry").path();
        if file.extension().is_some_and(|extension| extension == "csv") {
            let text = std::fs::read_to_string(&file).expect("an index object");
            std::fs::write(&file, text.replace("\n4998,", "\n49x8,").replace("\n5001,", "\n50x1,")).expect("damage");
        }
    }
    engine.execute("SET pushdown.filter = 'index'").await.expect("SET");
    let sql = "SELECT count(*), count(DISTINCT a) FROM (SELECT a FROM l WHERE a BETWEEN 4990 AND 5009)";
    let (got, report) = rows_in_spite(&engine, sql).await.expect("rows");
    assert!(told(&report, "scanned without the index"), "{:?}", report.usage.strategies);
    assert_eq!(got, [["20", "20"]]);
}

/// What SHOW INDEXES says of where each index is.
async fn places(engine: &Engine) -> Vec<String> {
    let (shown, _) = rows(engine, "SHOW INDEXES").await.expect("rows");
    shown.into_iter().map(|row| row[8].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_at_a_given_location_is_found_by_every_later_session() {
    let world = World::node().await;
    world.put("e/1.csv", "a,b\n1,x\n2,y\n3,z\n").await;
    let declare = |options: &str| {
        let url = world.url("e/");
        format!(
            "CREATE OR REPLACE EXTERNAL TABLE e (a BIGINT, b VARCHAR) STORED AS CSV LOCATION '{url}' \
             OPTIONS ('format.has_header' 'true', 'backend' 'pushdowndb'{options})"
        )
    };
    let folder = tempfile::tempdir().expect("a folder");
    let local = folder.path().to_str().expect("a path").to_owned();
    for location in [world.url("mine"), format!("file://{local}/")] {
        let engine = world.engine("none").await;
        engine.execute(&declare("")).await.expect("a table");
        let create = format!("CREATE INDEX ON e (a) WITH (location = '{location}')");
        engine.execute(&create).await.expect("an index");
        let error = failure(&engine, &create).await;
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        for level in ["none", "select", "fragment"] {
            let later = world.engine(level).await;
            later.execute(&declare("")).await.expect("a table");
            let places = places(&later).await;
            assert!(places.len() == 1 && places[0].starts_with(location.trim_start_matches("file://")), "{places:?}");
            let (got, report) = looked_up(&later, level, "index", "SELECT b FROM e WHERE a = 2").await;
            assert_eq!(got, [["y"]], "{location} at {level}");
            assert!(told(&report, "the index a_index led to 1 rows"), "{:?}", report.usage.strategies);
        }
        engine.execute("DROP INDEX a_index").await.expect("dropped");
        assert!(places(&engine).await.is_empty());
        let left: Vec<_> = world.store().list(None).try_collect().await.expect("a listing");
        assert_eq!(left.len(), 1, "only the table: {left:?}");
    }

    // A declaration that names the location needs no pointer, so the table's bucket is not written
    // to.
    let declared = declare(&format!(", 'index_location' 'file://{local}/'"));
    let engine = world.engine("fragment").await;
    engine.execute(&declared).await.expect("a table");
    engine.execute("CREATE INDEX ON e (a)").await.expect("an index");
    let left: Vec<_> = world.store().list(None).try_collect().await.expect("a listing");
    assert_eq!(left.len(), 1, "only the table: {left:?}");
    let later = world.engine("fragment").await;
    later.execute(&declared).await.expect("a table");
    let (got, report) = looked_up(&later, "fragment", "index", "SELECT b FROM e WHERE a = 3").await;
    assert_eq!(got, [["z"]]);
    assert!(told(&report, "the index a_index led to 1 rows"), "{:?}", report.usage.strategies);
    // A declaration without the location does not find the index.
    later.execute(&declare("")).await.expect("a table");
    assert!(places(&later).await.is_empty());
    later.execute("DROP INDEX IF EXISTS a_index").await.expect("nothing to do");
    let error = failure(&later, "CREATE INDEX ON e (a) WITH (location = 'http://example.org/x/')").await;
    assert!(error.message().contains("a web server cannot list a folder"), "{error}");
}

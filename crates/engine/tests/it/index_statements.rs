//! Statements about indexes, and objects that are unlike others.

use std::fmt::Write as _;

use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::path::Path;
use pushdowndb_contract::ErrorKind;

use crate::indexes::{index, looked_up, private_objects, scattered, told};
use crate::world::{World, assert_same, failure, rows};

#[tokio::test(flavor = "multi_thread")]
async fn indexes_are_shown_and_dropped() {
    let world = World::node().await;
    let engine = scattered(&world).await;
    let (shown, _) = rows(&engine, "SHOW INDEXES").await.expect("rows");
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0][..7], ["c", "code_index", "code", "complete", "2", "2", "40000"].map(str::to_owned));
    assert!(shown[0][7].parse::<u64>().expect("bytes") > 500_000);
    engine.execute("CREATE INDEX IF NOT EXISTS code_index ON c (code)").await.expect("nothing to do");
    let error = failure(&engine, "CREATE INDEX ON c (code)").await;
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    engine.execute("CREATE INDEX \"By text\" ON c (text)").await.expect("an index");
    assert_eq!(rows(&engine, "SHOW INDEXES FROM c").await.expect("rows").0.len(), 2);
    engine.execute("DROP INDEX code_index ON c").await.expect("dropped");
    engine.execute("DROP INDEX \"By text\"").await.expect("dropped");
    assert!(private_objects(&world).await.is_empty());
    assert!(rows(&engine, "SHOW INDEXES FROM c").await.expect("rows").0.is_empty());
    engine.execute("DROP INDEX IF EXISTS code_index").await.expect("nothing to do");
    for (sql, part) in [
        ("DROP INDEX code_index", "no table of this session has an index code_index"),
        ("DROP INDEX code_index ON c", "c has no index code_index"),
    ] {
        let error = failure(&engine, sql).await;
        assert!(error.kind() == ErrorKind::NotFound && error.message().contains(part), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_indexed_is_refused() {
    let world = World::node().await;
    let engine = world.engine("none").await;
    world.put("z/1.csv.gz", "no gzip, but nobody looks").await;
    world.put("p/year=2024/1.csv", "a\n1\n").await;
    world.put("j/1.json", "{\"a\":\"x\\ny\"}\n").await;
    for (name, columns, format, options) in [
        ("z", "(a BIGINT)", "CSV", "OPTIONS ('format.has_header' 'true', 'compression' 'gzip')"),
        ("p", "", "CSV", ""),
        ("j", "(a VARCHAR)", "JSON", ""),
    ] {
        let url = world.url(&format!("{name}/"));
        let declare = format!("CREATE EXTERNAL TABLE {name} {columns} STORED AS {format} LOCATION '{url}' {options}");
        engine.execute(&declare).await.expect("a table");
    }
    engine.execute("CREATE VIEW v AS SELECT a FROM j").await.expect("a view");
    for (sql, part) in [
        ("CREATE INDEX ON z (a)", "is compressed"),
        ("CREATE INDEX ON p (year)", "a column of the path"),
        ("CREATE INDEX ON p (b)", "there is no column b; the columns are a"),
        ("CREATE INDEX ON j (a)", "a value holds a line end"),
        ("CREATE INDEX ON v (a)", "has no objects of its own"),
        ("CREATE INDEX ON nowhere (a)", "nowhere"),
        ("CREATE UNIQUE INDEX ON p (a)", "does not restrict"),
        ("SET pushdown.filter = 'indexes'", "auto, compute, storage, index"),
    ] {
        let error = failure(&engine, sql).await;
        assert!(error.message().contains(part), "{sql}: {error}");
    }
    let left: Vec<_> = world.store().list(Some(&Path::from("j/_pushdowndb"))).try_collect().await.expect("a listing");
    assert!(left.is_empty(), "what was written before the error is gone: {left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_with_line_ends_beside_the_indexed_column() {
    let world = World::node().await;
    let mut text = String::from("a,b\n");
    (0..500).for_each(|i| writeln!(text, "{i},\"line one\nline \"\"{i}\"\"\"").expect("text"));
    world.put("q/1.csv", text).await;
    let engine = world.engine("select").await;
    let declare = format!(
        "CREATE EXTERNAL TABLE q (a BIGINT, b VARCHAR) STORED AS CSV LOCATION '{}' \
         OPTIONS ('format.has_header' 'true', 'newlines_in_values' 'true')",
        world.url("q/")
    );
    engine.execute(&declare).await.expect("a table");
    index(&engine, "q", &["a"]).await;
    let (got, report) = looked_up(&engine, "select", "index", "SELECT b FROM q WHERE a IN (3, 4, 400)").await;
    let want = [3, 4, 400].map(|i| vec![format!("line one\nline \"{i}\"")]).to_vec();
    assert_same("line ends", &got, &want);
    assert!(told(&report, "led to 3 rows"), "{:?}", report.usage.strategies);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_with_their_own_order_of_columns() {
    let world = World::node().await;
    world.put("u/1.csv", "id,a\n1,x\n2,y\n").await;
    world.put("u/2.csv", "a,id,b\ny,2,7\nx,3,8\n").await;
    world.put("u/3.csv", "a\nz\n").await;
    // Text that looks like numbers: as such 1000 is not between 10 and 19.
    world.put("u/4.csv", "b,a,id\n1,1000,50\n2,200,51\n").await;
    let engine = world.engine("select").await;
    let declare = format!(
        "CREATE EXTERNAL TABLE u (id BIGINT, a VARCHAR, b BIGINT) STORED AS CSV LOCATION '{}' \
         OPTIONS ('union_by_name' 'true')",
        world.url("u/")
    );
    engine.execute(&declare).await.expect("a table");
    index(&engine, "u", &["id", "a"]).await;
    let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
    for level in ["select", "fragment"] {
        let sql = "SELECT id, a, b FROM u WHERE id >= 2 AND id < 9";
        let (got, report) = looked_up(&engine, level, "index", sql).await;
        assert_same("by name", &got, &vec![row(["2", "y", "NULL"]), row(["2", "y", "7"]), row(["3", "x", "8"])]);
        assert!(told(&report, "led to 3 rows in 2 objects"), "{level}: {:?}", report.usage.strategies);
        let (got, _) = looked_up(&engine, level, "index", "SELECT id FROM u WHERE a BETWEEN '10' AND '19'").await;
        assert_eq!(got, [["50"]], "{level}");
    }
}

//! The fragment route of our own node: what it pushes, what crosses the network, what it must not
//! change.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use flate2::Compression;
use flate2::write::GzEncoder;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use pushdowndb_datagen::Format;
use pushdowndb_engine::Engine;

use crate::world::{World, assert_same, queries, rows};

async fn declared(world: &World, engine: &Engine, columns: &str, options: &str) {
    let declare = format!(
        "CREATE EXTERNAL TABLE t ({columns}) STORED AS CSV LOCATION '{}' OPTIONS ('format.has_header' 'true'{options})",
        world.url("t/")
    );
    engine.execute(&declare).await.expect("a table");
}

fn strings(all: &[&[&str]]) -> Vec<Vec<String>> {
    all.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_is_one_request_paid_by_time() {
    let world = World::node().await;
    let csv = "a,b\n1,x\n2,y\n3,\n";
    world.put("t/1.csv", csv).await;
    let engine = world.engine("auto").await;
    declared(&world, &engine, "a BIGINT NOT NULL, b VARCHAR", "").await;
    let (got, report) = rows(&engine, "SELECT b, a FROM t WHERE a > 1").await.expect("rows");
    assert_same("a filter", &got, &strings(&[&["y", "2"], &["NULL", "3"]]));
    let (usage, bill) = (&report.usage, &report.bill);
    let requests = &usage.requests;
    assert_eq!((requests.list, requests.get, requests.select, requests.fragment), (1, 0, 0, 1));
    assert_eq!((usage.bytes_scanned, usage.bytes_scanned_by_fragments), (csv.len() as u64, csv.len() as u64));
    assert!(usage.bytes_returned > 0 && usage.storage_cpu_s > 0.0 && bill.storage_compute > 0.0);
    assert_eq!((bill.scan, bill.transfer), (0.0, 0.0), "fragments are paid by time");
    let (got, report) = rows(&engine, "SELECT 7 FROM t WHERE a > 1").await.expect("rows");
    assert_same("rows without columns", &got, &strings(&[&["7"], &["7"]]));
    assert_eq!(report.usage.requests.get, 0, "{:?}", report.usage.strategies);
    let (plan, _) = rows(&engine, "EXPLAIN SELECT b FROM t WHERE a > 1").await.expect("a plan");
    assert!(plan.concat().join("\n").contains("level=fragment (pushdowndb)"), "{plan:?}");
    engine.execute("SET pushdown.level = 'select'").await.expect("SET");
    let (_, report) = rows(&engine, "SELECT b, a FROM t WHERE a > 1").await.expect("rows");
    assert_eq!((report.usage.requests.select, report.usage.requests.fragment), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_objects_share_requests() {
    let world = World::node().await;
    let count = 200;
    for object in 0..count {
        // Every tenth holds no record, or nothing at all.
        let rows = match object % 10 {
            0 => String::new(),
            1 => "id,name\n".to_owned(),
            _ => format!("id,name\n{object},n{object}\n-{object},\n"),
        };
        world.put(&format!("t/{object:03}.csv"), rows).await;
    }
    let engine = world.engine("fragment").await;
    declared(&world, &engine, "id BIGINT NOT NULL, name VARCHAR", "").await;
    let (got, report) = rows(&engine, "SELECT id FROM t WHERE name IS NULL AND id < -190").await.expect("rows");
    let want: Vec<Vec<String>> = (191..200).filter(|id| id % 10 > 1).map(|id| vec![format!("-{id}")]).collect();
    assert_same("many objects", &got, &want);
    assert!(report.usage.requests.fragment <= 8 && report.usage.requests.get == 0, "{:?}", report.usage.requests);
    let (got, report) = rows(&engine, "SELECT count(*), count(name), min(id), sum(id) FROM t").await.expect("rows");
    assert_same("aggregates", &got, &strings(&[&["320", "160", "-199", "0"]]));
    assert!(report.usage.requests.fragment <= 8 && report.usage.requests.get == 0, "{:?}", report.usage.requests);
    let (got, _) =
        rows(&engine, "SELECT id FROM t WHERE name IS NOT NULL ORDER BY id DESC LIMIT 3").await.expect("rows");
    assert_eq!(got, strings(&[&["199"], &["198"], &["197"]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_other_columns_and_compressions_mean_the_same() {
    let world = World::node().await;
    world.put("t/1.csv", "id,name,price\n1,a,1.5\n2,b,\n").await;
    world.put("t/2.csv", "price,id,note\n2.5,3,x\n,4,y\n").await;
    world.put("t/3.csv", "name,id\nc,5\n").await;
    world.put("t/4.csv", "name,id\nd,6\n").await;
    let engine = world.engine("fragment").await;
    declared(&world, &engine, "id BIGINT, name VARCHAR, price DOUBLE", ", 'union_by_name' 'true'").await;
    let (got, report) =
        rows(&engine, "SELECT id, name, price FROM t WHERE price IS NULL OR id = 3").await.expect("rows");
    let want = [
        &["2", "b", "NULL"][..],
        &["3", "NULL", "2.5"],
        &["4", "NULL", "NULL"],
        &["5", "c", "NULL"],
        &["6", "d", "NULL"],
    ];
    assert_same("by name", &got, &strings(&want));
    let (got, _) = rows(&engine, "SELECT count(*), count(name), sum(price), max(id) FROM t").await.expect("rows");
    assert_same("aggregates by name", &got, &strings(&[&["6", "4", "4.0", "6"]]));
    let (got, _) = rows(&engine, "SELECT id FROM t ORDER BY price DESC NULLS LAST, id LIMIT 3").await.expect("rows");
    assert_eq!(got, strings(&[&["3"], &["1"], &["2"]]));
    assert!(!report.usage.strategies.iter().any(|s| s.contains("fell back")), "{:?}", report.usage.strategies);

    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(b"id\n7\n8\n").expect("written");
    world.put("z/1.csv.gz", gzip.finish().expect("compressed")).await;
    let engine = world.engine("fragment").await;
    let (got, report) = rows(&engine, "SELECT id FROM 's3://data/z/*.csv.gz' WHERE id > 7").await.expect("rows");
    assert_same("gzip", &got, &strings(&[&["8"]]));
    assert_eq!(report.usage.requests.fragment, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_rows_are_few_bytes() {
    let world = World::node().await;
    for (format, path) in [(Format::Csv, "csv"), (Format::Parquet, "parquet")] {
        world.tpch(path, format).await;
        let engine = world.engine_with("fragment", path).await;
        let sql = "SELECT l_orderkey, l_linenumber, l_extendedprice FROM lineitem ORDER BY l_extendedprice, l_orderkey, \
                   l_linenumber LIMIT 10";
        let (first, report) = rows(&engine, sql).await.expect("rows");
        assert!(report.usage.requests.fragment > 0, "{:?}", report.usage);
        engine.execute("SET pushdown.top_k = 'compute'").await.expect("SET");
        let (all, plain) = rows(&engine, sql).await.expect("rows");
        assert_eq!(first, all);
        let (few, many) = (report.usage.bytes_network, plain.usage.bytes_network);
        assert!(few * 20 < many, "{path}: {few} bytes with storage, {many} without");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_stops_the_scan() {
    let world = World::node().await;
    let line = "1234567,some text that makes the object large enough to be worth stopping\n";
    let csv = format!("id,name\n{}", line.repeat(400_000));
    for object in 0..3 {
        world.put(&format!("t/{object}.csv"), csv.clone()).await;
    }
    let engine = world.engine("fragment").await;
    declared(&world, &engine, "id BIGINT NOT NULL, name VARCHAR", "").await;
    // A look at the table would be most of what is read.
    engine.execute("SET pushdown.statistics = 'none'").await.expect("SET");
    let (got, report) = rows(&engine, "SELECT id FROM t WHERE id > 5 LIMIT 7").await.expect("rows");
    assert_eq!(got.len(), 7);
    assert!(report.usage.bytes_network < 50_000, "{} bytes", report.usage.bytes_network);
    let scanned = world.scanned_bytes();
    assert!(scanned * 4 < csv.len() as u64 * 3, "{scanned} bytes were scanned for seven rows");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_backends_and_declared_ones_keep_to_select() {
    let world = World::node().await;
    world.put("t/1.csv", "id\n1\n2\n").await;
    let engine = world.engine("auto").await;
    declared(&world, &engine, "id BIGINT NOT NULL", ", 'backend' 'minio'").await;
    let (got, report) = rows(&engine, "SELECT id FROM t WHERE id > 1").await.expect("rows");
    assert_same("as MinIO", &got, &strings(&[&["2"]]));
    assert_eq!(report.usage.requests.fragment, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_queries_return_little() {
    let world = World::node().await;
    world.tpch("csv", Format::Csv).await;
    let engine = world.engine_with("fragment", "csv").await;
    for (name, sql) in queries().into_iter().filter(|(name, _)| name.starts_with("op_topk")) {
        let (_, report) = rows(&engine, &sql).await.expect("rows");
        let usage = &report.usage;
        assert!(usage.requests.get == 0 && usage.requests.fragment > 0, "{name}: {:?}", usage.requests);
    }
}

/// A Parquet file of one row group, its columns megabytes apart from each other, with an index of
/// its small pages.
fn parquet_with_pages() -> Vec<u8> {
    let rows = 250_000i64;
    let scattered = |by: i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..rows).map(move |row| row.wrapping_mul(by).rotate_left(29))))
    };
    let batch = RecordBatch::try_from_iter([
        ("i", Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef),
        ("a", scattered(0x9e37_79b9_7f4a_7c15_u64 as i64)),
        ("b", scattered(0x5851_f42d_4c95_7f2d)),
        ("c", scattered(0x1405_7b7e_f767_814f)),
    ])
    .expect("a batch");
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_data_page_row_count_limit(2_000)
        .set_write_batch_size(2_000)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).expect("a writer");
    writer.write(&batch).expect("written");
    writer.into_inner().expect("closed")
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_are_far_apart_come_in_one_request() {
    let world = World::node().await;
    world.put("t/1.parquet", parquet_with_pages()).await;
    let sql = "SELECT * FROM 's3://data/t/1.parquet' WHERE i BETWEEN 123456 AND 123458 ORDER BY i";
    let mut requests = Vec::new();
    let mut all = Vec::new();
    for level in ["none", "fragment"] {
        let engine = world.engine(level).await;
        engine.execute("SET pushdown.filter = 'compute'").await.expect("SET");
        engine.execute("SET pushdown.statistics = 'none'").await.expect("SET");
        let (got, report) = rows(&engine, sql).await.expect("rows");
        assert_eq!(got.len(), 3, "{level}");
        all.push(got);
        requests.push(report.usage.requests);
    }
    assert_eq!(all.first(), all.last());
    let [plain, together] = requests.as_slice() else { panic!("two levels") };
    assert_eq!((plain.fragment, together.fragment), (0, 1), "{plain:?} {together:?}");
    // The pages of three columns, one of each.
    assert_eq!(plain.get, together.get + 3, "{plain:?} {together:?}");
}

//! The access policy: what it does not list is refused before anything is opened, what it lists
//! works as ever.

mod web;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use object_store::ObjectStoreExt;
use pushdowndb_contract::{Error, ErrorKind};
use pushdowndb_engine::{AccessPolicy, ConnectionConfig, Engine, EngineConfig};
use tempfile::TempDir;

use crate::world::{KEY, Rows, SECRET, World, rows};

/// A port that must not be connected to.
struct Canary(TcpListener);

impl Canary {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    #[track_caller]
    fn is_alone(&self) {
        assert!(self.0.accept().is_err(), "a connection was made");
    }
}

/// Folders `in`, `out` and `secret`, each with a file, and links from the first two to the last.
struct Folders(TempDir);

impl Folders {
    fn new() -> Self {
        let folders = Self(tempfile::tempdir().unwrap());
        for name in ["in", "out", "secret"] {
            fs::create_dir(folders.path(name)).unwrap();
            fs::write(folders.path(name).join("x.csv"), "a\n1\n2\n").unwrap();
        }
        folders
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// All that is there, by path.
    fn all(&self) -> Vec<(PathBuf, String)> {
        fn walk(folder: &Path, all: &mut Vec<(PathBuf, String)>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() && !path.is_symlink() {
                    true => walk(&path, all),
                    false => all.push((path.clone(), fs::read_to_string(&path).unwrap_or_default())),
                }
            }
        }
        let mut all = Vec::new();
        walk(self.0.path(), &mut all);
        all.sort();
        all
    }
}

async fn engine(access: AccessPolicy, endpoint: &str) -> Engine {
    let connection = ConnectionConfig {
        endpoint: Some(endpoint.to_owned()),
        region: Some("us-east-1".to_owned()),
        access_key_id: Some(KEY.to_owned()),
        secret_access_key: Some(SECRET.to_owned()),
        ..ConnectionConfig::default()
    };
    let settings = vec![("pushdown.retries".to_owned(), "0".to_owned())];
    Engine::new(EngineConfig { access, connection, settings, ..EngineConfig::default() }).await.unwrap()
}

async fn run(engine: &Engine, sql: &str) -> Result<Rows, Error> {
    rows(engine, sql).await.map(|(rows, _)| rows)
}

#[track_caller]
fn is_refused(what: &str, done: Result<impl std::fmt::Debug, Error>) {
    let error = done.expect_err(what);
    assert_eq!(error.kind(), ErrorKind::Denied, "{what}: {error}");
    assert!(error.to_string().contains("refused by the access policy"), "{what}: {error}");
}

async fn refuses(engine: &Engine, sql: &str) {
    is_refused(sql, run(engine, sql).await);
}

/// Statements that open a place each.
fn statements(file: &str, folder: &str, port: u16) -> Vec<String> {
    let addresses = [
        file.to_owned(),
        format!("file://{file}"),
        format!("FILE://localhost{file}"),
        format!("{folder}/../{}/x.csv", folder.rsplit('/').next().unwrap()),
        format!("{folder}/*.csv"),
        format!("{folder}/"),
        "s3://data/x.csv".to_owned(),
        "S3A://data/".to_owned(),
        "s3://data/**/*.csv".to_owned(),
        format!("http://127.0.0.1:{port}/x.csv"),
        format!("HTTP://0x7f.1:{port}/x.csv"),
        format!("http://2130706433:{port}/x.csv"),
        format!("http://[::ffff:7f00:1]:{port}/x.csv"),
        format!("http://localhost:{port}/x.csv"),
        format!("http://localhost.:{port}/x.csv"),
        format!("http://user:word@127.0.0.1:{port}/x.csv"),
    ];
    let mut all = Vec::new();
    for address in &addresses {
        all.push(format!("SELECT * FROM '{address}'"));
        all.push(format!("EXPLAIN SELECT count(*) FROM '{address}'"));
        all.push(format!("SELECT (SELECT max(a) FROM '{address}')"));
        all.push(format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{address}'"));
        all.push(format!(
            "CREATE EXTERNAL TABLE t (a INT) STORED AS JSON LOCATION '{address}' OPTIONS ('backend' 'aws')"
        ));
        all.push(format!("CREATE UNBOUNDED EXTERNAL TABLE t (a INT) STORED AS CSV LOCATION '{address}'"));
        all.push(format!("CREATE VIEW v AS SELECT * FROM '{address}'"));
        all.push(format!("CREATE TABLE m AS SELECT * FROM '{address}'"));
        all.push(format!("DESCRIBE \"{address}\""));
        all.push(format!("ANALYZE TABLE \"{address}\""));
        all.push(format!("CREATE INDEX i ON \"{address}\" (a)"));
    }
    let to = [
        format!("{folder}/new.csv"),
        format!("{folder}/new/"),
        format!("file://{folder}/new.csv"),
        "s3://data/new.csv".to_owned(),
        "s3://data/new/".to_owned(),
        format!("http://127.0.0.1:{port}/new.csv"),
    ];
    for to in &to {
        for sql in [
            format!("COPY (SELECT 1 AS a) TO '{to}' STORED AS CSV"),
            format!("COPY (SELECT 1 AS a) TO '{to}' STORED AS PARQUET"),
            format!("COPY (SELECT 1 AS a, 2 AS b) TO '{to}' STORED AS CSV PARTITIONED BY (b)"),
            format!("EXPLAIN COPY (SELECT 1 AS a) TO '{to}' STORED AS JSON"),
            format!("EXPLAIN ANALYZE COPY (SELECT 1 AS a) TO '{to}' STORED AS JSON"),
        ] {
            all.push(sql);
        }
    }
    all.push(format!("SET pushdown.price_book = '{file}'"));
    all.push(format!("SET datafusion.runtime.temp_directory = '{folder}/spilled'"));
    all.push(format!("SET datafusion.catalog.location = '{folder}'"));
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn by_default_nothing_is_opened() {
    let (canary, folders) = (Canary::new(), Folders::new());
    let before = folders.all();
    let endpoint = format!("http://127.0.0.1:{}", canary.port());
    let engine = engine(AccessPolicy::default(), &endpoint).await;
    let (file, folder) = (folders.text("secret/x.csv"), folders.text("secret"));
    for sql in statements(&file, &folder, canary.port()) {
        refuses(&engine, &sql).await;
    }
    is_refused("reading a text", engine.read_text(&file).await);
    is_refused("reading an object", engine.read_text("s3://data/x").await);
    is_refused("a store to write to", engine.store("s3://data/x"));
    is_refused("making a bucket", engine.create_bucket("s3://data").await);
    is_refused("describing", engine.describe("\"s3://data/x.csv\"").await);
    assert_eq!(folders.all(), before);
    canary.is_alone();
    // What needs nothing from outside works.
    assert_eq!(run(&engine, "SELECT sum(value) FROM generate_series(1, 4)").await.unwrap(), [["10"]]);
    run(&engine, "SET pushdown.price_book = 'paper-egress'").await.unwrap();
    assert!(run(&engine, "CREATE EXTERNAL TABLE t STORED AS ARROW LOCATION '/x'").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_refused_like_what_is() {
    let folders = Folders::new();
    let engine = engine(AccessPolicy::nothing().and_read(&folders.text("in")).unwrap(), "http://127.0.0.1:9").await;
    let without = |error: Error, name: &str| error.to_string().replace(name, "NAME");
    let there =
        without(run(&engine, &format!("SELECT * FROM '{}'", folders.text("secret"))).await.unwrap_err(), "secret");
    let not_there =
        without(run(&engine, &format!("SELECT * FROM '{}'", folders.text("nosuch"))).await.unwrap_err(), "nosuch");
    assert_eq!(there, not_there);
}

#[tokio::test(flavor = "multi_thread")]
async fn listed_folders_work_and_lead_nowhere_else() {
    let folders = Folders::new();
    for from in ["in", "out"] {
        symlink(folders.path("secret"), folders.path(from).join("folder")).unwrap();
    }
    fs::create_dir(folders.path("in/links")).unwrap();
    symlink(folders.path("secret/x.csv"), folders.path("in/links/file.csv")).unwrap();
    symlink(folders.path("in/x.csv"), folders.path("in/within.csv")).unwrap();
    fs::create_dir(folders.path("inside")).unwrap();
    fs::write(folders.path("inside/x.csv"), "a\n3\n").unwrap();
    let policy =
        AccessPolicy::nothing().and_read(&folders.text("in")).unwrap().and_write(&folders.text("out")).unwrap();
    let engine = engine(policy, "http://127.0.0.1:9").await;
    let (read, write, other) = (folders.text("in"), folders.text("out"), folders.text("inside"));

    let sum = |place: &str| format!("SELECT sum(a) FROM '{place}'");
    for place in ["x.csv", "./x.csv", "links/../x.csv", "within.csv", "x.*", "[x].csv"] {
        assert_eq!(run(&engine, &sum(&format!("{read}/{place}"))).await.unwrap(), [["3"]], "{place}");
    }
    assert_eq!(run(&engine, &sum(&format!("file://{read}/x.csv"))).await.unwrap(), [["3"]]);
    let declared = format!("CREATE EXTERNAL TABLE t (a BIGINT) STORED AS CSV LOCATION '{read}/x.csv'");
    run(&engine, &declared).await.unwrap();
    assert_eq!(run(&engine, "SELECT count(*) FROM t WHERE a > 1").await.unwrap(), [["1"]]);
    for to in ["new.csv", "deep/new.csv", "folder.csv"] {
        let copy = format!("COPY (SELECT 7 AS a) TO '{write}/{to}'");
        run(&engine, &copy).await.unwrap();
        assert_eq!(fs::read_to_string(format!("{write}/{to}")).unwrap(), "a\n7\n", "{to}");
    }
    let many = "SELECT value AS a, value % 2 AS b FROM generate_series(1, 100000)";
    let copy = format!("COPY ({many}) TO '{write}/many/' STORED AS PARQUET PARTITIONED BY (b)");
    // What the folder holds is not looked at without the right to read it.
    refuses(&engine, &copy).await;
    run(&engine, &format!("{copy} OPTIONS (append true)")).await.unwrap();
    assert_eq!(fs::read_dir(format!("{write}/many")).unwrap().count(), 2);

    let before = folders.all();
    for place in [
        format!("{read}/folder/x.csv"),
        format!("{read}/links/file.csv"),
        format!("{read}/links/"),
        format!("{read}/**/*.csv"),
        format!("{read}/folder/*.csv"),
        format!("{read}/../secret/x.csv"),
        format!("file://{read}/%2e%2e/secret/x.csv"),
        format!("file://{read}/..%2fsecret/x.csv"),
        format!("{other}/x.csv"),
        format!("{read}*/x.csv"),
        // What may be written is not read for that.
        format!("{write}/x.csv"),
    ] {
        let refused = run(&engine, &sum(&place)).await.expect_err(&place);
        assert!([ErrorKind::Denied, ErrorKind::Invalid].contains(&refused.kind()), "{place}: {refused}");
        assert!(!refused.to_string().contains("no such"), "{place}: {refused}");
    }
    for to in ["in/new.csv", "out/folder/new.csv", "out/folder/deep/new.csv", "out/../secret/new.csv", "secret/new.csv"]
    {
        refuses(&engine, &format!("COPY (SELECT 7 AS a) TO '{}' STORED AS CSV", folders.text(to))).await;
    }
    refuses(&engine, "CREATE INDEX i ON t (a)").await;
    assert!(run(&engine, "INSERT INTO t VALUES (9)").await.is_err());
    assert_eq!(folders.all(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn listed_prefixes_of_a_bucket_work_at_every_level() {
    let world = World::node().await;
    for path in ["in/x.csv", "in/deep/y.csv", "inside/x.csv", "secret/x.csv"] {
        world.put(path, "a,b\n1,x\n2,y\n").await;
    }
    let policy = AccessPolicy::nothing().and_read("s3://data/in/").unwrap().and_write("s3://data/out").unwrap();
    let engine = engine(policy, &world.endpoint).await;
    for level in ["none", "select", "fragment", "auto"] {
        run(&engine, &format!("SET pushdown.level = '{level}'")).await.unwrap();
        for place in ["s3://data/in/x.csv", "S3A://data/in/*.csv", "s3://data/in/deep"] {
            let sql = format!("SELECT b FROM '{place}' WHERE a = 2");
            assert_eq!(run(&engine, &sql).await.unwrap(), [["y"]], "{level} {place}");
        }
        for place in
            ["s3://data/secret/x.csv", "s3://data/inside/x.csv", "s3://data/*/x.csv", "s3://data/", "s3://other/x.csv"]
        {
            refuses(&engine, &format!("SELECT b FROM '{place}' WHERE a = 2")).await;
        }
    }
    run(&engine, "COPY (SELECT 1 AS a) TO 's3://data/out/new.csv'").await.unwrap();
    assert!(world.store().head(&"out/new.csv".into()).await.is_ok());
    let puts = world.requests_of("PutObject");
    for to in ["s3://data/in/new.csv", "s3://data/outside.csv", "s3://data/out/../secret/new.csv"] {
        let refused = run(&engine, &format!("COPY (SELECT 1 AS a) TO '{to}'")).await.expect_err(to);
        assert!([ErrorKind::Denied, ErrorKind::Invalid].contains(&refused.kind()), "{to}: {refused}");
    }
    assert_eq!(world.requests_of("PutObject"), puts);
}

#[tokio::test(flavor = "multi_thread")]
async fn indexes_are_written_and_read_where_that_is_listed() {
    let world = World::node().await;
    let lines: String = (0..20_000).map(|i| format!("{i},v{i}\n")).collect();
    world.put("in/x.csv", format!("a,b\n{lines}")).await;
    let declare = |options: &str| {
        format!(
            "CREATE EXTERNAL TABLE t (a BIGINT, b VARCHAR) STORED AS CSV LOCATION 's3://data/in/' OPTIONS ('has_header' 'true'{options})"
        )
    };
    let reading = AccessPolicy::nothing().and_read("s3://data/in/").unwrap();
    let find = "SELECT b FROM t WHERE a = 17000";

    let reader = engine(reading.clone(), &world.endpoint).await;
    run(&reader, &declare("")).await.unwrap();
    let puts = world.requests_of("PutObject");
    refuses(&reader, "CREATE INDEX i ON t (a)").await;
    refuses(&reader, "CREATE INDEX i ON t (a) WITH (location = 's3://data/elsewhere/')").await;
    refuses(&reader, "ANALYZE TABLE t WITH (beside = true)").await;
    assert_eq!(world.requests_of("PutObject"), puts);

    let writing = reading.clone().and_write("s3://data/in/_pushdowndb/").unwrap();
    let writer = engine(writing, &world.endpoint).await;
    run(&writer, &declare("")).await.unwrap();
    run(&writer, "CREATE INDEX i ON t (a)").await.unwrap();
    run(&writer, "SET pushdown.filter = 'index'").await.unwrap();
    assert_eq!(run(&writer, find).await.unwrap(), [["v17000"]]);

    // An index that a pointer, or an option, says to be elsewhere is not looked at there.
    let all = engine(AccessPolicy::Everything, &world.endpoint).await;
    run(&all, &declare("")).await.unwrap();
    run(&all, "CREATE INDEX j ON t (b) WITH (location = 's3://data/elsewhere/')").await.unwrap();
    let lists = |result: Rows| result.iter().flatten().any(|cell| cell.contains("elsewhere"));
    assert!(lists(run(&all, "SHOW INDEXES FROM t").await.unwrap()));
    let (shown, _) = crate::world::rows_in_spite(&reader, "SHOW INDEXES FROM t").await.unwrap();
    assert!(!lists(shown));
    let other = engine(reading, &world.endpoint).await;
    run(&other, &declare(", 'index_location' 'file:///'")).await.unwrap();
    let (found, report) = crate::world::rows_in_spite(&other, find).await.unwrap();
    assert_eq!(found, [["v17000"]]);
    assert!(report.usage.strategies.iter().any(|told| told.contains("refused by the access policy")), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_name_files_that_are_listed() {
    let folders = Folders::new();
    let book = fs::read_to_string(pushdowndb_testkit::repository().join("crates/cost/prices/paper.toml")).unwrap();
    for name in ["in", "secret"] {
        fs::write(folders.path(name).join("book.toml"), &book).unwrap();
    }
    symlink(folders.path("secret/book.toml"), folders.path("in/link.toml")).unwrap();
    let policy =
        AccessPolicy::nothing().and_read(&folders.text("in")).unwrap().and_write(&folders.text("out")).unwrap();
    let engine = engine(policy, "http://127.0.0.1:9").await;
    let price = async |name: &str| run(&engine, &format!("SET pushdown.price_book = '{}'", folders.text(name))).await;
    price("in/book.toml").await.unwrap();
    is_refused("another folder", price("secret/book.toml").await);
    is_refused("a link", price("in/link.toml").await);
    is_refused("dots", price("in/../secret/book.toml").await);
    // A refused value is not kept, and later settings do not read it.
    assert!(run(&engine, "SHOW pushdown.price_book").await.unwrap()[0][1].ends_with("in/book.toml"));

    // More than fits into memory, which needs a folder to spill to.
    let sort = "SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY value * 7919 % 1000003) AS n \
                FROM generate_series(1, 1000000))";
    run(&engine, "SET pushdown.threads = 1").await.unwrap();
    run(&engine, "SET datafusion.execution.sort_spill_reservation_bytes = 1000000").await.unwrap();
    run(&engine, "SET pushdown.memory = '12M'").await.unwrap();
    for setting in
        ["", "SET datafusion.runtime.max_temp_directory_size = '1G'", "RESET datafusion.runtime.temp_directory"]
    {
        if !setting.is_empty() {
            // Without a folder there is no size of it to set.
            let _ = run(&engine, setting).await;
        }
        let error = run(&engine, sort).await.expect_err("no folder to spill to");
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        assert!(error.to_string().contains("lists no folder to spill to"), "{error}");
    }
    let spill = async |name: &str| {
        run(&engine, &format!("SET datafusion.runtime.temp_directory = '{}'", folders.text(name))).await
    };
    is_refused("a folder to read", spill("in/spilled").await);
    is_refused("another folder", spill("out/../secret/spilled").await);
    spill("out/spilled").await.unwrap();
    assert_eq!(run(&engine, sort).await.unwrap(), [["1000000"]]);
    assert!(folders.path("out/spilled").is_dir() && !folders.path("in/spilled").exists());
}

/// Every setting is known to name no place, or is held to the policy.
#[tokio::test(flavor = "multi_thread")]
async fn settings_that_name_places_are_known() {
    let engine = engine(AccessPolicy::Everything, "http://127.0.0.1:9").await;
    // Their names sound like places, and they are none.
    const NONE: [&str; 21] = [
        "datafusion.catalog.create_default_catalog_and_schema",
        "datafusion.execution.collect_statistics",
        "datafusion.execution.enable_file_stream_work_stealing",
        "datafusion.execution.keep_partition_by_columns",
        "datafusion.execution.listing_table_factory_infer_partitions",
        "datafusion.execution.listing_table_ignore_subdirectory",
        "datafusion.execution.max_buffered_batches_per_output_file",
        "datafusion.execution.max_spill_file_size_bytes",
        "datafusion.execution.meta_fetch_concurrency",
        "datafusion.execution.minimum_parallel_output_files",
        "datafusion.execution.objectstore_writer_buffer_size",
        "datafusion.execution.parquet.allow_single_file_parallelism",
        "datafusion.execution.soft_max_rows_per_output_file",
        "datafusion.execution.split_file_groups_by_statistics",
        "datafusion.execution.use_row_number_estimates_to_optimize_partitioning",
        "datafusion.optimizer.preserve_file_partitions",
        "datafusion.optimizer.repartition_file_min_size",
        "datafusion.optimizer.repartition_file_scans",
        "datafusion.runtime.file_statistics_cache_limit",
        "datafusion.runtime.list_files_cache_limit",
        "datafusion.runtime.list_files_cache_ttl",
    ];
    const PLACES: [&str; 6] = [
        "pushdown.nodes",
        "pushdown.workers",
        "pushdown.price_book",
        "pushdown.spill_disk",
        "pushdown.spill_location",
        "datafusion.catalog.location",
    ];
    let words =
        ["path", "dir", "file", "location", "folder", "book", "url", "endpoint", "address", "host", "store", "uri"];
    let all = run(&engine, "SHOW ALL").await.unwrap();
    let mut unknown: Vec<&str> = all.iter().map(|row| row[0].as_str()).collect();
    assert!(PLACES.iter().all(|place| unknown.contains(place)));
    unknown.retain(|name| words.iter().any(|word| name.contains(word)));
    unknown.retain(|name| !NONE.contains(name) && !PLACES.contains(name));
    unknown.retain(|name| !(name.contains("pushdown_filters") || name.contains("direct")));
    assert!(unknown.is_empty(), "hold these to the policy if they name places: {unknown:?}");
}

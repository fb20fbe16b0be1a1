//! Files and statements as people bring them who know DuckDB: the same rows from local files and at
//! every level, and DuckDB's, where it can run them.

use parquet::data_type::{FixedLenByteArray, FixedLenByteArrayType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::reading::Files;
use crate::world::{World, failure, rows};

/// A Parquet file of a column `u` of three UUIDs.
fn uuids() -> Vec<u8> {
    let schema = parse_message_type("message m { required fixed_len_byte_array(16) u (UUID); }").expect("a schema");
    let properties = WriterProperties::builder().build().into();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema.into(), properties).expect("a writer");
    let mut group = writer.next_row_group().expect("a row group");
    let mut column = group.next_column().expect("a column").expect("a column");
    let values: Vec<FixedLenByteArray> = (1..=3_u128).map(|n| n.to_be_bytes().to_vec().into()).collect();
    column.typed::<FixedLenByteArrayType>().write_batch(&values, None, None).expect("values");
    column.close().expect("a column");
    group.close().expect("a row group");
    writer.into_inner().expect("a file")
}

#[tokio::test(flavor = "multi_thread")]
async fn values_as_they_are_written_elsewhere() {
    let german = "Nr;Datum;Zeit;Betrag\r\n1;31.12.2023;01.02.2024 10:11:12;5\r\n2;;;6\r\n3;5.6.2022;;7\r\n";
    let files = Files::new(&[
        ("d/german.csv", german.as_bytes()),
        ("m/minutes.csv", b"t,v\n2024-03-01 10:00,1\n2024-03-02 11:30,2\n"),
        ("u/u.parquet", &uuids()),
    ])
    .await;
    let sql = "SELECT Nr, CAST(Datum AS VARCHAR), CAST(Zeit AS VARCHAR) FROM '{}/d/german.csv' WHERE Datum > DATE \
               '2023-01-01' OR Datum IS NULL ORDER BY Nr";
    files.expect(sql, &[&["1", "2023-12-31", "2024-02-01 10:11:12"], &["2", "NULL", "NULL"]]).await;
    let sql = "SELECT CAST(max(t) AS VARCHAR), sum(v) FROM '{}/m/' WHERE t > TIMESTAMP '2024-03-01 12:00'";
    files.expect(sql, &[&["2024-03-02 11:30:00", "2"]]).await;
    let second = "00000000-0000-0000-0000-000000000002";
    let sql = format!("SELECT u, u::VARCHAR LIKE '%2' FROM '{{}}/u/u.parquet' WHERE u = '{second}'");
    files.expect(&sql, &[&[second, "true"]]).await;
    files.expect("SELECT count(*) FROM '{}/u/' WHERE u > '00000000-0000-0000-0000-000000000001'", &[&["2"]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_of_an_object_or_a_glob_are_columns() {
    let files = Files::new(&[
        ("h/year=2023/month=a/x.csv", b"v\n1\n"),
        ("h/year=2024/month=a/x.csv", b"v\n2\n"),
        ("h/year=2024/month=b/x.csv", b"v\n3\n"),
        ("own/year=2024/x.csv", b"v,year\n2,1999\n"),
    ])
    .await;
    let sql = "SELECT year, month, v FROM '{}/h/year=2024/*/x.csv' WHERE year = 2024 ORDER BY v";
    files.expect(sql, &[&["2024", "a", "2"], &["2024", "b", "3"]]).await;
    files.expect("SELECT * FROM '{}/h/year=2024/month=b/x.csv'", &[&["3", "2024", "b"]]).await;
    files
        .expect(
            "SELECT * FROM read_csv('{}/h/year=2024/*/x.csv', hive_partitioning = false) ORDER BY v",
            &[&["2"], &["3"]],
        )
        .await;
    // A column of the object stays what it is.
    files.expect("SELECT v, year FROM '{}/own/year=2024/x.csv'", &[&["2", "1999"]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_in_any_case_also_where_tables_depend_on_others() {
    let files = Files::new(&[
        (
            "a/a.ndjson",
            br#"{"Id":1,"Items":[{"Qty":2},{"Qty":3}],"S":{"A":1,"b":2}}
{"Id":2,"Items":[{"Qty":5}],"S":{"A":3,"b":4}}
"#,
        ),
        ("b/b.csv", b"ID,Name\n1,x\n2,y\n"),
    ])
    .await;
    for unnested in ["unnest(Items) AS u(i)", "unnest(a.Items) AS u(i)", "LATERAL (SELECT unnest(a.Items) AS i) u"] {
        let sql = format!("SELECT a.Id, u.i.Qty FROM '{{}}/a/a.ndjson' a, {unnested} WHERE u.i.qty > 2 ORDER BY 1, 2");
        files.expect(&sql, &[&["1", "3"], &["2", "5"]]).await;
    }
    let joined =
        "SELECT a.Id, b.Name FROM (SELECT id FROM '{}/a/a.ndjson') a JOIN '{}/b/b.csv' b ON b.id = a.Id ORDER BY 1";
    files.expect(joined, &[&["1", "x"], &["2", "y"]]).await;
    let joined = "SELECT a.Id, Name FROM '{}/a/a.ndjson' a JOIN '{}/b/b.csv' b USING (id) ORDER BY 1";
    files.expect(joined, &[&["1", "x"], &["2", "y"]]).await;
    files.expect("SELECT S.* FROM '{}/a/a.ndjson' ORDER BY 1", &[&["1", "2"], &["3", "4"]]).await;
    files.expect("SELECT S.* EXCLUDE (a) FROM '{}/a/a.ndjson' ORDER BY 1", &[&["2"], &["4"]]).await;
    files.expect("SELECT max(A), max(b) FROM (SELECT s.* FROM '{}/a/a.ndjson')", &[&["3", "4"]]).await;
    files
        .expect(
            "SELECT Id, list_max(list_transform(Items, x -> x.qty)) FROM '{}/a/a.ndjson' ORDER BY 1",
            &[&["1", "3"], &["2", "5"]],
        )
        .await;
    files.expect("SELECT count(*) FILTER (Id > 1) FROM '{}/a/a.ndjson'", &[&["1"]]).await;
    files
        .expect(
            "DESCRIBE SELECT S, Items FROM '{}/a/a.ndjson'",
            &[&["S", "STRUCT(A BIGINT, b BIGINT)", "YES"], &["Items", "STRUCT(Qty BIGINT)[]", "YES"]],
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_as_a_whole() {
    let files = Files::new(&[("w/a.txt", "äb\n".as_bytes()), ("w/b.txt", b"c"), ("p/u.parquet", &uuids())]).await;
    let sql = "SELECT parse_filename(filename), content, size FROM read_text('{}/w/*.txt') ORDER BY 1";
    files.expect(sql, &[&["a.txt", "äb\n", "4"], &["b.txt", "c", "1"]]).await;
    files
        .expect(
            "SELECT name, type, type_length FROM parquet_schema('{}/p/u.parquet') WHERE name = 'u'",
            &[&["u", "FIXED_LEN_BYTE_ARRAY", "16"]],
        )
        .await;
    let sql = "SELECT row_group_id, path_in_schema, num_values FROM parquet_metadata('{}/p/*.parquet')";
    files.expect(sql, &[&["0", "u", "3"]]).await;
    files.fails("SELECT * FROM read_text('{}/none.txt')", "there are no objects").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn macros_and_inserts_by_name() {
    let world = World::node().await;
    world.put("t/1.csv", "a,b\n1,x\n2,y\n").await;
    let engine = world.engine("fragment").await;
    let table = world.url("t/");
    for statement in [
        "CREATE MACRO plus(x, y := 1) AS x + y",
        &format!("CREATE MACRO above(n) AS TABLE SELECT * FROM '{table}' WHERE a > n"),
        "CREATE TABLE m (a BIGINT, b VARCHAR, c BIGINT)",
        "INSERT INTO m BY NAME SELECT 'q' AS b, plus(1) AS a",
        &format!("INSERT INTO m BY NAME FROM '{table}'"),
    ] {
        engine.execute(statement).await.unwrap_or_else(|e| panic!("{statement}: {e}")).collect().await.unwrap();
    }
    let got = rows(&engine, "SELECT plus(a), b, c FROM m ORDER BY b").await.unwrap().0;
    assert_eq!(got, [["3", "q", "NULL"], ["2", "x", "NULL"], ["3", "y", "NULL"]]);
    assert_eq!(rows(&engine, "SELECT b FROM above(1)").await.unwrap().0, [["y"]]);
    assert!(failure(&engine, "SELECT plus()").await.to_string().contains("plus(x"));
    rows(&engine, "DROP MACRO plus").await.unwrap();
    assert!(failure(&engine, "SELECT plus(1)").await.to_string().contains("no function plus"));
}

#[tokio::test(flavor = "multi_thread")]
async fn long_statements_are_answered_or_refused() {
    let world = World::node().await;
    let engine = world.engine("auto").await;
    for long in [
        format!("SELECT 1{}", " + 1".repeat(100_000)),
        format!("SELECT {}1{}", "(".repeat(20_000), ")".repeat(20_000)),
        format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(20_000)),
        format!("SELECT 1{}", "::INT".repeat(20_000)),
        format!("SELECT 1 WHERE 1 = 2{}", " OR 1 = 2".repeat(50_000)),
    ] {
        let error = failure(&engine, &long).await.to_string();
        assert!(error.contains("more than"), "{error}");
    }
    let error = failure(&engine, &format!("SELECT {}1{}", "(".repeat(100), ")".repeat(100))).await.to_string();
    assert!(error.contains("too deeply"), "{error}");
    let conditions: Vec<_> = (0..2_000).map(|n| format!("a = {n}")).collect();
    let sql = format!("SELECT count(*) FROM (VALUES (7), (9999)) t(a) WHERE {}", conditions.join(" OR "));
    assert_eq!(rows(&engine, &sql).await.unwrap().0, [["1"]]);
}

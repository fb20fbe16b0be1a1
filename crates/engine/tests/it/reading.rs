//! Reading functions and options of tables: the same rows from local files and at every level, as
//! DuckDB reads them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use pushdowndb_engine::{Engine, EngineConfig};

use crate::world::{Rows, World, failure, rows};

/// Files below a folder, and the same as objects below `t/`.
pub(crate) struct Files {
    world: World,
    folder: tempfile::TempDir,
    engines: Vec<(&'static str, Engine)>,
}

impl Files {
    pub(crate) async fn new(files: &[(&str, &[u8])]) -> Self {
        let (world, folder) = (World::node().await, tempfile::tempdir().expect("a folder"));
        for (name, bytes) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, bytes).expect("a file");
            world.put(&format!("t/{name}"), bytes.to_vec()).await;
        }
        let mut engines = vec![("local", Engine::new(EngineConfig::unrestricted()).await.expect("an engine"))];
        for level in ["none", "select", "fragment"] {
            engines.push((level, world.engine(level).await));
        }
        Self { world, folder, engines }
    }

    /// The statement with `{}` in place of the folder.
    fn at(&self, level: &str, sql: &str) -> String {
        match level {
            "local" => sql.replace("{}", &self.folder.path().display().to_string()),
            _ => sql.replace("{}", &self.world.url("t")),
        }
    }

    async fn rows(&self, sql: &str) -> Vec<(&'static str, Rows)> {
        let mut all = Vec::new();
        for (level, engine) in &self.engines {
            let sql = self.at(level, sql);
            let (got, _) = rows(engine, &sql).await.unwrap_or_else(|error| panic!("{sql} at {level}: {error}"));
            all.push((*level, got));
        }
        all
    }

    pub(crate) async fn expect(&self, sql: &str, expected: &[&[&str]]) {
        for (level, got) in self.rows(sql).await {
            assert_eq!(got, expected, "{sql} at {level}");
        }
    }

    pub(crate) async fn fails(&self, sql: &str, part: &str) {
        for (level, engine) in &self.engines {
            let error = failure(engine, &self.at(level, sql)).await.to_string();
            assert!(error.contains(part), "{sql} at {level}: {error}");
        }
    }

    /// What EXPLAIN says at the level of fragments.
    pub(crate) async fn explained(&self, sql: &str) -> String {
        let (level, engine) = self.engines.last().expect("an engine");
        let sql = format!("EXPLAIN {}", self.at(level, sql));
        rows(engine, &sql).await.expect("a plan").0.concat().join("\n")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_of_read_csv() {
    let files = Files::new(&[
        ("s.csv", b"# made by hand\nof two lines\nid;zip;n\n1;01247;5\n2;94107;-\n3;NA;7\n"),
        ("r.csv", b"a,b,c\n1,2,3\n4\n5,6\n"),
        ("m.csv", b"a||b\n1||x|y\n2||z\n"),
        ("e.csv", b"id,n\n1,10\nx,20\n3,zz\n4,40\n5\n6,60,6\n"),
        ("cr.csv", b"id,t\r1,a\r2,b\r"),
        ("q.csv", b"id,t\n1,'it\\'s, here'\n#2,b\n3,c\n"),
    ])
    .await;
    let skipped = "read_csv('{}/s.csv', skip = 2, delim = ';', nullstr = ['-', 'NA'], types = {'zip': 'VARCHAR'})";
    files
        .expect(
            &format!("SELECT id, zip, n FROM {skipped} ORDER BY id"),
            &[&["1", "01247", "5"], &["2", "94107", "NULL"], &["3", "NULL", "7"]],
        )
        .await;
    files.expect(&format!("SELECT sum(n) FROM {skipped} WHERE zip >= '0'"), &[&["5"]]).await;
    let plan = files.explained(&format!("SELECT id FROM {skipped} WHERE n = 5")).await;
    assert!(plan.contains("the text is translated as it is read (skip, nullstr)"), "{plan}");

    let padded = "read_csv('{}/r.csv', null_padding = true)";
    files
        .expect(
            &format!("SELECT a, b, c FROM {padded} ORDER BY a"),
            &[&["1", "2", "3"], &["4", "NULL", "NULL"], &["5", "6", "NULL"]],
        )
        .await;
    files.expect(&format!("SELECT sum(a), count(c) FROM {padded} WHERE c IS NULL"), &[&["9", "0"]]).await;

    // Delimiters of several characters are left to storage that knows fragments.
    let wide = "read_csv('{}/m.csv', delim = '||')";
    files.expect(&format!("SELECT a, b FROM {wide} WHERE b <> 'z'"), &[&["1", "x|y"]]).await;
    files.expect(&format!("SELECT sum(a) FROM {wide}"), &[&["3"]]).await;

    // Columns by name, by place, and all of them.
    files
        .expect(
            "SELECT k, n FROM read_csv('{}/e.csv', names = ['k'], null_padding = true) WHERE k = '4'",
            &[&["4", "40"]],
        )
        .await;
    files.expect("SELECT arrow_typeof(id), id FROM read_csv('{}/s.csv', skip = 2, delim = ';', all_varchar = true) WHERE zip = '01247'", &[&["Utf8", "1"]]).await;
    files
        .expect(
            "SELECT a + 1, d FROM read_csv('{}/cr.csv', columns = {'a': 'INTEGER', 'd': 'VARCHAR'}) ORDER BY a",
            &[&["2", "a"], &["3", "b"]],
        )
        .await;
    files
        .expect(
            "SELECT count(*), max(a) FROM read_csv('{}/m.csv', auto_detect = false, delim = '|', null_padding = true, \
             columns = {'a': 'VARCHAR', 'b': 'VARCHAR', 'c': 'VARCHAR'})",
            &[&["3", "a"]],
        )
        .await;
    let quoted = r"read_csv('{}/q.csv', quote = '''', escape = '\', comment = '#')";
    files.expect(&format!("SELECT id, t FROM {quoted} ORDER BY id"), &[&["1", "it's, here"], &["3", "c"]]).await;

    files
        .fails("SELECT * FROM read_csv('{}/e.csv', delimi = ';')", "unknown table option 'delimi': did you mean 'delim")
        .await;
    files
        .fails(
            "SELECT * FROM read_csv('{}/s.csv', skip = 2, types = {'zap': 'INT'})",
            "did you mean 'zip'? there are id, zip, n",
        )
        .await;
    files.fails("SELECT * FROM read_csv('{}/s.csv', skip = 2, types = {'zip': 'NUMMER'})", "'NUMMER' is no type").await;
    files
        .fails(
            "SELECT * FROM read_csv('{}/r.csv', names = ['a', 'b', 'c', 'd', 'e'])",
            "has 3 columns, and 'names' names 5",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_do_not_fit_are_left_out() {
    let many: String =
        (0..30_000).map(|n| if n % 1000 == 7 { format!("{n},x{n}\n") } else { format!("{n},{n}\n") }).collect();
    let files = Files::new(&[
        ("e.csv", b"id,n\n1,10\nx,20\n3,zz\n4,40\n5\n6,60,6\n"),
        ("many.csv", format!("id,n\n{many}").as_bytes()),
    ])
    .await;
    let read = "read_csv('{}/e.csv', types = {'id': 'INTEGER', 'n': 'INTEGER'}, ignore_errors = true)";
    for (level, engine) in &files.engines {
        let (got, _) =
            rows(engine, &files.at(level, &format!("SELECT id, n FROM {read} ORDER BY id"))).await.expect("rows");
        assert_eq!(got, [["1", "10"], ["4", "40"]], "{level}");
        // The count is the same, though it reads no column.
        let (got, _) = rows(engine, &files.at(level, &format!("SELECT count(*) FROM {read}"))).await.expect("rows");
        assert_eq!(got, [["2"]], "{level}");
        let sql = "SELECT split_part(object, '/', -1), byte, text, reason FROM reject_errors ORDER BY byte";
        let (got, _) = rows(engine, sql).await.expect("rows");
        let expected = [
            ["e.csv", "10", "x,20", "column \"id\": cannot parse 'x' as INT; a column declared VARCHAR takes any text"],
            ["e.csv", "15", "3,zz", "column \"n\": cannot parse 'zz' as INT; a column declared VARCHAR takes any text"],
            ["e.csv", "25", "5", "the record has 1 fields and the table 2 columns"],
            ["e.csv", "27", "6,60,6", "the record has 3 fields and the table 2 columns"],
        ];
        assert_eq!(got, expected, "{level}");
        let many = "read_csv('{}/many.csv', columns = {'id': 'BIGINT', 'n': 'BIGINT'}, store_rejects = true)";
        let sql = files.at(level, &format!("SELECT count(*), sum(n) FROM {many} WHERE id >= 15000"));
        let sum: i64 = (15_000..30_000).filter(|n| n % 1000 != 7).sum();
        assert_eq!(rows(engine, &sql).await.expect("rows").0, [["14985".to_owned(), sum.to_string()]], "{level}");
        let (got, _) = rows(engine, "SELECT count(*), min(text) FROM reject_errors").await.expect("rows");
        assert_eq!(got, [["30", "10007,x10007"]], "{level}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn encodings_and_spellings() {
    let utf16 = |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gz.write_all(b"stadt;n\nK\xf6ln;1\nM\xfcnchen;2\n").expect("gzip");
    let files = Files::new(&[
        ("l1.csv", b"pays;ville;n\nFrance;Orl\xe9ans;1\nSuisse;Z\xfcrich;2\n"),
        ("l1.csv.gz", &gz.finish().expect("gzip")),
        ("bom.csv", &utf16("\u{feff}id,name\r\n1,Ann\r\n2,Bj\u{f6}rn \u{1d11e}\r\n")),
        ("raw.csv", &utf16("id,name\n1,Ann\n")),
        ("de.csv", b"d;n;t;x\n31.12.2024;1.234,56;31.12.2024 10:20:30;1,5\n01.02.2023;-7,5;01.02.2023 00:00:00;n/a\n"),
    ])
    .await;
    let latin = "read_csv('{}/l1.csv', delim = ';', encoding = 'latin-1')";
    files.expect(&format!("SELECT ville FROM {latin} WHERE n = 2"), &[&["Zürich"]]).await;
    files.expect(&format!("SELECT n FROM {latin} WHERE ville LIKE 'Orl_ans'"), &[&["1"]]).await;
    files
        .expect(
            "SELECT stadt FROM read_csv('{}/l1.csv.gz', encoding = 'windows-1252') ORDER BY n",
            &[&["Köln"], &["München"]],
        )
        .await;
    // A byte-order mark tells it.
    files.expect("SELECT id, name FROM '{}/bom.csv' ORDER BY id", &[&["1", "Ann"], &["2", "Björn 𝄞"]]).await;
    files.expect("SELECT name FROM read_csv('{}/raw.csv', encoding = 'utf-16le') WHERE id = 1", &[&["Ann"]]).await;
    // As Windows-1252 is taken what is western text and not UTF-8.
    files.expect("SELECT ville FROM '{}/l1.csv' ORDER BY n", &[&["Orléans"], &["Zürich"]]).await;

    let german = "read_csv('{}/de.csv', decimal_separator = ',', thousands = '.', dateformat = '%d.%m.%Y', \
                  timestampformat = '%d.%m.%Y %H:%M:%S', nullstr = 'n/a')";
    files
        .expect(
            &format!("SELECT d, n, t, x FROM {german} WHERE d >= DATE '2023-01-01' ORDER BY d"),
            &[
                &["2023-02-01", "-7.5f", "2023-02-01T00:00:00", "NULL"],
                &["2024-12-31", "1234.56f", "2024-12-31T10:20:30", "1.5f"],
            ],
        )
        .await;
    files
        .expect(
            &format!("SELECT sum(n) > 1227.05, max(t) FROM {german} WHERE n > 0"),
            &[&["true", "2024-12-31T10:20:30"]],
        )
        .await;
    // The same as options of a table, whose columns are declared or not.
    for (columns, sum) in [("", "1227.06f"), ("(d DATE, n DECIMAL(10,2), t TIMESTAMP, x DOUBLE)", "1227.06")] {
        for (level, engine) in &files.engines {
            let declare = format!(
                "CREATE OR REPLACE EXTERNAL TABLE de {columns} STORED AS CSV LOCATION '{{}}/de.csv' OPTIONS ('delim' ';', \
                 'decimal_separator' ',', 'thousands' '.', 'dateformat' '%d.%m.%Y', 'nullstr' 'n/a', \
                 'timestampformat' '%d.%m.%Y %H:%M:%S')"
            );
            engine.execute(&files.at(level, &declare)).await.expect("a table");
            let (got, _) = rows(engine, "SELECT round(sum(n), 2), count(x), min(d) FROM de").await.expect("rows");
            assert_eq!(got, [[sum, "1", "2023-02-01"]], "{columns} at {level}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_globs_and_names_of_files() {
    let files = Files::new(&[
        ("p/y=1/a.csv", b"v\n1\n3\n"),
        ("p/y=2/b.csv", b"v\n2\n"),
        ("p/y=2/c.csv", b"v\n5\n"),
        ("j/a.ndjson", b"{\"v\":1}\n"),
        ("j/b.ndjson", b"{\"v\":2,\"w\":\"x\"}\n"),
        ("doc.json", b"[{\"a\":1,\"b\":\"x\"},{\"a\":2}]"),
    ])
    .await;
    let name = |column: &str| format!("split_part({column}, '/p/', 2)");
    let named = "read_csv('{}/p/*/*.csv', filename = true)";
    files
        .expect(
            &format!("SELECT v, {}, y FROM {named} WHERE v > 1 ORDER BY v", name("filename")),
            &[&["2", "y=2/b.csv", "2"], &["3", "y=1/a.csv", "1"], &["5", "y=2/c.csv", "2"]],
        )
        .await;
    files.expect(&format!("SELECT sum(v) FROM {named} WHERE filename LIKE '%b.csv'"), &[&["2"]]).await;
    files
        .expect(
            "SELECT count(*) FROM (SELECT * FROM read_csv('{}/p/*/*.csv', filename = 'src') WHERE src LIKE '%y=2%')",
            &[&["2"]],
        )
        .await;
    let grouped = format!(
        "SELECT {} AS f, sum(v) FROM '{{}}/p/*/*.csv' WHERE v > 0 GROUP BY f ORDER BY f",
        name("input_file_name()")
    );
    let expected: &[&[&str]] = &[&["y=1/a.csv", "4"], &["y=2/b.csv", "2"], &["y=2/c.csv", "5"]];
    files.expect(&grouped, expected).await;
    files.expect(&grouped.replace("input_file_name()", "filename"), expected).await;
    files.expect("SELECT * FROM '{}/p/' WHERE filename LIKE '%c.csv'", &[&["5", "2"]]).await;
    files
        .expect(
            "SELECT split_part(filename, '/', -1) AS f, v FROM '{}/j/' ORDER BY v",
            &[&["a.ndjson", "1"], &["b.ndjson", "2"]],
        )
        .await;
    for (level, engine) in &files.engines {
        let declare =
            "CREATE EXTERNAL TABLE p (v BIGINT) STORED AS CSV LOCATION '{}/p/*/*.csv' OPTIONS ('filename' 'true')";
        engine.execute(&files.at(level, declare)).await.expect("a table");
        let (got, _) = rows(engine, "SELECT count(DISTINCT filename), max(v) FROM p").await.expect("rows");
        assert_eq!(got, [["3", "5"]], "{level}");
    }

    files.expect("SELECT sum(v), count(y) FROM read_csv(['{}/p/y=1/a.csv', '{}/p/y=2/*.csv'])", &[&["11", "4"]]).await;
    files
        .expect(
            "SELECT split_part(file, '/p/', 2) FROM glob('{}/p/*/*.csv')",
            &[&["y=1/a.csv"], &["y=2/b.csv"], &["y=2/c.csv"]],
        )
        .await;
    files.expect("SELECT count(*) FROM glob('{}/none/*.csv')", &[&["0"]]).await;
    files.expect("SELECT a.v FROM read_csv('{}/p/y=1/*.csv') AS a JOIN read_csv('{}/p/y=1/a.csv') AS b ON a.v = b.v WHERE b.v > 1", &[&["3"]]).await;
    files.expect("SELECT a, b FROM read_json('{}/doc.json') ORDER BY a", &[&["1", "x"], &["2", "NULL"]]).await;
    files
        .expect("SELECT b FROM read_json('{}/doc.json', columns = {'b': 'VARCHAR'}) ORDER BY b", &[&["x"], &["NULL"]])
        .await;
    files
        .expect("SELECT sum(v) FROM read_ndjson(['{}/j/a.ndjson', '{}/j/b.ndjson'], union_by_name = true)", &[&["3"]])
        .await;
    for (level, engine) in &files.engines {
        let copy = "COPY (SELECT 7 AS n, 'a' AS t) TO '{}/out.parquet' STORED AS PARQUET";
        rows(engine, &files.at(level, copy)).await.expect("a copy");
        let sql = "SELECT n, split_part(filename, '/', -1) FROM read_parquet('{}/out.parquet', filename = true)";
        assert_eq!(rows(engine, &files.at(level, sql)).await.expect("rows").0, [["7", "out.parquet"]], "{level}");
    }
    files.fails("SELECT * FROM read_csv(['{}/p/y=1/a.csv', '{}/p/y=1/*.csv'])", "stands twice in the list").await;
    files.fails("SELECT * FROM read_csv(['{}/p/y=1/a.csv', 'https://example.org/b.csv'])", "different stores").await;
    files.fails("SELECT input_file_name() FROM (SELECT v FROM '{}/p/')", "is known in the SELECT that reads").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_read_as_people_have_them() {
    let sales = b"region;umsatz\nK\xf6ln;5\nM\xfcnchen;7\n";
    let files = Files::new(&[
        ("l1.csv", sales),
        ("both/a.csv", sales),
        ("both/b.csv", "region;umsatz\nÜlm;1\n".as_bytes()),
        ("title.csv", b"Report of May\n\nid,t\n1,a\n2,b\n"),
        ("sep.csv", b"sep=;\r\nid;t\r\n1;a\r\n"),
        ("comments/a.csv", b"# by x\nid,t\n1,a\n# mid\n2,b\n"),
        ("comments/b.csv", b"# by x\n# and y\nid,t\n3,c\n4,d\n"),
        ("escaped.csv", b"id,t\n1,\"a \\\"b\\\"\"\n2,\"\"\n"),
        ("blanks.csv", b"id, v ,t\n1, 5 ,a \n2,6, b\n"),
        ("shapes/a.ndjson", b"{\"a\":1}\n{\"a\":2}\n"),
        ("shapes/b.json", b"[{\"a\":3,\"b\":4},\n{\"a\":5}]"),
        ("h/k=01/f.csv", b"id\n1\n"),
        ("h/k=02/f.csv", b"id\n2\n"),
        ("zip.csv", b"zip,n\n00123,1\n12345,2\n"),
        (
            "trail.json",
            b"{\"Records\":[{\"eventName\":\"Get\",\"who\":{\"userName\":\"ann\"}},{\"eventName\":\"Put\"}]}",
        ),
        ("nohead.csv", b"1,a\n2,b\n"),
        ("packed.csv", b"\x1f\x8b\x08\x00"),
    ])
    .await;
    let cases: [(&str, &[&[&str]]); 15] = [
        ("SELECT region, umsatz FROM '{}/l1.csv' WHERE umsatz > 5", &[&["München", "7"]]),
        ("SELECT sum(umsatz), min(region) FROM '{}/l1.csv'", &[&["12", "Köln"]]),
        ("SELECT sum(id), max(t) FROM '{}/title.csv'", &[&["3", "b"]]),
        ("SELECT id, t FROM '{}/sep.csv'", &[&["1", "a"]]),
        ("SELECT sum(id), count(*) FROM '{}/comments/'", &[&["10", "4"]]),
        ("SELECT id, t FROM '{}/escaped.csv' ORDER BY id", &[&["1", "a \"b\""], &["2", ""]]),
        ("SELECT sum(v), max(t) FROM '{}/blanks.csv' WHERE v >= 5", &[&["11", "a "]]),
        ("SELECT sum(a), sum(b), count(*) FROM read_json('{}/shapes/*')", &[&["11", "4", "4"]]),
        ("SELECT id FROM read_csv('{}/h/*/*.csv', hive_types = {'k': 'INT'}) WHERE k + 0 = 2", &[&["2"]]),
        ("SELECT k FROM read_csv('{}/h/*/*.csv', hive_types_autocast = false) ORDER BY 1", &[&["01"], &["02"]]),
        ("SELECT sum(zip) FROM read_csv('{}/zip.csv', types = {'zip': 'INT'}) WHERE zip < 200", &[&["123"]]),
        ("SELECT unnest(Records).eventName AS e FROM '{}/trail.json' ORDER BY 1", &[&["Get"], &["Put"]]),
        (
            "SELECT r.EVENTNAME, r.who.username FROM (SELECT unnest(records) AS r FROM '{}/trail.json') ORDER BY 1",
            &[&["Get", "ann"], &["Put", "NULL"]],
        ),
        ("SELECT sum(column0), max(Column1) FROM read_csv('{}/nohead.csv', header = false)", &[&["3", "b"]]),
        ("SELECT sum(id) FROM read_csv('{}/title.csv', max_line_size = 1000000, parallel = true)", &[&["3"]]),
    ];
    for (sql, expected) in cases {
        files.expect(sql, expected).await;
    }
    let plan = files.explained("SELECT region FROM '{}/l1.csv' WHERE umsatz = 5").await;
    assert!(plan.contains("the text is translated as it is read (encoding)"), "{plan}");
    // One object is UTF-8, so the other one is not taken for another encoding.
    files.fails("SELECT * FROM '{}/both/'", "name its 'encoding'").await;
    files.fails("SELECT * FROM '{}/packed.csv'", "is gzip; name it .gz").await;
    files.fails("SELECT * FROM '{}/book.xlsx'", "no object").await;
}

/// TABLESAMPLE SYSTEM reads the same share of the stretches at every level, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_sample_of_stretches_is_read_alone() {
    use std::fmt::Write as _;
    let mut text = String::from("n,t\n");
    for n in 0..400_000 {
        writeln!(text, "{n},{n:0>16}").expect("text");
    }
    let size = text.len() as u64;
    assert!(size > 8 << 20, "several stretches");
    let files = Files::new(&[("big.csv", text.as_bytes())]).await;
    let mut shares = Vec::new();
    for seed in 1..=6 {
        let sql =
            format!("SELECT count(*), sum(n), max(t) FROM '{{}}/big.csv' TABLESAMPLE SYSTEM (30) REPEATABLE ({seed})");
        // Local files have other paths, which decide.
        let all = files.rows(&sql).await.split_off(1);
        assert!(all.iter().all(|(_, got)| *got == all[0].1), "{all:?}");
        let taken: u64 = all[0].1[0][0].parse().expect("a count");
        assert!(taken < 400_000);
        let (level, engine) = &files.engines[1];
        let (_, report) = rows(engine, &files.at(level, &sql)).await.expect("rows");
        let expected = size * taken / 400_000;
        // What is read beside it is the rest of a record at the end of each stretch.
        assert!(report.usage.bytes_network < expected + (1 << 20), "{} of {expected}", report.usage.bytes_network);
        shares.push(taken);
    }
    shares.dedup();
    assert!(shares.len() > 2, "{shares:?}");
    let sql = "SELECT count(*) FROM '{}/big.csv' TABLESAMPLE BERNOULLI (10) REPEATABLE (3) WHERE n % 2 = 0";
    let by_rows = files.rows(sql).await;
    assert!(by_rows.iter().all(|(_, got)| *got == by_rows[0].1), "{by_rows:?}");
    let taken: u64 = by_rows[0].1[0][0].parse().expect("a count");
    assert!((18_000..22_000).contains(&taken), "{taken}");
    let rows_of = "SELECT sum(n), count(*) FROM (SELECT * FROM '{}/big.csv' TABLESAMPLE (50 ROWS) REPEATABLE (9))";
    let some = files.rows(rows_of).await;
    assert!(some.iter().all(|(_, got)| *got == some[0].1 && got[0][1] == "50"), "{some:?}");
    files.expect("SELECT count(*) FROM '{}/big.csv' TABLESAMPLE SYSTEM (100)", &[&["400000"]]).await;
    files.expect("SELECT count(*) FROM '{}/big.csv' TABLESAMPLE SYSTEM (0)", &[&["0"]]).await;
    files.expect("SELECT count(*) FROM (SELECT 1) t TABLESAMPLE SYSTEM (100)", &[&["1"]]).await;
    files.fails("SELECT * FROM (SELECT 1) t TABLESAMPLE SYSTEM (5) REPEATABLE (1)", "takes a table of objects").await;
    assert!(files.explained("SELECT n FROM '{}/big.csv' TABLESAMPLE SYSTEM (30)").await.contains("a sample of 30 %"));
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_text() {
    let flow = "version account-id srcaddr bytes action\n2 1234 192.0.2.1 840 ACCEPT\n2 1234 - - -\n2 1234 192.0.2.9 42 REJECT\n";
    let journal = "{\"MESSAGE\":\"hello\",\"PRIORITY\":\"6\"}\n{\"MESSAGE\":\"bye\"}\n";
    let files = Files::new(&[
        ("vpc.log", flow.as_bytes()),
        ("logs/a.log", journal.as_bytes()),
        ("logs/b.log", journal.as_bytes()),
        ("plain.txt", b"a,b\n1,2\n"),
    ])
    .await;
    let read = "read_csv('{}/vpc.log', delim = ' ', nullstr = '-')";
    files
        .expect(
            &format!("SELECT action, sum(bytes) FROM {read} GROUP BY action ORDER BY action NULLS LAST"),
            &[&["ACCEPT", "840"], &["REJECT", "42"], &["NULL", "NULL"]],
        )
        .await;
    files.expect("SELECT count(*), count(\"PRIORITY\") FROM '{}/logs/'", &[&["4", "2"]]).await;
    files.expect("SELECT a + b FROM '{}/plain.txt'", &[&["3"]]).await;
    let engine = &files.engines[0].1;
    let here = tempfile::tempdir_in(".").expect("a folder");
    let name = here.path().file_name().and_then(|name| name.to_str()).expect("a name");
    fs::write(Path::new(name).join("a.csv"), "a\n1\n").expect("a file");
    let error = failure(engine, &format!("SELECT * FROM '{name}'")).await.to_string();
    assert!(error.contains(&format!("{name} is a folder: write '{name}/'")), "{error}");
}

/// A web server that knows no ranges, such as `python -m http.server`.
#[tokio::test(flavor = "multi_thread")]
async fn servers_without_ranges_send_the_whole_object() {
    const TEXT: &str = "a,b\n1,x\n2,y\n3,z\n";
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut lines = BufReader::new(stream.try_clone().expect("a stream")).lines();
            let first = lines.next().expect("a request").expect("a line");
            let _ = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).count();
            let body = if first.starts_with("HEAD") { "" } else { TEXT };
            let length = TEXT.len();
            let head = "HTTP/1.0 200 OK\r\nlast-modified: Wed, 21 Oct 2026 07:28:00 GMT";
            let _ = write!(stream, "{head}\r\ncontent-length: {length}\r\n\r\n{body}");
        }
    });
    let engine = Engine::new(EngineConfig::unrestricted()).await.expect("an engine");
    let sql = format!("SELECT sum(a), max(b) FROM 'http://127.0.0.1:{port}/x.csv' WHERE a > 1");
    assert_eq!(rows(&engine, &sql).await.expect("rows").0, [["5", "z"]]);
}

//! Byte ranges: wherever an object is cut, each record is scanned by exactly one of the ranges.

use arrow::datatypes::DataType;
use pushdowndb_contract::{CompareOp, CsvOptions, Expr, Format, Fragment, JsonOptions};
use pushdowndb_scan::{InMemory, LocalFile};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::*;

async fn by_ranges(fragment: &Fragment, text: &str, cuts: &[u64]) -> (Vec<String>, u64) {
    let mut all = Vec::new();
    let mut scanned = 0;
    for bounds in cuts.windows(2) {
        let reader = InMemory::new("k", text.to_owned()).with_piece_bytes(7);
        let (batch, counters) =
            try_run_with(fragment, reader, Some(bounds[0]..bounds[1]), 3).await.expect("rows of the range");
        all.extend(rows(&batch));
        scanned += counters.bytes_scanned.into_inner();
    }
    (all, scanned)
}

async fn check(fragment: &Fragment, text: &str) {
    let whole = rows(&run(fragment, text.to_owned()).await);
    let size = text.len() as u64;
    for cut in 0..=size {
        let (all, scanned) = by_ranges(fragment, text, &[0, cut, size]).await;
        assert_eq!(all, whole, "cut at {cut}: {text:?}");
        assert_eq!(scanned, size, "cut at {cut}: {text:?}");
    }
    let mut random = StdRng::seed_from_u64(size);
    for _ in 0..50 {
        let mut cuts: Vec<u64> = (0..random.random_range(0..9)).map(|_| random.random_range(0..=size)).collect();
        cuts.extend([0, size]);
        cuts.sort_unstable();
        assert_eq!(by_ranges(fragment, text, &cuts).await.0, whole, "cuts {cuts:?}: {text:?}");
    }
    let every: Vec<u64> = (0..=size).collect();
    assert_eq!(by_ranges(fragment, text, &every).await.0, whole);
}

#[tokio::test]
async fn csv_records_belong_to_one_range() {
    let columns = schema(&[("a", DataType::Int64), ("b", DataType::Utf8)]);
    let header = csv(&columns, CsvOptions { comment: Some(b'#'), ..CsvOptions::default() });
    check(&header, "a,b\n1,x\n2,yy\n\n3,\"z,\"\n4,w").await;
    check(&header, "\u{feff}a,b\r\n1,x\r\n22,yy\r\n").await;
    check(&header, "# about\n\n#more\na,b\n1,x\n#2,y\n3,z\n").await;
    check(&header, "a,b").await;
    check(&csv(&columns, no_header()), "1,x\n2,y\n3,z\n").await;
    check(&csv(&columns, no_header()), "\u{feff}1,x\n2,y").await;
    let ended = CsvOptions { terminator: Some(b';'), ..no_header() };
    check(&csv(&columns, ended), "1,x;22,y\n;3,z").await;
    let some = Fragment {
        predicate: Some(Expr::compare(CompareOp::Gt, Expr::Column(0), Expr::int(1))),
        ..csv(&columns, CsvOptions::default())
    };
    check(&some, "a,b\n1,x\n2,yy\n3,z\n").await;
}

#[tokio::test]
async fn json_records_belong_to_one_range() {
    let columns = schema(&[("a", DataType::Int64), ("b", DataType::Utf8)]);
    let fragment = Fragment::all(Format::Json(JsonOptions::default()), columns);
    check(&fragment, "{\"a\":1,\"b\":\"x\"}\n\n {\"a\":2}\r\n{\"b\":\"\\n\"}").await;
    check(&fragment, "\u{feff}{\"a\":1}\n{\"a\":2}\n").await;
    check(&fragment, "\u{feff}{}").await;
}

#[tokio::test]
async fn ranges_of_a_large_file_cover_it() {
    let columns = schema(&[("a", DataType::Int64), ("b", DataType::Utf8)]);
    let mut random = StdRng::seed_from_u64(3);
    let mut text = String::from("a,b\n");
    let mut sum = 0i64;
    for i in 0..300_000 {
        sum += i;
        text.push_str(&format!("{i},{}\n", "x".repeat(random.random_range(0..12))));
        if i % 100_000 == 5 {
            text.push_str(&format!("0,{}\n", "long ".repeat(60_000)));
        }
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), &text).expect("written");
    let fragment = csv(&columns, CsvOptions::default());
    let size = text.len() as u64;
    for parts in [1, 2, 3, 7, 50] {
        let (mut count, mut total, mut scanned) = (0, 0, 0);
        for part in 0..parts {
            let reader = LocalFile::open(file.path(), "file:///k").expect("opened");
            let range = size * part / parts..size * (part + 1) / parts;
            let (batch, counters) = try_run_with(&fragment, reader, Some(range), 8192).await.expect("rows");
            count += batch.num_rows();
            use arrow::array::AsArray;
            use arrow::datatypes::Int64Type;
            total += batch.column(0).as_primitive::<Int64Type>().values().iter().sum::<i64>();
            scanned += counters.bytes_scanned.into_inner();
        }
        assert_eq!((count, total, scanned), (300_003, sum, size), "{parts} parts");
    }
}

#[tokio::test]
async fn what_cannot_be_cut_refuses_ranges() {
    let columns = texts(&["a"]);
    let fragment = csv(&columns, CsvOptions { newlines_in_values: true, ..no_header() });
    let reader = || InMemory::new("k", "abc\ndef\n");
    let error = try_run_with(&fragment, reader(), Some(0..4), 10).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), pushdowndb_contract::ErrorKind::Unsupported);
    assert_eq!(error.to_string(), "k: may hold line ends in values, so a byte range of it cannot be read alone");
    assert!(try_run_with(&fragment, reader(), Some(0..8), 10).await.is_ok());
}

//! The first rows in an order: those of a full sort, of which few others are decoded in full.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::{SortColumn, SortOptions, concat_batches, lexsort_to_indices, take_record_batch};
use arrow::datatypes::{DataType, Int64Type, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use pushdowndb_contract::{ArithmeticOp, CompareOp, ErrorKind, Expr, Format, Fragment, NamedExpr, SortKey};
use pushdowndb_scan::{Evaluator, InMemory, ScanOptions, Threshold, output_schema};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::*;

#[tokio::test]
async fn top_k_is_what_sorting_everything_gives() {
    let columns = schema(&[("a", DataType::Int64), ("b", DataType::Utf8)]);
    let values: Vec<i64> = (0..30_000).map(|n| (n * 7919) % 30_011 % 5_000).collect();
    let text: String = values.iter().map(|v| format!("{v},t{}\n", v % 97)).collect();
    for (descending, limit) in [(false, 1), (true, 10), (false, 6_000), (true, 30_000), (false, 100_000), (true, 0)] {
        let fragment =
            Fragment { order: vec![by(Expr::Column(0), descending)], limit: Some(limit), ..csv(&columns, no_header()) };
        let mut expected = values.clone();
        expected.sort_unstable();
        if descending {
            expected.reverse();
        }
        expected.truncate(limit as usize);
        let got: Vec<i64> = rows(&run(&fragment, text.clone()).await)
            .iter()
            .map(|row| row.split('|').next().and_then(|n| n.parse().ok()).expect("a number"))
            .collect();
        assert_eq!(got, expected, "{limit} of them, descending: {descending}");
    }
}

#[tokio::test]
async fn nulls_go_where_they_are_asked_to_and_hidden_keys_go_away() {
    let keyed = |descending, nulls_first| Fragment {
        order: vec![SortKey { expr: Expr::Column(2), descending, nulls_first }, by(Expr::Column(0), false)],
        limit: Some(2),
        project: Some(vec![NamedExpr {
            expr: Expr::Arithmetic(ArithmeticOp::Add, Expr::Column(1).into(), Expr::int(100).into()),
            name: "n".into(),
        }]),
        ..csv(&sales(), no_header())
    };
    assert_eq!(rows(&run(&keyed(false, true), SALES).await), ["102", "NULL"]);
    assert_eq!(rows(&run(&keyed(true, false), SALES).await), ["104", "101"]);
    let unbounded = Fragment { limit: None, ..keyed(true, true) };
    assert_eq!(error(&unbounded, SALES).await, "ORDER BY needs a LIMIT");
    let large = Fragment { limit: Some(pushdowndb_contract::limits::TOP_K_ROWS + 1), ..keyed(true, true) };
    assert_eq!(try_run(&large, SALES).await.expect_err("a limit").kind(), ErrorKind::Limit);
}

/// Once k rows have come out, of rows beyond them only the key is looked at.
#[tokio::test]
async fn rows_beyond_the_bound_are_not_decoded() {
    let columns = schema(&[("a", DataType::Int64), ("b", DataType::Int64)]);
    let text = |first_bad: usize| -> String {
        (0..40_000).map(|n| format!("{n},{}\n", if n < first_bad { "1" } else { "bad" })).collect()
    };
    for more in [vec![], vec![by(Expr::Column(1), false)]] {
        let order = [vec![by(Expr::Column(0), false)], more].concat();
        let fragment = Fragment { order, limit: Some(10), ..csv(&columns, no_header()) };
        assert_eq!(run(&fragment, text(8192)).await.num_rows(), 10, "the first batch is decoded in full");
        assert!(error(&fragment, text(8191)).await.contains("bad"), "and no more");
    }
}

/// Where they take too much memory, and somebody merges them, the first rows come out with others.
#[tokio::test]
async fn first_rows_that_are_too_large_are_passed_on_to_who_merges() {
    let columns = schema(&[("a", DataType::Int64), ("b", DataType::Utf8)]);
    let long = "x".repeat(100_000);
    let keys = (0..800).map(|n| (n * 7919) % 800);
    let text: String = keys.map(|key| format!("{key},{long}\n")).collect();
    let fragment = Fragment { order: vec![by(Expr::Column(0), false)], limit: Some(700), ..csv(&columns, no_header()) };
    let scanned = async |passes_on_first_rows| {
        let options = ScanOptions { passes_on_first_rows, ..ScanOptions::default() };
        try_run_as(&fragment, InMemory::new("k", text.clone()), None, options).await
    };
    assert_eq!(scanned(false).await.expect_err("70 MB").kind(), ErrorKind::Limit);
    let (batch, _) = scanned(true).await.expect("rows");
    let mut keys: Vec<i64> = batch.column(0).as_primitive::<Int64Type>().values().to_vec();
    keys.sort_unstable();
    assert_eq!(keys.get(..700), Some((0..700).collect::<Vec<i64>>().as_slice()));
}

/// A key that has no value for rows which the predicate drops is not evaluated on them.
#[tokio::test]
async fn the_predicate_comes_before_the_key() {
    let columns = texts(&["a", "b"]);
    let text: String =
        (0..30_000).map(|n| format!("{},x\n", if n % 3 == 0 { "no".into() } else { n.to_string() })).collect();
    let number = Expr::Cast(Box::new(Expr::Column(0)), DataType::Int64);
    let fragment = Fragment {
        predicate: Some(Expr::compare(CompareOp::NotEq, Expr::Column(0), Expr::text("no"))),
        order: vec![by(number, true)],
        limit: Some(2),
        ..csv(&columns, no_header())
    };
    assert_eq!(rows(&run(&fragment, text).await), ["29999|x", "29998|x"]);
}

/// Rows of each kind of key, with NULLs, ties, extremes and both zeros.
fn hard(rng: &mut StdRng, rows: usize) -> (SchemaRef, String) {
    let columns = schema(&[
        ("id", DataType::Int64),
        ("int", DataType::Int64),
        ("dec", DataType::Decimal128(38, 4)),
        ("double", DataType::Float64),
        ("text", DataType::Utf8),
        ("day", DataType::Date32),
        ("flag", DataType::Boolean),
    ]);
    let mut text = String::new();
    for id in 0..rows {
        let int = match rng.random_range(0..20) {
            0 => i64::MIN,
            1 => i64::MAX,
            _ => rng.random_range(-500..500),
        };
        let double = ["0.0", "-0.0", "1e308", "-2.5"][rng.random_range(0..4)];
        let cells = [
            int.to_string(),
            format!("{}.{:04}", rng.random_range(-99..99), rng.random_range(0..9999)),
            double.to_owned(),
            format!("t{}", rng.random_range(0..300)),
            format!("19{:02}-01-{:02}", rng.random_range(10..99), rng.random_range(1..28)),
            rng.random_bool(0.5).to_string(),
        ];
        let cells = cells.map(|cell| if rng.random_ratio(1, 6) { String::new() } else { cell });
        writeln!(text, "{id},{}", cells.join(",")).expect("text");
    }
    (columns, text)
}

/// The first rows of all by a full sort.
fn sorted(fragment: &Fragment, all: &RecordBatch, k: usize) -> RecordBatch {
    let columns: Vec<SortColumn> = fragment
        .order
        .iter()
        .map(|key| SortColumn {
            values: Evaluator::expr(&key.expr, &all.schema()).and_then(|e| e.evaluate(all)).expect("keys"),
            options: Some(SortOptions { descending: key.descending, nulls_first: key.nulls_first }),
        })
        .collect();
    let order = lexsort_to_indices(&columns, Some(k)).expect("an order");
    take_record_batch(all, &order).expect("rows")
}

/// The keys of rows: rows that tie are any of those that do.
fn keys(fragment: &Fragment, batch: &RecordBatch) -> Vec<String> {
    let output = fragment.order.iter().enumerate().map(|(n, key)| {
        (format!("k{n}"), Evaluator::expr(&key.expr, &batch.schema()).and_then(|e| e.evaluate(batch)).expect("keys"))
    });
    rows(&RecordBatch::try_from_iter_with_nullable(output.map(|(name, key)| (name, key, true))).expect("keys"))
}

#[tokio::test]
async fn any_order_over_splits_that_share_a_threshold_is_that_of_a_full_sort() {
    for seed in 0..25 {
        let mut rng = StdRng::seed_from_u64(seed);
        let count = [0, 1, 3_000, 20_000][rng.random_range(0..4)];
        let (columns, text) = hard(&mut rng, count);
        let key = |rng: &mut StdRng| {
            let expr = match rng.random_range(0..9) {
                7 => Expr::Arithmetic(ArithmeticOp::Multiply, Expr::Column(2).into(), Expr::int(-1).into()),
                8 => Expr::IsNull(Expr::Column(1).into()),
                column => Expr::Column(column),
            };
            SortKey { expr, descending: rng.random(), nulls_first: rng.random() }
        };
        let order: Vec<SortKey> = (0..rng.random_range(1..4)).map(|_| key(&mut rng)).collect();
        let k = [1, 7, 100, 2_500, 50_000][rng.random_range(0..5)];
        let predicate = rng.random::<bool>().then(|| Expr::compare(CompareOp::Gt, Expr::Column(1), Expr::int(-100)));
        let everything = Fragment { predicate, ..csv(&columns, no_header()) };
        let all = run(&everything, text.clone()).await;

        let mut file = vec![];
        let decoded = run(&csv(&columns, no_header()), text.clone()).await;
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(4_000)).build();
        let mut writer = ArrowWriter::try_new(&mut file, Arc::clone(&columns), Some(properties)).expect("a writer");
        writer.write(&decoded).expect("rows");
        writer.close().expect("a file");

        for (format, bytes) in [(everything.format.clone(), text.into_bytes()), (Format::Parquet, file)] {
            let name = format.name();
            let fragment = Fragment { format, order: order.clone(), limit: Some(k as u64), ..everything.clone() };
            let options = ScanOptions { threshold: Arc::new(Threshold::default()), ..ScanOptions::default() };
            let size = bytes.len() as u64;
            let mut batches = vec![];
            for range in [0..size / 3, size / 3..size / 2, size / 2..size] {
                let reader = InMemory::new("s3://b/k", bytes.clone());
                let (batch, _) = try_run_as(&fragment, reader, Some(range), options.clone()).await.expect("rows");
                batches.push(batch);
            }
            let some = concat_batches(&output_schema(&fragment).expect("a schema"), &batches).expect("rows");
            let (got, want) = (sorted(&fragment, &some, k), sorted(&fragment, &all, k));
            assert_eq!(keys(&fragment, &got), keys(&fragment, &want), "{name}, seed {seed}: {order:?}, {k} of {count}");
        }
    }
}

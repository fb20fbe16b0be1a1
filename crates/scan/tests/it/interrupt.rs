//! A scan that is interrupted ends with the error that says so, whatever it does at that time.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use parquet::arrow::ArrowWriter;
use pushdowndb_contract::{CsvOptions, ErrorKind, Expr, Format, Fragment, JsonOptions, Literal, Result};
use pushdowndb_scan::{InMemory, Interrupt, ObjectReader, ScanOptions};

use crate::support::*;

/// An object whose reader interrupts the scan when it gives out a piece of this number.
#[derive(Debug)]
struct Interrupting {
    inner: InMemory,
    at: usize,
    pieces: Arc<AtomicUsize>,
    interrupt: Interrupt,
}

impl ObjectReader for Interrupting {
    fn location(&self) -> &str {
        self.inner.location()
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn stream(&self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        let (at, pieces, interrupt) = (self.at, Arc::clone(&self.pieces), self.interrupt.clone());
        let count = move |piece| {
            if pieces.fetch_add(1, Ordering::Relaxed) == at {
                interrupt.cancel();
            }
            piece
        };
        self.inner.stream(range).map(count).boxed()
    }

    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, Result<Vec<Bytes>>> {
        if self.pieces.fetch_add(1, Ordering::Relaxed) == self.at {
            self.interrupt.cancel();
        }
        self.inner.read_ranges(ranges)
    }
}

fn fragments() -> Vec<(&'static str, Fragment, Bytes)> {
    let columns = schema(&[("n", DataType::Int64), ("t", DataType::Utf8)]);
    let like = Expr::Like {
        expr: Expr::Column(1).into(),
        pattern: Expr::Literal(Literal::Utf8("%7_".into())).into(),
        negated: true,
        case_insensitive: false,
    };
    let of = |format| Fragment { predicate: Some(like.clone()), ..Fragment::all(format, Arc::clone(&columns)) };
    let rows = 0..200_000i64;
    let csv: String = rows.clone().map(|n| format!("{n},text {n}\n")).collect();
    let json: String = rows.clone().map(|n| format!("{{\"n\":{n},\"t\":\"text {n}\"}}\n")).collect();
    let texts = StringArray::from_iter_values(rows.clone().map(|n| format!("text {n}")));
    let batch = RecordBatch::try_from_iter([
        ("n", Arc::new(Int64Array::from_iter_values(rows)) as ArrayRef),
        ("t", Arc::new(texts) as ArrayRef),
    ]);
    let batch = batch.unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    let parquet = writer.into_inner().unwrap();
    vec![
        ("CSV", of(Format::Csv(no_header())), csv.clone().into()),
        (
            "CSV with line ends in values",
            of(Format::Csv(CsvOptions { newlines_in_values: true, ..no_header() })),
            csv.into(),
        ),
        ("JSON", of(Format::Json(JsonOptions::default())), json.into()),
        ("Parquet", of(Format::Parquet), parquet.into()),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_end_in_the_middle() {
    for (what, fragment, bytes) in fragments() {
        for (at, helped) in [(0, false), (3, false), (usize::MAX, false), (3, true), (usize::MAX, true)] {
            let interrupt = Interrupt::new();
            let inner = InMemory::new("k", bytes.clone()).with_piece_bytes(50_000);
            let reader = Interrupting { inner, at, pieces: Arc::default(), interrupt: interrupt.clone() };
            let helpers = if helped { helpers(2, 300_000) } else { None };
            let options = ScanOptions { interrupt: interrupt.clone(), helpers, ..ScanOptions::default() };
            let pieces = Arc::clone(&reader.pieces);
            let outcome = try_run_as(&fragment, reader, None, options).await;
            let was_interrupted = pieces.load(Ordering::Relaxed) > at;
            assert!(was_interrupted || what == "Parquet" || at == usize::MAX, "{what} at {at}");
            match outcome {
                Ok((batch, _)) => {
                    assert!(!was_interrupted, "{what} at {at}");
                    // Those that end in 70 to 79 are like the pattern.
                    assert_eq!(batch.num_rows(), 180_000, "{what}");
                }
                Err(error) => {
                    assert!(was_interrupted, "{what} at {at}: {error}");
                    assert_eq!(error.kind(), ErrorKind::Cancelled, "{what} at {at}: {error}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_scan_under_an_interrupted_task_does_not_begin() {
    let interrupt = Interrupt::new();
    interrupt.cancel();
    for (what, fragment, bytes) in fragments() {
        // By the task, and by its options.
        let by_task = interrupt.scope(try_run(&fragment, bytes.clone())).await;
        let options = ScanOptions { interrupt: interrupt.clone(), ..ScanOptions::default() };
        let by_options = try_run_as(&fragment, InMemory::new("k", bytes), None, options).await.map(|(batch, _)| batch);
        for outcome in [by_task, by_options] {
            assert_eq!(outcome.map(|_| ()).unwrap_err().kind(), ErrorKind::Cancelled, "{what}");
        }
    }
}

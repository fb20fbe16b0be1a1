//! Pieces scanned at once: the same answer as that of one scan, in the same order, by no more
//! helpers than are free.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type};
use futures::StreamExt;
use pushdowndb_contract::{
    AggregateCall, AggregateFunction, CompareOp, Expr, Format, Fragment, Function, JsonOptions, NamedExpr, Output,
};
use pushdowndb_scan::{Helpers, InMemory, ScanCounters, ScanOptions, Spawner, scan};

use crate::support::*;

fn text(records: usize) -> String {
    let cities = ["Oslo", "Rome", "", "\"Graz, Styria\"", "Bath upon the Avon"];
    // Some pieces have no price at all.
    let price = |n: usize| {
        if n % 7 == 3 || (100..160).contains(&n) { String::new() } else { format!("{}.{:02}", n * 31 % 997, n % 100) }
    };
    (0..records).map(|n| format!("{},{n},{}\n", cities[n * n % 5], price(n))).collect()
}

fn json(records: usize) -> String {
    let price = |n: usize| format!("{}.{:02}", n * 31 % 997, n % 100);
    (0..records).map(|n| format!("{{\"n\":{n}, \"price\":{}, \"city\":\"c\\n{}\"}}\n", price(n), n * n % 5)).collect()
}

/// What may become of the rows of [`sales`].
fn outputs() -> Vec<Fragment> {
    let all = csv(&sales(), no_header());
    let call = |function, argument: Option<usize>| AggregateCall {
        function,
        argument: argument.map(Expr::Column),
        name: format!("{function:?}"),
    };
    let calls = vec![
        call(AggregateFunction::Count, None),
        call(AggregateFunction::Count, Some(2)),
        call(AggregateFunction::Sum, Some(2)),
        call(AggregateFunction::Min, Some(0)),
        call(AggregateFunction::Max, Some(1)),
        call(AggregateFunction::Avg, Some(1)),
    ];
    let token = |function| {
        let token = Expr::Call(Function::ToToken, vec![Expr::Column(2)]);
        AggregateCall { function, argument: Some(token), name: format!("{function:?} of tokens") }
    };
    let tokens = [AggregateFunction::Sum, AggregateFunction::Min, AggregateFunction::Max, AggregateFunction::Avg];
    let calls = [calls, tokens.map(token).to_vec()].concat();
    let city = NamedExpr { expr: Expr::Column(0), name: "city".into() };
    let of = |groups: Vec<NamedExpr>| Output::Aggregate { groups, calls: calls.clone() };
    let number = NamedExpr { expr: Expr::Column(1), name: "n".into() };
    let some = Expr::compare(CompareOp::GtEq, Expr::Column(1), Expr::int(40));
    let first = Fragment { order: vec![by(Expr::Column(2), true), by(Expr::Column(1), false)], ..all.clone() };
    vec![
        Fragment { predicate: Some(some.clone()), ..all.clone() },
        Fragment { output: of(vec![]), ..all.clone() },
        Fragment { output: of(vec![city.clone()]), predicate: Some(some), ..all.clone() },
        Fragment { output: of(vec![number, city.clone()]), ..all.clone() },
        Fragment { output: of(vec![city]), order: vec![by(Expr::Column(6), false)], limit: Some(2), ..all.clone() },
        Fragment { limit: Some(7), ..first },
        Fragment { limit: Some(33), ..all.clone() },
        all,
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn pieces_together_are_the_object() {
    for records in [0, 1, 50, 400] {
        for mut fragment in outputs() {
            for text in [text(records), json(records)] {
                if text.starts_with('{') {
                    fragment.format = Format::Json(JsonOptions::default());
                }
                let reader = || InMemory::new("k", text.clone()).with_piece_bytes(64);
                let options = |helpers| ScanOptions { batch_rows: 9, helpers, ..ScanOptions::default() };
                let (alone, counted) = try_run_as(&fragment, reader(), None, options(None)).await.unwrap();
                for (most, piece_bytes) in [(2, 1), (2, 100), (3, 1000), (16, 33), (1, 10)] {
                    let helped = options(helpers(most, piece_bytes));
                    let (together, counters) = try_run_as(&fragment, reader(), None, helped).await.unwrap();
                    assert_eq!(rows(&together), rows(&alone), "{most} of {piece_bytes} bytes: {:?}", fragment.output);
                    // A LIMIT that was reached ends the reading, where that is depends on the
                    // blocks.
                    if fragment.limit.is_none() {
                        assert_eq!(counters.bytes_scanned.into_inner(), text.len() as u64);
                        let rows = counted.rows_scanned.load(Ordering::Relaxed);
                        assert_eq!(counters.rows_scanned.into_inner(), rows);
                    }
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn pieces_of_floating_point_numbers_are_merged() {
    let float = || Expr::Cast(Box::new(Expr::Column(2)), DataType::Float64);
    let functions = [
        AggregateFunction::Sum,
        AggregateFunction::Avg,
        AggregateFunction::Mean,
        AggregateFunction::SquaredDeviations,
        AggregateFunction::Min,
        AggregateFunction::Max,
    ];
    let call = |function| AggregateCall { function, argument: Some(float()), name: format!("{function:?}") };
    let calls = functions.map(call).to_vec();
    let city = NamedExpr { expr: Expr::Column(0), name: "city".into() };
    for groups in [vec![], vec![city]] {
        let keys = groups.len();
        let output = Output::Aggregate { groups, calls: calls.clone() };
        let fragment = Fragment { output, ..csv(&sales(), no_header()) };
        let alone = run(&fragment, text(400)).await;
        for piece_bytes in [10, 500] {
            let options = ScanOptions { batch_rows: 9, helpers: helpers(3, piece_bytes), ..ScanOptions::default() };
            let reader = InMemory::new("k", text(400));
            let (together, _) = try_run_as(&fragment, reader, None, options).await.unwrap();
            assert_eq!(together.num_rows(), alone.num_rows());
            for column in keys..alone.num_columns() {
                let values = |batch: &RecordBatch| batch.column(column).as_primitive::<Float64Type>().values().to_vec();
                for (a, b) in values(&together).into_iter().zip(values(&alone)) {
                    assert!((a - b).abs() <= b.abs() * 1e-12, "{column}: {a} is not {b}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn an_error_comes_after_the_rows_before_it() {
    let text = text(300).replace(",200,", ",two hundred,");
    let mut shown = Vec::new();
    for helpers in [None, helpers(4, 100)] {
        let options = ScanOptions { batch_rows: 1, helpers, ..ScanOptions::default() };
        let (fragment, reader) = (Arc::new(csv(&sales(), no_header())), Arc::new(InMemory::new("k", text.clone())));
        let batches: Vec<_> = scan(fragment, reader, None, options, Arc::default()).unwrap().collect().await;
        let found = batches.iter().flatten().map(RecordBatch::num_rows).sum::<usize>();
        assert!(batches[..batches.len() - 1].iter().all(Result::is_ok), "the error is the end");
        shown.push((found, batches.last().unwrap().as_ref().unwrap_err().to_string()));
    }
    assert_eq!(shown[0].1, shown[1].1);
    assert!(shown[1].0 > 190 && shown[1].0 <= 200, "{shown:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_piece_that_is_given_up_is_an_error() {
    let gives_up = || {
        Some(Spawner::new(|work| {
            drop(work);
            tokio::spawn(async {})
        }))
    };
    let helpers = Some(Helpers::new(2, gives_up).with_piece_bytes(200));
    let options = ScanOptions { helpers, ..ScanOptions::default() };
    let reader = InMemory::new("k", text(300));
    let error = try_run_as(&csv(&sales(), no_header()), reader, None, options).await.map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("a piece of an object was given up"), "{error}");
}

/// Helpers of which some are free, and how many were busy at the same time.
struct Crew {
    busy: AtomicUsize,
    most: AtomicUsize,
    asked: AtomicUsize,
}

impl Crew {
    fn new() -> Arc<Self> {
        Arc::new(Self { busy: AtomicUsize::new(0), most: AtomicUsize::new(0), asked: AtomicUsize::new(0) })
    }

    /// As [`Helpers`] of which so many are free.
    fn helpers(self: &Arc<Self>, free: usize, most: usize) -> Helpers {
        struct Busy(Arc<Crew>);
        impl Drop for Busy {
            fn drop(&mut self) {
                self.0.busy.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let crew = Arc::clone(self);
        Helpers::new(most, move || {
            crew.asked.fetch_add(1, Ordering::SeqCst);
            if crew.busy.load(Ordering::SeqCst) >= free {
                return None;
            }
            crew.most.fetch_max(crew.busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let busy = Mutex::new(Busy(Arc::clone(&crew)));
            Some(Spawner::new(move |work| {
                drop(busy.lock());
                tokio::spawn(work)
            }))
        })
        .with_piece_bytes(200)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn who_is_not_free_does_not_help() {
    let (text, fragment) = (text(2_000), csv(&sales(), no_header()));
    let expected = rows(&run(&fragment, text.clone()).await);
    for (free, most) in [(0, 4), (1, 4), (9, 4), (9, 1)] {
        let crew = Crew::new();
        // The scan's own piece waits until helpers were asked, or it may be over before they are;
        // not for ever.
        let (asked, waits) = (Arc::clone(&crew), most > 1);
        let spawner = Spawner::new(move |work| {
            let asked = Arc::clone(&asked);
            tokio::spawn(async move {
                let until = tokio::time::Instant::now() + Duration::from_secs(10);
                while waits && asked.asked.load(Ordering::SeqCst) == 0 && tokio::time::Instant::now() < until {
                    tokio::task::yield_now().await;
                }
                work.await;
            })
        });
        let options = ScanOptions { helpers: Some(crew.helpers(free, most)), spawner, ..ScanOptions::default() };
        let (batch, _) = try_run_as(&fragment, InMemory::new("k", text.clone()), None, options).await.unwrap();
        assert!(rows(&batch) == expected, "{free} free, {most} at most");
        assert!(crew.most.load(Ordering::SeqCst) <= free.min(most - 1), "{free} free, {most} at most");
        assert_eq!(crew.asked.load(Ordering::SeqCst) > 0, most > 1);
        assert_eq!(crew.busy.load(Ordering::SeqCst), 0, "all are free again");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn rows_that_nobody_takes_are_bounded() {
    // More than may wait: 64 MiB for all pieces together.
    let text = "some text of some length in some column,1,2.50\n".repeat(6_000_000);
    let size = text.len() as u64;
    let counters = Arc::new(ScanCounters::default());
    let options = ScanOptions { helpers: helpers(2, 128 << 20), ..ScanOptions::default() };
    let (fragment, reader) = (Arc::new(csv(&sales(), no_header())), Arc::new(InMemory::new("k", text)));
    let mut batches = scan(fragment, reader, None, options, Arc::clone(&counters)).unwrap();
    batches.next().await.unwrap().unwrap();
    let scanned = || counters.bytes_scanned.load(Ordering::Relaxed);
    let mut before = 0;
    while scanned() != before {
        before = scanned();
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert!(before < size / 2, "{before} of {size} bytes were scanned for nobody");
    while batches.next().await.transpose().unwrap().is_some() {}
    assert_eq!(scanned(), size);
}

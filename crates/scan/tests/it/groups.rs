//! Aggregates with groups, results of all sizes, and Bloom filters.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use pushdowndb_contract::{
    AggregateCall, AggregateFunction, BloomFilter, ErrorKind, Expr, Fragment, Function, Key, NamedExpr, Output, and_key,
};

use pushdowndb_scan::{InMemory, ScanOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::*;

fn call(function: AggregateFunction, argument: Option<Expr>) -> AggregateCall {
    AggregateCall { function, argument, name: function.sql().into() }
}

fn key(column: usize) -> NamedExpr {
    NamedExpr { expr: Expr::Column(column), name: format!("k{column}") }
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

#[tokio::test]
async fn groups_are_exact_and_null_is_one_of_them() {
    use AggregateFunction::{Avg, Count, Max, Min, Sum};
    let mut calls = vec![call(Count, None)];
    calls.extend([Count, Sum, Min, Max, Avg].map(|f| call(f, Some(Expr::Column(1)))));
    calls.push(call(Sum, Some(Expr::Column(2))));
    calls.push(call(Min, Some(Expr::Column(0))));
    let output = Output::Aggregate { groups: vec![key(0)], calls };
    let fragment = Fragment { output, ..csv(&sales(), no_header()) };
    assert_eq!(
        sorted(rows(&run(&fragment, SALES).await)),
        ["NULL|2|2|10|4|6|5.0|11.00|NULL", "Oslo|2|1|1|1|1|1.0|1.75|Oslo", "Rome|2|2|7|2|5|3.5|0.75|Rome",]
    );
    assert_eq!(run(&fragment, "").await.num_rows(), 0, "without rows there are no groups");
    let limited = Fragment { limit: Some(2), ..fragment.clone() };
    assert_eq!(run(&limited, SALES).await.num_rows(), 2);
    let most = Fragment { order: vec![by(Expr::Column(3), true)], limit: Some(1), ..fragment };
    assert!(rows(&run(&most, SALES).await)[0].starts_with("NULL|2|2|10"));
}

#[tokio::test]
async fn many_groups_over_many_batches_agree_with_a_table() {
    let columns = schema(&[("a", DataType::Utf8), ("b", DataType::Int64)]);
    let mut text = String::new();
    let mut expected: HashMap<(u64, u64), (i64, i64)> = HashMap::new();
    let mut random = StdRng::seed_from_u64(1);
    for _ in 0..40_000 {
        let (a, b) = (random.random_range(0..700), random.random_range(0..5));
        text.push_str(&format!("k{a},{b}\n"));
        let entry = expected.entry((a, b)).or_default();
        *entry = (entry.0 + 1, entry.1 + b as i64);
    }
    let calls = vec![call(AggregateFunction::Count, None), call(AggregateFunction::Sum, Some(Expr::Column(1)))];
    let output = Output::Aggregate { groups: vec![key(0), key(1)], calls };
    let fragment = Fragment { output, ..csv(&columns, no_header()) };
    let expected = expected.into_iter().map(|((a, b), (count, sum))| format!("k{a}|{b}|{count}|{sum}")).collect();
    assert_eq!(sorted(rows(&run(&fragment, text).await)), sorted(expected));
}

#[tokio::test]
async fn too_many_groups_are_an_error() {
    let columns = schema(&[("a", DataType::Int64)]);
    let output = Output::Aggregate { groups: vec![key(0)], calls: vec![] };
    let fragment = Fragment { output, ..csv(&columns, no_header()) };
    let count = pushdowndb_scan::limits::MAX_GROUPS + 1;
    let text: String = (0..count).map(|n| format!("{n}\n")).collect();
    let failed = try_run(&fragment, text).await.expect_err("a limit");
    assert_eq!((failed.kind(), failed.code()), (ErrorKind::Limit, Some("ExternalEvalException")));
}

/// The states of each key, merged as an engine would: counts and sums added, the least of the
/// minima.
fn merged(states: &[String]) -> HashMap<String, (i64, i64, String)> {
    let mut groups: HashMap<String, (i64, i64, String)> = HashMap::new();
    for state in states {
        let cells: Vec<&str> = state.split('|').collect();
        let [key, count, sum, min] = cells[..] else { panic!("{state}") };
        let (count, sum): (i64, i64) = (count.parse().expect("a count"), sum.parse().expect("a sum"));
        let group = groups.entry(key.to_owned()).or_insert_with(|| (0, 0, min.to_owned()));
        *group = (group.0 + count, group.1 + sum, group.2.clone().min(min.to_owned()));
    }
    groups
}

#[tokio::test]
async fn a_full_table_passes_new_groups_on() {
    use AggregateFunction::{Count, Min, Sum};
    let columns = schema(&[("g", DataType::Utf8), ("n", DataType::Int64), ("t", DataType::Utf8)]);
    let calls = vec![call(Count, None), call(Sum, Some(Expr::Column(1))), call(Min, Some(Expr::Column(2)))];
    let fragment = Fragment { output: Output::Aggregate { groups: vec![key(0)], calls }, ..csv(&columns, no_header()) };
    // Few groups have most rows, many have one; the large ones come first, last, and in between.
    let mut random = StdRng::seed_from_u64(7);
    let mut text = String::new();
    let mut rows_of: HashMap<String, i64> = HashMap::new();
    for n in 0..60_000 {
        let group = match random.random_range(0..10) {
            0..4 => format!("large {}", random.random_range(0..5)),
            _ => format!("{}", random.random_range(0..40_000)),
        };
        text.push_str(&format!("{group},{},text {}\n", n % 1000 - 500, random.random_range(100..999)));
        *rows_of.entry(group).or_default() += 1;
    }
    let whole = merged(&rows(&run(&fragment, text.clone()).await));
    assert_eq!(whole.len(), rows_of.len());
    for bytes in [0, 1, 1000, 100_000, 2_000_000, 1 << 30] {
        let options = ScanOptions { partial_group_bytes: Some(bytes), ..ScanOptions::default() };
        let reader = InMemory::new("s3://b/k", text.clone());
        let (batch, _) = try_run_as(&fragment, reader, None, options).await.expect("states");
        let states = rows(&batch);
        assert_eq!(merged(&states), whole, "{bytes} bytes");
        assert!(states.len() < 60_000, "{} states, fewer than rows", states.len());
        let of_large = states.iter().filter(|state| state.starts_with("large")).count();
        match bytes {
            100_000 => assert_eq!(of_large, 5, "groups met early are kept"),
            1_073_741_824 => assert_eq!(states.len(), whole.len(), "there is room for all"),
            _ => {}
        }
    }
}

#[tokio::test]
async fn whole_groups_stay_whole_where_they_are_ordered() {
    let columns = schema(&[("g", DataType::Int64)]);
    let output = Output::Aggregate { groups: vec![key(0)], calls: vec![call(AggregateFunction::Count, None)] };
    let fragment =
        Fragment { output, order: vec![by(Expr::Column(1), true)], limit: Some(1), ..csv(&columns, no_header()) };
    let text: String = (0..30_000).map(|n| format!("{}\n", if n % 3 == 0 { -1 } else { n })).collect();
    let options = ScanOptions { partial_group_bytes: Some(1000), ..ScanOptions::default() };
    let (batch, _) = try_run_as(&fragment, InMemory::new("s3://b/k", text), None, options).await.expect("rows");
    assert_eq!(rows(&batch), ["-1|10000"]);
}

#[tokio::test]
async fn the_states_of_a_variance_are_those_of_datafusion() {
    use AggregateFunction::{Count, Mean, SquaredDeviations};
    let columns = schema(&[("g", DataType::Utf8), ("x", DataType::Float64)]);
    let calls = [Count, Mean, SquaredDeviations].map(|f| call(f, Some(Expr::Column(1)))).to_vec();
    let text = "a,1\na,2\na,6\nb,\nb,4\nc,\n";
    let grouped = Output::Aggregate { groups: vec![key(0)], calls: calls.clone() };
    let grouped = Fragment { output: grouped, ..csv(&columns, no_header()) };
    assert_eq!(sorted(rows(&run(&grouped, text).await)), ["a|3|3.0|14.0", "b|1|4.0|0.0", "c|0|0.0|0.0"]);
    let scalar = Fragment { output: Output::scalar(calls), ..csv(&columns, no_header()) };
    assert_eq!(rows(&run(&scalar, "a,1\na,2\na,6\n").await), ["3|3.0|14.0"]);
    assert_eq!(rows(&run(&scalar, "").await), ["0|0.0|0.0"]);
}

/// A little SQL makes much text: it comes out in fewer rows at a time, or not at all.
#[tokio::test]
async fn large_results_are_cut_and_larger_ones_refused() {
    let columns = schema(&[("a", DataType::Utf8)]);
    let doubled = |times| {
        let twice = |e: Expr| Expr::Call(Function::Concat, vec![e.clone(), e]);
        (0..times).fold(Expr::Column(0), |e, _| twice(e))
    };
    let fragment = |times| Fragment {
        output: Output::Rows(vec![NamedExpr {
            expr: Expr::Call(Function::CharLength, vec![doubled(times)]),
            name: "n".into(),
        }]),
        ..csv(&columns, no_header())
    };
    let text = format!("{}\n", "x".repeat(1024)).repeat(500);
    let length = (1024usize << 10).to_string();
    assert_eq!(rows(&run(&fragment(10), text.clone()).await), vec![length; 500]);
    let failed = try_run(&fragment(20), text).await.expect_err("a limit");
    assert_eq!((failed.kind(), failed.code()), (ErrorKind::Limit, Some("OverMaxRecordSize")));
}

#[tokio::test]
async fn a_bloom_filter_keeps_what_is_in_it() {
    let mut filter = BloomFilter::with_capacity(100, 0.001);
    for n in 0..50 {
        filter.insert(Key::Int(n));
    }
    filter.insert(Key::Text("Rome"));
    let filter = Arc::new(filter);
    let probe = |expr: Expr| Expr::Bloom { keys: vec![expr], filter: Arc::clone(&filter) };
    let kept = |expr: Expr| Fragment { predicate: Some(probe(expr)), ..csv(&sales(), no_header()) };
    assert_eq!(run(&kept(Expr::Column(0)), SALES).await.num_rows(), 2, "NULL is in no filter");
    assert_eq!(run(&kept(Expr::Column(1)), SALES).await.num_rows(), 5);
    // Whole decimals are whole numbers.
    assert_eq!(run(&kept(Expr::Column(2)), SALES).await.num_rows(), 2);
    let tokens = Expr::Call(Function::ToToken, vec![Expr::Column(1)]);
    assert_eq!(run(&kept(tokens), SALES).await.num_rows(), 5);
}

#[tokio::test]
async fn several_keys_are_looked_for_as_one() {
    let mut filter = BloomFilter::with_capacity(100, 1e-6);
    for (city, n) in [("Oslo", 1), ("Rome", 5), ("Oslo", 5)] {
        filter.insert_hash(and_key(Key::Text(city).hash(), Key::Int(n).hash()));
    }
    let keys = |keys: Vec<Expr>| Fragment {
        predicate: Some(Expr::Bloom { keys, filter: Arc::new(filter.clone()) }),
        ..csv(&sales(), no_header())
    };
    let kept = rows(&run(&keys(vec![Expr::Column(0), Expr::Column(1)]), SALES).await);
    assert_eq!(kept, ["Oslo|1|1.50", "Rome|5|0.75"], "Rome has no 1, and NULL is in no filter");
    assert_eq!(run(&keys(vec![Expr::Column(1), Expr::Column(0)]), SALES).await.num_rows(), 0, "in this order");
    let tokens = Expr::Call(Function::ToToken, vec![Expr::Column(1)]);
    assert_eq!(run(&keys(vec![Expr::Column(0), tokens]), SALES).await.num_rows(), 2);
}

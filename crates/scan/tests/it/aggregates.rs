//! Aggregates: one row whatever comes in, exact where numbers are exact.

use arrow::datatypes::DataType;
use pushdowndb_contract::{AggregateCall, AggregateFunction, CompareOp, CsvOptions, Expr, Fragment, Output};

use crate::support::*;

fn call(function: AggregateFunction, argument: Option<Expr>) -> AggregateCall {
    AggregateCall { function, argument, name: function.sql().into() }
}

fn all_of(column: usize) -> Output {
    use AggregateFunction::{Avg, Count, Max, Min, Sum};
    let mut calls = vec![call(Count, None)];
    calls.extend([Count, Sum, Min, Max, Avg].map(|f| call(f, Some(Expr::Column(column)))));
    Output::scalar(calls)
}

#[tokio::test]
async fn nulls_are_passed_over_and_nothing_is_null() {
    for (data_type, expected) in [
        (DataType::Int32, "4|3|6|1|3|2.0"),
        (DataType::UInt64, "4|3|6|1|3|2.0"),
        (DataType::Float64, "4|3|6.0|1.0|3.0|2.0"),
        (DataType::Decimal128(15, 2), "4|3|6.00|1.00|3.00|2.000000"),
    ] {
        let columns = schema(&[("a", data_type), ("b", DataType::Utf8)]);
        let fragment = Fragment { output: all_of(0), ..csv(&columns, CsvOptions::default()) };
        assert_eq!(rows(&run(&fragment, "a,b\n1,x\n,x\n2,x\n3,x\n").await), [expected]);
        assert_eq!(rows(&run(&fragment, "a,b\n,x\n").await), ["1|0|NULL|NULL|NULL|NULL"]);
        assert_eq!(rows(&run(&fragment, "a,b\n").await), ["0|0|NULL|NULL|NULL|NULL"]);
        assert_eq!(rows(&run(&fragment, "").await), ["0|0|NULL|NULL|NULL|NULL"]);
        let none = Expr::compare(CompareOp::Eq, Expr::Column(1), Expr::text("y"));
        let none = Fragment { predicate: Some(none), ..fragment.clone() };
        assert_eq!(rows(&run(&none, "a,b\n1,x\n").await), ["0|0|NULL|NULL|NULL|NULL"]);
        let limited = Fragment { limit: Some(0), ..fragment };
        assert_eq!(run(&limited, "a,b\n1,x\n").await.num_rows(), 0);
    }
}

#[tokio::test]
async fn result_types_are_those_of_datafusion() {
    let columns =
        schema(&[("d", DataType::Decimal128(15, 2)), ("i", DataType::Int16), ("w", DataType::Decimal128(35, 2))]);
    let types = async |column| {
        let fragment = Fragment { output: all_of(column), ..csv(&columns, no_header()) };
        let batch = run(&fragment, "").await;
        batch.schema().fields().iter().map(|f| f.data_type().clone()).collect::<Vec<_>>()
    };
    let decimal = |p, s| DataType::Decimal128(p, s);
    let int = DataType::Int64;
    assert_eq!(
        types(0).await,
        [int.clone(), int.clone(), decimal(25, 2), decimal(15, 2), decimal(15, 2), decimal(19, 6)]
    );
    assert_eq!(
        types(1).await,
        [int.clone(), int.clone(), int.clone(), DataType::Int16, DataType::Int16, DataType::Float64]
    );
    assert_eq!(types(2).await, [int.clone(), int, decimal(38, 2), decimal(35, 2), decimal(35, 2), decimal(38, 6)]);
}

#[tokio::test]
async fn sums_are_exact_or_an_error() {
    let columns = schema(&[("i", DataType::Int64), ("d", DataType::Decimal128(38, 0)), ("u", DataType::UInt64)]);
    let sum = |column| Fragment {
        output: Output::scalar(vec![call(AggregateFunction::Sum, Some(Expr::Column(column)))]),
        ..csv(&columns, no_header())
    };
    let (max, nines) = (i64::MAX, "9".repeat(38));
    // A total in between may leave the type, the result may not.
    assert_eq!(values(&run(&sum(0), format!("{max},1,1\n{max},1,1\n-{max},1,1\n")).await), [max.to_string()]);
    let text = error(&sum(0), format!("{max},1,1\n1,1,1\n")).await;
    assert_eq!(text, "SUM is out of the range of BIGINT; cast its argument to DOUBLE");
    assert_eq!(values(&run(&sum(1), format!("1,{nines},1\n1,-1,1\n1,1,1\n")).await), [nines.as_str()]);
    let text = error(&sum(1), format!("1,{nines},1\n1,1,1\n")).await;
    assert_eq!(text, "SUM is out of the range of DECIMAL(38,0); cast its argument to DOUBLE");
    assert!(error(&sum(2), format!("1,1,{}\n1,1,1\n", u64::MAX)).await.contains("BIGINT UNSIGNED"));
    let text = texts(&["t"]);
    let output = Output::scalar(vec![call(AggregateFunction::Sum, Some(Expr::Column(0)))]);
    assert_eq!(error(&Fragment { output, ..csv(&text, no_header()) }, "").await, "SUM needs numbers, not VARCHAR");
}

#[tokio::test]
async fn text_and_dates_have_a_smallest_and_a_largest() {
    let columns = schema(&[("t", DataType::Utf8), ("v", DataType::Utf8View), ("d", DataType::Date32)]);
    let calls = (0..3).flat_map(|column| {
        [AggregateFunction::Min, AggregateFunction::Max].map(|f| call(f, Some(Expr::Column(column))))
    });
    let fragment = Fragment { output: Output::scalar(calls.collect()), ..csv(&columns, no_header()) };
    let batch = run(&fragment, "b,b,1999-01-01\na,é,2000-01-01\n,,\nB,a,1998-12-31\n").await;
    assert_eq!(rows(&batch), ["B|b|a|é|1998-12-31|2000-01-01"]);
}

#[tokio::test]
async fn the_rows_of_many_batches_are_counted_once() {
    let columns = schema(&[("a", DataType::Int64)]);
    let text: String = (0..100_000).map(|i| format!("{i}\n")).collect();
    let fragment = Fragment { output: all_of(0), ..csv(&columns, no_header()) };
    assert_eq!(rows(&run(&fragment, text).await), ["100000|100000|4999950000|0|99999|49999.5"]);
}

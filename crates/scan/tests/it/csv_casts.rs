//! Casts of CSV's texts: by the parser of a column, and after it.

use arrow::datatypes::{DataType, TimeUnit};
use pushdowndb_contract::{CompareOp, CsvOptions, Expr, Fragment, Literal, NamedExpr, NullRule, Output};

use crate::support::*;

#[tokio::test]
async fn fused_casts_equal_casts() {
    // Behind COALESCE a cast is not fused, so both forms are there to compare.
    let columns = texts(&["a"]);
    let fused = |to: &DataType, nullif: bool| {
        let column = Expr::Column(0);
        let inner = if nullif {
            Expr::Call(pushdowndb_contract::Function::NullIf, vec![column, Expr::text("")])
        } else {
            column
        };
        Expr::Cast(Box::new(inner), to.clone())
    };
    let unfused = |to: &DataType, nullif: bool| {
        let branches = vec![(Expr::Literal(Literal::Boolean(true)), fused(to, nullif))];
        Expr::Case { branches, otherwise: None }
    };
    let types = [
        DataType::Int64,
        DataType::Int8,
        DataType::Decimal128(10, 2),
        DataType::Float64,
        DataType::Date32,
        DataType::Boolean,
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Float32,
        DataType::Date64,
    ];
    let texts = [
        "1",
        "-1",
        "+1",
        " 1 ",
        "1.5",
        "1.005",
        "1e3",
        "300",
        "",
        "\"\"",
        "abc",
        "true",
        "T",
        "yes",
        "off",
        "0",
        "2020-02-29",
        "2020-2-9",
        "2021-02-29",
        "20200101",
        "2020-01-01T00:00:00",
        "2020-01-01 10:11:12.5Z",
        "NaN",
        "-inf",
    ];
    for null in [NullRule::Empty, NullRule::Never, NullRule::Text("abc".into())] {
        for to in &types {
            for nullif in [false, true] {
                for text in texts {
                    let run = async |expr: Expr| {
                        let fragment = Fragment {
                            output: Output::Rows(vec![NamedExpr { expr, name: "v".into() }]),
                            ..csv(&columns, CsvOptions { null: null.clone(), ..no_header() })
                        };
                        try_run(&fragment, format!("{text}\n")).await.map(|b| rows(&b)).map_err(|e| e.to_string())
                    };
                    let (fused, unfused) = (run(fused(to, nullif)).await, run(unfused(to, nullif)).await);
                    match (&fused, &unfused) {
                        (Err(a), Err(b)) => {
                            assert!(a.contains("cannot parse") == b.contains("cannot parse"));
                        }
                        _ => assert_eq!(fused, unfused, "{text:?} as {to} ({nullif}, {null:?})"),
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn a_guard_protects_the_cast_after_it() {
    let columns = texts(&["a", "b"]);
    let number = Expr::Cast(Box::new(Expr::Column(0)), DataType::Int64);
    let guard = Expr::compare(CompareOp::NotEq, Expr::Column(0), Expr::text("n/a"));
    let fragment = Fragment {
        predicate: Some(guard.and(Expr::compare(CompareOp::Gt, number.clone(), Expr::int(5)))),
        ..csv(&columns, no_header())
    };
    assert_eq!(rows(&run(&fragment, "7,x\nn/a,y\n3,z\n").await), ["7|x"]);
    let unguarded = Fragment { predicate: Some(Expr::compare(CompareOp::Gt, number, Expr::int(5))), ..fragment };
    let text = error(&unguarded, "7,x\nn/a,y\n").await;
    assert_eq!(text, "s3://b/k, byte 4, column \"a\": cannot parse 'n/a' as BIGINT");
}

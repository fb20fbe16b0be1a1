//! Expressions: three-valued logic, coercion, functions and their errors.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray, StringViewArray,
};
use arrow::datatypes::DataType;
use pushdowndb_contract::{ArithmeticOp, CompareOp, Expr, Function, Literal};
use pushdowndb_scan::Evaluator;

use crate::support::*;

const I: Expr = Expr::Column(0);
const D: Expr = Expr::Column(1);
const F: Expr = Expr::Column(2);
const T: Expr = Expr::Column(3);
const V: Expr = Expr::Column(4);
const DAY: Expr = Expr::Column(5);

fn batch() -> RecordBatch {
    let decimals =
        Decimal128Array::from(vec![Some(150), Some(-205), None]).with_precision_and_scale(15, 2).expect("fits");
    RecordBatch::try_from_iter_with_nullable([
        ("i", Arc::new(Int64Array::from(vec![Some(1), Some(24), None])) as ArrayRef, true),
        ("d", Arc::new(decimals), true),
        ("f", Arc::new(Float64Array::from(vec![Some(1.5), Some(f64::NAN), None])), true),
        ("t", Arc::new(StringArray::from(vec![Some("abc"), Some("50%_\\x"), None])), true),
        ("v", Arc::new(StringViewArray::from(vec![Some("12"), Some(" Ä "), None])), true),
        ("day", Arc::new(Date32Array::from(vec![Some(0), Some(9_000), None])), true),
    ])
    .expect("a batch")
}

fn eval(expr: &Expr) -> String {
    let batch = batch();
    let result = Evaluator::expr(expr, &batch.schema()).and_then(|e| e.evaluate(&batch));
    match result {
        Ok(values) => {
            rows(&RecordBatch::try_from_iter_with_nullable([("v", values, true)]).expect("a batch")).join(" ")
        }
        Err(error) => error.to_string(),
    }
}

fn literal(value: Literal) -> Expr {
    Expr::Literal(value)
}

fn decimal(value: i128, scale: i8) -> Expr {
    literal(Literal::Decimal(value, 10, scale))
}

fn cmp(op: CompareOp, a: Expr, b: Expr) -> Expr {
    Expr::compare(op, a, b)
}

#[test]
fn comparisons_coerce_as_datafusion_does() {
    use CompareOp::{Eq, Gt, Lt, LtEq};
    assert_eq!(eval(&cmp(Lt, D, Expr::int(1))), "false true NULL");
    assert_eq!(eval(&cmp(Eq, D, decimal(15, 1))), "true false NULL");
    assert_eq!(eval(&cmp(Eq, D, decimal(15_001, 4))), "false false NULL");
    assert_eq!(eval(&cmp(Eq, D, literal(Literal::Float64(1.5)))), "true false NULL");
    assert_eq!(eval(&cmp(LtEq, I, decimal(15, 1))), "true false NULL");
    assert_eq!(eval(&cmp(Gt, Expr::int(2), I)), "true false NULL");
    assert_eq!(eval(&cmp(Eq, T, Expr::text("abc"))), "true false NULL");
    assert_eq!(eval(&cmp(Eq, V, Expr::text("12"))), "true false NULL");
    assert_eq!(eval(&cmp(Eq, V, T)), "false false NULL");
    assert_eq!(eval(&cmp(Eq, DAY, literal(Literal::Date(0)))), "true false NULL");
    assert_eq!(eval(&cmp(Lt, DAY, literal(Literal::Timestamp(1, false)))), "true false NULL");
    assert_eq!(eval(&cmp(Eq, DAY, Expr::text("1970-01-01"))), "true false NULL");
    // NaN is the greatest number and equal to itself.
    assert_eq!(eval(&cmp(Gt, F, literal(Literal::Float64(1e300)))), "false true NULL");
    assert_eq!(eval(&cmp(Eq, I, literal(Literal::Null))), "NULL NULL NULL");
    assert_eq!(eval(&cmp(Eq, DAY, literal(Literal::Boolean(true)))), "DATE cannot be compared with BOOLEAN");
}

#[test]
fn logic_has_three_values() {
    let null = || literal(Literal::Null);
    let yes = || literal(Literal::Boolean(true));
    let no = || literal(Literal::Boolean(false));
    for (expr, expected) in [
        (Expr::And(vec![yes(), null()]), "NULL"),
        (Expr::And(vec![no(), null()]), "false"),
        (Expr::Or(vec![yes(), null()]), "true"),
        (Expr::Or(vec![no(), null()]), "NULL"),
        (Expr::And(vec![]), "true"),
        (Expr::Or(vec![]), "false"),
        (Expr::Not(Box::new(null())), "NULL"),
    ] {
        let shown = eval(&expr);
        assert!(shown.split(' ').all(|v| v == expected), "{expr:?}: {shown}");
    }
    assert_eq!(eval(&Expr::IsNull(Box::new(I))), "false false true");
    let not_in = Expr::InList { expr: Box::new(I), list: vec![Expr::int(2), null()], negated: true };
    assert_eq!(eval(&not_in), "NULL NULL NULL");
    let list = |list: Vec<Expr>, expr| Expr::InList { expr: Box::new(expr), list, negated: false };
    assert_eq!(eval(&list(vec![Expr::int(24), Expr::int(5)], I)), "false true NULL");
    assert_eq!(eval(&list(vec![decimal(15, 1), Expr::int(5)], D)), "true false NULL");
    assert_eq!(eval(&list(vec![Expr::text("12")], V)), "true false NULL");
    assert_eq!(eval(&Expr::And(vec![I])), "i is BIGINT, where a condition is needed");
    let many = Expr::Or((0..20_000).map(|i| cmp(CompareOp::Eq, I, Expr::int(i))).collect());
    assert_eq!(eval(&many), "true true NULL");
}

#[test]
fn a_backslash_escapes_in_like() {
    let like = |pattern: &str, expr: Expr| Expr::Like {
        expr: Box::new(expr),
        pattern: Box::new(Expr::text(pattern)),
        negated: false,
        case_insensitive: false,
    };
    assert_eq!(eval(&like("a%", T)), "true false NULL");
    assert_eq!(eval(&like(r"%\%\_%", T)), "false true NULL");
    assert_eq!(eval(&like(r"50\%%", T)), "false true NULL");
    assert_eq!(eval(&like(r"50\%\_\\x", T)), "false true NULL");
    assert_eq!(eval(&like("_ä_", V)), "false false NULL");
    assert_eq!(eval(&like("_Ä_", V)), "false true NULL");
    let mut negated = like("A%", T);
    if let Expr::Like { negated, case_insensitive, .. } = &mut negated {
        (*negated, *case_insensitive) = (true, true);
    }
    assert_eq!(eval(&negated), "false true NULL");
    assert_eq!(eval(&like("a%", I)), "LIKE needs text, not BIGINT");
}

#[test]
fn functions_do_what_sql_says() {
    let call = Expr::Call;
    assert_eq!(eval(&call(Function::NullIf, vec![T, Expr::text("abc")])), "NULL 50%_\\x NULL");
    assert_eq!(eval(&call(Function::NullIf, vec![V, Expr::text("12")])), "NULL  Ä  NULL");
    assert_eq!(eval(&call(Function::Coalesce, vec![I, Expr::int(-1)])), "1 24 -1");
    assert_eq!(eval(&call(Function::Coalesce, vec![T, V, Expr::text("none")])), "abc 50%_\\x none");
    assert_eq!(eval(&call(Function::Upper, vec![T])), "ABC 50%_\\X NULL");
    assert_eq!(eval(&call(Function::Lower, vec![V])), "12  ä  NULL");
    assert_eq!(eval(&call(Function::CharLength, vec![V])), "2 3 NULL");
    assert_eq!(eval(&call(Function::Substring, vec![T, Expr::int(2)])), "bc 0%_\\x NULL");
    assert_eq!(eval(&call(Function::Substring, vec![T, Expr::int(1), decimal(2, 0)])), "ab 50 NULL");
    assert_eq!(eval(&call(Function::Trim, vec![V])), "12 Ä NULL");
    assert_eq!(eval(&call(Function::TrimLeading, vec![T, Expr::text("a5")])), "bc 0%_\\x NULL");
    assert_eq!(eval(&call(Function::TrimTrailing, vec![T, Expr::text("xc")])), "ab 50%_\\ NULL");
    assert_eq!(eval(&call(Function::Concat, vec![T, Expr::text("-"), V])), "abc-12 50%_\\x- Ä  NULL");
    assert_eq!(eval(&call(Function::Concat, vec![T, literal(Literal::Null)])), "NULL NULL NULL");
    assert_eq!(eval(&call(Function::Upper, vec![])), "UPPER does not take 0 arguments");
}

#[test]
fn json_tokens_become_scalars() {
    let tokens = ["\"a\\n\\u00e9\"", "17.00", "null", "true", "{\"x\":1}", "1e2", "\"5\""];
    let tokens: ArrayRef = Arc::new(StringArray::from_iter(tokens.iter().map(Some).chain([None])));
    let batch = RecordBatch::try_from_iter_with_nullable([("t", tokens, true)]).expect("a batch");
    let eval = |function| {
        let expr = Expr::Call(function, vec![Expr::Column(0)]);
        let values = Evaluator::expr(&expr, &batch.schema()).and_then(|e| e.evaluate(&batch)).expect("values");
        rows(&RecordBatch::try_from_iter_with_nullable([("v", values, true)]).expect("a batch"))
    };
    assert_eq!(eval(Function::JsonText), ["a\né", "17.00", "NULL", "true", "{\"x\":1}", "1e2", "5", "NULL"]);
    assert_eq!(eval(Function::JsonWhole), ["a\né", "17", "NULL", "1", "{\"x\":1}", "100", "5", "NULL"]);
    assert_eq!(eval(Function::JsonTruth), ["a\né", "true", "NULL", "true", "{\"x\":1}", "true", "5", "NULL"]);
    let null = "NULL";
    assert_eq!(eval(Function::JsonString), ["a\né", null, null, null, null, null, "5", null]);
    assert_eq!(eval(Function::JsonBoolean), [null, null, null, "true", null, null, null, null]);
    assert_eq!(eval(Function::JsonValue)[1..4], ["17.00", null, "true"]);
}

#[test]
fn arithmetic_keeps_types_and_refuses_overflow() {
    let op = |op, a, b| Expr::Arithmetic(op, Box::new(a), Box::new(b));
    assert_eq!(eval(&op(ArithmeticOp::Multiply, D, decimal(5, 1))), "0.750 -1.025 NULL");
    assert_eq!(eval(&op(ArithmeticOp::Add, I, literal(Literal::Float64(0.5)))), "1.5 24.5 NULL");
    assert_eq!(eval(&op(ArithmeticOp::Modulo, I, Expr::int(5))), "1 4 NULL");
    assert_eq!(eval(&op(ArithmeticOp::Add, I, literal(Literal::Null))), "NULL NULL NULL");
    assert!(eval(&op(ArithmeticOp::Add, I, Expr::int(i64::MAX))).to_lowercase().contains("overflow"));
    assert_eq!(eval(&op(ArithmeticOp::Divide, I, Expr::int(0))), "division by zero");
    assert_eq!(eval(&Expr::Negate(Box::new(D))), "-1.50 2.05 NULL");
    assert!(eval(&op(ArithmeticOp::Add, DAY, T)).contains("does not go between DATE and VARCHAR"));
}

#[test]
fn casts_are_strict_and_cases_lazy() {
    let cast = |a, to| Expr::Cast(Box::new(a), to);
    assert_eq!(eval(&cast(D, DataType::Utf8)), "1.50 -2.05 NULL");
    assert_eq!(eval(&cast(DAY, DataType::Utf8)), "1970-01-01 1994-08-23 NULL");
    assert_eq!(eval(&cast(T, DataType::Int64)), "cannot parse 'abc' as BIGINT");
    assert!(eval(&cast(I, DataType::Int8)).contains('1'));
    assert!(eval(&cast(Expr::int(300), DataType::Int8)).contains("300"));
    assert_eq!(eval(&cast(Expr::text("1e3"), DataType::Decimal128(10, 2))), "1000.00 1000.00 1000.00");
    assert!(eval(&cast(DAY, DataType::Boolean)).contains("cannot be cast to BOOLEAN"));
    let guarded = Expr::Case {
        branches: vec![(cmp(CompareOp::Eq, V, Expr::text("12")), cast(V, DataType::Int64))],
        otherwise: Some(Box::new(Expr::int(-1))),
    };
    assert_eq!(eval(&guarded), "12 -1 -1");
    let mixed = Expr::Case { branches: vec![(cmp(CompareOp::Eq, I, Expr::int(1)), D)], otherwise: Some(Box::new(I)) };
    assert_eq!(eval(&mixed), "1.50 24.00 NULL");
}

#[test]
fn predicates_filter_and_conjuncts_guard() {
    let batch = batch();
    let number = Expr::Cast(Box::new(V), DataType::Int64);
    let guard = cmp(CompareOp::Lt, I, Expr::int(2));
    let predicate = guard.clone().and(cmp(CompareOp::Gt, number.clone(), Expr::int(5)));
    let evaluator = Evaluator::predicate(&predicate, &batch.schema()).expect("a predicate");
    assert_eq!(evaluator.filter(&batch).expect("rows").num_rows(), 1);
    let unguarded = cmp(CompareOp::Gt, number, Expr::int(5)).and(guard);
    let evaluator = Evaluator::predicate(&unguarded, &batch.schema()).expect("a predicate");
    assert_eq!(evaluator.filter(&batch).unwrap_err().to_string(), "cannot parse ' Ä ' as BIGINT");
    let none = Evaluator::predicate(&literal(Literal::Null), &batch.schema()).expect("a predicate");
    assert_eq!(none.filter(&batch).expect("rows").num_rows(), 0);
    let error = Evaluator::predicate(&T, &batch.schema()).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "t is VARCHAR, where a condition is needed");
}

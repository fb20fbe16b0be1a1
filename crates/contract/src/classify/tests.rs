//! Tests of each row of the table in the module documentation, with NULL and negation.

use arrow_schema::{DataType, Field, Schema};

use super::*;
use crate::classify::classifier::constant;
use crate::{AggregateFunction, ArithmeticOp, CompareOp, CsvOptions, Function, JsonOptions, Literal, NullRule, Ragged};
use Exactness::{Exact, Inexact, Unsupported};

const KEY: usize = 0;
const PRICE: usize = 1;
const BIG: usize = 2;
const FLOAT: usize = 3;
const TEXT: usize = 4;
const DATE: usize = 5;
const FLAG: usize = 6;
const TIME: usize = 7;
const FINE: usize = 8;

fn schema() -> Schema {
    let time = DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, None);
    Schema::new(vec![
        Field::new("key", DataType::Int64, false),
        Field::new("price", DataType::Decimal128(15, 2), true),
        Field::new("big", DataType::Decimal128(20, 2), true),
        Field::new("float", DataType::Float64, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("date", DataType::Date32, true),
        Field::new("flag", DataType::Boolean, true),
        Field::new("time", time, true),
        Field::new("fine", DataType::Decimal128(15, 6), true),
    ])
}

/// CSV without NULL, so that empty text is unambiguous.
fn csv() -> Format {
    Format::Csv(CsvOptions { null: NullRule::Never, ..CsvOptions::default() })
}

fn on(dialect: &Dialect, expr: &Expr) -> Exactness {
    classify(expr, &schema(), &csv(), dialect)
}

fn compare(op: CompareOp, column: usize, literal: Literal) -> Expr {
    Expr::compare(op, Expr::Column(column), Expr::Literal(literal))
}

fn not(expr: Expr) -> Expr {
    Expr::Not(Box::new(expr))
}

fn like(pattern: &str, negated: bool) -> Expr {
    Expr::Like {
        expr: Box::new(Expr::Column(TEXT)),
        pattern: Box::new(Expr::text(pattern)),
        negated,
        case_insensitive: false,
    }
}

const OPS: [CompareOp; 6] =
    [CompareOp::Eq, CompareOp::NotEq, CompareOp::Lt, CompareOp::LtEq, CompareOp::Gt, CompareOp::GtEq];

#[test]
fn exact_types_compare_exactly_everywhere() {
    let literals = [
        (KEY, Literal::Int64(5)),
        (PRICE, Literal::Decimal(1234, 15, 2)),
        (PRICE, Literal::Int64(24)),
        (TEXT, Literal::Utf8("x".into())),
        (TEXT, Literal::Utf8(String::new())),
        (DATE, Literal::Date(9_000)),
    ];
    for dialect in [Dialect::pushdowndb(), Dialect::standard(), Dialect::minio()] {
        for (column, literal) in &literals {
            for op in OPS {
                let expr = compare(op, *column, literal.clone());
                assert_eq!(on(&dialect, &expr), Exact(expr), "{literal}");
            }
        }
    }
}

#[test]
fn wide_decimals_weaken_where_they_become_doubles() {
    let minio = Dialect::minio();
    let literal = Literal::Decimal(123_456, 20, 2);
    for (op, weaker) in [
        (CompareOp::Lt, Some(CompareOp::LtEq)),
        (CompareOp::LtEq, Some(CompareOp::LtEq)),
        (CompareOp::Gt, Some(CompareOp::GtEq)),
        (CompareOp::GtEq, Some(CompareOp::GtEq)),
        (CompareOp::Eq, Some(CompareOp::Eq)),
        (CompareOp::NotEq, None),
    ] {
        let expected = weaker.map_or(Unsupported, |op| Inexact(compare(op, BIG, literal.clone())));
        assert_eq!(on(&minio, &compare(op, BIG, literal.clone())), expected, "{op:?}");
        assert!(matches!(on(&Dialect::standard(), &compare(op, BIG, literal.clone())), Exact(_)));
    }
    // With a tolerance of 1e-6, `=` between doubles holds for neighbors at six decimal places.
    let fine = Literal::Decimal(1, 15, 6);
    assert!(matches!(on(&minio, &compare(CompareOp::Eq, FINE, fine.clone())), Inexact(_)));
    assert_eq!(on(&minio, &compare(CompareOp::NotEq, FINE, fine.clone())), Unsupported);
    assert!(matches!(on(&minio, &compare(CompareOp::Lt, FINE, fine)), Exact(_)));
}

#[test]
fn wider_types_do_not_change_what_is_exact() {
    let wide = |column, to| Expr::Cast(Box::new(Expr::Column(column)), to);
    let price = Expr::compare(
        CompareOp::Lt,
        wide(PRICE, DataType::Decimal128(20, 4)),
        Expr::Literal(Literal::Decimal(120_000, 20, 4)),
    );
    for dialect in [Dialect::pushdowndb(), Dialect::standard(), Dialect::minio()] {
        assert_eq!(on(&dialect, &price), Exact(price.clone()));
    }
    let narrow = Expr::compare(
        CompareOp::Lt,
        wide(PRICE, DataType::Decimal128(15, 0)),
        Expr::Literal(Literal::Decimal(1, 15, 0)),
    );
    assert_eq!(on(&Dialect::standard(), &narrow), Unsupported);
}

#[test]
fn floats_weaken_where_order_is_not_total() {
    let is = |op| compare(op, FLOAT, Literal::Float64(0.5));
    for dialect in [Dialect::standard(), Dialect::minio()] {
        assert_eq!(on(&dialect, &is(CompareOp::Lt)), Inexact(is(CompareOp::LtEq)));
        assert_eq!(on(&dialect, &is(CompareOp::Eq)), Inexact(is(CompareOp::Eq)));
        // NaN is greater than all other values, and only the negation of `<` is TRUE for it.
        assert_eq!(on(&dialect, &is(CompareOp::Gt)), Inexact(not(is(CompareOp::Lt))));
        assert_eq!(on(&dialect, &is(CompareOp::NotEq)), Unsupported);
        assert_eq!(on(&dialect, &not(is(CompareOp::Eq))), Unsupported);
    }
    for op in OPS {
        assert_eq!(on(&Dialect::pushdowndb(), &is(op)), Exact(is(op)));
    }
    assert_eq!(on(&Dialect::pushdowndb(), &compare(CompareOp::Lt, FLOAT, Literal::Float64(f64::NAN))), Unsupported);
}

#[test]
fn negation_is_pushed_inwards_first() {
    let a = compare(CompareOp::Lt, PRICE, Literal::Decimal(1, 15, 2));
    let b = compare(CompareOp::Eq, TEXT, Literal::Utf8("x".into()));
    let neither = Expr::And(vec![
        compare(CompareOp::GtEq, PRICE, Literal::Decimal(1, 15, 2)),
        compare(CompareOp::NotEq, TEXT, Literal::Utf8("x".into())),
    ]);
    for dialect in [Dialect::standard(), Dialect::minio()] {
        assert_eq!(on(&dialect, &not(Expr::Or(vec![a.clone(), b.clone()]))), Exact(neither.clone()));
        assert_eq!(on(&dialect, &not(not(a.clone()))), Exact(a.clone()));
    }
    // Weakening comes after the negation: NOT (big < 1) becomes big >= 1, which holds for more
    // rows.
    let big = compare(CompareOp::Lt, BIG, Literal::Decimal(100, 20, 2));
    assert_eq!(on(&Dialect::minio(), &not(big)), Inexact(compare(CompareOp::GtEq, BIG, Literal::Decimal(100, 20, 2))));
}

#[test]
fn conjunctions_drop_what_disjunctions_cannot() {
    let known = compare(CompareOp::Eq, KEY, Literal::Int64(1));
    let unknown = compare(CompareOp::Eq, TIME, Literal::Timestamp(0, false));
    for dialect in [Dialect::pushdowndb(), Dialect::standard(), Dialect::minio()] {
        assert_eq!(on(&dialect, &known.clone().and(unknown.clone())), Inexact(known.clone()));
        assert_eq!(on(&dialect, &Expr::Or(vec![known.clone(), unknown.clone()])), Unsupported);
        assert_eq!(on(&dialect, &unknown), Unsupported);
        // NOT (known OR unknown) becomes NOT known AND NOT unknown.
        let neither = not(Expr::Or(vec![known.clone(), unknown.clone()]));
        assert_eq!(on(&dialect, &neither), Inexact(compare(CompareOp::NotEq, KEY, Literal::Int64(1))));
        assert_eq!(on(&dialect, &not(known.clone().and(unknown.clone()))), Unsupported);
    }
}

#[test]
fn like_without_backtracking() {
    let minio = Dialect::minio();
    for pattern in ["abc", "abc%", "%abc", "%abc%", "a%b%c", "a_c", "_b%", "a_%b", r"a\\b%"] {
        assert_eq!(on(&minio, &like(pattern, false)), Exact(like(pattern, false)), "{pattern}");
        assert_eq!(on(&minio, &like(pattern, true)), Exact(like(pattern, true)), "{pattern}");
    }
    for pattern in ["%a_c", "a%_", "%_", r"50\%", r"a\_%"] {
        assert_eq!(on(&minio, &like(pattern, false)), Unsupported, "{pattern}");
        assert!(matches!(on(&Dialect::standard(), &like(pattern, false)), Exact(_)));
    }
    assert!(matches!(on(&minio, &like("é%", false)), Inexact(_)));
    assert_eq!(on(&minio, &like("é%", true)), Unsupported);
    assert_eq!(on(&minio, &not(like("é%", false))), Unsupported);
    assert_eq!(on(&Dialect::standard(), &like(r"a\b", false)), Unsupported);
}

#[test]
fn lists_follow_equality() {
    let list = |column, items: Vec<Literal>, negated| Expr::InList {
        expr: Box::new(Expr::Column(column)),
        list: items.into_iter().map(Expr::Literal).collect(),
        negated,
    };
    let minio = Dialect::minio();
    let keys = |negated| list(KEY, vec![Literal::Int64(1), Literal::Int64(2)], negated);
    assert_eq!(on(&minio, &keys(false)), Exact(keys(false)));
    assert_eq!(on(&minio, &not(keys(false))), Exact(keys(true)));
    // With a NULL in the list, NOT IN is never TRUE; for IN the NULL has no effect.
    assert_eq!(on(&minio, &list(KEY, vec![Literal::Int64(1), Literal::Null], true)), constant(false));
    let one = list(KEY, vec![Literal::Int64(1)], false);
    assert_eq!(on(&minio, &list(KEY, vec![Literal::Int64(1), Literal::Null], false)), Exact(one));
    // MinIO compares the integers of IN as doubles.
    let huge = |negated| list(KEY, vec![Literal::Int64(1 << 60)], negated);
    assert_eq!(on(&minio, &huge(false)), Inexact(huge(false)));
    assert_eq!(on(&minio, &huge(true)), Unsupported);
    assert_eq!(on(&Dialect::standard(), &huge(true)), Exact(huge(true)));
}

#[test]
fn null_tests_and_constants() {
    let null = |column| Expr::IsNull(Box::new(Expr::Column(column)));
    for dialect in [Dialect::pushdowndb(), Dialect::standard(), Dialect::minio()] {
        assert_eq!(on(&dialect, &null(TEXT)), Exact(null(TEXT)));
        assert_eq!(on(&dialect, &not(null(TIME))), Exact(not(null(TIME))));
        assert_eq!(on(&dialect, &null(KEY)), constant(false));
        assert_eq!(on(&dialect, &not(null(KEY))), constant(true));
        // A comparison with NULL is never TRUE, negated or not.
        let with_null = compare(CompareOp::Eq, KEY, Literal::Null);
        assert_eq!(on(&dialect, &with_null), constant(false));
        assert_eq!(on(&dialect, &not(with_null)), constant(false));
        assert_eq!(on(&dialect, &Expr::Column(FLAG)), Exact(Expr::Column(FLAG)));
        assert_eq!(on(&dialect, &not(Expr::Column(FLAG))), Exact(not(Expr::Column(FLAG))));
    }
}

#[test]
fn expressions_only_where_null_is_known() {
    let product = Expr::Arithmetic(ArithmeticOp::Multiply, Expr::Column(PRICE).into(), Expr::Column(PRICE).into());
    let expr = Expr::compare(CompareOp::Gt, product.clone(), Expr::int(10));
    assert_eq!(on(&Dialect::standard(), &expr), Exact(expr.clone()));
    assert_eq!(on(&Dialect::minio(), &expr), Unsupported);
    let lower = Expr::compare(CompareOp::Eq, Expr::Call(Function::Lower, vec![Expr::Column(TEXT)]), Expr::text("x"));
    assert_eq!(on(&Dialect::pushdowndb(), &lower), Exact(lower.clone()));
    assert_eq!(on(&Dialect::standard(), &lower), Unsupported);
}

#[test]
fn dates_beyond_four_digits_and_unspeakable_text() {
    for literal in [Literal::Date(3_000_000), Literal::Date(-800_000)] {
        assert_eq!(on(&Dialect::standard(), &compare(CompareOp::Lt, DATE, literal)), Unsupported);
    }
    assert_eq!(on(&Dialect::standard(), &compare(CompareOp::Eq, TEXT, Literal::Utf8("\u{1}".into()))), Unsupported);
}

#[test]
fn formats_that_a_dialect_does_not_read() {
    let expr = compare(CompareOp::Eq, KEY, Literal::Int64(1));
    let is = |format: Format, dialect: &Dialect| classify(&expr, &schema(), &format, dialect);
    let quoted = Format::Csv(CsvOptions { newlines_in_values: true, ..CsvOptions::default() });
    assert!(matches!(is(quoted.clone(), &Dialect::standard()), Exact(_)));
    assert_eq!(is(quoted, &Dialect::minio()), Unsupported);
    let ragged = Format::Csv(CsvOptions { ragged: Ragged::Lenient, ..CsvOptions::default() });
    assert_eq!(is(ragged, &Dialect::minio()), Unsupported);
    let odd = Format::Csv(CsvOptions { delimiter: 1, ..CsvOptions::default() });
    assert_eq!(is(odd, &Dialect::standard()), Unsupported);
    assert_eq!(is(Format::Parquet, &Dialect::minio()), Unsupported);
    assert!(matches!(is(Format::Json(JsonOptions::default()), &Dialect::standard()), Exact(_)));
}

#[test]
fn aggregates_only_where_exact() {
    let is = |function, argument: Option<Expr>, dialect: &Dialect| {
        let call = AggregateCall { function, argument, name: "a".into() };
        classify_aggregate(&call, &schema(), &csv(), dialect)
    };
    use AggregateFunction::{Avg, Count, Max, Min, Sum};
    let (ours, aws, minio) = (Dialect::pushdowndb(), Dialect::standard(), Dialect::minio());
    for (function, column, expected) in [
        (Count, None, [true, true, true]),
        (Count, Some(KEY), [true, true, true]),
        (Count, Some(TEXT), [true, true, false]),
        (Sum, Some(KEY), [true, true, false]),
        (Sum, Some(PRICE), [true, true, false]),
        (Sum, Some(FLOAT), [true, false, false]),
        (Min, Some(KEY), [true, true, true]),
        (Max, Some(PRICE), [true, true, false]),
        (Min, Some(TEXT), [true, false, false]),
        (Max, Some(DATE), [true, false, false]),
        (Max, Some(TIME), [false, false, false]),
        (Avg, Some(PRICE), [false, false, false]),
    ] {
        let got = [&ours, &aws, &minio].map(|dialect| is(function, column.map(Expr::Column), dialect));
        assert_eq!(got, expected, "{function:?} of {column:?}");
    }
    let one_minus = Expr::Arithmetic(ArithmeticOp::Subtract, Expr::int(1).into(), Expr::Column(PRICE).into());
    let charge = Expr::Arithmetic(ArithmeticOp::Multiply, Expr::Column(PRICE).into(), one_minus.into());
    assert!(is(Sum, Some(charge.clone()), &aws));
    assert!(!is(Sum, Some(charge), &minio));
}

#[test]
fn remainders_and_places_only_where_no_sign_counts() {
    let arithmetic = |op, a: Expr, b| Expr::Arithmetic(op, Box::new(a), Box::new(Expr::int(b)));
    let modulo = |a, n| arithmetic(ArithmeticOp::Modulo, a, n);
    let plus = |a, n| arithmetic(ArithmeticOp::Add, a, n);
    let floored = |n, m| modulo(plus(modulo(Expr::Column(KEY), n), n), m);
    let hashed =
        |start: i64| plus(modulo(plus(arithmetic(ArithmeticOp::Multiply, floored(97, 97), 69), 92), 68), start);
    let (schema, format) = (schema(), csv());
    let value = |expr: &Expr, dialect: &Dialect| {
        dialect.three_valued && Classifier { schema: &schema, format: &format, dialect }.value(expr).is_some()
    };
    let (aws, minio) = (Dialect::standard(), Dialect::minio());
    for (expr, expected) in [
        (modulo(Expr::Column(KEY), 97), false),
        (floored(97, 97), true),
        (floored(97, 96), false),
        (floored(-97, -97), false),
        (modulo(floored(97, 97), 10), true),
        (modulo(floored(97, 97), 0), false),
        (modulo(Expr::Column(PRICE), 97), false),
    ] {
        let shown = expr.display(&schema).to_string();
        assert_eq!(value(&expr, &aws), expected, "{shown}");
        assert!(value(&expr, &Dialect::pushdowndb()) && !value(&expr, &minio), "{shown}");
    }
    let bit = |start| Expr::Call(Function::Substring, vec![Expr::text("0110"), start, Expr::int(1)]);
    assert!(value(&bit(hashed(1)), &aws));
    assert!(!value(&bit(hashed(0)), &aws), "before the first character");
    assert!(!value(&bit(Expr::Column(KEY)), &aws));
    let test = Expr::compare(CompareOp::Eq, bit(hashed(1)), Expr::text("1"));
    assert_eq!(on(&aws, &test), Exact(test.clone()));
    assert_eq!(on(&minio, &test), Unsupported);
}

#[test]
fn empty_fields_of_text_pass_where_they_may_be_the_empty_text() {
    let (format, text) = (Format::Csv(CsvOptions::default()), || Expr::Column(4));
    let of = |expr: &Expr| classify(expr, &schema(), &format, &Dialect::standard());
    let empty = || Expr::IsNull(Box::new(text()));
    let same = Expr::compare(CompareOp::Eq, text(), Expr::text("x"));
    assert_eq!(of(&same), Exactness::Exact(same.clone()));
    let other = Expr::compare(CompareOp::NotEq, text(), Expr::text("x"));
    assert_eq!(of(&other), Exactness::Inexact(Expr::Or(vec![other.clone(), empty()])));
    assert_eq!(of(&empty()), Exactness::Inexact(empty()));
    let count = |argument| AggregateCall { function: AggregateFunction::Count, argument, name: "n".into() };
    let counted = |argument| classify_aggregate(&count(argument), &schema(), &format, &Dialect::standard());
    assert!(counted(None) && counted(Some(Expr::Column(1))));
    assert!(!counted(Some(text())), "the empty text counts and NULL does not");
}

//! SQL for each dialect; the parser must read it back with the same meaning.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use pushdowndb_contract::{ArithmeticOp, CompareOp, Exactness, Function, JsonOptions, Literal, classify};

use super::*;
use crate::{InputColumns, parse};

const KEY: usize = 0;
const PRICE: usize = 1;
const DISCOUNT: usize = 2;
const SHIPPED: usize = 3;
const COMMENT: usize = 4;
const RATIO: usize = 5;
const FLAG: usize = 6;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Int64, false),
        Field::new("price", DataType::Decimal128(15, 2), true),
        Field::new("discount", DataType::Decimal128(15, 2), false),
        Field::new("shipped", DataType::Date32, true),
        Field::new("comment \"x\"", DataType::Utf8, true),
        Field::new("ratio", DataType::Float64, true),
        Field::new("flag", DataType::Boolean, false),
    ]))
}

fn csv() -> Format {
    Format::Csv(CsvOptions::default())
}

fn column(index: usize) -> Expr {
    Expr::Column(index)
}

fn compare(op: CompareOp, left: Expr, right: Literal) -> Expr {
    Expr::compare(op, left, Expr::Literal(right))
}

/// Returns the predicate as classified for this dialect.
fn pushed(predicate: &Expr, format: &Format, dialect: &Dialect) -> Expr {
    match classify(predicate, &schema(), format, dialect) {
        Exactness::Exact(expr) | Exactness::Inexact(expr) => expr,
        Exactness::Unsupported => panic!("{} is unsupported", predicate.display(&schema())),
    }
}

fn fragment(format: Format, predicate: Option<Expr>, columns: &[usize]) -> Fragment {
    let schema = schema();
    let output = columns
        .iter()
        .map(|index| NamedExpr { expr: column(*index), name: schema.field(*index).name().clone() })
        .collect();
    Fragment { format, schema, predicate, output: Output::Rows(output), order: vec![], limit: None, project: None }
}

/// Returns the condition after WHERE for this predicate.
fn condition(predicate: &Expr, format: Format, dialect: &Dialect) -> String {
    let predicate = pushed(predicate, &format, dialect);
    let sql = render(&fragment(format, Some(predicate), &[KEY]), dialect).unwrap();
    sql.split_once(" WHERE ").unwrap().1.to_owned()
}

fn price_below() -> Expr {
    compare(CompareOp::Lt, column(PRICE), Literal::Decimal(2400, 15, 2))
}

fn like(pattern: &str) -> Expr {
    Expr::Like {
        expr: Box::new(column(COMMENT)),
        pattern: Box::new(Expr::text(pattern)),
        negated: false,
        case_insensitive: false,
    }
}

fn not(expr: Expr) -> Expr {
    Expr::Not(Box::new(expr))
}

/// Returns predicates with their SQL in the standard dialect and in MinIO's.
fn examples() -> Vec<(Expr, &'static str, &'static str)> {
    let date = Literal::Date(8766);
    vec![
        (compare(CompareOp::Eq, column(KEY), Literal::Int64(-5)), "CAST(s._1 AS INT) = -5", "CAST(s._1 AS INT) = -5"),
        (
            compare(CompareOp::Eq, column(KEY), Literal::Int64(i64::MIN)),
            "CAST(s._1 AS INT) = -9223372036854775808",
            "CAST(s._1 AS INT) = CAST('-9223372036854775808' AS INT)",
        ),
        (
            price_below(),
            "CAST(NULLIF(s._2, '') AS DECIMAL(15,2)) < 24.00",
            "(s._2 != '' AND CAST(s._2 AS FLOAT) < 24.00)",
        ),
        (
            compare(CompareOp::NotEq, column(DISCOUNT), Literal::Decimal(5, 15, 2)),
            "CAST(s._3 AS DECIMAL(15,2)) != 0.05",
            "CAST(s._3 AS FLOAT) != 0.05",
        ),
        (
            compare(CompareOp::GtEq, column(SHIPPED), date.clone()),
            "NULLIF(s._4, '') >= '1994-01-01'",
            "(s._4 != '' AND s._4 >= '1994-01-01')",
        ),
        (
            not(compare(CompareOp::Eq, column(COMMENT), Literal::Utf8("it's".into()))),
            // The empty text is not 'it''s', either.
            "NULLIF(s._5, '') != 'it''s' OR NULLIF(s._5, '') IS NULL",
            "(s._5 != '' AND s._5 != 'it''s') OR s._5 = ''",
        ),
        (like("a%"), "NULLIF(s._5, '') LIKE 'a%'", "(s._5 != '' AND s._5 LIKE 'a%')"),
        (
            not(like(r"5_\\")),
            r"NOT (NULLIF(s._5, '') LIKE '5_\') OR NULLIF(s._5, '') IS NULL",
            r"(s._5 != '' AND NOT (s._5 LIKE '5_\')) OR s._5 = ''",
        ),
        (Expr::IsNull(Box::new(column(PRICE))), "NULLIF(s._2, '') IS NULL", "s._2 = ''"),
        (not(Expr::IsNull(Box::new(column(PRICE)))), "NULLIF(s._2, '') IS NOT NULL", "s._2 != ''"),
        (
            Expr::InList { expr: column(KEY).into(), list: vec![Expr::int(1), Expr::int(2)], negated: true },
            "NOT (CAST(s._1 AS INT) IN (1, 2))",
            "NOT (CAST(s._1 AS INT) IN (1, 2))",
        ),
        (
            Expr::compare(CompareOp::Lt, column(SHIPPED), column(SHIPPED)),
            "NULLIF(s._4, '') < NULLIF(s._4, '')",
            "(s._4 != '' AND CAST(s._4 AS STRING) < CAST(s._4 AS STRING))",
        ),
        (
            compare(CompareOp::Gt, column(RATIO), Literal::Float64(0.5)),
            "NOT (CAST(NULLIF(s._6, '') AS FLOAT) < CAST('0.5' AS FLOAT))",
            "(s._6 != '' AND NOT (CAST(s._6 AS FLOAT) < CAST('0.5' AS FLOAT)))",
        ),
        (column(FLAG), "CAST(s._7 AS BOOL)", "CAST(s._7 AS BOOL)"),
        (
            Expr::And(vec![price_below(), Expr::Or(vec![column(FLAG), like("x")])]),
            "CAST(NULLIF(s._2, '') AS DECIMAL(15,2)) < 24.00 AND (CAST(s._7 AS BOOL) OR NULLIF(s._5, '') LIKE 'x')",
            "(s._2 != '' AND CAST(s._2 AS FLOAT) < 24.00) AND (CAST(s._7 AS BOOL) OR (s._5 != '' AND s._5 LIKE 'x'))",
        ),
        (Expr::Literal(Literal::Null), "FALSE", "FALSE"),
    ]
}

#[test]
fn csv_predicates_in_two_dialects() {
    for (predicate, standard, minio) in examples() {
        assert_eq!(condition(&predicate, csv(), &Dialect::standard()), standard);
        assert_eq!(condition(&predicate, csv(), &Dialect::minio()), minio);
    }
}

#[test]
fn escapes_only_where_they_are_needed() {
    let standard = Dialect::standard();
    assert_eq!(condition(&like(r"5\%_\\"), csv(), &standard), r"NULLIF(s._5, '') LIKE '5\%_\\' ESCAPE '\'");
    assert_eq!(condition(&like(r"5_\\"), csv(), &standard), r"NULLIF(s._5, '') LIKE '5_\'");
}

#[test]
fn a_text_of_its_own_for_null() {
    let format = Format::Csv(CsvOptions { null: NullRule::Text("\\N".into()), ..CsvOptions::default() });
    assert_eq!(
        condition(&price_below(), format.clone(), &Dialect::standard()),
        r"CAST(NULLIF(NULLIF(s._2, ''), '\N') AS DECIMAL(15,2)) < 24.00"
    );
    let null = Expr::IsNull(Box::new(column(PRICE)));
    assert_eq!(condition(&null, format.clone(), &Dialect::minio()), r"(s._2 = '' OR s._2 = '\N')");
    assert_eq!(
        condition(&price_below(), format, &Dialect::minio()),
        r"(s._2 != '' AND s._2 != '\N' AND CAST(s._2 AS FLOAT) < 24.00)"
    );
    let never = Format::Csv(CsvOptions { null: NullRule::Never, ..CsvOptions::default() });
    assert_eq!(condition(&null, never.clone(), &Dialect::minio()), "FALSE");
    assert_eq!(condition(&like("a"), never, &Dialect::standard()), "s._5 LIKE 'a'");
}

#[test]
fn json_and_parquet_go_by_name() {
    let json = Format::Json(JsonOptions::default());
    let standard = Dialect::standard();
    assert_eq!(condition(&price_below(), json.clone(), &standard), "CAST(s.\"price\" AS DECIMAL(15,2)) < 24.00");
    let date = compare(CompareOp::Lt, column(SHIPPED), Literal::Date(8766));
    assert_eq!(condition(&date, json.clone(), &standard), "CAST(s.\"shipped\" AS STRING) < '1994-01-01'");
    assert_eq!(condition(&date, Format::Parquet, &standard), "s.\"shipped\" < CAST('1994-01-01T' AS TIMESTAMP)");
    assert_eq!(condition(&like("a"), Format::Parquet, &standard), "s.\"comment \"\"x\"\"\" LIKE 'a'");
    let whole = Dialect { json: true, ..Dialect::minio() };
    assert_eq!(
        render(&fragment(json.clone(), Some(pushed(&price_below(), &json, &whole)), &[KEY]), &whole).unwrap(),
        "SELECT s.* FROM S3Object s WHERE (s.\"price\" IS NOT NULL AND CAST(s.\"price\" AS FLOAT) < 24.00)"
    );
    // A record may have fields that the sample of an inferred table lacked.
    let inferred = Format::Json(JsonOptions { inferred: true, ..JsonOptions::default() });
    let all = |format| Fragment::all(format, schema());
    assert_eq!(render(&all(inferred.clone()), &standard).unwrap(), "SELECT s.* FROM S3Object s");
    assert!(!render(&all(json), &standard).unwrap().contains('*'));
    let key = fragment(inferred, None, &[KEY]);
    assert!(!render(&key, &standard).unwrap().contains('*'));
}

#[test]
fn outputs_and_limits() {
    let standard = Dialect::standard();
    let mut rows = fragment(csv(), None, &[COMMENT, KEY]);
    rows.limit = Some(10);
    assert_eq!(render(&rows, &standard).unwrap(), "SELECT s._5, s._1 FROM S3Object s LIMIT 10");
    assert_eq!(render(&fragment(csv(), None, &[]), &standard).unwrap(), "SELECT 1 FROM S3Object s");
    assert_eq!(
        render(&fragment(Format::Parquet, None, &[KEY]), &standard).unwrap(),
        "SELECT s.\"key\" FROM S3Object s"
    );

    let call = |function, argument| AggregateCall { function, argument, name: "a".into() };
    let product = Expr::Arithmetic(ArithmeticOp::Multiply, column(PRICE).into(), column(DISCOUNT).into());
    let calls = vec![
        call(AggregateFunction::Count, None),
        call(AggregateFunction::Count, Some(column(KEY))),
        call(AggregateFunction::Count, Some(column(COMMENT))),
        call(AggregateFunction::Sum, Some(product)),
        call(AggregateFunction::Max, Some(column(KEY))),
    ];
    let aggregate = Fragment { output: Output::scalar(calls), ..fragment(csv(), None, &[]) };
    assert_eq!(
        render(&aggregate, &standard).unwrap(),
        "SELECT COUNT(*), COUNT(*), COUNT(NULLIF(s._5, '')), \
         SUM((CAST(NULLIF(s._2, '') AS DECIMAL(15,2)) * CAST(s._3 AS DECIMAL(15,2)))), MAX(CAST(s._1 AS INT)) \
         FROM S3Object s"
    );
}

#[test]
fn what_cannot_be_said_is_unsupported() {
    let is = |predicate: Expr, dialect: &Dialect| {
        render(&fragment(csv(), Some(predicate), &[KEY]), dialect).unwrap_err().kind()
    };
    let long = Expr::InList {
        expr: column(KEY).into(),
        list: (0..40_000).map(|n| Expr::int(n + 1_000_000)).collect(),
        negated: false,
    };
    assert_eq!(is(long, &Dialect::standard()), pushdowndb_contract::ErrorKind::Unsupported);
    assert_eq!(
        is(compare(CompareOp::Eq, column(COMMENT), Literal::Utf8("\u{2}".into())), &Dialect::standard()),
        pushdowndb_contract::ErrorKind::Unsupported
    );
    let negated = not(Expr::And(vec![price_below(), column(FLAG)]));
    assert_eq!(is(negated, &Dialect::minio()), pushdowndb_contract::ErrorKind::Unsupported);
}

/// Converts a typed expression to the one that the node binds over CSV, where columns are text,
/// guarded and cast.
fn on_text(expr: Expr) -> Expr {
    match expr {
        Expr::Column(index) => {
            let schema = schema();
            let field = schema.field(index);
            let text = match field.is_nullable() {
                true => Expr::Call(Function::NullIf, vec![Expr::Column(index), Expr::text("")]),
                false => Expr::Column(index),
            };
            match field.data_type() {
                DataType::Utf8 | DataType::Date32 => text,
                other => Expr::Cast(Box::new(text), other.clone()),
            }
        }
        Expr::IsNull(inner) => match *inner {
            // IS NULL tests the text of a column, before any cast.
            Expr::Column(index) => {
                Expr::IsNull(Box::new(Expr::Call(Function::NullIf, vec![Expr::Column(index), Expr::text("")])))
            }
            other => Expr::IsNull(Box::new(on_text(other))),
        },
        Expr::Literal(Literal::Date(days)) => Expr::text(Literal::Date(days).to_text().unwrap()),
        // NOT IN is rendered as NOT (a IN …).
        Expr::InList { expr, list, negated: true } => not(on_text(Expr::InList { expr, list, negated: false })),
        Expr::Like { expr, pattern, negated: true, case_insensitive } => {
            not(on_text(Expr::Like { expr, pattern, negated: false, case_insensitive }))
        }
        other => other.map_children(&mut |child| Ok::<_, ()>(on_text(child))).unwrap(),
    }
}

#[test]
fn our_parser_reads_our_sql_back() {
    let standard = Dialect::pushdowndb();
    for (predicate, ..) in examples() {
        let predicate = pushed(&predicate, &csv(), &standard);
        let mut sent = fragment(csv(), Some(predicate.clone()), &[COMMENT, KEY]);
        sent.limit = Some(3);
        let sql = render(&sent, &standard).unwrap();
        let input = InputColumns::Csv { options: CsvOptions::default(), names: None, count: 7 };
        let read = parse(&sql).unwrap().bind(&input).unwrap();
        let expected = on_text(predicate);
        assert_eq!(read.predicate, Some(expected), "{sql}");
        assert_eq!(read.limit, Some(3));
        let Output::Rows(columns) = read.output else { panic!() };
        let columns: Vec<_> = columns.into_iter().map(|c| c.expr).collect();
        assert_eq!(columns, [column(COMMENT), column(KEY)]);
    }
}

/// Aggregates of text are returned as JSON, which distinguishes NULL from the empty text.
#[test]
fn aggregates_of_text_go_by_name() {
    let standard = Dialect::pushdowndb();
    let call = |function, argument| AggregateCall { function, argument: Some(argument), name: "a".into() };
    let aggregate = |argument: Expr| {
        let output = Output::scalar(vec![call(AggregateFunction::Min, argument)]);
        Fragment { output, ..fragment(csv(), None, &[]) }
    };
    assert_eq!(
        render(&aggregate(column(COMMENT)), &standard).unwrap(),
        "SELECT MIN(NULLIF(s._5, '')) AS \"a\" FROM S3Object s"
    );
    // The conditions of a CASE are not returned.
    let case = |then| Expr::Case { branches: vec![(like("x"), then)], otherwise: None };
    assert_eq!(
        render(&aggregate(case(column(KEY))), &standard).unwrap(),
        "SELECT MIN(CASE WHEN NULLIF(s._5, '') LIKE 'x' THEN CAST(s._1 AS INT) END) FROM S3Object s"
    );
    assert!(render(&aggregate(case(column(COMMENT))), &standard).unwrap().contains(" AS \"a\""));
}

//! Pushdown changes costs, not answers: for random predicates over a typed table, the SQL rendered
//! for a PushdownDB node, parsed and bound there and evaluated over the raw text, selects the rows
//! that the predicate selects over the typed columns: exactly those if classified exact, at least
//! those if inexact.
//!
//! The table has doubles because dialects differ in their order, decimals because doubles hold 15
//! digits, and empty fields because they are NULL in tables and text in S3 Select.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use futures::TryStreamExt;
use futures::executor::block_on;
use pushdowndb_contract::{
    AggregateCall, AggregateFunction, ArithmeticOp, CompareOp, CsvOptions, Dialect, Exactness, Expr, Format, Fragment,
    Function, Literal, NamedExpr, Output, classify, classify_aggregate,
};
use pushdowndb_scan::{InMemory, ScanCounters, ScanOptions, scan};
use pushdowndb_select::{InputColumns, parse, render};

const ROWS: usize = 300;
const PREDICATES: usize = 4000;

/// A reproducible source of choices.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33).unwrap() % limit
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// The columns, and the fields that each may hold.
fn columns() -> Vec<(Field, Vec<&'static str>)> {
    let field = |name: &str, data_type, nullable| Field::new(name, data_type, nullable);
    let int = ["-1", "0", "1", "2", "7", "9007199254740992", "9007199254740993", "-9223372036854775808", ""];
    let price = ["0.00", "-0.05", "0.05", "0.06", "24.00", "9999999999999.99", "9999999999999.98", "7.1", ""];
    let big = ["0.00", "999999999999999999.98", "999999999999999999.99", "24.00", "-24.01", ""];
    let fine = ["0.000000", "0.000001", "0.000002", "0.999999", "1.000000", "-3.5", ""];
    let ratio = ["0.0", "-0.0", "0.5", "-0.5", "NaN", "1e300", "-1e300", "0.1", ""];
    let day = ["1994-01-01", "1993-12-31", "1994-12-31", "1995-01-01", "2000-02-29", ""];
    let text =
        ["a", "abcab", "apple", "ab1ab2", "10", "9", "1.0", "50%", "5_", "a\\b", "say \"\"hi\"\"", "a,b", "öl", ""];
    let flag = ["true", "false", ""];
    vec![
        (field("key", DataType::Int64, false), vec![]),
        (field("quantity", DataType::Int64, true), int.to_vec()),
        (field("price", DataType::Decimal128(15, 2), true), price.to_vec()),
        (field("big", DataType::Decimal128(20, 2), true), big.to_vec()),
        (field("fine", DataType::Decimal128(15, 6), true), fine.to_vec()),
        (field("ratio", DataType::Float64, true), ratio.to_vec()),
        (field("shipped", DataType::Date32, true), day.to_vec()),
        (field("ordered", DataType::Date32, false), day[..5].to_vec()),
        (field("text", DataType::Utf8, true), text.to_vec()),
        (field("name", DataType::Utf8, false), text[..13].to_vec()),
        (field("flag", DataType::Boolean, true), flag.to_vec()),
    ]
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(columns().into_iter().map(|(field, _)| field).collect::<Vec<_>>()))
}

fn table(dice: &mut Dice) -> String {
    let columns = columns();
    let mut csv = columns.iter().map(|(field, _)| field.name().as_str()).collect::<Vec<_>>().join(",") + "\n";
    for row in 0..ROWS {
        csv.push_str(&row.to_string());
        for (_, values) in &columns[1..] {
            csv.push_str(&format!(",\"{}\"", dice.of(values)));
        }
        csv.push('\n');
    }
    csv
}

fn literal(dice: &mut Dice, data_type: &DataType) -> Literal {
    if dice.below(30) == 0 {
        return Literal::Null;
    }
    match data_type {
        DataType::Int64 => Literal::Int64(*dice.of(&[-1, 0, 1, 7, 1 << 53, (1 << 53) + 1, i64::MIN])),
        DataType::Decimal128(precision, 2) => {
            let values = [0, 5, 6, 2400, -2401, 999_999_999_999_999, 99_999_999_999_999_999_999];
            let value = *dice.of(&values[..if *precision == 15 { 6 } else { 7 }]);
            Literal::Decimal(value, *precision, 2)
        }
        DataType::Decimal128(precision, scale) => Literal::Decimal(*dice.of(&[0, 1, 2, 1_000_000]), *precision, *scale),
        DataType::Float64 => Literal::Float64(*dice.of(&[0.0, -0.0, 0.5, 0.1, -1e300])),
        DataType::Date32 => Literal::Date(*dice.of(&[8766, 8765, 9130, 11_016])),
        DataType::Boolean => Literal::Boolean(dice.below(2) == 0),
        _ => Literal::Utf8((*dice.of(&["", "a", "apple", "9", "10", "öl", "say \"hi\"", "it's", "a\\b"])).to_owned()),
    }
}

fn comparison(dice: &mut Dice, schema: &Schema) -> Expr {
    let index = dice.below(schema.fields().len());
    let data_type = schema.field(index).data_type().clone();
    let column = Expr::Column(index);
    let op =
        *dice.of(&[CompareOp::Eq, CompareOp::NotEq, CompareOp::Lt, CompareOp::LtEq, CompareOp::Gt, CompareOp::GtEq]);
    match dice.below(12) {
        0 => Expr::IsNull(Box::new(column)),
        1 => {
            let list = (0..=dice.below(3)).map(|_| Expr::Literal(literal(dice, &data_type))).collect();
            Expr::InList { expr: Box::new(column), list, negated: dice.below(2) == 0 }
        }
        2 | 3 => {
            let patterns = ["a%", "%b", "%b%", "a%b", "_", "a_c%", "%ab_", "%_", r"5\_", r"%\%", r"a\\b", "ö%", "ö%x"];
            Expr::Like {
                expr: Box::new(Expr::Column(*dice.of(&[8, 9]))),
                pattern: Box::new(Expr::text(*dice.of(&patterns))),
                negated: dice.below(2) == 0,
                case_insensitive: false,
            }
        }
        4 => {
            let (a, b) = *dice.of(&[(8, 9), (6, 7), (0, 1), (2, 2), (2, 3), (2, 1), (4, 2)]);
            Expr::compare(op, Expr::Column(a), Expr::Column(b))
        }
        5 => {
            let wide = Expr::Cast(Box::new(Expr::Column(2)), DataType::Decimal128(20, 4));
            Expr::compare(op, wide, Expr::Literal(Literal::Decimal(*dice.of(&[600, 240_000, 599]), 20, 4)))
        }
        6 => {
            let less = Expr::Arithmetic(ArithmeticOp::Subtract, Expr::int(1).into(), Expr::Column(4).into());
            let product = Expr::Arithmetic(ArithmeticOp::Multiply, Expr::Column(2).into(), less.into());
            Expr::compare(op, product, Expr::Literal(literal(dice, &DataType::Decimal128(15, 2))))
        }
        7 => {
            let functions = [Function::Lower, Function::Trim, Function::TrimLeading];
            Expr::compare(op, Expr::Call(*dice.of(&functions), vec![Expr::Column(8)]), Expr::text("a"))
        }
        8 if data_type == DataType::Boolean => column,
        9 => Expr::compare(op.swap(), Expr::Literal(literal(dice, &data_type)), column),
        _ => Expr::compare(op, column, Expr::Literal(literal(dice, &data_type))),
    }
}

fn predicate(dice: &mut Dice, schema: &Schema, depth: usize) -> Expr {
    match dice.below(if depth == 0 { 1 } else { 5 }) {
        1 => Expr::And((0..=dice.below(3)).map(|_| predicate(dice, schema, depth - 1)).collect()),
        2 => Expr::Or((0..=dice.below(2)).map(|_| predicate(dice, schema, depth - 1)).collect()),
        3 => Expr::Not(Box::new(predicate(dice, schema, depth - 1))),
        _ => comparison(dice, schema),
    }
}

fn run(fragment: Fragment, csv: &str) -> Vec<arrow::array::RecordBatch> {
    let reader = Arc::new(InMemory::new("test.csv", csv.as_bytes().to_vec()));
    let rows = scan(Arc::new(fragment), reader, None, ScanOptions::default(), Arc::new(ScanCounters::default()));
    block_on(rows.unwrap().try_collect()).unwrap()
}

/// The keys of the rows that pass, read from a first column of either type.
fn keys(fragment: Fragment, csv: &str) -> BTreeSet<i64> {
    run(fragment, csv)
        .iter()
        .flat_map(|batch| {
            let keys = arrow::compute::cast(batch.column(0), &DataType::Int64).unwrap();
            keys.as_primitive::<Int64Type>().values().to_vec()
        })
        .collect()
}

fn fragment(schema: &SchemaRef, predicate: Option<Expr>) -> Fragment {
    Fragment {
        format: Format::Csv(CsvOptions::default()),
        schema: Arc::clone(schema),
        predicate,
        output: Output::Rows(vec![NamedExpr { expr: Expr::Column(0), name: "key".into() }]),
        order: vec![],
        limit: None,
        project: None,
    }
}

/// The fragment that the node binds.
fn at_node(sql: &str, schema: &SchemaRef) -> Fragment {
    let input = InputColumns::Csv { options: CsvOptions::default(), names: None, count: schema.fields().len() };
    parse(sql).and_then(|statement| statement.bind(&input)).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

#[test]
fn random_predicates_select_the_same_rows() {
    let mut dice = Dice(0x5eed);
    let (schema, csv) = (schema(), table(&mut dice));
    let (mut exact, mut inexact) = (0, 0);
    for _ in 0..PREDICATES {
        let asked = predicate(&mut dice, &schema, 3);
        let shown = asked.display(&schema).to_string();
        let wanted = keys(fragment(&schema, Some(asked.clone())), &csv);
        for dialect in [Dialect::pushdowndb(), Dialect::standard()] {
            let (pushed, complete) = match classify(&asked, &schema, &Format::Csv(CsvOptions::default()), &dialect) {
                Exactness::Exact(pushed) => (pushed, true),
                Exactness::Inexact(pushed) => (pushed, false),
                Exactness::Unsupported => continue,
            };
            // The pushed predicate is the same or weaker.
            let again = keys(fragment(&schema, Some(pushed.clone())), &csv);
            let sql = render(&fragment(&schema, Some(pushed)), &dialect).unwrap_or_else(|e| panic!("{shown}: {e}"));
            let got = keys(at_node(&sql, &schema), &csv);
            if complete {
                exact += 1;
                assert_eq!(again, wanted, "{shown}");
                assert_eq!(got, wanted, "{shown}\n{sql}");
            } else {
                inexact += 1;
                assert!(got.is_superset(&wanted), "{shown}\n{sql}");
            }
        }
    }
    // The test is of something.
    assert!(exact > PREDICATES / 2 && inexact > PREDICATES / 20, "{exact} exact, {inexact} inexact");
}

#[test]
fn aggregates_that_may_be_pushed_are_the_same() {
    let mut dice = Dice(0xa66);
    let (schema, csv) = (schema(), table(&mut dice));
    let dialect = Dialect::pushdowndb();
    let one_minus = Expr::Arithmetic(ArithmeticOp::Subtract, Expr::int(1).into(), Expr::Column(4).into());
    let charge = Expr::Arithmetic(ArithmeticOp::Multiply, Expr::Column(2).into(), one_minus.into());
    let branch = Expr::compare(CompareOp::Eq, Expr::Column(8), Expr::text("a"));
    let zero = Expr::Literal(Literal::Decimal(0, 15, 2));
    let case = Expr::Case { branches: vec![(branch, Expr::Column(2))], otherwise: Some(Box::new(zero)) };
    let mut arguments: Vec<Expr> = (0..schema.fields().len()).map(Expr::Column).collect();
    arguments.extend([charge, case]);
    let mut compared = 0;
    for argument in arguments {
        for function in
            [AggregateFunction::Count, AggregateFunction::Sum, AggregateFunction::Min, AggregateFunction::Max]
        {
            let call = AggregateCall { function, argument: Some(argument.clone()), name: "a".into() };
            let format = Format::Csv(CsvOptions::default());
            // The sum of the wide column's values and of NaN are not the matter here.
            let matter = function != AggregateFunction::Sum || !matches!(argument, Expr::Column(1 | 5));
            if !matter || !classify_aggregate(&call, &schema, &format, &dialect) {
                continue;
            }
            let asked = Fragment { output: Output::scalar(vec![call]), ..fragment(&schema, None) };
            let sql = render(&asked, &dialect).unwrap();
            let as_text = |fragment: Fragment| {
                let batches = run(fragment, &csv);
                let column = batches.iter().find(|batch| batch.num_rows() == 1).unwrap().column(0).clone();
                (column.data_type().clone(), column)
            };
            let (data_type, wanted) = as_text(asked);
            let (_, got) = as_text(at_node(&sql, &schema));
            // The engine reads it back through text, in the type of the column.
            let text = arrow::compute::cast(&got, &DataType::Utf8).unwrap();
            let got = arrow::compute::cast(&text, &data_type).unwrap();
            assert_eq!(&got, &wanted, "{sql}");
            compared += 1;
        }
    }
    assert!(compared > 25, "{compared} compared");
}

//! Text that is searched before it is decoded, compared with text that is not: no row may be lost.

use arrow::datatypes::DataType;
use pushdowndb_contract::{
    CompareOp, CsvOptions, Expr, Format, Fragment, Function, JsonOptions, Literal, NullRule, Ragged,
};
use pushdowndb_scan::{Matching, ScanOptions};

use crate::choices::Choices;
use crate::scans::{Reading, read, schema};

pub fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    let mut flag = choices.flags();
    let (is_csv, raw_tokens) = (flag(), flag());
    let csv = CsvOptions {
        header: flag(),
        escape: flag().then_some(b'\\'),
        comment: flag().then_some(b'#'),
        quote: (!flag()).then_some(b'"'),
        terminator: flag().then_some(b';'),
        ragged: Ragged::Lenient,
        null: if flag() { NullRule::Never } else { NullRule::Text("ab".to_owned()) },
        ..CsvOptions::default()
    };
    let predicate = condition(&mut choices, 2, !is_csv && raw_tokens);
    let piece_bytes = 1 + usize::from(choices.byte() % 64);
    let cut = choices.byte();
    let text = choices.rest();
    let day = if !is_csv && raw_tokens { DataType::Utf8 } else { DataType::Date32 };
    let columns = schema([("a", DataType::Utf8), ("b", day), ("c", DataType::Utf8)]);
    let format =
        if is_csv { Format::Csv(csv) } else { Format::Json(JsonOptions { raw_tokens, ..JsonOptions::default() }) };
    let fragment = Fragment { predicate: Some(predicate), ..Fragment::all(format, columns) };
    let unconditional = Fragment { predicate: None, ..fragment.clone() };
    let read = |fragment, matching, range, piece_bytes| {
        let options = ScanOptions { matching, batch_rows: 3, ..ScanOptions::default() };
        read(fragment, text, &Reading { piece_bytes, range, options, at_hand: false })
    };
    let reading = |matching, range, piece_bytes| read(&fragment, matching, range, piece_bytes);
    // The prefilter may skip malformed records; rows found without it must be found with it.
    let Ok(exact) = reading(Matching::Never, None, 1 << 20) else { return };
    assert_eq!(reading(Matching::Always, None, piece_bytes).as_ref(), Ok(&exact));
    let size = text.len() as u64;
    let cut = size * u64::from(cut) / 255;
    let parts = [0..cut, cut..size].map(|range| reading(Matching::Always, Some(range), piece_bytes));
    let parts: Result<Vec<_>, _> = parts.into_iter().collect();
    match parts {
        // A part may evaluate its conditions in another order, and so reach a malformed value that
        // the whole does not.
        Err(error) => {
            let all = read(&unconditional, Matching::Never, None, 1 << 20);
            assert!(all.is_err(), "cut at {cut}: {error}, and the whole holds nothing malformed");
        }
        Ok(parts) => assert_eq!(parts.concat(), exact, "cut at {cut}"),
    }
}

/// A constant of up to seven bytes of the input.
fn constant(choices: &mut Choices<'_>) -> String {
    let bytes: Vec<u8> = (0..choices.byte() % 8).map(|_| choices.byte()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn condition(choices: &mut Choices<'_>, depth: usize, tokens: bool) -> Expr {
    let column = if choices.byte().is_multiple_of(2) { 0 } else { 2 };
    let value = Expr::Column(column);
    let value = if tokens { Expr::Call(Function::JsonText, vec![value]) } else { value };
    match choices.byte() % if depth == 0 { 5 } else { 7 } {
        0 => Expr::compare(CompareOp::Eq, value, Expr::text(constant(choices))),
        1 => {
            let bound = |op, text| Expr::compare(op, value.clone(), Expr::text(text));
            bound(CompareOp::GtEq, constant(choices)).and(bound(CompareOp::Lt, constant(choices)))
        }
        2 => {
            let pattern = Box::new(Expr::text(format!("%{}%", constant(choices))));
            Expr::Like { expr: Box::new(value), pattern, negated: false, case_insensitive: false }
        }
        3 => {
            let list = vec![Expr::text(constant(choices)), Expr::text(constant(choices))];
            Expr::InList { expr: Box::new(value), list, negated: false }
        }
        4 if tokens => {
            let token = Expr::Call(Function::ToToken, vec![Expr::text(constant(choices))]);
            Expr::Call(Function::TokenEq, vec![Expr::Column(column), token])
        }
        4 => {
            let day = i32::from(choices.byte()) * 40;
            let bound = |op, day| Expr::compare(op, Expr::Column(1), Expr::Literal(Literal::Date(day)));
            bound(CompareOp::Gt, day).and(bound(CompareOp::LtEq, day + i32::from(choices.byte())))
        }
        5 => Expr::And((0..2).map(|_| condition(choices, depth - 1, tokens)).collect()),
        _ => Expr::Or((0..2).map(|_| condition(choices, depth - 1, tokens)).collect()),
    }
}

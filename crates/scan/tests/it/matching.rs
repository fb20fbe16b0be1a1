//! The byte matcher: searching text before decoding it never loses a row, however values are
//! written.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::datatypes::DataType;
use pushdowndb_contract::{
    CompareOp, CsvOptions, Expr, Format, Fragment, Function, JsonOptions, Literal, NullRule, Ragged,
};
use pushdowndb_scan::{InMemory, Matching, ScanOptions, Zones};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::*;

const WORDS: [&str; 8] = ["special", "spec", "ial requests", "a\"b", "x,y", "1995-09", "p\\q/r", "é special ü"];

fn pick<'a>(random: &mut StdRng, all: &[&'a str]) -> &'a str {
    all[random.random_range(0..all.len())]
}

fn value(random: &mut StdRng) -> String {
    (0..random.random_range(0..3)).map(|_| pick(random, &WORDS)).collect::<Vec<_>>().join(pick(random, &["", " "]))
}

fn date(random: &mut StdRng) -> String {
    let (year, month, day) = (random.random_range(1994..1997), random.random_range(1..13), random.random_range(1..29));
    format!("{year}-{month:02}-{day:02}")
}

fn number(random: &mut StdRng) -> i64 {
    [0, 7, 12, 123, 1234][random.random_range(0..5)]
}

/// The value as a field of CSV, in one of the many ways to write it.
fn field(random: &mut StdRng, value: &str, options: &CsvOptions) -> String {
    let Some(quote) = options.quote.map(char::from) else { return value.replace([',', '"', '\n'], "") };
    if !value.contains([',', '"', '\n', '\\']) && random.random_bool(0.4) {
        return value.to_owned();
    }
    // A quote may close anywhere as long as no mark comes after it.
    let last_mark = value.rfind([',', '"', '\n', '\\']).map_or(0, |at| at + 1);
    let mut ends: Vec<usize> = value.char_indices().map(|(at, _)| at).filter(|at| *at >= last_mark).collect();
    ends.push(value.len());
    let close = if random.random_bool(0.7) { value.len() } else { ends[random.random_range(0..ends.len())] };
    let mut text = String::from(quote);
    for c in value[..close].chars() {
        match options.escape.map(char::from) {
            Some(escape) if c == quote || c == escape || random.random_bool(0.1) => text.extend([escape, c]),
            _ if c == quote => text.extend([quote, quote]),
            _ => text.push(c),
        }
    }
    text.push(quote);
    text.push_str(&value[close..]);
    text
}

/// The value as a string of JSON, in one of the many ways to write it.
fn json_string(random: &mut StdRng, value: &str) -> String {
    let mut text = String::from('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '/' if random.random_bool(0.5) => text.push_str("\\/"),
            c if (c as u32) < 0x10000 && random.random_bool(0.05) => _ = write!(text, "\\u{:04x}", c as u32),
            c => text.push(c),
        }
    }
    text + "\""
}

/// Columns: a text, b date, c integer, d text. Tokens are those of raw JSON.
fn atom(random: &mut StdRng, tokens: bool) -> Expr {
    let column = if random.random_bool(0.5) { 0 } else { 3 };
    let text = match random.random_range(0..4) {
        0 => Expr::Call(Function::Substring, vec![Expr::Column(column), Expr::int(2), Expr::int(7)]),
        _ => Expr::Column(column),
    };
    let text = if tokens { Expr::Call(Function::JsonText, vec![Expr::Column(column)]) } else { text };
    let op = [CompareOp::GtEq, CompareOp::Gt, CompareOp::LtEq, CompareOp::Lt][random.random_range(0..4)];
    match random.random_range(0..if tokens { 7 } else { 10 }) {
        0 | 1 => {
            let pattern = format!("%{}%{}", pick(random, &WORDS), pick(random, &["", "special%", "_equests%"]));
            let pattern = Box::new(Expr::text(pattern.replace('\\', "\\\\")));
            let negated = random.random_bool(0.1);
            Expr::Like { expr: Box::new(text), pattern, negated, case_insensitive: random.random_bool(0.1) }
        }
        2 => Expr::compare(CompareOp::Eq, text, Expr::text(value(random))),
        3 => Expr::compare(op, text, Expr::text(value(random))),
        4 => {
            let list = (0..3).map(|_| Expr::text(value(random))).collect();
            Expr::InList { expr: Box::new(text), list, negated: random.random_bool(0.1) }
        }
        5 | 6 if tokens => {
            let function = [Function::TokenEq, Function::TokenLt, Function::TokenLtEq][random.random_range(0..3)];
            let mut operands =
                vec![Expr::Column(column), Expr::text(pushdowndb_contract::token::quoted(&value(random)))];
            if random.random_bool(0.5) {
                operands.reverse();
            }
            Expr::Call(function, operands)
        }
        5 => Expr::compare(CompareOp::Eq, Expr::Column(2), Expr::int(number(random))),
        6 => {
            let list = vec![Expr::int(number(random)), Expr::int(-123), Expr::Literal(Literal::Null)];
            Expr::InList { expr: Box::new(Expr::Column(2)), list, negated: false }
        }
        7 => Expr::compare(op, Expr::text(date(random)), Expr::Column(3)),
        _ => {
            let day = random.random_range(8_700..10_000);
            let length = [1, 5, 31, 100][random.random_range(0..4)];
            let bound = |op, day| Expr::compare(op, Expr::Column(1), Expr::Literal(Literal::Date(day)));
            bound(CompareOp::GtEq, day).and(bound(CompareOp::Lt, day + length))
        }
    }
}

fn condition(random: &mut StdRng, depth: usize, tokens: bool) -> Expr {
    match random.random_range(0..if depth == 0 { 2 } else { 6 }) {
        0..3 => atom(random, tokens),
        3 => Expr::And((0..2).map(|_| condition(random, depth - 1, tokens)).collect()),
        4 => Expr::Or((0..2).map(|_| condition(random, depth - 1, tokens)).collect()),
        _ => Expr::Not(Box::new(condition(random, depth - 1, tokens))),
    }
}

/// Whether all ways of reading give the rows of reading without a search. Gives how many there are.
async fn agree(fragment: &Fragment, text: &str, random: &mut StdRng) -> usize {
    let options = |matching| ScanOptions { matching, batch_rows: 5, ..ScanOptions::default() };
    let reader = |piece: usize| InMemory::new("k", text.to_owned()).with_piece_bytes(piece);
    let (exact, exactly) = try_run_as(fragment, reader(1 << 20), None, options(Matching::Never)).await.unwrap();
    let exact = rows(&exact);
    for piece in [1, 100, 1 << 20] {
        let (found, counters) = try_run_as(fragment, reader(piece), None, options(Matching::Always)).await.unwrap();
        assert_eq!(rows(&found), exact, "{:?}\n{text}", fragment.predicate);
        let bytes = |counters: &pushdowndb_scan::ScanCounters| counters.bytes_scanned.load(Ordering::Relaxed);
        assert_eq!(bytes(&counters), bytes(&exactly), "bytes are scanned, whether or not they are decoded");
    }
    if fragment.format.is_splittable() {
        let size = text.len() as u64;
        let cut = random.random_range(0..=size);
        let mut parts = Vec::new();
        for range in [0..cut, cut..size] {
            let part = try_run_as(fragment, reader(64), Some(range), options(Matching::Always)).await.unwrap();
            parts.extend(rows(&part.0));
        }
        assert_eq!(parts, exact, "cut at {cut}: {:?}\n{text}", fragment.predicate);
        let helped = ScanOptions {
            helpers: helpers(random.random_range(2..5), random.random_range(1..200)),
            ..options(Matching::Always)
        };
        let (found, counters) = try_run_as(fragment, reader(64), None, helped).await.unwrap();
        assert_eq!(rows(&found), exact, "in pieces: {:?}\n{text}", fragment.predicate);
        assert_eq!(counters.bytes_scanned.into_inner(), size);
    }
    exact.len()
}

fn columns() -> arrow::datatypes::SchemaRef {
    schema(&[("a", DataType::Utf8), ("b", DataType::Date32), ("c", DataType::Int64), ("d", DataType::Utf8View)])
}

#[tokio::test]
async fn csv_loses_no_row_however_it_is_quoted() {
    let mut random = StdRng::seed_from_u64(5);
    let mut passed = 0;
    for _ in 0..1_500 {
        let options = CsvOptions {
            header: random.random_bool(0.2),
            quote: random.random_bool(0.9).then_some(b'"'),
            escape: random.random_bool(0.3).then_some(b'\\'),
            comment: random.random_bool(0.2).then_some(b'#'),
            null: if random.random_bool(0.5) { NullRule::Never } else { NullRule::Text("special".into()) },
            ragged: Ragged::Lenient,
            newlines_in_values: random.random_bool(0.1),
            ..CsvOptions::default()
        };
        let mut text = String::from(if random.random_bool(0.2) { "\u{feff}" } else { "" });
        let end = pick(&mut random, &["\n", "\r\n"]);
        for _ in 0..random.random_range(1..30) {
            let (a, d) = (value(&mut random), value(&mut random));
            let c = number(&mut random);
            let spelled = match random.random_range(0..5) {
                0 => format!("+00{c}"),
                1 => format!("-{c}"),
                2 => format!(" {c} "),
                _ => c.to_string(),
            };
            let day = date(&mut random);
            let day = field(&mut random, &day, &options);
            let (a, d) = (field(&mut random, &a, &options), field(&mut random, &d, &options));
            let _ = write!(text, "{a},{day},{},{d}{end}", field(&mut random, &spelled, &options));
            if random.random_bool(0.1) {
                text.push_str(end);
            }
        }
        let mut fragment = csv(&columns(), options);
        fragment.predicate = Some(condition(&mut random, 2, false));
        passed += agree(&fragment, &text, &mut random).await;
    }
    assert!(passed > 5_000, "{passed}");
}

#[tokio::test]
async fn json_loses_no_row_however_it_is_escaped() {
    let mut random = StdRng::seed_from_u64(6);
    let mut passed = 0;
    for round in 0..1_500 {
        let raw_tokens = round % 2 == 0;
        let mut text = String::new();
        for _ in 0..random.random_range(1..30) {
            let (a, d, b) = (value(&mut random), value(&mut random), date(&mut random));
            let a = if random.random_bool(0.1) { "1234".into() } else { json_string(&mut random, &a) };
            let (b, d) = (json_string(&mut random, &b), json_string(&mut random, &d));
            let c = number(&mut random);
            let _ = match random.random_range(0..4) {
                0 => writeln!(text, r#"{{"d": {d}, "c": {c}, "a": {a}}}"#),
                1 => writeln!(text, r#" {{"x": [{{"a": {d}}}], "b": {b}, "a": null}}{}"#, "\n\n"),
                _ => writeln!(text, r#"{{"a":{a},"b":{b},"c":{c},"d":{d}}}"#),
            };
        }
        let options = JsonOptions { raw_tokens, ..JsonOptions::default() };
        let schema = if raw_tokens { texts(&["a", "b", "c", "d"]) } else { columns() };
        let mut fragment = Fragment::all(Format::Json(options), schema);
        fragment.predicate = Some(condition(&mut random, 2, raw_tokens));
        passed += agree(&fragment, &text, &mut random).await;
    }
    assert!(passed > 5_000, "{passed}");
}

/// About 4 MB: 40 000 lines, of which every 500th holds a needle, and from line 30 000 on all of
/// them.
fn long_text() -> String {
    let mut text = String::from("n,word\n");
    for line in 0..40_000 {
        let word = if line % 500 == 7 || line >= 30_000 { "needle" } else { "thread" };
        let _ = writeln!(text, "{line},\"{word} {}\"", "x".repeat(80 + line % 9));
    }
    text
}

#[tokio::test]
async fn only_where_it_pays_are_lines_left_out() {
    let text = long_text();
    let like = |pattern: &str| Expr::Like {
        expr: Box::new(Expr::Column(1)),
        pattern: Box::new(Expr::text(pattern)),
        negated: false,
        case_insensitive: false,
    };
    let columns = schema(&[("n", DataType::Int64), ("word", DataType::Utf8)]);
    let scanned = async |pattern: &str, matching| {
        let fragment = Fragment { predicate: Some(like(pattern)), ..csv(&columns, CsvOptions::default()) };
        let options = ScanOptions { matching, ..ScanOptions::default() };
        let (batch, counters) = try_run_as(&fragment, InMemory::new("k", text.clone()), None, options).await.unwrap();
        assert_eq!(counters.bytes_scanned.load(Ordering::Relaxed), text.len() as u64);
        (batch.num_rows(), counters.rows_scanned.load(Ordering::Relaxed))
    };
    assert_eq!(scanned("%needle%", Matching::Never).await, (10_060, 40_000));
    let (rows, sampled) = scanned("%needle%", Matching::Sampled).await;
    // The beginning, the hits, and what comes after they became dense.
    assert!(rows == 10_060 && (12_000..16_000).contains(&sampled), "{sampled}");
    // All lines hold it: nothing is won.
    assert_eq!(scanned("%xxx%", Matching::Sampled).await, (40_000, 40_000));
    let (rows, sampled) = scanned("%neither%", Matching::Sampled).await;
    assert!(rows == 0 && sampled < 4_000, "{sampled}");
}

#[tokio::test]
async fn zones_are_learned_first_and_stay_true() {
    let text = long_text();
    let columns = schema(&[("n", DataType::Int64), ("word", DataType::Utf8)]);
    let zones = Arc::new(Zones::default());
    let scan = async |predicate: Expr, zones: &Arc<Zones>| {
        let fragment = Fragment { predicate: Some(predicate), ..csv(&columns, CsvOptions::default()) };
        let options = ScanOptions { zones: Some(Arc::clone(zones)), ..ScanOptions::default() };
        let (batch, counters) = try_run_as(&fragment, InMemory::new("k", text.clone()), None, options).await.unwrap();
        (batch.num_rows(), counters.rows_scanned.load(Ordering::Relaxed))
    };
    let wanted = "needle xxx".to_owned() + &"x".repeat(84);
    let equal = || Expr::compare(CompareOp::Eq, Expr::Column(1), Expr::text(wanted.clone()));
    let (expected, first) = scan(equal(), &zones).await;
    assert!(expected > 0 && first == 40_000);
    let (again, second) = scan(equal(), &zones).await;
    assert!(again == expected && second < 20_000, "{second}");
    // What was learned while lines were left out is what is learned from all of them.
    let like = Expr::Like {
        expr: Box::new(Expr::Column(1)),
        pattern: Box::new(Expr::text("%needle%")),
        negated: false,
        case_insensitive: false,
    };
    let both = || like.clone().and(Expr::compare(CompareOp::GtEq, Expr::Column(0), Expr::int(20_000)));
    let mixed = Arc::new(Zones::default());
    for _ in 0..2 {
        assert_eq!(scan(both(), &mixed).await.0, 10_020);
        assert_eq!(scan(equal(), &mixed).await.0, expected);
    }
}

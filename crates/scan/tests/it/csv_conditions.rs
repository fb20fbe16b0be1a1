//! Conditions decided from the bytes of fields, against the same conditions over columns: the same
//! rows, and the same errors, whatever the spelling, the quoting and the cuts of the text.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use pushdowndb_contract::{
    BloomFilter, CompareOp, CsvOptions, Expr, Format, Fragment, Function, Key, Literal, NullRule, Ragged,
};
use pushdowndb_scan::{InMemory, Matching, ScanOptions};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::support::*;

const NUMBERS: &[&str] = &["0", "1", "7", "12", "-3", "1234567", "123456789", "99999999", "5", "05", "+5", " 5 ", "-0"];
const FRACTIONS: &[&str] =
    &["1.25", "0.05", "0.5", ".5", "7.", "12345.67", "123456.78", "1e1", "-1.50", "5.005", "999999999.99", "0007.10"];
const DATES: &[&str] =
    &["1995-01-01", "1995-01-31", "1995-02-28", "1996-02-29", "0001-01-01", "9999-12-31", "1970-01-01", "1995-12-30"];
const TIMES: &[&str] = &["2007-01-01T00:00:00", "2007-01-01 00:00:01", "2007-01-01T00:00:00.5", "2007-06-01"];
const TEXTS: &[&str] = &["a", "b", "ab", "abc", "a,b", "a\"b", "é", "1995-09-01", "NA", "special requests", " ", "%"];
const BAD: &[&str] = &["x", "1995-02-29", "1995-1-2", "1.2.3", "--1", "99999999999999999999", "yes", "NaN"];

fn spellings(of: &DataType) -> Vec<&'static str> {
    match of {
        DataType::Date32 => DATES.to_vec(),
        DataType::Timestamp(..) => [DATES, TIMES].concat(),
        DataType::Utf8 => [TEXTS, DATES].concat(),
        DataType::Decimal128(..) | DataType::Float64 | DataType::Float32 => [NUMBERS, FRACTIONS].concat(),
        _ => NUMBERS.to_vec(),
    }
}

fn literal(of: &DataType, random: &mut StdRng) -> Expr {
    Expr::Literal(match of {
        DataType::Date32 => {
            Literal::Date([9_131, 0, 9_161, -719_162, 2_932_896, 4_000_000].choose(random).copied().unwrap())
        }
        DataType::Timestamp(..) => Literal::Timestamp(1_167_609_600_000_000, false),
        DataType::Utf8 => Literal::Utf8(TEXTS.choose(random).unwrap().to_string()),
        DataType::Float64 | DataType::Float32 => {
            Literal::Float64([0.0, 1.25, -0.0, f64::NAN].choose(random).copied().unwrap())
        }
        DataType::Decimal128(..) if random.random() => Literal::Decimal(random.random_range(-200..2000), 15, 2),
        _ => Literal::Int64(random.random_range(-4..13)),
    })
}

fn condition(column: &Expr, of: &DataType, random: &mut StdRng) -> Expr {
    use CompareOp::*;
    let column = column.clone();
    match random.random_range(0..9) {
        8 => {
            let numbers: Vec<i64> = (0..random.random_range(1..6)).map(|_| random.random_range(-4..13)).collect();
            let mut filter = BloomFilter::with_capacity(numbers.len(), 0.1);
            numbers.iter().for_each(|number| filter.insert(Key::Int(*number)));
            let set = BloomFilter::of_numbers(numbers.into_iter(), 100).filter(|_| random.random());
            Expr::Bloom { keys: vec![column], filter: Arc::new(set.unwrap_or(filter)) }
        }
        0 => {
            let most = *[4, 40].choose(random).unwrap();
            let list = (0..random.random_range(1..most)).map(|_| literal(of, random)).collect();
            Expr::InList { expr: Box::new(column), list, negated: random.random() }
        }
        1 => Expr::IsNull(Box::new(column)),
        2 => Expr::Not(Box::new(Expr::IsNull(Box::new(column)))),
        3 | 4 if *of == DataType::Utf8 => Expr::Like {
            expr: Box::new(column),
            pattern: Box::new(Expr::text(
                *["a%", "%b", "%b%", "a_", "%special%requests%", "\\%", "%"].choose(random).unwrap(),
            )),
            negated: random.random(),
            case_insensitive: false,
        },
        5 => Expr::compare(*[Lt, Gt, Eq].choose(random).unwrap(), literal(of, random), column),
        _ => Expr::compare(*[Eq, NotEq, Lt, LtEq, Gt, GtEq].choose(random).unwrap(), column, literal(of, random)),
    }
}

/// One object and what is asked of it.
struct Case {
    text: Vec<u8>,
    fragment: Fragment,
}

fn case(columns: usize, random: &mut StdRng) -> Case {
    let types = [
        DataType::Int64,
        DataType::Int32,
        DataType::Int8,
        DataType::UInt64,
        DataType::Decimal128(15, 2),
        DataType::Decimal128(5, 1),
        DataType::Decimal128(30, 4),
        DataType::Float64,
        DataType::Float32,
        DataType::Date32,
        DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None),
        DataType::Utf8,
    ];
    let types: Vec<DataType> = (0..columns).map(|_| types.choose(random).unwrap().clone()).collect();
    let as_text = random.random_bool(0.4);
    let rule = [NullRule::Empty, NullRule::Text("NA".into()), NullRule::Never].choose(random).unwrap().clone();
    let crlf = random.random_bool(0.3);
    let options = CsvOptions {
        header: random.random(),
        null: rule,
        ragged: if random.random() { Ragged::Error } else { Ragged::Lenient },
        newlines_in_values: random.random_bool(0.1),
        ..CsvOptions::default()
    };
    let fields = types.iter().enumerate().map(|(i, t)| {
        let data_type = if as_text { DataType::Utf8 } else { t.clone() };
        Field::new(format!("c{i}"), data_type, random.random_bool(0.8))
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));

    // Some objects are clean, some have a few fields that are not.
    let (empty, bad, quoted) = (random.random_bool(0.4), random.random_bool(0.3), random.random_bool(0.5));
    let mut text = Vec::new();
    let header = usize::from(options.header);
    for record in 0..random.random_range(1..120) + header {
        for (i, of) in types.iter().enumerate() {
            if i > 0 {
                text.push(b',');
            }
            let field = match random.random_range(0..60) {
                0..4 if empty => "",
                4 if bad => BAD.choose(random).unwrap(),
                _ => spellings(of).choose(random).unwrap(),
            };
            let field = if record < header { "h" } else { field };
            if field.contains([',', '"']) || (quoted && random.random_bool(0.5)) {
                text.extend_from_slice(format!("\"{}\"", field.replace('"', "\"\"")).as_bytes());
            } else {
                text.extend_from_slice(field.as_bytes());
            }
            if bad && random.random_range(0..400) == 0 {
                text.push(0xff);
            }
        }
        text.extend_from_slice(if crlf { b"\r\n" } else { b"\n" });
    }

    let mut conjuncts = Vec::new();
    for (i, of) in types.iter().enumerate() {
        let column = Expr::Column(i);
        let column = match random.random_range(0..2) {
            _ if !as_text || *of == DataType::Utf8 => column,
            0 => Expr::Cast(Box::new(column), of.clone()),
            _ => {
                let guarded = Expr::Call(Function::NullIf, vec![column, Expr::text("")]);
                Expr::Cast(Box::new(guarded), of.clone())
            }
        };
        for _ in 0..random.random_range(1..3) {
            conjuncts.push(condition(&column, of, random));
        }
    }
    let fragment =
        Fragment { predicate: Some(Expr::conjunction(conjuncts)), ..Fragment::all(Format::Csv(options), schema) };
    Case { text, fragment }
}

/// The same predicate in a form that is evaluated over columns.
fn over_columns(fragment: &Fragment) -> Fragment {
    let conjuncts = fragment.predicate.clone().map_or_else(Vec::new, Expr::into_conjuncts);
    let never = || Expr::Literal(Literal::Boolean(false));
    let disguised = conjuncts.into_iter().map(|c| Expr::Or(vec![c, never()])).collect();
    Fragment { predicate: Some(Expr::conjunction(disguised)), ..fragment.clone() }
}

async fn outcome(fragment: &Fragment, text: &[u8], piece: usize, batch_rows: usize) -> Result<Vec<String>, String> {
    let reader = InMemory::new("k", text.to_vec()).with_piece_bytes(piece);
    let options = ScanOptions { batch_rows, matching: Matching::Never, ..ScanOptions::default() };
    try_run_as(fragment, reader, None, options).await.map(|(batch, _)| rows(&batch)).map_err(|e| e.to_string())
}

#[tokio::test]
async fn conditions_from_bytes_decide_as_those_over_columns_do() {
    let random = &mut StdRng::seed_from_u64(20_261_122);
    let (mut matched, mut failed) = (0, 0);
    for round in 0..4_000 {
        let Case { text, fragment } = case(1, random);
        let batch_rows = *[1, 7, 8192].choose(random).unwrap();
        let piece = random.random_range(1..200);
        let expected = outcome(&over_columns(&fragment), &text, piece, batch_rows).await;
        let found = outcome(&fragment, &text, piece, batch_rows).await;
        assert_eq!(found, expected, "{round}: {:?} of {:?}", fragment.predicate, String::from_utf8_lossy(&text));
        matched += usize::from(found.as_ref().is_ok_and(|rows| !rows.is_empty()));
        failed += usize::from(found.is_err());
    }
    assert!(matched > 800 && failed > 400, "{matched} {failed}");
}

#[tokio::test]
async fn any_order_gives_the_same_rows_and_no_errors_of_its_own() {
    let random = &mut StdRng::seed_from_u64(7);
    let (mut matched, mut failed, mut spared) = (0, 0, 0);
    for round in 0..2_500 {
        let Case { text, fragment } = case(3, random);
        let batch_rows = *[1, 7, 8192].choose(random).unwrap();
        let expected = one_after_the_other(&fragment, &text).await;
        let found = outcome(&fragment, &text, 4096, batch_rows).await;
        let shown = || format!("{round}: {:?} of {:?}", fragment.predicate, String::from_utf8_lossy(&text));
        match (expected, found) {
            // A row that breaks a condition may be dropped by another one first.
            (Err(_), Ok(_)) => spared += 1,
            (Err(_), Err(_)) => failed += 1,
            (Ok(expected), found) => {
                assert_eq!(found.as_ref(), Ok(&expected), "{}", shown());
                matched += usize::from(!expected.is_empty());
            }
        }
    }
    assert!(matched > 100 && failed > 50 && spared > 0, "{matched} {failed} {spared}");
}

/// The predicate in an order that is the one written, whatever the order found: as a single
/// condition over all columns, the conjuncts of which are evaluated from left to right on columns
/// that are decoded one after the other.
async fn one_after_the_other(fragment: &Fragment, text: &[u8]) -> Result<Vec<String>, String> {
    let conjuncts = fragment.predicate.clone().map_or_else(Vec::new, Expr::into_conjuncts);
    let columns = fragment.schema.fields().len();
    let mut alive = Vec::new();
    // Rows that pass a longer and longer beginning of the predicate: the first beginning that fails
    // decides.
    for length in 1..=columns {
        let take = conjuncts.iter().take_while(|c| c.columns().iter().all(|column| *column < length)).cloned();
        let beginning = Fragment { predicate: Some(Expr::conjunction(take.collect())), ..fragment.clone() };
        alive = outcome(&over_columns(&beginning), text, 4096, 8192).await?;
    }
    Ok(alive)
}

#[tokio::test]
async fn a_guard_protects_what_is_written_after_it() {
    let names = texts(&["kind", "value", "other"]);
    let mut text = String::from("kind,value,other\n");
    for i in 0..5_000 {
        text.push_str(if i % 3 == 0 { "word,none,1\n" } else { "number,17,2\n" });
    }
    let guarded = |kind: &str| {
        let is_kind = Expr::compare(CompareOp::Eq, Expr::Column(0), Expr::text(kind));
        // Drops more rows than the guard, so that it would run first.
        let value = Expr::Cast(Box::new(Expr::Column(1)), DataType::Int64);
        is_kind.and(Expr::compare(CompareOp::Gt, value, Expr::int(17)))
    };
    let of = |predicate| Fragment { predicate: Some(predicate), ..csv(&names, CsvOptions::default()) };
    assert_eq!(run(&of(guarded("number")), text.clone()).await.num_rows(), 0);
    let error = error(&of(guarded("word")), text).await;
    assert!(error.contains("cannot parse 'none' as BIGINT"), "{error}");
}

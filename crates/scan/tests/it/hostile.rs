//! Bytes that nobody wrote on purpose: never a panic, and the same answer however they arrive.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use parquet::arrow::ArrowWriter;
use pushdowndb_contract::{
    CompareOp, CsvOptions, Expr, Format, Fragment, JsonOptions, JsonShape, JsonStep, NullRule, Ragged, WideMarks,
};
use pushdowndb_scan::{InMemory, rest_fields, tokenize_sample};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::*;

fn bytes(random: &mut StdRng, alphabet: &[u8]) -> Vec<u8> {
    (0..random.random_range(0..200)).map(|_| alphabet[random.random_range(0..alphabet.len())]).collect()
}

async fn outcome(fragment: &Fragment, bytes: &[u8], piece: usize) -> Result<Vec<String>, String> {
    let reader = InMemory::new("k", bytes.to_vec()).with_piece_bytes(piece);
    try_run_with(fragment, reader, None, 3).await.map(|(batch, _)| rows(&batch)).map_err(|error| error.to_string())
}

#[tokio::test]
async fn any_bytes_are_rows_or_an_error_as_csv() {
    let columns = schema(&[("a", DataType::Utf8), ("b", DataType::Int64), ("c", DataType::Utf8)]);
    let mut random = StdRng::seed_from_u64(1);
    for _ in 0..3_000 {
        let text = bytes(&mut random, b"\"\"\"\\,,,;\n\n\r#1a\xff\xc3\xa9 ");
        let options = CsvOptions {
            header: random.random(),
            escape: random.random_bool(0.3).then_some(b'\\'),
            comment: random.random_bool(0.3).then_some(b'#'),
            quote: random.random_bool(0.8).then_some(b'"'),
            terminator: random.random_bool(0.2).then_some(b';'),
            ragged: if random.random() { Ragged::Lenient } else { Ragged::Error },
            newlines_in_values: random.random(),
            null: if random.random() { NullRule::Empty } else { NullRule::Never },
            ..CsvOptions::default()
        };
        let _ = tokenize_sample(&text, random.random(), &options);
        let _ = rest_fields(&String::from_utf8_lossy(&text), &options);
        let marks = WideMarks {
            delimiter: [",", "||", ";\"", "ab"][random.random_range(0..4)].into(),
            terminator: [None, Some("\n\n".to_owned()), Some("a".to_owned())][random.random_range(0..3)].clone(),
            quote: random.random::<bool>().then(|| "\"".to_owned()),
            escape: random.random::<bool>().then(|| "\\".to_owned()),
            comment: random.random::<bool>().then(|| "#".to_owned()),
        };
        let wide = csv(&columns, CsvOptions { wide: random.random::<bool>().then_some(marks), ..options.clone() });
        let whole = outcome(&wide, &text, 1_000).await;
        for piece in [1, 3] {
            assert_eq!(outcome(&wide, &text, piece).await, whole, "{wide:?} {:?}", String::from_utf8_lossy(&text));
        }
        let mut fragment = csv(&columns, options);
        if random.random() {
            fragment.predicate = Some(Expr::compare(CompareOp::NotEq, Expr::Column(0), Expr::text("1")));
        }
        let whole = outcome(&fragment, &text, 1_000).await;
        for piece in [1, 2, 7] {
            assert_eq!(outcome(&fragment, &text, piece).await, whole, "{:?}", String::from_utf8_lossy(&text));
        }
    }
}

#[tokio::test]
async fn any_bytes_are_rows_or_an_error_as_json() {
    let columns = schema(&[("a", DataType::Utf8), ("b", DataType::Decimal128(9, 2))]);
    let mut random = StdRng::seed_from_u64(2);
    for round in 0..3_000 {
        let text = if round % 2 == 0 {
            bytes(&mut random, b"{}[]\"\",:: \nabtruenl01.-e\\u\xff")
        } else {
            let mut text = b"{\"a\":\"x\\u00e9\",\"b\":1.5}\n{\"a\":null,\"b\":\"2\"}\n[1,{\"b\":3}]".to_vec();
            let at = random.random_range(0..text.len());
            text[at] = random.random();
            text
        };
        let shape = if random.random() { JsonShape::Lines } else { JsonShape::Document };
        let key = |name: &str| JsonStep::Key { name: name.into(), exact: false };
        let paths = [
            vec![],
            vec![key("a")],
            vec![JsonStep::AnyElement, key("b")],
            vec![JsonStep::AnyMember, JsonStep::Index(1)],
        ];
        for (raw_tokens, from) in std::iter::once((false, vec![])).chain(paths.map(|from| (true, from))) {
            let columns = if raw_tokens { texts(&["a", "b"]) } else { Arc::clone(&columns) };
            let format = Format::Json(JsonOptions { shape, raw_tokens, from, ..JsonOptions::default() });
            let fragment = Fragment::all(format, columns);
            let whole = outcome(&fragment, &text, 1_000).await;
            for piece in [1, 5] {
                assert_eq!(outcome(&fragment, &text, piece).await, whole, "{:?}", String::from_utf8_lossy(&text));
            }
        }
    }
}

#[tokio::test]
async fn damaged_parquet_is_rows_or_an_error() {
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("a", Arc::new(Int64Array::from_iter((0..500).map(|i| (i % 3 > 0).then_some(i)))) as ArrayRef, true),
        ("b", Arc::new(StringArray::from_iter_values((0..500).map(|i| format!("text {}", i % 50)))), true),
    ])
    .expect("a batch");
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("written");
    let file = writer.into_inner().expect("closed");
    let fragment = Fragment::all(Format::Parquet, schema(&[("a", DataType::Int64), ("b", DataType::Utf8)]));
    let some =
        Fragment { predicate: Some(Expr::compare(CompareOp::Gt, Expr::Column(0), Expr::int(7))), ..fragment.clone() };
    let mut random = StdRng::seed_from_u64(3);
    for _ in 0..1_500 {
        let mut damaged = file.clone();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..damaged.len());
            damaged[at] = random.random();
        }
        if random.random_bool(0.1) {
            damaged.truncate(random.random_range(0..file.len()));
        }
        for fragment in [&fragment, &some] {
            let fetched = outcome(fragment, &damaged, 1_000).await;
            let reader = InMemory::new("k", damaged.clone()).like_a_cached_file();
            let at_hand = try_run_with(fragment, reader, None, 3).await;
            assert_eq!(at_hand.map(|(batch, _)| rows(&batch)).map_err(|error| error.to_string()), fetched);
        }
    }
}

/// A footer may claim any number of rows. Room is made for none of them before that is looked at.
#[tokio::test]
async fn rows_that_are_claimed_are_not_made_room_for() {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..77));
    let batch = RecordBatch::try_from_iter([("a", numbers)]).expect("a batch");
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("written");
    let file = writer.into_inner().expect("closed");
    let (rest, footer) = file.split_at(file.len() - 8);
    let length = u32::from_le_bytes(*footer.first_chunk().expect("a length")) as usize;
    let (pages, metadata) = rest.split_at(rest.len() - length);
    // 77 as it is written, in Thrift's zigzag: the rows of the file, the values of the column, the
    // rows of the group.
    let places: Vec<usize> =
        metadata.windows(2).enumerate().filter(|(_, w)| *w == [0x9a, 0x01]).map(|(i, _)| i).collect();
    assert!(places.len() >= 3, "{places:?}");
    for claim in [1u64 << 40, 1 << 62] {
        let mut claimed = Vec::new();
        let mut from = 0;
        for place in &places {
            claimed.extend_from_slice(&metadata[from..*place]);
            let mut zigzag = claim << 1;
            while zigzag >= 0x80 {
                claimed.push(zigzag as u8 | 0x80);
                zigzag >>= 7;
            }
            claimed.push(zigzag as u8);
            from = place + 2;
        }
        claimed.extend_from_slice(&metadata[from..]);
        let length = (claimed.len() as u32).to_le_bytes();
        let damaged = [pages, &claimed, &length, b"PAR1"].concat();
        let all = Fragment::all(Format::Parquet, schema(&[("a", DataType::Int64)]));
        let predicate = Some(Expr::compare(CompareOp::Gt, Expr::Column(0), Expr::int(7)));
        for fragment in [Fragment { predicate, ..all.clone() }, all] {
            let error = outcome(&fragment, &damaged, 1_000).await.expect_err("too many rows");
            assert!(error.contains("rows, at most"), "{error}");
        }
    }
}

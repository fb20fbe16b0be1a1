//! What CSV means: quoting, line ends, NULL, ragged records, bad values, and that pieces do not
//! matter.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::csv::ReaderBuilder;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use bytes::Bytes;
use pushdowndb_contract::{CompareOp, CsvOptions, Expr, Fragment, NamedExpr, NullRule, Output, Ragged};
use pushdowndb_scan::{CsvDecoder, InMemory, tokenize_sample};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::*;

fn arrow_csv(schema: &SchemaRef, text: &[u8], options: &CsvOptions) -> RecordBatch {
    let mut builder = ReaderBuilder::new(Arc::clone(schema))
        .with_header(options.header)
        .with_delimiter(options.delimiter)
        .with_quote(options.quote.unwrap_or(0));
    if let Some(escape) = options.escape {
        builder = builder.with_escape(escape);
    }
    if let Some(comment) = options.comment {
        builder = builder.with_comment(comment);
    }
    if let Some(terminator) = options.terminator {
        builder = builder.with_terminator(terminator);
    }
    let batches: Vec<_> = builder.build(text).expect("a reader").map(|b| b.expect("a batch")).collect();
    concat_batches(schema, &batches).expect("one batch")
}

/// Fields with everything that is hard about them: the text, the fields, and the records as a table
/// has them.
fn hard_text(random: &mut StdRng, newlines: bool, escape: bool) -> (String, Vec<Vec<String>>, Vec<String>) {
    let pieces =
        ["", "a", "bc", "1.5", "ü", "日本", ",", "\"", "x\"y", "'", " ", "#", "long long long long text", "\t"];
    let mut text = String::new();
    let (mut records, mut told) = (Vec::new(), Vec::new());
    for _ in 0..random.random_range(1..40) {
        let (mut record, mut shown) = (Vec::new(), Vec::new());
        for column in 0..4 {
            let mut field: String =
                (0..random.random_range(0..3)).map(|_| pieces[random.random_range(0..pieces.len())]).collect();
            if newlines && random.random_ratio(1, 10) {
                field.push_str(["\n", "\r\n", "\n\n"][random.random_range(0..3)]);
            }
            if column > 0 {
                text.push(',');
            }
            let quoted = random.random_bool(0.3)
                || field.contains([',', '"', '\n', '\r', '#'])
                || (column == 0 && field.trim().is_empty());
            if quoted {
                let inner = if escape { field.replace('"', "\\\"") } else { field.replace('"', "\"\"") };
                text.push_str(&format!("\"{inner}\""));
            } else {
                text.push_str(&field);
            }
            shown.push(if field.is_empty() && !quoted { "NULL".to_owned() } else { field.clone() });
            record.push(field);
        }
        told.push(shown.join("|"));
        text.push_str(["\n", "\r\n"][random.random_range(0..2)]);
        if random.random_ratio(1, 8) {
            text.push_str(["\n", "\r\n", "# a comment, \" with a quote\n"][random.random_range(0..3)]);
        }
        records.push(record);
    }
    if random.random_bool(0.3) {
        text.truncate(text.trim_end_matches(['\n', '\r']).len());
    }
    (text, records, told)
}

#[tokio::test]
async fn hard_text_reads_as_it_was_written_and_as_arrow_reads_it() {
    let columns = texts(&["a", "b", "c", "d"]);
    let mut random = StdRng::seed_from_u64(7);
    for round in 0..400 {
        let newlines = round % 2 == 0;
        let escape = round % 3 == 0;
        let (text, records, told) = hard_text(&mut random, newlines, escape);
        let options = CsvOptions {
            comment: Some(b'#'),
            null: NullRule::Never,
            newlines_in_values: newlines,
            escape: escape.then_some(b'\\'),
            ..no_header()
        };
        let expected: Vec<String> = records.iter().map(|r| r.join("|")).collect();
        let fragment = csv(&columns, options.clone());
        let piece = random.random_range(1..40);
        let reader = InMemory::new("k", text.clone()).with_piece_bytes(piece);
        let (batch, _) = try_run_with(&fragment, reader, None, random.random_range(1..20)).await.expect("rows");
        assert_eq!(rows(&batch), expected, "round {round}: {text:?}");

        let nulls = csv(&columns, CsvOptions { null: NullRule::Empty, ..options.clone() });
        assert_eq!(rows(&run(&nulls, text.clone()).await), told, "round {round}: {text:?}");

        // Some columns only, some of them twice, with a predicate on another.
        let column = |index| NamedExpr { expr: Expr::Column(index), name: format!("c{index}") };
        let some = Fragment {
            predicate: Some(Expr::compare(CompareOp::NotEq, Expr::Column(1), Expr::text("a"))),
            output: Output::Rows(vec![column(3), column(0), column(3)]),
            ..fragment.clone()
        };
        let expected: Vec<String> =
            records.iter().filter(|r| r[1] != "a").map(|r| format!("{}|{}|{}", r[3], r[0], r[3])).collect();
        assert_eq!(rows(&run(&some, text.clone()).await), expected, "round {round}: {text:?}");

        let mut decoder = CsvDecoder::new(Arc::clone(&columns), options.clone(), "k").expect("a decoder");
        let mut fed = Vec::new();
        let mut rest = Bytes::from(text.clone());
        while !rest.is_empty() {
            let piece = random.random_range(1..=rest.len().min(50));
            decoder.feed(rest.split_to(piece)).expect("text");
            if random.random_bool(0.2) {
                fed.extend(decoder.flush().expect("rows so far"));
            }
        }
        fed.extend(decoder.finish().expect("the last rows"));
        assert_eq!(fed.iter().flat_map(rows).collect::<Vec<_>>(), rows(&batch));
        assert_eq!(tokenize_sample(text.as_bytes(), true, &options).expect("records"), records);
    }
}

#[tokio::test]
async fn types_read_as_arrow_reads_them() {
    let columns = schema(&[
        ("i", DataType::Int64),
        ("s", DataType::Int16),
        ("u", DataType::UInt8),
        ("f", DataType::Float64),
        ("r", DataType::Float32),
        ("d", DataType::Decimal128(15, 2)),
        ("b", DataType::Boolean),
        ("t", DataType::Date32),
        ("ts", DataType::Timestamp(TimeUnit::Microsecond, None)),
        ("v", DataType::Utf8View),
        ("l", DataType::Utf8),
        ("tn", DataType::Timestamp(TimeUnit::Nanosecond, None)),
        ("z", DataType::Decimal256(40, 3)),
    ]);
    let text = "i,s,u,f,r,d,b,t,ts,v,l,tn,z\n\
        1,-5,255,1.5,0.25,3.10,true,1992-01-02,1992-01-02T03:04:05,view,large,1992-01-02 03:04:05.123456789,1.500\n\
        -9223372036854775808,32767,0,1e300,-1e-3,-0.01,FALSE,2000-02-29,1992-01-02 03:04:05.5,a longer view than twelve,,,\n\
        ,,,,,,,,,,,,\n\
        +7,7,7,-0.1,inf,1e3,True,0001-01-01,1992-01-02,é,é,2020-01-01T00:00:00Z,-0.001\n";
    let ours = run(&csv(&columns, CsvOptions::default()), text).await;
    assert_eq!(ours, arrow_csv(&columns, text.as_bytes(), &CsvOptions::default()));
    // Arrow's reader does not know these.
    let columns = schema(&[
        ("l", DataType::LargeUtf8),
        ("d", DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8))),
    ]);
    assert_eq!(rows(&run(&csv(&columns, no_header()), "é,a\n,\nx,a\n").await), ["é|a", "NULL|NULL", "x|a"]);
}

#[tokio::test]
async fn tpch_reads_as_arrow_reads_it() {
    use tpchgen::csv::{LineItemCsv, OrderCsv};
    use tpchgen::generators::{LineItemGenerator, OrderGenerator};
    let (key, text, day) = (DataType::Int64, DataType::Utf8, DataType::Date32);
    let money = DataType::Decimal128(15, 2);
    let named = |header: &str, types: Vec<DataType>| {
        let names: Vec<&str> = header.split(',').collect();
        schema(names.into_iter().zip(types).collect::<Vec<_>>())
    };
    let mut types = vec![key.clone(); 4];
    types.extend([vec![money.clone(); 4], vec![text.clone(); 2], vec![day.clone(); 3], vec![text.clone(); 3]].concat());
    let lineitem = named(LineItemCsv::header(), types);
    let orders = vec![key.clone(), key.clone(), text.clone(), money, day, text.clone(), text.clone(), key, text];
    let orders = named(OrderCsv::header(), orders);
    let mut lines = format!("{}\n", LineItemCsv::header());
    lines.extend(LineItemGenerator::new(0.005, 1, 1).iter().map(|row| format!("{}\n", LineItemCsv::new(row))));
    let mut others = format!("{}\n", OrderCsv::header());
    others.extend(OrderGenerator::new(0.005, 1, 1).iter().map(|row| format!("{}\n", OrderCsv::new(row))));
    for (columns, text) in [(lineitem, lines), (orders, others)] {
        let expected = arrow_csv(&columns, text.as_bytes(), &CsvOptions::default());
        for newlines_in_values in [false, true] {
            let options = CsvOptions { newlines_in_values, ..CsvOptions::default() };
            assert_eq!(run(&csv(&columns, options), text.clone()).await, expected);
        }
        // Every column alone behind a predicate on every other: all ways of cutting records early
        // and late.
        for filtered in 0..columns.fields().len() {
            let some = Expr::Not(Box::new(Expr::IsNull(Box::new(Expr::Column(filtered)))));
            for shown in 0..columns.fields().len() {
                let output = Output::Rows(vec![NamedExpr { expr: Expr::Column(shown), name: "v".into() }]);
                let fragment = Fragment {
                    predicate: Some(some.clone()),
                    output,
                    limit: Some(500),
                    ..csv(&columns, CsvOptions::default())
                };
                let batch = run(&fragment, text.clone()).await;
                assert_eq!(batch.column(0), &expected.column(shown).slice(0, 500), "{shown} behind {filtered}");
            }
        }
    }
}

#[tokio::test]
async fn a_decimal_is_rounded_half_away_from_zero() {
    let columns = schema(&[("d", DataType::Decimal128(5, 1))]);
    let batch = run(&csv(&columns, no_header()), "1.25\n-1.25\n1.249999\n 7 \n.5\n5.\n12e-1\n").await;
    assert_eq!(values(&batch), ["1.3", "-1.3", "1.2", "7.0", "0.5", "5.0", "1.2"]);
}

#[tokio::test]
async fn headers_marks_and_blanks_are_no_rows() {
    let columns = texts(&["a", "b"]);
    let fragment = csv(&columns, CsvOptions { comment: Some(b'#'), ..CsvOptions::default() });
    for (text, expected) in [
        ("", vec![]),
        ("a,b", vec![]),
        ("a,b\n", vec![]),
        ("\u{feff}", vec![]),
        ("\u{feff}a,b\n1,2", vec!["1|2"]),
        ("\n\r\n# x\na,b\n\n1,2\r\n\n", vec!["1|2"]),
        ("a,b\n1,2\n#3,4\n5,6", vec!["1|2", "5|6"]),
        ("a,b\n,\n\"\",\"\"\n", vec!["NULL|NULL", "|"]),
    ] {
        assert_eq!(rows(&run(&fragment, text).await), expected, "{text:?}");
    }
    let mark = csv(&columns, no_header());
    assert_eq!(rows(&run(&mark, "\u{feff}\"1\",2\n").await), ["1|2"]);
}

#[tokio::test]
async fn inferred_numbers_do_not_lose_zeros() {
    let columns = schema(&[("n", DataType::Int64), ("f", DataType::Float64)]);
    let with = |inferred| csv(&columns, CsvOptions { inferred, ..no_header() });
    // Enough for numbers to be decoded in groups.
    let many: String = (0..200).map(|n| format!("{n},0.5\n")).collect();
    let long = |last: &str| format!("{many}{last}\n{many}");
    for last in ["0,0", "-0,-0.5", "10,00", "01247,1", "-01,1", "1,007.5", "1,-00.5", "00,1"] {
        let text = long(last);
        assert_eq!(run(&with(false), text.clone()).await.num_rows(), 401, "{last}");
        let value = last.split(',').find(|value| value.contains("00") || value.contains("01"));
        match value {
            None => assert_eq!(run(&with(true), text).await.num_rows(), 401, "{last}"),
            Some(value) => {
                let said = error(&with(true), text).await;
                assert!(said.contains(&format!("cannot parse '{value}'")), "{last}: {said}");
            }
        }
    }
}

#[tokio::test]
async fn inferred_doubles_do_not_round_integers() {
    let columns = schema(&[("f", DataType::Float64)]);
    let with = |inferred| csv(&columns, CsvOptions { inferred, ..no_header() });
    for kept in ["9007199254740992", "-1", "9007199254740993.0", "9.007199254740993e15", "100000000000000000000"] {
        assert_eq!(run(&with(true), format!("1.5\n{kept}\n")).await.num_rows(), 2, "{kept}");
    }
    for rounded in ["9007199254740993", "-9007199254740993", "123456789012345678"] {
        let text = format!("1.5\n{rounded}\n");
        assert_eq!(run(&with(false), text.clone()).await.num_rows(), 2, "{rounded}");
        let said = error(&with(true), text).await;
        assert!(said.contains(&format!("cannot parse '{rounded}'")) && said.contains("VARCHAR"), "{said}");
    }
}

#[tokio::test]
async fn a_header_that_swallows_its_records_is_an_error() {
    let columns = texts(&["a", "b"]);
    let said = error(&csv(&columns, CsvOptions::default()), "a,b\r1,2\r3,4\r").await;
    assert!(said.contains("('terminator' '\\r')"), "{said}");
    let returns = CsvOptions { terminator: Some(b'\r'), ..CsvOptions::default() };
    assert_eq!(rows(&run(&csv(&columns, returns), "a,b\r1,2\r3,4\r").await), ["1|2", "3|4"]);
    for header in ["a,b\r\n", "a,b\r", "a,\"b\rc\"", "a\rc,b\n1,2\n"] {
        assert!(try_run(&csv(&columns, CsvOptions::default()), header).await.is_ok(), "{header:?}");
    }
}

#[tokio::test]
async fn options_change_the_marks() {
    let columns = texts(&["a", "b"]);
    let options = CsvOptions { delimiter: b';', quote: Some(b'\''), terminator: Some(b'~'), ..no_header() };
    assert_eq!(rows(&run(&csv(&columns, options), "'a;1';\"b\"~c\n;d\r~").await), ["a;1|\"b\"", "c\n|d\r"]);
    let unquoted = CsvOptions { quote: None, ..no_header() };
    assert_eq!(rows(&run(&csv(&columns, unquoted), "\"a,b\"\n").await), ["\"a|b\""]);
    let text = error(&csv(&columns, CsvOptions { quote: Some(b','), ..no_header() }), "").await;
    assert_eq!(text, "delimiter, quote and record terminator of a CSV must differ");
}

#[tokio::test]
async fn null_is_what_the_table_says() {
    let columns = schema(&[("a", DataType::Utf8), ("n", DataType::Int64)]);
    let text = "x,1\n,\n\"\",\"\"\nNA,NA\n";
    let with = |null| csv(&columns, CsvOptions { null, ..no_header() });
    assert_eq!(rows(&run(&with(NullRule::Text("NA".into())), text).await), ["x|1", "NULL|NULL", "|NULL", "NULL|NULL"]);
    let place =
        "s3://b/k, byte 15, column \"n\": cannot parse 'NA' as BIGINT; a column declared VARCHAR takes any text";
    assert_eq!(error(&with(NullRule::Empty), text).await, place);
    assert!(error(&with(NullRule::Never), text).await.starts_with("s3://b/k, byte 5, column \"n\": cannot parse ''"));

    let field = |name, nullable| Field::new(name, DataType::Utf8, nullable);
    let required = Arc::new(Schema::new(vec![field("a", false), field("b", true)]));
    assert_eq!(rows(&run(&csv(&required, no_header()), "x,1\n\"\",2\n").await), ["x|1", "|2"]);
    let text = error(&csv(&required, no_header()), "x,1\n,2\n").await;
    assert_eq!(text, "s3://b/k, byte 4, column \"a\": the field is NULL, but the column is declared NOT NULL");
}

#[tokio::test]
async fn ragged_records_are_errors_unless_declared() {
    let columns = schema(&[("a", DataType::Int64), ("b", DataType::Utf8), ("c", DataType::Utf8)]);
    let short = "1,x,y\n2,z\n";
    let long = "1,x,y\n2,z,w,v\n";
    let strict = csv(&columns, no_header());
    let message = |n| {
        format!(
            "s3://b/k, byte 6: the record has {n} fields and the table 3 columns; with null_padding = true records may \
             have any number, with ignore_errors = true such are left out"
        )
    };
    assert_eq!(error(&strict, short).await, message(2));
    assert_eq!(error(&strict, long).await, message(4));
    let lenient = csv(&columns, CsvOptions { ragged: Ragged::Lenient, ..no_header() });
    assert_eq!(rows(&run(&lenient, short).await), ["1|x|y", "2|z|NULL"]);
    assert_eq!(rows(&run(&lenient, long).await), ["1|x|y", "2|z|w"]);

    // Also where the field is cut only for the records that pass.
    let late = Fragment { predicate: Some(Expr::compare(CompareOp::Gt, Expr::Column(0), Expr::int(1))), ..strict };
    assert_eq!(error(&late, short).await, message(2));
    assert_eq!(error(&late, long).await, message(4));
    assert_eq!(rows(&run(&late, "1\n2,z,w\n").await), ["2|z|w"]);
    // A field that is not read is not missed.
    let first = Output::Rows(vec![NamedExpr { expr: Expr::Column(0), name: "a".into() }]);
    assert_eq!(values(&run(&Fragment { output: first, ..late }, short).await), ["2"]);
}

#[tokio::test]
async fn bad_values_name_object_byte_and_column() {
    let text = "k,v\n1,a\n2,\"b\"\n";
    for (data_type, name) in [
        (DataType::Int32, "INT"),
        (DataType::Decimal128(15, 2), "DECIMAL(15,2)"),
        (DataType::Date32, "DATE"),
        (DataType::Float64, "DOUBLE"),
        (DataType::Boolean, "BOOLEAN"),
        (DataType::Float32, "REAL"),
        (DataType::Timestamp(TimeUnit::Microsecond, None), "TIMESTAMP"),
    ] {
        let columns = schema(&[("k", DataType::Int64), ("v", data_type)]);
        let fragment = csv(&columns, CsvOptions::default());
        let message = |byte, value| {
            format!(
                "s3://b/k, byte {byte}, column \"v\": cannot parse '{value}' as {name}; a column declared VARCHAR takes \
                 any text"
            )
        };
        assert_eq!(error(&fragment, text).await, message(6, "a"));
        let second = Expr::compare(CompareOp::Gt, Expr::Column(0), Expr::int(1));
        assert_eq!(error(&Fragment { predicate: Some(second), ..fragment }, text).await, message(11, "b"));
    }
    let columns = schema(&[("k", DataType::Int64), ("d", DataType::Date32)]);
    for bad in ["1999-02-29", "1999-1-1", "1999-01-01T00:00:00", "19990101"] {
        assert!(error(&csv(&columns, no_header()), format!("1,{bad}\n")).await.contains("as DATE"));
    }
    let columns = texts(&["a"]);
    let text = error(&csv(&columns, no_header()), b"ok\nn\xff\n".to_vec()).await;
    assert_eq!(text, "s3://b/k, byte 3, column \"a\": 'n\u{fffd}' is not UTF-8");
}

#[tokio::test]
async fn a_quote_that_is_not_closed_is_an_error() {
    let columns = texts(&["a", "b"]);
    let message = "s3://b/k, byte 6: a quote is opened and not closed in its record; if values hold line ends, declare \
                   newlines_in_values";
    assert_eq!(error(&csv(&columns, no_header()), "1,2\n3,\"4\n5,6\n").await, message);
    let newlines = csv(&columns, CsvOptions { newlines_in_values: true, ..no_header() });
    assert_eq!(error(&newlines, "1,2\n3,\"4\n5,6\n").await, message);
    assert_eq!(rows(&run(&newlines, "1,2\n3,\"4\n5\"\n").await), ["1|2", "3|4\n5"]);
}

#[tokio::test]
async fn long_records_are_bounded() {
    let columns = texts(&["a"]);
    let long = "x".repeat(3 << 20);
    assert_eq!(rows(&run(&csv(&columns, no_header()), format!("{long}\ny\n")).await), [long.as_str(), "y"]);
    let text = error(&csv(&columns, no_header()), "x".repeat(17 << 20)).await;
    assert_eq!(text, "s3://b/k, byte 0: a record is longer than 16 MiB; is the record delimiter right?");
    let wide: String = (0..4096).map(|i| format!("{i},")).collect();
    let names: Vec<String> = (0..4096).map(|i| format!("c{i}")).collect();
    let columns = texts(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let batch = run(&csv(&columns, no_header()), format!("{}\n", wide.trim_end_matches(','))).await;
    assert_eq!(batch.num_columns(), 4096);
}

#[tokio::test]
async fn limits_stop_the_scan() {
    let columns = schema(&[("a", DataType::Int64)]);
    let text: String = (0..200_000).map(|i| format!("{i}\n")).collect();
    let size = text.len() as u64;
    let fragment = Fragment { limit: Some(5), ..csv(&columns, no_header()) };
    let (batch, counters) =
        try_run_with(&fragment, InMemory::new("k", text.clone()), None, 8192).await.expect("five rows");
    assert_eq!(values(&batch), ["0", "1", "2", "3", "4"]);
    assert!(counters.bytes_scanned.into_inner() < size / 4);
    let none = Fragment { limit: Some(0), ..fragment.clone() };
    assert_eq!(run(&none, text.clone()).await.num_rows(), 0);
    let (_, counters) =
        try_run_with(&csv(&columns, no_header()), InMemory::new("k", text), None, 100).await.expect("all rows");
    assert_eq!(counters.bytes_scanned.into_inner(), size);
    assert_eq!(counters.rows_scanned.into_inner(), 200_000);
}

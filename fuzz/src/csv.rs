//! CSV in any dialect, split at any position.

use arrow::datatypes::DataType;
use pushdowndb_contract::{CompareOp, CsvOptions, Expr, Format, Fragment, NullRule, Ragged, WideMarks};
use pushdowndb_scan::{ScanOptions, tokenize_sample};

use crate::choices::Choices;
use crate::scans::{Reading, any_reading_agrees, schema};

pub fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    let mut flag = choices.flags();
    let mut options = CsvOptions {
        header: flag(),
        newlines_in_values: flag(),
        ragged: if flag() { Ragged::Lenient } else { Ragged::Error },
        null: if flag() { NullRule::Never } else { NullRule::Empty },
        escape: flag().then_some(b'\\'),
        comment: flag().then_some(b'#'),
        quote: (!flag()).then_some(b'"'),
        terminator: flag().then_some(b';'),
        ..CsvOptions::default()
    };
    let mut flag = choices.flags();
    if flag() {
        options.wide = Some(WideMarks {
            delimiter: choices.of([",", "||", "é", ",\n"]).to_owned(),
            terminator: choices.of([None, Some("\r\n"), Some("\n\n"), Some("ab")]).map(str::to_owned),
            quote: choices.of([None, Some("\""), Some("\"\""), Some("'")]).map(str::to_owned),
            escape: options.escape.map(|_| "\\\\".to_owned()),
            comment: options.comment.map(|_| "//".to_owned()),
        });
    }
    let limited = flag();
    let predicate = flag().then(|| Expr::compare(CompareOp::NotEq, Expr::Column(0), Expr::text("1")));
    let cuts = [choices.byte(), choices.byte()];
    let text = choices.rest();
    let _ = tokenize_sample(text, options.header, &options);
    let columns = schema([("a", DataType::Utf8), ("b", DataType::Int64), ("c", DataType::Utf8)]);
    let fragment = Fragment { predicate, ..Fragment::all(Format::Csv(options), columns) };
    let mut reading = Reading::default();
    if limited {
        reading.options = ScanOptions { record_bytes: 24, ..reading.options };
    }
    any_reading_agrees(&fragment, text, &reading, cuts);
}

//! JSON lines and documents, split at any position.

use arrow::datatypes::DataType;
use pushdowndb_contract::{Format, Fragment, JsonOptions, JsonShape, JsonStep};
use pushdowndb_scan::ScanOptions;

use crate::choices::Choices;
use crate::scans::{Reading, any_reading_agrees, schema};

pub fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    let mut flag = choices.flags();
    let shape = if flag() { JsonShape::Document } else { JsonShape::Lines };
    let (raw_tokens, limited) = (flag(), flag());
    let mut from = Vec::new();
    if raw_tokens {
        for _ in 0..choices.byte() % 4 {
            from.push(match choices.byte() % 4 {
                0 => JsonStep::Key { name: "a".to_owned(), exact: flag() },
                1 => JsonStep::Index(usize::from(choices.byte() % 3)),
                2 => JsonStep::AnyElement,
                _ => JsonStep::AnyMember,
            });
        }
    }
    let cuts = [choices.byte(), choices.byte()];
    let columns = if raw_tokens {
        schema([("a", DataType::Utf8), ("b", DataType::Utf8)])
    } else {
        schema([("a", DataType::Utf8), ("b", DataType::Decimal128(9, 2))])
    };
    let options = JsonOptions { shape, raw_tokens, from, ..JsonOptions::default() };
    let fragment = Fragment::all(Format::Json(options), columns);
    let mut reading = Reading::default();
    if limited {
        reading.options = ScanOptions { record_bytes: 24, ..reading.options };
    }
    any_reading_agrees(&fragment, choices.rest(), &reading, cuts);
}

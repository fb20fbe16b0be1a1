//! Untyped JSON: each column contains the token at its path, as it is written.
//!
//! Paths that are a single name are found by walking plain records ([`crate::text::json::walk`]),
//! which yields the same tokens. For other paths and records, the record is parsed.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};
use pushdowndb_contract::{Error, Result};

use crate::batch::record_batch;
use crate::error::from_arrow;
use crate::runtime::interrupt::{Steps, check_interrupt};
use crate::text::json::typed::BadRecord;
use crate::text::json::value::Value;
use crate::text::json::walk::{Walk, Whose, is_unescaped};
use crate::values::json::{Finder, Key, Step, Unfound, Wanted, parse_path, skip_blanks, without_blanks_after};

/// The key of the field metadata that contains the path.
const PATH: &str = "path";

/// The cost of appending a value, in bytes that could be read in the same time.
const STEPS_PER_FIELD: usize = 16;

/// Reads the tokens at the paths of records.
pub(crate) struct RawRecords {
    schema: SchemaRef,
    paths: Vec<Vec<Step>>,
    /// The names of the paths, if each path is a single name.
    names: Option<Vec<Key>>,
    walk: Walk,
}

impl RawRecords {
    pub(crate) fn new(schema: &SchemaRef) -> Result<Self> {
        let path = |field: &arrow::datatypes::Field| {
            if !field.data_type().is_string() {
                return Err(Error::internal(format!("the column {} of raw JSON is not text", field.name())));
            }
            match field.metadata().get(PATH) {
                None => Ok(vec![Step::Key(Key::new(field.name(), true))]),
                Some(path) => parse_path(path).ok_or_else(|| Error::invalid(format!("'{path}' is no path into JSON"))),
            }
        };
        let paths: Vec<Vec<Step>> = schema.fields().iter().map(|field| path(field)).collect::<Result<_>>()?;
        let name = |path: &Vec<Step>| match path.as_slice() {
            [Step::Key(key)] => Some(key.clone()),
            _ => None,
        };
        let names = paths.iter().map(name).collect();
        Ok(Self { schema: Arc::clone(schema), paths, names, walk: Walk::default() })
    }

    /// Returns whether reading a few columns is faster than reading all.
    pub(crate) fn is_walked(&self) -> bool {
        self.names.is_some()
    }

    /// Finds the tokens of a plain record. Returns `None` if the record has to be parsed.
    fn walked(&mut self, record: &[u8], found: &mut [Option<Range<usize>>]) -> Option<()> {
        let names = self.names.as_ref()?;
        let [b'{', inner @ .., b'}'] = without_blanks_after(record) else { return None };
        if !is_unescaped(inner) {
            return None;
        }
        let whose = |key: &[u8]| Whose::of(names.iter().map(|name| name.is(key)));
        self.walk.members(inner, names.len(), &whose, &mut |number, value, range| {
            let text = inner.get(range.clone())?;
            if std::str::from_utf8(text).is_err() || text.iter().any(|byte| *byte < b' ') {
                return None;
            }
            // Offsets count from the brace, and the token includes its quotes.
            let quotes = usize::from(value == Value::Text);
            *found.get_mut(number)? = Some(range.start + 1 - quotes..range.end + 1 + quotes);
            Some(())
        })
    }

    /// Decodes one row for each record.
    pub(crate) fn decode(&mut self, text: &[u8], records: &[Range<usize>]) -> Result<RecordBatch, BadRecord> {
        let mut columns: Vec<_> = self.paths.iter().map(|_| StringBuilder::new()).collect();
        let mut found = vec![None; columns.len()];
        let mut steps = Steps::default();
        for (i, record) in records.iter().enumerate() {
            let bad =
                |message: String, code| BadRecord { record: Some(i), error: Error::invalid(message).with_code(code) };
            let bytes = text.get(record.clone()).unwrap_or_default();
            found.fill(None);
            steps.did(bytes.len().saturating_add(STEPS_PER_FIELD * found.len()))?;
            // A record may be without content.
            if self.walked(bytes, &mut found).is_none() && !bytes.is_empty() {
                found.fill(None);
                let wanted: Vec<_> =
                    self.paths.iter().enumerate().map(|(column, path)| Wanted { column, path }).collect();
                let bytes = std::str::from_utf8(bytes)
                    .map_err(|_| bad("the record is not UTF-8".into(), "InvalidTextEncoding"))?;
                let end =
                    Finder::new(bytes.as_bytes(), &mut found, &mut steps).find(0, &wanted, 0).map_err(
                        |why| match why {
                            Unfound::Interrupted => check_interrupt().map_or_else(BadRecord::from, |()| {
                                BadRecord::from(Error::internal("a search ended before its end"))
                            }),
                            Unfound::Malformed(at) => {
                                bad(format!("the record is not JSON at its byte {at}"), "JSONParsingError")
                            }
                            Unfound::Ambiguous { column } => {
                                let name = self.schema.fields().get(column).map_or("", |field| field.name());
                                let message =
                                    format!("\"{name}\" matches more than one field: write it in double quotes");
                                bad(message, "AmbiguousFieldName")
                            }
                        },
                    )?;
                if skip_blanks(bytes.as_bytes(), end) != bytes.len() {
                    let message = "there is more than one value where one record should be";
                    return Err(bad(message.into(), "JSONParsingError"));
                }
            }
            let token = |range: Range<usize>| bytes.get(range).and_then(|token| std::str::from_utf8(token).ok());
            for (column, found) in columns.iter_mut().zip(&found) {
                column.append_option(found.clone().and_then(token));
            }
        }
        let columns = columns.into_iter().zip(self.schema.fields()).map(|(mut column, field)| {
            let column: ArrayRef = Arc::new(column.finish());
            match field.data_type() {
                DataType::Utf8 => Ok(column),
                other => cast(&column, other).map_err(from_arrow),
            }
        });
        Ok(record_batch(&self.schema, columns.collect::<Result<_>>()?, records.len())?)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow::datatypes::{Field, Schema};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// For records of all kinds, a walk and the parser must find the same tokens.
    #[test]
    fn a_walk_gives_the_tokens_that_parsing_gives() {
        let field = |name: &str, path: Option<&str>| {
            let metadata = path.map(|path| (PATH.to_owned(), path.to_owned()));
            Field::new(name, DataType::Utf8, true).with_metadata(HashMap::from_iter(metadata))
        };
        // A name that is matched exactly, one in any case, and one that could be confused with
        // others.
        let fields = vec![field("Exact", None), field("any", Some("any")), field("three", Some("\"three\""))];
        let schema = Arc::new(Schema::new(fields));
        let mut random = StdRng::seed_from_u64(11);
        let mut next = |n: usize| random.random_range(0..n);
        let keys = ["Exact", "exact", "any", "ANY", "three", "Three", "other", "\\u0061ny"];
        let values = ["1", "-0.5e3", "\"\"", "\"any\"", "null", "true", "\"é\"", "[1]", "{\"any\":2}", "\"a\\\"b\""];
        let (mut good, mut plain) = (0, 0);
        for _ in 0..20_000 {
            let mut text = String::from("{");
            for member in 0..next(5) {
                text.push_str(if member > 0 { [",", " , "][next(2)] } else { ["", " "][next(2)] });
                let value = values[if next(3) > 0 { next(7) } else { next(values.len()) }];
                let key = keys[if next(6) > 0 { next(7) } else { next(keys.len()) }];
                text.push_str(&format!("\"{key}\"{}{value}", [":", " : "][next(2)]));
            }
            text.push_str(["}", " }", "} ", "}}", ",}"][if next(4) > 0 { next(3) } else { next(5) }]);
            let record = 0..text.len();
            let mut walking = RawRecords::new(&schema).unwrap();
            plain += usize::from(walking.walked(text.as_bytes(), &mut [None, None, None]).is_some());
            let walked = walking.decode(text.as_bytes(), std::slice::from_ref(&record));
            let mut parsing = RawRecords { names: None, ..RawRecords::new(&schema).unwrap() };
            let parsed = parsing.decode(text.as_bytes(), std::slice::from_ref(&record));
            match (parsed, walked) {
                (Ok(parsed), Ok(walked)) => {
                    assert_eq!(parsed, walked, "{text}");
                    good += 1;
                }
                (Err(parsed), Err(walked)) => assert_eq!(parsed.error.code(), walked.error.code(), "{text}"),
                (parsed, walked) => panic!("{text}: {} {}", parsed.is_ok(), walked.is_ok()),
            }
        }
        assert!(good > 10_000 && plain > 3_000, "{good} {plain}");
    }
}

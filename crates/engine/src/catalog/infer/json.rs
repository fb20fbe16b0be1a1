//! Inference of JSON: the columns of the records in samples.
//!
//! Fields come in the order in which they first appear, across records and objects; the shape of
//! their values decides their types ([`super::shape`]).

use std::fmt;

use arrow::datatypes::DataType;
use pushdowndb_contract::{Error, JsonShape, Result, limits};
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

use super::merge::Column;
use super::sample::Sample;
use super::shape::{Shape, add_field, fields_of};

/// Maximum nesting of a record, in levels.
const MAX_DEPTH: usize = 128;

/// A cursor over well-formed JSON that keeps numbers as they are written.
struct Walk<'a> {
    text: &'a [u8],
    at: usize,
}

impl Walk<'_> {
    /// Moves to the next byte that is not white space and returns it.
    fn next(&mut self) -> Option<u8> {
        let rest = self.text.get(self.at..)?;
        self.at += rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
        self.text.get(self.at).copied()
    }

    /// Moves to the next member or item and returns `true`, or skips `end` and returns `false`.
    fn more(&mut self, end: u8) -> bool {
        if self.next() == Some(b',') {
            self.at += 1;
        }
        match self.next() {
            Some(next) if next == end => {
                self.at += 1;
                false
            }
            next => next.is_some(),
        }
    }

    /// Reads the string that begins here.
    fn text(&mut self) -> String {
        let start = self.at;
        self.at += 1;
        while let Some(byte) = self.text.get(self.at) {
            self.at += if *byte == b'\\' { 2 } else { 1 };
            if *byte == b'"' {
                break;
            }
        }
        let written = self.text.get(start..self.at).unwrap_or_default();
        serde_json::from_slice(written).unwrap_or_else(|_| String::from_utf8_lossy(written).into_owned())
    }

    /// Reads the shape of the next value; `None` if it is nested more than `depth` levels deep.
    fn value(&mut self, depth: usize) -> Option<Shape> {
        let depth = depth.checked_sub(1)?;
        Some(match self.next()? {
            b'{' => {
                let mut fields = Vec::new();
                self.at += 1;
                while self.more(b'}') {
                    let name = self.text();
                    // There may be blanks before the colon.
                    self.next();
                    self.at += 1;
                    add_field(&mut fields, name, self.value(depth)?);
                }
                match fields.is_empty() {
                    true => Shape::Empty { lists: false, objects: true },
                    false => Shape::Object(fields),
                }
            }
            b'[' => {
                let (mut items, mut is_empty) = (Shape::Unknown, true);
                self.at += 1;
                while self.more(b']') {
                    items.merge(self.value(depth)?);
                    is_empty = false;
                }
                match is_empty {
                    true => Shape::Empty { lists: true, objects: false },
                    false => Shape::List(Box::new(items)),
                }
            }
            b'"' => {
                self.text();
                Shape::Text
            }
            first => {
                let rest = self.text.get(self.at..).unwrap_or_default();
                let is_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b']' | b'}');
                let word = rest.get(..rest.iter().position(is_end).unwrap_or(rest.len())).unwrap_or_default();
                self.at += word.len();
                match first {
                    b't' | b'f' => Shape::Boolean,
                    b'n' => Shape::Unknown,
                    _ => Shape::of_number(std::str::from_utf8(word).unwrap_or_default()),
                }
            }
        })
    }
}

/// Infers the layout: one record per line, unless the first line is not a complete value or the
/// text is an array of records.
pub(crate) fn sniff(sample: &Sample) -> JsonShape {
    let mut lines = sample.bytes.split(|b| *b == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let is_value = !first.starts_with(b"[") && serde_json::from_slice::<serde::de::IgnoredAny>(first).is_ok();
    // A first line longer than the sample cannot be judged.
    let is_cut = first.starts_with(b"{") && lines.next().is_none() && !sample.is_whole;
    if is_value || is_cut { JsonShape::Lines } else { JsonShape::Document }
}

/// Whether the sample holds a whole record.
pub(crate) fn has_record(sample: &Sample) -> bool {
    let text = sample.bytes.trim_ascii_start();
    let text = text.strip_prefix(b"[").unwrap_or(text);
    serde_json::Deserializer::from_slice(text).into_iter::<IgnoredAny>().next().is_some_and(|record| record.is_ok())
}

/// The shape of the records of all samples together.
#[derive(Debug, Default)]
pub(crate) struct Found(Shape);

impl Found {
    /// Adds the records of one more object, of which at most `max_records` are read.
    pub(crate) fn add(&mut self, sample: &Sample, max_records: usize, address: &str) -> Result<()> {
        let is_array = sample.bytes.trim_ascii_start().starts_with(b"[");
        let mut records = Records { count: 0, max: max_records };
        let read = if is_array {
            serde_json::Deserializer::from_slice(&sample.bytes).deserialize_seq(&mut records)
        } else {
            // Reads lines as well: a line end is white space between values.
            let mut values = serde_json::Deserializer::from_slice(&sample.bytes).into_iter::<IgnoredAny>();
            values.try_for_each(|value| value.map(|_| records.add()))
        };
        let mut walk = Walk { text: &sample.bytes, at: 0 };
        if is_array {
            walk.next();
            walk.at += 1;
        }
        for number in 1..=records.count {
            if is_array {
                walk.more(b']');
            }
            let Some(record) = walk.value(MAX_DEPTH) else {
                return Err(Error::invalid(format!("{address}: record {number} is nested too deeply")));
            };
            if !matches!(record, Shape::Object(_) | Shape::Empty { lists: false, .. }) {
                return Err(Error::invalid(format!(
                    "{address}: a record is not an object; a table's records are objects such as {{\"a\": 1}}"
                )));
            }
            self.0.merge(record);
        }
        match read {
            // The end of the sample cut the last record.
            Err(error) if error.is_eof() && !sample.is_whole && records.count > 0 => {}
            Err(error) if records.count < max_records => {
                let message = format!("{address}: record {} is no JSON", records.count + 1);
                return Err(Error::invalid(message).with_source(error));
            }
            _ => {}
        }
        Ok(())
    }

    /// Fails if a field is an object or a list in one record and something else in another. The
    /// error names the object by `address`.
    pub(crate) fn refuse_mixed(&self, address: &str) -> Result<()> {
        let Shape::Object(fields) = &self.0 else { return Ok(()) };
        match fields.iter().find_map(|(name, shape)| shape.mixed_at(name)) {
            Some(path) => Err(Error::invalid(format!(
                "{address}: the field '{path}' is an object or a list in one record and something else in another; leave \
                 'union_by_name' out of the OPTIONS to read it as text, or declare the columns"
            ))),
            None => Ok(()),
        }
    }

    /// Returns the columns; `None` if there was no record.
    pub(crate) fn columns(&self) -> Option<Vec<Column>> {
        let fields = match &self.0 {
            Shape::Object(fields) => fields.as_slice(),
            Shape::Empty { .. } => &[],
            _ => return None,
        };
        let column = |(name, shape): &(String, Shape)| {
            let mut mixed = false;
            let data_type = shape.data_type(&mut mixed);
            Column { name: name.clone(), data_type, mixed, ..Column::default() }
        };
        let mut columns: Vec<Column> = fields.iter().map(column).collect();
        let size = |column: &Column| column.data_type.as_ref().map_or(1, fields_of);
        let mut all: usize = columns.iter().map(size).sum();
        // An object that serves as a dictionary may have thousands of keys. The largest columns
        // become text until the others fit.
        while all > limits::COLUMNS {
            let Some(largest) = columns.iter_mut().max_by_key(|column| size(column)) else { break };
            let Some(others) = size(largest).checked_sub(1).filter(|others| *others > 0) else { break };
            all -= others;
            (largest.data_type, largest.mixed) = (Some(DataType::Utf8), true);
        }
        Some(columns)
    }
}

/// Counts well-formed records, be they lines or elements of one array.
struct Records {
    count: usize,
    max: usize,
}

impl Records {
    fn add(&mut self) {
        self.count = self.max.min(self.count + 1);
    }
}

impl<'de> Visitor<'de> for &mut Records {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of records")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(IgnoredAny) = items.next_element()? {
            self.add();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Field;

    use super::*;

    fn sample(text: &str, is_whole: bool) -> Sample {
        Sample { bytes: text.to_owned().into(), is_whole, is_utf16: false, is_log: false }
    }

    fn columns(samples: &[Sample], address: &str) -> Result<Option<Vec<Column>>> {
        let mut found = Found::default();
        samples.iter().try_for_each(|sample| found.add(sample, 99, address))?;
        Ok(found.columns())
    }

    fn types(text: &str) -> Result<Vec<(String, Option<DataType>)>> {
        let columns = columns(&[sample(text, true)], "s3://b/x.json")?.unwrap_or_default();
        Ok(columns.into_iter().map(|c| (c.name, c.data_type)).collect())
    }

    #[test]
    fn numbers_keep_their_digits() {
        let of = |values: &str| {
            let lines: Vec<String> = values.split(' ').map(|value| format!("{{\"a\":{value}}}")).collect();
            types(&lines.join("\n")).unwrap().remove(0).1.unwrap()
        };
        assert_eq!(of("1 -9223372036854775808"), DataType::Int64);
        assert_eq!(of("1 9223372036854775808"), DataType::Decimal128(38, 0));
        assert_eq!(of("18446744073709551616 -1"), DataType::Decimal128(38, 0));
        assert_eq!(of("123456789012345678901234567890"), DataType::Decimal128(38, 0));
        assert_eq!(of(&"9".repeat(39)), DataType::Utf8);
        assert_eq!(of("1.5 2"), DataType::Float64);
        assert_eq!(of("1.5 100000000000000000000"), DataType::Float64);
        assert_eq!(of("1e300 1e20"), DataType::Float64);
        assert_eq!(of("9007199254740993 1.5"), DataType::Utf8);
        assert_eq!(of("1.5 18446744073709551615"), DataType::Utf8);
        assert_eq!(of("[1,9223372036854775808]").to_string(), "List(Decimal128(38, 0))");
    }

    #[test]
    fn objects_are_one_table() {
        let all = [
            r#"{"id":1,"items":[],"o":{"x":1}}"#,
            r#"{"id":2,"items":[7],"o":{"y":"a"},"s":[{"k":1}]}"#,
            r#"{"id":"x","s":[{"l":2.5}]}"#,
        ];
        let found = columns(&all.map(|text| sample(text, true)), "x").unwrap().unwrap();
        let shown: Vec<_> = found.iter().map(|c| format!("{} {}", c.name, c.data_type.as_ref().unwrap())).collect();
        assert_eq!(shown[..2], ["id Utf8", "items List(Int64)"]);
        assert!(shown[2].contains("\"x\": Int64") && shown[2].contains("\"y\": Utf8"), "{shown:?}");
        assert!(shown[3].contains("\"k\": Int64") && shown[3].contains("\"l\": Float64"), "{shown:?}");
        let hard = " [ { \"a\\\"}\" : \"\\\\\" ,\"l\":[ [1 , 2],\n[]], \"b\" : -0 } , {} ] ";
        let found = types(hard).unwrap();
        let shown: Vec<_> = found.iter().map(|(name, of)| format!("{name} {}", of.as_ref().unwrap())).collect();
        assert_eq!(shown, ["a\"} Utf8", "l List(List(Int64))", "b Int64"]);
    }

    #[test]
    fn values_of_several_kinds_are_text() {
        let of = |values: &str| {
            let lines: Vec<String> = values.split(' ').map(|value| format!("{{\"a\":{value}}}")).collect();
            let column = columns(&[sample(&lines.join("\n"), true)], "x").unwrap().unwrap().remove(0);
            format!("{} {}", column.data_type.unwrap(), column.mixed)
        };
        for mixed in ["{\"b\":1} 1", "1 [1]", "[1] {\"b\":1}", "\"x\" {}", "[] 1", "{} null", "[] {}", "1 {} {\"b\":1}"]
        {
            assert_eq!(of(mixed), "Utf8 true", "{mixed}");
        }
        assert_eq!(of("[] null [1]"), "List(Int64) false");
        assert_eq!(of("[]"), "List(Utf8) false");
        assert_eq!(of("{} [] [1.5]"), "List(Float64) true");
        assert_eq!(of("{} [1] [2.5]"), "List(Float64) true");
        assert_eq!(of("{} [1] 2"), "Utf8 true");
        assert_eq!(of("[1,\"two\",{\"y\":null}]"), "List(Utf8) true");
        for (empty, mixed) in [("[]", "true"), ("{}", "false")] {
            let found = of(&format!("{empty} {{\"b\":1}}"));
            assert!(found.contains("\"b\": Int64") && found.ends_with(mixed), "{found}");
        }
        let mut found = Found::default();
        found.add(&sample("{\"a\":[{\"b\":1}]}\n{\"a\":[{\"b\":[]}]}", true), 9, "x").unwrap();
        let error = found.refuse_mixed("s3://b/x").unwrap_err().to_string();
        assert!(error.starts_with("s3://b/x: the field 'a[].b'"), "{error}");
        let wide: String = (0..5000).map(|n| format!("\"k{n}\":{{}},")).collect();
        let found = columns(&[sample(&format!("{{\"id\":1,\"o\":{{{wide}\"z\":1}}}}"), true)], "x").unwrap().unwrap();
        assert_eq!(found[0].data_type, Some(DataType::Int64));
        assert_eq!((&found[1].data_type, found[1].mixed), (&Some(DataType::Utf8), true));
    }

    #[test]
    fn depth_is_bounded() {
        let deep = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        assert!(types(&deep(100)).is_ok());
        let error = types(&deep(100_000)).unwrap_err();
        assert!(error.to_string().contains("record 1 is nested too deeply"), "{error}");
    }

    #[test]
    fn fields_in_order_of_appearance() {
        let text = "{\"z\":1,\"a\":\"x\",\"n\":null}\n\n{\"b\":true,\"z\":1.5,\"a\":2}\n";
        let expected =
            [("z", Some(DataType::Float64)), ("a", Some(DataType::Utf8)), ("n", None), ("b", Some(DataType::Boolean))];
        assert_eq!(types(text).unwrap(), expected.map(|(name, t)| (name.to_string(), t)));
    }

    #[test]
    fn nested_values_have_types() {
        let text = r#"{"o":{"x":1},"l":[1,null,2.5]} {"o":{"y":[{"z":"a"}]},"l":[]}"#;
        let found = types(text).unwrap();
        assert_eq!(found[0].1.as_ref().unwrap().to_string(), {
            let z = DataType::Struct(vec![Field::new("z", DataType::Utf8, true)].into());
            let y = DataType::List(Arc::new(Field::new_list_field(z, true)));
            DataType::Struct(vec![Field::new("x", DataType::Int64, true), Field::new("y", y, true)].into()).to_string()
        });
        let list = DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true)));
        assert_eq!(found[1].1, Some(list));
    }

    #[test]
    fn mistakes_name_the_record() {
        let error = types("{\"a\":1}\n{oops}").unwrap_err().to_string();
        assert!(error.starts_with("s3://b/x.json: record 2 is no JSON"), "{error}");
        assert!(types("[1]").is_err());
        assert!(types("1 2").is_err());
        assert!(types("").unwrap().is_empty());
    }

    #[test]
    fn a_cut_record_is_left_out() {
        let text = "{\"a\":1}\n{\"a\":1,\"b\":";
        let found = columns(&[sample(text, false)], "x").unwrap().unwrap();
        assert_eq!(found.len(), 1);
        assert!(columns(&[sample(text, true)], "x").is_err());
        let text = "[{\"a\":1},\n{\"a\":1,\"b\":";
        assert_eq!(columns(&[sample(text, false)], "x").unwrap().unwrap().len(), 1);
        assert!(columns(&[sample(text, true)], "x").is_err());
    }

    #[test]
    fn arrays_hold_records() {
        let found = types(" [{\"a\":1}, {\"b\":\"x\"}]\n").unwrap();
        assert_eq!(found, [("a".into(), Some(DataType::Int64)), ("b".into(), Some(DataType::Utf8))]);
        assert!(types("[]").unwrap().is_empty());
    }

    #[test]
    fn lines_or_document() {
        assert_eq!(sniff(&sample("{\"a\":1}\n{\"a\":2}\n", true)), JsonShape::Lines);
        assert_eq!(sniff(&sample("{\n  \"a\": 1\n}\n", true)), JsonShape::Document);
        assert_eq!(sniff(&sample("{\"a\": ", false)), JsonShape::Lines);
        assert_eq!(sniff(&sample("{} {}", true)), JsonShape::Document);
        assert_eq!(sniff(&sample("[{\"a\":1}]", true)), JsonShape::Document);
        assert_eq!(sniff(&sample("[{\"a\":", false)), JsonShape::Document);
    }
}

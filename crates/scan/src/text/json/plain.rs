//! Reads columns of plain records by their keys, without parsing.
//!
//! Most records are one object without objects, arrays and escapes in it: `{"a":1,"b":"x"}`. In
//! these, every other quote closes a string, and the bytes `"a"` before a colon are a key. A
//! vectorized search finds the keys of one or two columns. More columns are found by walking from
//! member to member ([`crate::text::json::walk`]), or, in groups of records of the same shape,
//! without a walk ([`crate::text::json::alike`]). Values are decoded like CSV fields.
//!
//! A value that is found here is always the value that [`crate::text::json::typed`] decodes. That
//! reader decodes all doubtful records: those that are not plain, with a duplicate key, or with a
//! spelling that is unusual for the column.
//!
//! A separate search for one or two keys pays: with a walk instead, the instructions of the `json`
//! cases of the scan benchmark rise by 39 % (like) to 109 % (bloom).

use std::ops::Range;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field, SchemaRef};
use memchr::memmem::Finder;
use pushdowndb_contract::Result;

use crate::batch::record_batch;
use crate::error::from_arrow;
use crate::runtime::interrupt::{Steps, check_interrupt};
use crate::text::json::alike::{Patience, Shape};
use crate::text::json::commas::{Commas, GROUP_RECORDS};
use crate::text::json::typed::{BadRecord, TypedRecords};
use crate::text::json::value::Value;
use crate::text::json::walk::{Walk, Whose, blanks, is_plain, is_unescaped, value};
use crate::values::builders::builder;
use crate::values::fields::{FieldColumn, Quoting, Span};
use crate::values::json::without_blanks_after;
use crate::values::nulls::{Nulls, Spelling};

/// The maximum number of keys that are searched one by one; for more keys, a walk is faster.
const MAX_SEARCHED_KEYS: usize = 2;

/// The cost of decoding a value, in bytes that could be read in the same time.
const STEPS_PER_FIELD: usize = 16;

/// The minimum number of records that are read as a group.
const MIN_GROUP_RECORDS: usize = 16;

/// Reads the columns of mostly plain records.
pub(crate) struct PlainRecords {
    schema: SchemaRef,
    members: Vec<Member>,
    walk: Walk,
    /// The shape of earlier records, and whether most records still have it.
    shape: Option<Shape>,
    patience: Patience,
    commas: Commas,
    spelling: Spelling,
    /// Reads the records that are not plain.
    exact: TypedRecords,
}

struct Member {
    /// Finds the key including its quotes.
    key: Finder<'static>,
    takes: Takes,
}

/// The kinds of values that a column accepts here, as a set of [`Value`].
#[derive(Clone, Copy, Debug)]
struct Takes(u8);

impl Takes {
    const TEXT: Self = Self::these(&[Value::Text]);
    const INTEGER: Self = Self::these(&[Value::Integer]);
    const FLOAT: Self = Self::these(&[Value::Integer, Value::Number]);
    /// A number, or a text that spells a number or a date.
    const SPELLED: Self = Self::these(&[Value::Text, Value::Integer, Value::Number]);
    const BOOLEAN: Self = Self::these(&[Value::Boolean]);

    const fn these(values: &[Value]) -> Self {
        let (mut set, mut rest) = (0, values);
        while let [value, others @ ..] = rest {
            set |= *value as u8;
            rest = others;
        }
        Self(set)
    }

    fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            text if text.is_string() => Self::TEXT,
            number if number.is_integer() => Self::INTEGER,
            DataType::Float32 | DataType::Float64 => Self::FLOAT,
            DataType::Decimal128(..) | DataType::Date32 => Self::SPELLED,
            DataType::Boolean => Self::BOOLEAN,
            _ => return None,
        })
    }

    fn takes(self, value: Value) -> bool {
        self.0 & value as u8 != 0
    }
}

impl Member {
    fn new(field: &Field) -> Option<Self> {
        let name = field.name();
        let unescaped = !name.bytes().any(|byte| matches!(byte, b'"' | b'\\') || byte < b' ');
        let key = unescaped.then(|| Finder::new(&format!("\"{name}\"")).into_owned())?;
        Some(Self { key, takes: Takes::of(field.data_type())? })
    }

    /// Returns the range of the key's value in the inside of a plain record; `Some(None)` if the
    /// key is absent or its value is NULL. Returns `None` if the record is doubtful: it must be
    /// decoded exactly.
    fn find(&self, inner: &[u8]) -> Option<Option<Range<usize>>> {
        let mut found = None;
        let mut from = 0;
        while let Some(at) = self.key.find(inner.get(from..).unwrap_or_default()).map(|at| from + at) {
            let after = at + self.key.needle().len();
            let colon = blanks(inner, after);
            if inner.get(colon) != Some(&b':') {
                // It is a text that looks like the key.
                from = after - 1;
                continue;
            }
            let before = at.checked_sub(1).and_then(|at| inner.get(at));
            if found.is_some() || !before.is_none_or(|byte| matches!(byte, b',' | b' ' | b'\t' | b'\n' | b'\r')) {
                return None;
            }
            let (value, range, next) = value(inner, blanks(inner, colon + 1))?;
            from = next;
            found = Some(self.taken(value, range)?);
        }
        Some(found.flatten())
    }

    /// Returns the range of a value; `Some(None)` for NULL, `None` if the column does not accept it
    /// here.
    fn taken(&self, value: Value, range: Range<usize>) -> Option<Option<Range<usize>>> {
        match value {
            Value::Null => Some(None),
            value if self.takes.takes(value) => Some(Some(range)),
            _ => None,
        }
    }
}

impl PlainRecords {
    /// Returns `None` if a column cannot be read by this reader.
    pub(crate) fn new(schema: &SchemaRef, spelling: Spelling) -> Result<Option<Self>> {
        let members: Option<Vec<Member>> = schema.fields().iter().map(|field| Member::new(field)).collect();
        let Some(members) = members else { return Ok(None) };
        let mut names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair.first() == pair.last()) {
            return Ok(None);
        }
        let exact = TypedRecords::new(schema, spelling)?;
        Ok(Some(Self {
            schema: SchemaRef::clone(schema),
            members,
            walk: Walk::default(),
            shape: None,
            patience: Patience::default(),
            commas: Commas::default(),
            spelling,
            exact,
        }))
    }

    /// Decodes one row for each record.
    pub(crate) fn decode(&mut self, text: &[u8], records: &[Range<usize>]) -> Result<RecordBatch, BadRecord> {
        let mut spans = Vec::with_capacity(records.len() * self.members.len());
        let (mut others, mut steps) = (Vec::new(), Steps::default());
        // Escapes are rare, so all records are checked at once.
        let all = records.first().map_or(0, |first| first.start)..records.last().map_or(0, |last| last.end);
        let unescaped = text.get(all).is_some_and(is_unescaped);
        for (part, together) in records.chunks(GROUP_RECORDS).enumerate() {
            steps.did(STEPS_PER_FIELD * together.len() * self.members.len())?;
            let first = spans.len();
            let mut odd = u64::MAX;
            if unescaped && let Some(found) = self.locate_alike(text, together, &mut spans) {
                if found == 0 {
                    continue;
                }
                odd = found;
            }
            let alike = spans.split_off(first);
            for (number, record) in together.iter().enumerate() {
                let before = spans.len();
                if odd >> number & 1 == 0 {
                    let spans_of = number * self.members.len()..(number + 1) * self.members.len();
                    spans.extend_from_slice(alike.get(spans_of).unwrap_or_default());
                } else if self.locate(text, record, unescaped, &mut spans).is_none() {
                    spans.truncate(before);
                    others.push(part * GROUP_RECORDS + number);
                }
            }
            if odd == u64::MAX {
                self.shape = Shape::of(&self.walk);
            }
        }
        check_interrupt()?;
        let plain = records.len() - others.len();
        if plain == 0 {
            return self.exact.decode(text, records);
        }
        let Some(batch) = self.build(text, &spans, plain)? else {
            // The exact reader finds the bad record, and reports what is wrong.
            return self.exact.decode(text, records);
        };
        if others.is_empty() {
            return Ok(batch);
        }
        let picked: Vec<_> = others.iter().filter_map(|number| records.get(*number).cloned()).collect();
        let exact = self
            .exact
            .decode(text, &picked)
            .map_err(|bad| BadRecord { record: bad.record.and_then(|record| others.get(record).copied()), ..bad })?;
        Ok(merged(&self.schema, &batch, &exact, &others)?)
    }

    /// Appends the spans of records without escapes that have the known shape. Returns a mask of
    /// the other records; `None` if the records were not read as a group.
    fn locate_alike(&mut self, text: &[u8], records: &[Range<usize>], spans: &mut Vec<Span>) -> Option<u64> {
        let Self { members, commas, shape, patience, .. } = self;
        let many = members.len() > MAX_SEARCHED_KEYS && records.len() >= MIN_GROUP_RECORDS;
        let shape = shape.as_ref().filter(|_| many && patience.looks())?;
        let (first, stride) = (spans.len(), members.len());
        spans.resize(first + records.len() * stride, Span::MISSING);
        commas.find(text, records);
        let takes = |number: usize, value| members.get(number).is_some_and(|member: &Member| member.takes.takes(value));
        let odd = shape.values(text, records, commas, takes, |record, number, range| {
            if let Some(span) = spans.get_mut(first + record * stride + number) {
                *span = Span::plain(range.start, range.end);
            }
        });
        let of_all = u64::MAX >> (u64::BITS as usize - records.len().clamp(1, GROUP_RECORDS));
        let odd = odd & of_all;
        let alike = patience.found(odd.count_ones() as usize, records.len());
        // If most records have another shape, all records are read one by one.
        Some(if alike { odd } else { u64::MAX })
    }

    /// Appends the spans of a record. Returns `None` if the record is doubtful. `unescaped` says
    /// that it is known to contain no escape.
    fn locate(&mut self, text: &[u8], record: &Range<usize>, unescaped: bool, spans: &mut Vec<Span>) -> Option<()> {
        let [b'{', inner @ .., b'}'] = without_blanks_after(text.get(record.clone())?) else { return None };
        if self.members.is_empty() {
            return Some(());
        }
        let start = record.start + 1;
        let spanned = |range: Range<usize>| Span::plain(start + range.start, start + range.end);
        if self.members.len() > MAX_SEARCHED_KEYS {
            if !(unescaped || is_unescaped(inner)) {
                return None;
            }
            let Self { members, walk, .. } = self;
            let first = spans.len();
            spans.resize(first + members.len(), Span::MISSING);
            let whose = |key: &[u8]| Whose::of(members.iter().map(|member| member.key.needle() == key));
            return walk.members(inner, members.len(), &whose, &mut |number, value, range| {
                if let Some(range) = members.get(number)?.taken(value, range)? {
                    *spans.get_mut(first + number)? = spanned(range);
                }
                Some(())
            });
        }
        if !is_plain(inner) {
            return None;
        }
        for member in &self.members {
            spans.push(member.find(inner)?.map_or(Span::MISSING, spanned));
        }
        Some(())
    }

    /// Decodes the columns at these spans. Returns `None` if a value is not valid for its column.
    fn build(&self, text: &[u8], spans: &[Span], rows: usize) -> Result<Option<RecordBatch>> {
        let mut columns = Vec::with_capacity(self.members.len());
        let mut steps = Steps::default();
        for (column, field) in self.schema.fields().iter().enumerate() {
            steps.did(STEPS_PER_FIELD * rows)?;
            let nulls = Nulls { allowed: field.is_nullable(), ..Nulls::never() };
            let mut builder = builder(field.data_type(), nulls, self.spelling)?;
            let stride = self.members.len();
            let fields = FieldColumn { data: text, spans, stride, column, rows: None, quoting: Quoting::default() };
            if builder.append(&fields).is_err() {
                return Ok(None);
            }
            columns.push(builder.finish().map_err(from_arrow)?);
        }
        record_batch(&self.schema, columns, rows).map(Some)
    }
}

/// Merges the rows of both readers in order. `others` are the numbers of the rows in `exact`.
fn merged(schema: &SchemaRef, plain: &RecordBatch, exact: &RecordBatch, others: &[usize]) -> Result<RecordBatch> {
    let rows = plain.num_rows() + exact.num_rows();
    if schema.fields().is_empty() {
        return record_batch(schema, vec![], rows);
    }
    let mut exact_rows = plain.num_rows()..rows;
    let mut plain_rows = 0..plain.num_rows();
    let mut others = others.iter().copied().peekable();
    let place = |row: usize| match others.next_if_eq(&row) {
        Some(_) => exact_rows.next(),
        None => plain_rows.next(),
    };
    let places: UInt32Array =
        (0..rows).map(place).map(|place| place.and_then(|place| u32::try_from(place).ok())).collect();
    let both = concat_batches(schema, [plain, exact]).map_err(from_arrow)?;
    take_record_batch(&both, &places).map_err(from_arrow)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Schema;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn find(takes: Takes, record: &str) -> Option<Option<&str>> {
        let member = Member { key: Finder::new("\"key\"").into_owned(), takes };
        let inner = record.strip_prefix('{')?.strip_suffix('}')?;
        Some(member.find(inner.as_bytes())?.map(|range| &inner[range]))
    }

    #[test]
    fn values_are_found_by_their_keys() {
        for (takes, record, found) in [
            (Takes::TEXT, r#"{"a":1,"key":"x y","z":2}"#, Some(Some("x y"))),
            (Takes::TEXT, r#"{ "key" : "" }"#, Some(Some(""))),
            (Takes::TEXT, r#"{"a":"key","b":"the \"key"}"#, Some(None)),
            (Takes::TEXT, r#"{"a":"key","key":"key"}"#, Some(Some("key"))),
            (Takes::TEXT, r#"{"key":17}"#, None),
            (Takes::TEXT, r#"{"key":"x","key":"y"}"#, None),
            (Takes::TEXT, r#"{"key":null}"#, Some(None)),
            (Takes::TEXT, r#"{"keys":"x","a key":"y"}"#, Some(None)),
            (Takes::INTEGER, r#"{"key":-17,"a":1}"#, Some(Some("-17"))),
            (Takes::INTEGER, r#"{"key": 0 }"#, Some(Some("0"))),
            (Takes::INTEGER, r#"{"key":17.0}"#, None),
            (Takes::INTEGER, r#"{"key":"17"}"#, None),
            (Takes::INTEGER, r#"{"key":017}"#, None),
            (Takes::INTEGER, r#"{"key":1x}"#, None),
            (Takes::INTEGER, r#"{"key":1 2}"#, None),
            (Takes::INTEGER, r#"{"key":}"#, None),
            (Takes::FLOAT, r#"{"key":1.5e3}"#, Some(Some("1.5e3"))),
            (Takes::SPELLED, r#"{"key":"1.50"}"#, Some(Some("1.50"))),
            (Takes::SPELLED, r#"{"key":1.50}"#, Some(Some("1.50"))),
            (Takes::SPELLED, r#"{"key":-123456789012.50,"and":"more"}"#, Some(Some("-123456789012.50"))),
            (Takes::SPELLED, r#"{"key":.5}"#, None),
            (Takes::SPELLED, r#"{"key":5.,"and":"more"}"#, None),
            (Takes::SPELLED, r#"{"key":1.2.3,"and":"more"}"#, None),
            (Takes::SPELLED, r#"{"key":1-2,"and":"more"}"#, None),
            (Takes::SPELLED, r#"{"key":-,"and":"more"}"#, None),
            (Takes::SPELLED, r#"{"key":01.5,"and":"more"}"#, None),
            (Takes::BOOLEAN, r#"{"key":true}"#, Some(Some("true"))),
            (Takes::BOOLEAN, r#"{"key":True}"#, None),
        ] {
            assert_eq!(find(takes, record), found, "{record}");
        }
    }

    #[test]
    fn a_walk_finds_what_a_search_finds() {
        let fields: Vec<Field> = ["a", "b", "c"].map(|name| Field::new(name, DataType::Int64, true)).into();
        let mut plain = PlainRecords::new(&Arc::new(Schema::new(fields)), Spelling::Declared).unwrap().unwrap();
        for (text, is_walked) in [
            (r#"{"a":1,"x":"a","b":2,"c":3}"#, true),
            (r#"{"a":5,"x":"a","b":6,"c":7}"#, true),
            (r#"{"c":3,"a":1}"#, true),
            (r#"{ "b" : 2 , "x":true, "c": null }"#, true),
            ("{}", true),
            ("{ }", true),
            (r#"{"a":1,"a":2}"#, false),
            (r#"{"a":1,}"#, false),
            (r#"{"a":1,"x":}"#, false),
            (r#"{"a":1,"x":"y"z}"#, false),
            (r#"{"a":1 "b":2}"#, false),
            (r#"{"a":1,"x":2 "b":2}"#, false),
            (r#"{"a"}"#, false),
            (r#"{a:1}"#, false),
            (r#"{"a":1,"x":{},"b":2}"#, false),
            (r#"{"a":1,"x":{"b":2}}"#, false),
            (r#"{"a":1,"x":[],"b":2}"#, false),
            (r#"{"a":1,"x":[2,3],"b":2}"#, false),
            (r#"{"a":1,"x":"\"","b":2}"#, false),
            (r#"{"a":1,"x":"{[","b":2}"#, true),
            (r#"{"a":1234567890123456,"b":-12345678901234567,"c":0}"#, true),
        ] {
            let inner = text.get(1..text.len() - 1).unwrap().as_bytes();
            let mut walked = vec![];
            let found = plain.locate(text.as_bytes(), &(0..text.len()), false, &mut walked);
            assert_eq!(found.is_some(), is_walked, "{text}");
            if is_walked {
                let searched = plain.members.iter().map(|member| member.find(inner).unwrap());
                let spanned = |range: Range<usize>| Span::plain(1 + range.start, 1 + range.end);
                let searched: Vec<_> = searched.map(|range| range.map_or(Span::MISSING, spanned)).collect();
                assert_eq!(walked, searched, "{text}");
            }
        }
    }

    /// Records of all kinds, many of them odd, must be read like the exact reader reads them.
    #[test]
    fn records_mean_what_they_mean_when_they_are_parsed() {
        let fields = [
            ("t", DataType::Utf8),
            ("v", DataType::Utf8View),
            ("i", DataType::Int64),
            ("s", DataType::Int16),
            ("f", DataType::Float64),
            ("d", DataType::Decimal128(9, 2)),
            ("b", DataType::Boolean),
            ("y", DataType::Date32),
        ];
        let fields: Vec<Field> = fields.map(|(name, data_type)| Field::new(name, data_type, name != "s")).into();
        let schema = Arc::new(Schema::new(fields));
        for spelling in [Spelling::Declared, Spelling::Inferred] {
            read_as_the_exact_way(&schema, spelling);
        }
    }

    fn read_as_the_exact_way(schema: &SchemaRef, spelling: Spelling) {
        let mut plain = PlainRecords::new(schema, spelling).unwrap().unwrap();
        let exact = TypedRecords::new(schema, spelling).unwrap();
        let mut random = StdRng::seed_from_u64(3);
        let mut next = |n: usize| random.random_range(0..n);
        let values = [
            "1",
            "-7",
            "0",
            "1.5",
            "1e2",
            "12345678901234567890",
            "9007199254740993",
            "\"007\"",
            "true",
            "false",
            "null",
            "\"\"",
            "\"t\"",
            "\"1\"",
            "\"1994-01-01\"",
            "\"é\"",
            "\"a\\nb\"",
            "[1]",
            "{\"t\":1}",
            "-0.0",
            "0.125",
            "\"x: \\\"t\\\"\"",
        ];
        let (mut good, mut merged) = (0, 0);
        for _ in 0..30_000 {
            let (mut text, mut records) = (String::new(), Vec::new());
            for _ in 0..=next(3) {
                let start = text.len();
                text.push_str(["{", " {"][next(2)].trim_start());
                text.push_str("\"s\":5");
                for _ in 0..next(4) {
                    let key = ["t", "v", "i", "f", "d", "b", "y", "other"][next(8)];
                    // Mostly a value that the column is likely to accept.
                    let value = match (key, next(4)) {
                        (_, 0) => values[next(values.len())],
                        ("t" | "v", _) => "\"text\"",
                        ("y", _) => "\"1994-12-31\"",
                        ("b", _) => "true",
                        _ => ["17", "1.25", "-3"][if key == "i" { 0 } else { next(3) }],
                    };
                    text.push_str([",", " , "][next(2)]);
                    text.push_str(&format!("\"{key}\"{}{value}", [":", " : "][next(2)]));
                }
                text.push('}');
                records.push(start..text.len());
            }
            let expected = exact.decode(text.as_bytes(), &records);
            let found = plain.decode(text.as_bytes(), &records);
            match (expected, found) {
                (Ok(expected), Ok(found)) => {
                    assert_eq!(expected, found, "{text}");
                    good += 1;
                    merged += usize::from(records.len() > 1 && text.contains(['[', '\\']));
                }
                (Err(expected), Err(found)) => {
                    assert_eq!(expected.record, found.record, "{text}");
                    assert_eq!(expected.error.message(), found.error.message(), "{text}");
                }
                (expected, found) => {
                    panic!("{text}: {:?} {:?}", expected.is_ok(), found.map_err(|bad| bad.error));
                }
            }
        }
        assert!(good > 5_000 && merged > 100, "{good} {merged}");
    }
}

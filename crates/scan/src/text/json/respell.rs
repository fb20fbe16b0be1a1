//! Rewrites records that Arrow's reader refuses, so that it accepts them.
//!
//! A text column accepts any value: an object or a list is returned as its own text. An empty list
//! is treated as an empty object if the column has objects, and the other way around, since some
//! writers confuse them.
//!
//! ```text
//! {"text":{"a": [1]},"object":[]}   is read as   {"text":"{\"a\": [1]}","object":{}}
//! ```

use std::ops::Range;

use arrow::datatypes::{DataType, Fields, Schema};

use crate::limits::MAX_JSON_DEPTH;
use crate::runtime::interrupt::Steps;
use crate::values::json::{Key, STEPS_PER_NAME, Unfound, skip_blanks, value_end};

/// Rewrites records for the columns of a schema.
pub(crate) struct Respelling(Members);

/// What a column accepts.
enum Place {
    /// Any value; the decoder checks it.
    Any,
    Text,
    List(Box<Place>),
    /// An object whose members all have the same type.
    Map(Box<Place>),
    Object(Members),
}

type Members = Vec<(Key, Place)>;

impl Place {
    fn of(data_type: &DataType) -> Self {
        match data_type {
            text if text.is_string() => Self::Text,
            DataType::List(item) | DataType::LargeList(item) => Self::List(Box::new(Self::of(item.data_type()))),
            DataType::Struct(fields) => Self::Object(members(fields)),
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) => {
                    Self::Map(Box::new(fields.last().map_or(Self::Any, |value| Self::of(value.data_type()))))
                }
                _ => Self::Any,
            },
            _ => Self::Any,
        }
    }
}

fn members(fields: &Fields) -> Members {
    fields.iter().map(|field| (Key::new(field.name(), true), Place::of(field.data_type()))).collect()
}

impl Respelling {
    /// Creates a rewriter for records of a schema. Returns `None` if no column accepts several
    /// kinds of values.
    pub(crate) fn new(schema: &Schema) -> Option<Self> {
        let members = members(schema.fields());
        members.iter().any(|(_, place)| !matches!(place, Place::Any)).then_some(Self(members))
    }

    /// Appends the record to `into` in the form that Arrow's reader accepts. Text that is not a
    /// record is appended unchanged. Returns whether anything was changed.
    pub(crate) fn append(&self, record: &[u8], into: &mut Vec<u8>, steps: &mut Steps) -> bool {
        let before = into.len();
        let mut walk = Walk { text: record, copied: 0, into, steps };
        match walk.object(skip_blanks(record, 0), &self.0, &Place::Any, 0) {
            Ok(_) => {
                let is_changed = walk.copied > 0;
                walk.copy_to(record.len());
                is_changed
            }
            Err(_) => {
                into.truncate(before);
                into.extend_from_slice(record);
                false
            }
        }
    }
}

/// A walk through a record that is being rewritten.
struct Walk<'a, 's> {
    text: &'a [u8],
    /// The position up to which the text is already in `into`.
    copied: usize,
    into: &'s mut Vec<u8>,
    steps: &'s mut Steps,
}

impl Walk<'_, '_> {
    fn copy_to(&mut self, end: usize) {
        self.into.extend_from_slice(self.text.get(self.copied..end).unwrap_or_default());
        self.copied = end;
    }

    /// Rewrites the value at `at`, and returns its end.
    fn value(&mut self, at: usize, place: &Place, depth: usize) -> Result<usize, Unfound> {
        match (place, self.text.get(at)) {
            (Place::Text, Some(b'{' | b'[')) => {
                let end = value_end(self.text, at, depth, self.steps)?;
                self.copy_to(at);
                write_text(self.text, at..end, self.into);
                self.copied = end;
                Ok(end)
            }
            (Place::List(_), Some(b'{')) => self.empty(at, b'}', b"[]", depth),
            (Place::Object(_) | Place::Map(_), Some(b'[')) => self.empty(at, b']', b"{}", depth),
            (Place::List(item), Some(b'[')) if !matches!(**item, Place::Any) => self.list(at, item, depth),
            (Place::Map(value), Some(b'{')) if !matches!(**value, Place::Any) => self.object(at, &[], value, depth),
            (Place::Object(members), Some(b'{')) => self.object(at, members, &Place::Any, depth),
            _ => value_end(self.text, at, depth, self.steps),
        }
    }

    /// Writes `instead` for the value at `at`, if that is empty, that is, if only blanks precede
    /// its end `close`.
    fn empty(&mut self, at: usize, close: u8, instead: &[u8], depth: usize) -> Result<usize, Unfound> {
        let end = skip_blanks(self.text, at + 1);
        if self.text.get(end) != Some(&close) {
            return value_end(self.text, at, depth, self.steps);
        }
        self.copy_to(at);
        self.into.extend_from_slice(instead);
        self.copied = end + 1;
        Ok(end + 1)
    }

    fn list(&mut self, at: usize, item: &Place, depth: usize) -> Result<usize, Unfound> {
        if depth >= MAX_JSON_DEPTH {
            return Err(at.into());
        }
        let mut at = skip_blanks(self.text, at + 1);
        if self.text.get(at) == Some(&b']') {
            return Ok(at + 1);
        }
        loop {
            at = skip_blanks(self.text, self.value(at, item, depth + 1)?);
            match self.text.get(at) {
                Some(b',') => at = skip_blanks(self.text, at + 1),
                Some(b']') => return Ok(at + 1),
                _ => return Err(at.into()),
            }
        }
    }

    /// Rewrites the object at `at`. Its members are handled by `members`, and those not listed
    /// there by `others`.
    fn object(&mut self, at: usize, members: &[(Key, Place)], others: &Place, depth: usize) -> Result<usize, Unfound> {
        if self.text.get(at) != Some(&b'{') || depth >= MAX_JSON_DEPTH {
            return Err(at.into());
        }
        let mut at = skip_blanks(self.text, at + 1);
        if self.text.get(at) == Some(&b'}') {
            return Ok(at + 1);
        }
        // Members mostly come in the expected order.
        let mut next = 0;
        loop {
            let from = at;
            at = value_end(self.text, from, depth, self.steps)?;
            let key = self.text.get(from..at).unwrap_or_default();
            let (before, after) = members.split_at(next);
            let found = after.iter().chain(before).position(|(name, _)| name.is(key));
            let compared = found.map_or(members.len(), |found| found + 1);
            if !self.steps.go_on(compared.saturating_mul(STEPS_PER_NAME)) {
                return Err(Unfound::Interrupted);
            }
            let place = match found {
                Some(found) => {
                    let place = (next + found) % members.len();
                    next = place + 1;
                    members.get(place).map_or(others, |(_, place)| place)
                }
                None => others,
            };
            at = skip_blanks(self.text, at);
            if self.text.get(at) != Some(&b':') {
                return Err(at.into());
            }
            at = self.value(skip_blanks(self.text, at + 1), place, depth + 1)?;
            at = skip_blanks(self.text, at);
            match self.text.get(at) {
                Some(b',') => at = skip_blanks(self.text, at + 1),
                Some(b'}') => return Ok(at + 1),
                _ => return Err(at.into()),
            }
        }
    }
}

/// Appends this range of the text as a JSON string.
fn write_text(text: &[u8], range: Range<usize>, into: &mut Vec<u8>) {
    into.push(b'"');
    for byte in text.get(range).unwrap_or_default() {
        match byte {
            b'"' | b'\\' => into.extend([b'\\', *byte]),
            // The blanks of JSON. Other control characters do not occur in valid text.
            b'\n' => into.extend(b"\\n"),
            b'\r' => into.extend(b"\\r"),
            b'\t' => into.extend(b"\\t"),
            other => into.push(*other),
        }
    }
    into.push(b'"');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn what_a_column_does_not_take_is_respelled() {
        let field = |name: &str, data_type| Field::new(name, data_type, true);
        let text = || field("t", DataType::Utf8);
        let list = |of: Field| DataType::List(Arc::new(of));
        let schema = Schema::new(vec![
            text(),
            field("n", DataType::Int64),
            field("o", DataType::Struct(vec![text(), field("n", DataType::Int64)].into())),
            field("l", list(field("item", DataType::Struct(vec![text()].into())))),
            field("s", list(text())),
        ]);
        let respelling = Respelling::new(&schema).unwrap();
        for (record, expected) in [
            (r#"{"t":"x","n":1,"o":{"t":"y"},"l":[{"t":null}],"s":["a"],"z":{"t":[1]}}"#, None),
            (r#"{"t":{"a": "b\n"},"n":{}}"#, Some(r#"{"t":"{\"a\": \"b\\n\"}","n":{}}"#)),
            (" { \"t\" : [1,\n 2] } ", Some(" { \"t\" : \"[1,\\n 2]\" } ")),
            (r#"{"o":{"t":[],"n":[]},"z":1}"#, Some(r#"{"o":{"t":"[]","n":[]},"z":1}"#)),
            (r#"{"o":[ ],"l":{ },"s":{}}"#, Some(r#"{"o":{},"l":[],"s":[]}"#)),
            (r#"{"o":[1],"l":{"a":1}}"#, None),
            (
                r#"{"l":[{"t":{}},{},{"t":1}],"s":[1,[2],{"é":3}]}"#,
                Some(r#"{"l":[{"t":"{}"},{},{"t":1}],"s":[1,"[2]","{\"é\":3}"]}"#),
            ),
            (r#"{"t":{"a":1}"#, None),
            (r#"{"t":[1}"#, None),
            ("[]", None),
        ] {
            let mut into = b"before ".to_vec();
            let is_changed = respelling.append(record.as_bytes(), &mut into, &mut Steps::default());
            assert_eq!(String::from_utf8(into).unwrap(), format!("before {}", expected.unwrap_or(record)));
            assert_eq!(is_changed, expected.is_some(), "{record}");
        }
        let plain = Schema::new(vec![field("n", DataType::Int64)]);
        assert!(Respelling::new(&plain).is_none());
        let deep = format!("{{\"s\":[{}{}]}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(!respelling.append(deep.as_bytes(), &mut Vec::new(), &mut Steps::default()));
    }
}

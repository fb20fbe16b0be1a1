//! Values in records that their columns cannot represent.
//!
//! If columns were inferred from a sample, a field that no sampled record had has no column, and a
//! column of doubles would round long integers. In nested values, even of declared columns, Arrow's
//! reader truncates fractions to integers. All of these are errors that name the field. Only
//! records that pass the predicate are checked, and fields without a column only if all columns are
//! read.

use std::ops::Range;

use arrow::datatypes::{DataType, Fields, Schema, SchemaRef};
use pushdowndb_contract::{Error, Result};

use super::numbers::whole;
use crate::runtime::interrupt::Steps;
use crate::values::json::{Key, Unfound, skip_blanks, unescape, value_end};
use crate::values::parse::is_rounded;

/// Finds values that the columns of a schema cannot represent.
pub(crate) struct Surplus {
    record: Members,
    inferred: bool,
}

/// What a column accepts.
enum Place {
    /// Any value; the decoder checks it.
    Any,
    Double,
    Integer,
    List(Box<Place>),
    Object(Members),
}

struct Members {
    members: Vec<(Key, Place)>,
    /// True if a member with another name is an error.
    is_closed: bool,
}

/// The reason why a walk through a record ended.
enum Stop {
    /// The text is not JSON, which the decoder reports, or the task was interrupted, which the next
    /// check of the steps reports.
    Malformed,
    /// A field without a column: its name, and the names of the fields that contain it.
    Field(Vec<String>),
    /// A number that the column of a field would round: the name of the field and of those that
    /// contain it, the column's type, and the number.
    Rounded(Vec<String>, &'static str, String),
}

impl From<Unfound> for Stop {
    fn from(_: Unfound) -> Self {
        Self::Malformed
    }
}

impl Place {
    fn of(data_type: &DataType, inferred: bool) -> Self {
        match data_type {
            DataType::Float32 | DataType::Float64 if inferred => Self::Double,
            integer if integer.is_integer() => Self::Integer,
            DataType::Struct(fields) => {
                let members = Members::of(fields, inferred, inferred);
                if members.take_anything() { Self::Any } else { Self::Object(members) }
            }
            DataType::List(item) | DataType::LargeList(item) => match Self::of(item.data_type(), inferred) {
                Self::Any => Self::Any,
                place => Self::List(Box::new(place)),
            },
            _ => Self::Any,
        }
    }

    fn is_nested(&self) -> bool {
        matches!(self, Self::List(_) | Self::Object(_))
    }
}

impl Members {
    fn of(fields: &Fields, inferred: bool, is_closed: bool) -> Self {
        let member = |name: &str, data_type| (Key::new(name, true), Place::of(data_type, inferred));
        Self { members: fields.iter().map(|field| member(field.name(), field.data_type())).collect(), is_closed }
    }

    fn take_anything(&self) -> bool {
        !self.is_closed && self.members.iter().all(|(_, place)| matches!(place, Place::Any))
    }

    /// Returns the member with this `key`, which includes its quotes. It is most likely the member
    /// at `next`, after the one that was found last.
    fn find(&self, key: &[u8], next: usize) -> Option<(usize, &Place)> {
        let is_it = |(_, (name, _)): &(usize, &(Key, Place))| name.is(key);
        let (before, from) = self.members.split_at(next.min(self.members.len()));
        let mut numbered = (before.len()..).zip(from).chain((0..).zip(before));
        numbered.find(is_it).map(|(number, (_, place))| (number, place))
    }
}

impl Surplus {
    /// Creates a check for records of a schema. If `is_all` is true, a field without a column is an
    /// error. Top-level numbers are checked where they are decoded. Returns `None` if the columns
    /// can represent all values.
    pub(crate) fn new(schema: &SchemaRef, inferred: bool, is_all: bool) -> Option<Self> {
        let record = Members::of(schema.fields(), inferred, is_all);
        let has_nested = record.members.iter().any(|(_, place)| place.is_nested());
        (is_all || has_nested).then_some(Self { record, inferred })
    }

    /// Like [`Self::new`], for another decoder, which rounds top-level numbers, too.
    pub(crate) fn of_answer(schema: &Schema, inferred: bool, is_all: bool) -> Option<Self> {
        let record = Members::of(schema.fields(), inferred, is_all);
        let may_lose = record.members.iter().any(|(_, place)| place.is_nested() || matches!(place, Place::Double));
        (is_all || may_lose).then_some(Self { record, inferred })
    }

    /// Returns an error if one of these records has a value that the columns cannot represent, with
    /// the start of the record.
    pub(crate) fn check(&self, text: &[u8], records: &[Range<usize>]) -> Result<(), (Option<usize>, Error)> {
        let mut steps = Steps::default();
        for record in records {
            steps.did(record.len()).map_err(|error| (None, error))?;
            let own = text.get(..record.end).unwrap_or_default();
            let at = skip_blanks(own, record.start);
            let Err(stop) = object(own, at, &self.record, 0, &mut steps) else { continue };
            let path = |names: Vec<String>| names.into_iter().rev().collect::<Vec<_>>().join(".");
            let error = match stop {
                Stop::Malformed => continue,
                Stop::Field(names) => Error::invalid(format!(
                    "the field \"{}\" is in none of the records that the columns were inferred from; declare the columns \
                     with CREATE EXTERNAL TABLE, or read only columns that are needed",
                    path(names)
                )),
                Stop::Rounded(names, of, number) if !self.inferred => {
                    Error::invalid(format!("field \"{}\": cannot parse '{number}' as {of}", path(names)))
                }
                Stop::Rounded(names, of, number) => Error::invalid(format!(
                    "field \"{}\": a {of}, as which it was inferred, would round {number}; declare the column with \
                     CREATE EXTERNAL TABLE",
                    path(names)
                )),
            };
            return Err((Some(record.start), error));
        }
        Ok(())
    }
}

/// Returns whether a token is a number but not an integer.
fn is_fraction(token: &[u8]) -> bool {
    matches!(token.first(), Some(b'-' | b'0'..=b'9'))
        && token.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
        && whole(token).is_none()
}

/// Checks the value at `at`, and returns its end.
fn value(text: &[u8], at: usize, place: &Place, depth: usize, steps: &mut Steps) -> Result<usize, Stop> {
    match (place, text.get(at)) {
        (Place::Object(members), Some(b'{')) => object(text, at, members, depth, steps),
        (Place::List(item), Some(b'[')) => {
            let mut at = skip_blanks(text, at + 1);
            if text.get(at) == Some(&b']') {
                return Ok(at + 1);
            }
            loop {
                at = skip_blanks(text, value(text, at, item, depth + 1, steps)?);
                match text.get(at) {
                    Some(b',') => at = skip_blanks(text, at + 1),
                    Some(b']') => return Ok(at + 1),
                    _ => return Err(Stop::Malformed),
                }
            }
        }
        _ => {
            let end = value_end(text, at, depth, steps)?;
            let token = text.get(at..end).unwrap_or_default();
            let rounded = |of| Stop::Rounded(Vec::new(), of, String::from_utf8_lossy(token).into_owned());
            match place {
                Place::Double if is_rounded(token) => Err(rounded("DOUBLE")),
                Place::Integer if is_fraction(token) => Err(rounded("BIGINT")),
                _ => Ok(end),
            }
        }
    }
}

/// Checks the object at `at`, and returns its end.
fn object(text: &[u8], at: usize, members: &Members, depth: usize, steps: &mut Steps) -> Result<usize, Stop> {
    if text.get(at) != Some(&b'{') {
        return Err(Stop::Malformed);
    }
    let mut at = skip_blanks(text, at + 1);
    if text.get(at) == Some(&b'}') {
        return Ok(at + 1);
    }
    let mut next = 0;
    loop {
        let from = at;
        at = value_end(text, from, depth, steps)?;
        let key = text.get(from..at).unwrap_or_default();
        let name = || {
            let key = String::from_utf8_lossy(key);
            unescape(&key).unwrap_or_else(|| key.into_owned())
        };
        at = skip_blanks(text, at);
        if text.get(at) != Some(&b':') {
            return Err(Stop::Malformed);
        }
        at = skip_blanks(text, at + 1);
        let place = match members.find(key, next) {
            Some((number, place)) => {
                next = number + 1;
                place
            }
            // A null would not be lost.
            None if members.is_closed && !text.get(at..).unwrap_or_default().starts_with(b"null") => {
                return Err(Stop::Field(vec![name()]));
            }
            None => &Place::Any,
        };
        at = value(text, at, place, depth + 1, steps).map_err(|stop| match stop {
            Stop::Field(mut names) => {
                names.push(name());
                Stop::Field(names)
            }
            Stop::Rounded(mut names, of, number) => {
                names.push(name());
                Stop::Rounded(names, of, number)
            }
            stop => stop,
        })?;
        at = skip_blanks(text, at);
        match text.get(at) {
            Some(b',') => at = skip_blanks(text, at + 1),
            Some(b'}') => return Ok(at + 1),
            _ => return Err(Stop::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Field;

    use super::*;

    fn found(record: &str, is_all: bool) -> Option<String> {
        found_of(record, true, is_all)
    }

    fn found_of(record: &str, inferred: bool, is_all: bool) -> Option<String> {
        let inner =
            Fields::from(vec![Field::new("x", DataType::Int64, true), Field::new("d", DataType::Float64, true)]);
        let list = DataType::List(Arc::new(Field::new_list_field(DataType::Struct(inner.clone()), true)));
        let schema = Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("é\"", DataType::Utf8, true),
            Field::new("o", DataType::Struct(inner), true),
            Field::new("l", list, true),
        ]);
        let text = format!(" {record}\n{{\"none\":1}}");
        let record = 0..record.len() + 1;
        let surplus = Surplus::new(&Arc::new(schema), inferred, is_all).unwrap();
        surplus.check(text.as_bytes(), &[record]).err().map(|(_, error)| error.message().to_owned())
    }

    #[test]
    fn fields_without_a_column_are_found() {
        for (record, named) in [
            (r#"{}"#, None),
            (r#"{"a":1,"é\"":"\"z\":1","o":{"x":1,"d":1.5},"l":[{"d":0},{}]}"#, None),
            (r#"{ "l" : [ ] , "\u00e9\"" : null , "a" : {"free":1} , "a" : 2 }"#, None),
            (r#"{"a":1,"none":null}"#, None),
            (r#"{"a":1,"none":1}"#, Some("none")),
            (r#"{"a":1,"A":1}"#, Some("A")),
            (r#"{"a":1,"n\"":[]}"#, Some("n\"")),
            (r#"{"o":{"y":1}}"#, Some("o.y")),
            (r#"{"l":[{"x":1},{"x":2,"y":{}}]}"#, Some("l.y")),
            (r#"{"o":[1],"l":{"y":1}}"#, None),
            (r#"{"a":1,"none"}"#, None),
        ] {
            let error = found(record, true);
            assert_eq!(error.is_some(), named.is_some(), "{record}: {error:?}");
            if let (Some(error), Some(named)) = (error, named) {
                assert!(error.contains(&format!("the field \"{named}\" is in none")), "{error}");
            }
        }
        // Columns that are not read may have other fields; inside a column that is read, all fields
        // are checked.
        assert_eq!(found(r#"{"none":1}"#, false), None);
        assert!(found(r#"{"o":{"y":1}}"#, false).is_some());
    }

    #[test]
    fn integers_that_would_be_rounded_are_found() {
        for (value, is_kept) in [
            ("9007199254740992", true),
            ("9007199254740993", false),
            ("-9007199254740993", false),
            ("9007199254740993.0", true),
            ("100000000000000000000", true),
            ("\"9007199254740993\"", true),
            ("1.5", true),
            ("null", true),
        ] {
            let error = found(&format!(r#"{{"o":{{"x":9007199254740993,"d":{value}}}}}"#), false);
            assert_eq!(error.is_none(), is_kept, "{value} {error:?}");
            assert!(error.is_none_or(|error| error.starts_with("field \"o.d\"")));
        }
    }

    #[test]
    fn fractions_that_would_be_cut_are_found() {
        for (value, is_kept) in [
            ("2", true),
            ("2.0", true),
            ("2.5", false),
            ("-0.5", false),
            ("2.5e1", true),
            ("1e2", true),
            ("125e-1", false),
            ("true", true),
            ("\"2.5\"", true),
        ] {
            let error = found(&format!(r#"{{"o":{{"x":{value}}}}}"#), false);
            assert_eq!(error.is_none(), is_kept, "{value} {error:?}");
            assert!(error.is_none_or(|error| error.starts_with("field \"o.x\": a BIGINT")));
            let error =
                found_of(&format!(r#"{{"l":[{{}},{{"x":{value},"d":9007199254740993,"y":1}}]}}"#), false, false);
            assert_eq!(error.is_none(), is_kept, "{value} {error:?}");
            assert!(error.is_none_or(|error| error == format!("field \"l.x\": cannot parse '{value}' as BIGINT")));
        }
    }

    #[test]
    fn plain_columns_need_no_look() {
        let schema = |data_type| Arc::new(Schema::new(vec![Field::new("a", data_type, true)]));
        for number in [DataType::Float64, DataType::Int64] {
            assert!(Surplus::new(&schema(number.clone()), true, false).is_none());
            assert!(Surplus::new(&schema(number), true, true).is_some());
        }
        let texts = DataType::Struct(Fields::from(vec![Field::new("t", DataType::Utf8, true)]));
        assert!(Surplus::new(&schema(texts.clone()), false, false).is_none());
        assert!(Surplus::new(&schema(texts), true, false).is_some());
        assert!(Surplus::of_answer(&schema(DataType::Float64), true, false).is_some());
        assert!(Surplus::of_answer(&schema(DataType::Float64), false, false).is_none());
        assert!(Surplus::of_answer(&schema(DataType::Int64), true, false).is_none());
    }
}

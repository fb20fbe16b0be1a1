//! What a sample of JSON records says about its columns.
//!
//! Fields come in the order in which they first appear, whatever the record. A field that is a number here and text
//! there is text; one that is an object here and a plain value there has no column type and is refused.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};
use pushdown::{Error, JsonShape, Result};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::merge::Column;
use super::sample::Sample;

/// What the values seen at one place look like.
#[derive(Clone, Debug, Default, PartialEq)]
enum Shape {
    /// Nothing but null.
    #[default]
    Unknown,
    Boolean,
    Integer,
    Float,
    Text,
    List(Box<Shape>),
    Object(Vec<(String, Shape)>),
    /// Objects, lists and plain values at the same place.
    Contradiction,
}

impl Shape {
    fn merge(&mut self, seen: Shape) {
        use Shape::{Contradiction, Float, Integer, List, Object, Text, Unknown};
        *self = match (std::mem::take(self), seen) {
            (one, Unknown) | (Unknown, one) => one,
            (List(mut a), List(b)) => {
                a.merge(*b);
                List(a)
            }
            (Object(mut a), Object(b)) => {
                b.into_iter().for_each(|(name, shape)| add_field(&mut a, name, shape));
                Object(a)
            }
            (List(_) | Object(_) | Contradiction, _) | (_, List(_) | Object(_) | Contradiction) => Contradiction,
            (a, b) if a == b => a,
            (Integer | Float, Integer | Float) => Float,
            _ => Text,
        };
    }

    /// The column type; `None` if every value was null.
    fn data_type(&self, path: &str) -> Result<Option<DataType>> {
        let nested = |shape: &Shape, path: &str| Ok::<_, Error>(shape.data_type(path)?.unwrap_or(DataType::Utf8));
        Ok(Some(match self {
            Self::Unknown => return Ok(None),
            Self::Boolean => DataType::Boolean,
            Self::Integer => DataType::Int64,
            Self::Float => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::List(item) => {
                DataType::List(Arc::new(Field::new_list_field(nested(item, &format!("{path}[]"))?, true)))
            }
            Self::Object(fields) => {
                let field = |(name, shape): &(String, Shape)| {
                    Ok(Field::new(name, nested(shape, &format!("{path}.{name}"))?, true))
                };
                DataType::Struct(fields.iter().map(field).collect::<Result<Fields>>()?)
            }
            Self::Contradiction => {
                return Err(Error::invalid(format!(
                    "the field '{path}' is an object or a list in one record and something else in another; \
                     declare the columns with CREATE EXTERNAL TABLE"
                )));
            }
        }))
    }
}

fn add_field(fields: &mut Vec<(String, Shape)>, name: String, shape: Shape) {
    match fields.iter_mut().find(|(known, _)| *known == name) {
        Some((_, known)) => known.merge(shape),
        None => fields.push((name, shape)),
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor)
    }
}

/// Keeps the shape of a value and nothing of the value itself.
struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::Unknown)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
        Ok(Shape::Boolean)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Shape, E> {
        Ok(Shape::Integer)
    }

    fn visit_u64<E>(self, value: u64) -> Result<Shape, E> {
        Ok(if i64::try_from(value).is_ok() { Shape::Integer } else { Shape::Float })
    }

    fn visit_f64<E>(self, _: f64) -> Result<Shape, E> {
        Ok(Shape::Float)
    }

    fn visit_str<E>(self, _: &str) -> Result<Shape, E> {
        Ok(Shape::Text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Shape, A::Error> {
        let mut shape = Shape::Unknown;
        while let Some(item) = items.next_element()? {
            shape.merge(item);
        }
        Ok(Shape::List(Box::new(shape)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Shape, A::Error> {
        let mut fields = Vec::new();
        while let Some((name, shape)) = entries.next_entry()? {
            add_field(&mut fields, name, shape);
        }
        Ok(Shape::Object(fields))
    }
}

/// How the records stand, where that was not declared: one a line, unless the first line is no value of its own or
/// the whole is an array of records.
pub(super) fn sniff(sample: &Sample) -> JsonShape {
    let mut lines = sample.bytes.split(|b| *b == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let is_value = !first.starts_with(b"[") && serde_json::from_slice::<serde::de::IgnoredAny>(first).is_ok();
    // A first line longer than the sample cannot be judged.
    let is_cut = first.starts_with(b"{") && lines.next().is_none() && !sample.is_whole;
    if is_value || is_cut { JsonShape::Lines } else { JsonShape::Document }
}

/// The columns of an object; `None` if it holds no record.
pub(super) fn columns(sample: &Sample, max_records: usize, address: &str) -> Result<Option<Vec<Column>>> {
    let mut records = Records { table: Shape::Unknown, count: 0, max: max_records, stray: false };
    let read = if sample.bytes.trim_ascii_start().starts_with(b"[") {
        serde_json::Deserializer::from_slice(&sample.bytes).deserialize_seq(&mut records)
    } else {
        // Reads lines as well: a line end is white space between values.
        let mut values = serde_json::Deserializer::from_slice(&sample.bytes).into_iter::<Shape>();
        values.try_for_each(|value| value.map(|record| records.add(record)))
    };
    if records.stray {
        return Err(Error::invalid(format!(
            "{address}: a record is not an object; a table's records are objects such as {{\"a\": 1}}"
        )));
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
    let Shape::Object(fields) = records.table else { return Ok(None) };
    let column = |(name, shape): (String, Shape)| {
        let data_type = shape.data_type(&name).map_err(|error| error.context(address))?;
        Ok(Column { name, data_type })
    };
    fields.into_iter().map(column).collect::<Result<_>>().map(Some)
}

/// The records seen so far, be they lines or elements of one array.
struct Records {
    table: Shape,
    count: usize,
    max: usize,
    /// One of them was no object.
    stray: bool,
}

impl Records {
    fn add(&mut self, record: Shape) {
        if self.count < self.max {
            self.stray |= !matches!(record, Shape::Object(_));
            self.table.merge(record);
            self.count += 1;
        }
    }
}

impl<'de> Visitor<'de> for &mut Records {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of records")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(record) = items.next_element()? {
            self.add(record);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(text: &str, is_whole: bool) -> Sample {
        Sample { bytes: text.to_owned().into(), is_whole }
    }

    fn types(text: &str) -> Result<Vec<(String, Option<DataType>)>> {
        let columns = columns(&sample(text, true), 99, "s3://b/x.json")?.unwrap_or_default();
        Ok(columns.into_iter().map(|c| (c.name, c.data_type)).collect())
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
        let error = types("{\"a\":1}\n{\"a\":{\"b\":1}}").unwrap_err().to_string();
        assert!(error.contains("the field 'a' is an object"), "{error}");
        let error = types("{\"a\":1}\n{oops}").unwrap_err().to_string();
        assert!(error.starts_with("s3://b/x.json: record 2 is no JSON"), "{error}");
        assert!(types("[1]").is_err());
        assert!(types("1 2").is_err());
        assert!(types("").unwrap().is_empty());
    }

    #[test]
    fn a_cut_record_is_left_out() {
        let text = "{\"a\":1}\n{\"a\":1,\"b\":";
        let found = columns(&sample(text, false), 99, "x").unwrap().unwrap();
        assert_eq!(found.len(), 1);
        assert!(columns(&sample(text, true), 99, "x").is_err());
        let text = "[{\"a\":1},\n{\"a\":1,\"b\":";
        assert_eq!(columns(&sample(text, false), 99, "x").unwrap().unwrap().len(), 1);
        assert!(columns(&sample(text, true), 99, "x").is_err());
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

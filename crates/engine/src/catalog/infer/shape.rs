//! The shapes of values of JSON, and the types of columns that hold them.
//!
//! A field that is a number in one record and text in another is text. A field that is an object or
//! a list in one record and something else in another is text, too: the JSON as it is written. An
//! empty list or object has the type of the other lists or objects of its field.
//!
//! Numbers keep their digits: integers beyond BIGINT are DECIMAL(38,0), and text beyond 38 digits. A
//! field of integers and fractions is DOUBLE only if a DOUBLE holds each of the integers, else text.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};
use pushdowndb_scan::is_exact_as_double;

/// Number of digits that stands for integers beyond BIGINT, and maximum precision of a decimal.
const LONG_DIGITS: u8 = 20;
const DECIMAL_DIGITS: u8 = 38;

/// The shape of the values of one field.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Shape {
    /// Only null.
    #[default]
    Unknown,
    Boolean,
    /// Integers: the maximum number of digits, and whether a DOUBLE represents each of them
    /// exactly.
    Integer {
        digits: u8,
        exact: bool,
    },
    Float,
    Text,
    /// Lists without elements, objects without members, or both.
    Empty {
        lists: bool,
        objects: bool,
    },
    List(Box<Shape>),
    Object(Vec<(String, Shape)>),
    /// Lists with an empty object among them, or objects with an empty list among them.
    Confused(Box<Shape>),
    /// A mixture of objects, lists or plain values.
    Mixed,
}

impl Shape {
    /// The shape of a number.
    pub(super) fn of_number(number: &str) -> Self {
        if number.contains(['.', 'e', 'E']) {
            return Self::Float;
        }
        let digits = u8::try_from(number.trim_start_matches('-').len()).unwrap_or(u8::MAX);
        let is_long = number.parse::<i64>().is_err();
        let digits = if is_long { digits.max(LONG_DIGITS) } else { digits.min(LONG_DIGITS - 1) };
        Self::Integer { digits, exact: is_exact_as_double(number) }
    }

    /// Merges the shape of other values of the same field.
    pub(super) fn merge(&mut self, seen: Shape) {
        use Shape::{Confused, Empty, Float, Integer, List, Mixed, Object, Text, Unknown};
        *self = match (std::mem::take(self), seen) {
            (one, Unknown) | (Unknown, one) => one,
            (Confused(mut a), b) | (b, Confused(mut a)) => {
                a.merge(if let Confused(b) = b { *b } else { b });
                if matches!(*a, List(_) | Object(_)) { Confused(a) } else { *a }
            }
            (List(mut a), List(b)) => {
                a.merge(*b);
                List(a)
            }
            (Object(mut a), Object(b)) => {
                b.into_iter().for_each(|(name, shape)| add_field(&mut a, name, shape));
                Object(a)
            }
            (Empty { lists: a, objects: b }, Empty { lists: c, objects: d }) => {
                Empty { lists: a || c, objects: b || d }
            }
            (nested @ (List(_) | Object(_)), Empty { lists, objects })
            | (Empty { lists, objects }, nested @ (List(_) | Object(_))) => {
                let is_confused = if matches!(nested, List(_)) { objects } else { lists };
                if is_confused { Confused(Box::new(nested)) } else { nested }
            }
            (List(_) | Object(_) | Empty { .. } | Mixed, _) | (_, List(_) | Object(_) | Empty { .. } | Mixed) => Mixed,
            (Integer { digits: a, exact: b }, Integer { digits: c, exact: d }) => {
                Integer { digits: a.max(c), exact: b && d }
            }
            (Float, Integer { exact: true, .. }) | (Integer { exact: true, .. }, Float) => Float,
            (a, b) if a == b => a,
            _ => Text,
        };
    }

    /// Returns the type of a column of this shape; `None` if every value was null. Sets `mixed` if
    /// some objects or lists are to be read as text, or as each other.
    pub(super) fn data_type(&self, mixed: &mut bool) -> Option<DataType> {
        let mut nested = |shape: &Shape| shape.data_type(mixed).unwrap_or(DataType::Utf8);
        Some(match self {
            Self::Unknown => return None,
            Self::Boolean => DataType::Boolean,
            Self::Integer { digits, .. } if *digits < LONG_DIGITS => DataType::Int64,
            Self::Integer { digits, .. } if *digits <= DECIMAL_DIGITS => DataType::Decimal128(DECIMAL_DIGITS, 0),
            Self::Integer { .. } | Self::Text => DataType::Utf8,
            Self::Float => DataType::Float64,
            Self::Empty { objects: false, .. } => DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))),
            Self::List(item) => DataType::List(Arc::new(Field::new_list_field(nested(item), true))),
            Self::Object(fields) => {
                let field = |(name, shape): &(String, Shape)| Field::new(name, nested(shape), true);
                DataType::Struct(fields.iter().map(field).collect::<Fields>())
            }
            Self::Confused(inner) => {
                *mixed = true;
                return inner.data_type(mixed);
            }
            Self::Empty { .. } | Self::Mixed => {
                *mixed = true;
                DataType::Utf8
            }
        })
    }

    /// Returns the path, which begins with `path`, of the first field with values of several kinds;
    /// `None` if there is none.
    pub(super) fn mixed_at(&self, path: &str) -> Option<String> {
        match self {
            Self::Mixed => Some(path.to_owned()),
            Self::Confused(inner) => inner.mixed_at(path),
            Self::List(item) => item.mixed_at(&format!("{path}[]")),
            Self::Object(fields) => fields.iter().find_map(|(name, shape)| shape.mixed_at(&format!("{path}.{name}"))),
            _ => None,
        }
    }
}

/// Returns the number of fields in a type, including nested ones and itself.
pub(super) fn fields_of(data_type: &DataType) -> usize {
    1 + match data_type {
        DataType::List(item) => fields_of(item.data_type()),
        DataType::Struct(fields) => fields.iter().map(|field| fields_of(field.data_type())).sum(),
        _ => 0,
    }
}

/// Adds a field, or merges its shape into that of the field with the same name.
pub(super) fn add_field(fields: &mut Vec<(String, Shape)>, name: String, shape: Shape) {
    match fields.iter_mut().find(|(known, _)| *known == name) {
        Some((_, known)) => known.merge(shape),
        None => fields.push((name, shape)),
    }
}

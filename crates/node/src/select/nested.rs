//! Columns of structs, lists and maps, which are written as JSON in any output.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use pushdown::Result;

use super::Token;
use super::json::{head, value};
use super::rows::{Cell, Column, RowWriter};

/// A column of values that hold values.
pub(super) struct Nested {
    nulls: Option<NullBuffer>,
    kind: Kind,
}

enum Kind {
    /// Members with `"name":` before each.
    Struct(Vec<(Vec<u8>, Column)>),
    /// Where the elements of each row lie.
    List(Vec<Range<usize>>, Box<Column>),
    /// The same of entries: keys and values.
    Map(Vec<Range<usize>>, Box<Column>, Box<Column>),
}

impl Nested {
    /// The column, if it is nested.
    pub fn new(array: &ArrayRef, writer: &RowWriter) -> Result<Option<Self>> {
        let elements = |values: &ArrayRef| Column::new(values, writer).map(Box::new);
        let kind = if let Some(object) = array.as_struct_opt() {
            let members = object.fields().iter().zip(object.columns());
            Kind::Struct(
                members
                    .map(|(field, column)| Ok((head(field.name()), Column::new(column, writer)?)))
                    .collect::<Result<_>>()?,
            )
        } else if let Some(list) = array.as_list_opt::<i32>() {
            Kind::List(ranges(list.value_offsets()), elements(list.values())?)
        } else if let Some(list) = array.as_list_opt::<i64>() {
            Kind::List(ranges(list.value_offsets()), elements(list.values())?)
        } else if let Some(list) = array.as_fixed_size_list_opt() {
            let length = usize::try_from(list.value_length()).unwrap_or_default();
            let ranges = (0..list.len()).map(|row| row * length..(row + 1) * length).collect();
            Kind::List(ranges, elements(list.values())?)
        } else if let Some(map) = array.as_map_opt() {
            Kind::Map(ranges(map.value_offsets()), elements(map.keys())?, elements(map.values())?)
        } else {
            return Ok(None);
        };
        Ok(Some(Self { nulls: array.nulls().cloned(), kind }))
    }

    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Writes the value of a row as JSON.
    pub fn write(&self, out: &mut Vec<u8>, row: usize) {
        let range = |ranges: &[Range<usize>]| ranges.get(row).cloned().unwrap_or_default();
        match &self.kind {
            Kind::Struct(members) => {
                out.push(b'{');
                for (place, (head, column)) in members.iter().enumerate() {
                    separate(out, place);
                    out.extend_from_slice(head);
                    column.cell(row, |cell| value(out, Token::No, cell));
                }
                out.push(b'}');
            }
            Kind::List(ranges, elements) => {
                out.push(b'[');
                for (place, at) in range(ranges).enumerate() {
                    separate(out, place);
                    elements.cell(at, |cell| value(out, Token::No, cell));
                }
                out.push(b']');
            }
            Kind::Map(ranges, keys, values) => {
                out.push(b'{');
                for (place, at) in range(ranges).enumerate() {
                    separate(out, place);
                    keys.cell(at, |cell| key(out, cell));
                    values.cell(at, |cell| value(out, Token::No, cell));
                }
                out.push(b'}');
            }
        }
    }
}

fn separate(out: &mut Vec<u8>, place: usize) {
    if place > 0 {
        out.push(b',');
    }
}

/// The key of a map, which may be a number, as the name of a member.
fn key(out: &mut Vec<u8>, cell: Cell<'_>) {
    let mut text = Vec::new();
    match cell {
        Cell::Text(name, _) => text.extend_from_slice(name.as_bytes()),
        other => value(&mut text, Token::No, other),
    }
    let text = String::from_utf8_lossy(&text);
    out.extend_from_slice(&head(text.trim_matches('"')));
}

fn ranges<O: arrow::array::OffsetSizeTrait>(offsets: &[O]) -> Vec<Range<usize>> {
    let range = |pair: &[O]| match pair {
        [start, end] => start.as_usize()..end.as_usize(),
        _ => 0..0,
    };
    offsets.windows(2).map(range).collect()
}

//! Writes records in JSON: one object each, with members in the order of the selected columns.
//!
//! A MISSING value has no member; NULL has one.

use std::ops::Range;

use arrow::datatypes::Schema;

use super::shape::{Shape, Token};
use super::values::{Cell, Column, Kind, Nested};

/// A JSON format for output.
#[derive(Clone, Debug)]
pub(super) struct JsonWriter {
    terminator: Vec<u8>,
    /// `"name":` of each column.
    heads: Vec<Vec<u8>>,
    shapes: Vec<Shape>,
}

impl JsonWriter {
    /// Creates a writer for rows of `schema` with these shapes.
    pub fn new(terminator: &str, schema: &Schema, shapes: Vec<Shape>) -> Self {
        let heads = schema.fields().iter().map(|field| head(field.name())).collect();
        Self { terminator: terminator.into(), heads, shapes }
    }

    /// Whether `text` needs no escapes.
    pub fn is_plain(&self, text: &[u8]) -> bool {
        !text.iter().any(|&byte| needs_escape(byte))
    }

    /// Writes one record. Stops early if it is longer than `max_bytes` bytes.
    pub fn record(&self, out: &mut Vec<u8>, columns: &[Column], row: usize, max_bytes: usize) {
        let start = out.len();
        let shape = |place: usize| self.shapes.get(place).copied().unwrap_or_default();
        if let (Token::Record, [record]) = (shape(0).token, columns) {
            // `*` returns the records unchanged.
            record.cell(row, |cell| match cell {
                Cell::Text(text, _) if text.trim_start().starts_with('{') => one_line(out, text),
                Cell::Text(text, _) => {
                    out.extend_from_slice(b"{\"_1\":");
                    one_line(out, text);
                    out.push(b'}');
                }
                _ => out.extend_from_slice(b"{}"),
            });
        } else {
            let mut separator = b'{';
            for (place, (head, column)) in self.heads.iter().zip(columns).enumerate() {
                if out.len() - start > max_bytes {
                    return;
                }
                let shape = shape(place);
                if let Column::Rest(rest) = column {
                    for (further, field) in rest.get(row).into_iter().flatten().enumerate() {
                        out.push(std::mem::replace(&mut separator, b','));
                        out.extend_from_slice(format!("\"_{}\":", place + further + 1).as_bytes());
                        string(out, field);
                    }
                    continue;
                }
                if shape.missing && column.is_null(row) {
                    continue;
                }
                out.push(std::mem::replace(&mut separator, b','));
                out.extend_from_slice(head);
                column.cell(row, |cell| value(out, shape.token, cell));
            }
            if separator == b'{' {
                out.push(b'{');
            }
            out.push(b'}');
        }
        out.extend_from_slice(&self.terminator);
    }
}

/// The name of a member, up to its value.
fn head(name: &str) -> Vec<u8> {
    let mut head = Vec::new();
    string(&mut head, name);
    head.push(b':');
    head
}

/// Writes one value.
fn value(out: &mut Vec<u8>, token: Token, cell: Cell<'_>) {
    match cell {
        Cell::Null => out.extend_from_slice(b"null"),
        Cell::Boolean(true) => out.extend_from_slice(b"true"),
        Cell::Boolean(false) => out.extend_from_slice(b"false"),
        Cell::Number(write) => write(out),
        Cell::Nested(column, row) => nested(out, column, row),
        Cell::Float(value, write) if value.is_finite() => write(out),
        // JSON has no NaN and no infinities; as text they are not mistaken for NULL.
        Cell::Float(_, write) | Cell::Time(write) => {
            out.push(b'"');
            write(out);
            out.push(b'"');
        }
        Cell::Text(text, _) if token != Token::No => one_line(out, text),
        Cell::Text(text, true) => {
            out.push(b'"');
            out.extend_from_slice(text.as_bytes());
            out.push(b'"');
        }
        Cell::Text(text, false) => string(out, text),
    }
}

/// Writes the struct, list or map of a row.
pub(super) fn nested(out: &mut Vec<u8>, nested: &Nested, row: usize) {
    let range = |ranges: &[Range<usize>]| ranges.get(row).cloned().unwrap_or_default();
    match &nested.kind {
        Kind::Struct(members) => {
            out.push(b'{');
            for (place, (name, column)) in members.iter().enumerate() {
                separate(out, place);
                string(out, name);
                out.push(b':');
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

fn separate(out: &mut Vec<u8>, place: usize) {
    if place > 0 {
        out.push(b',');
    }
}

/// Writes the key of a map, which may be a number, as a member name.
fn key(out: &mut Vec<u8>, cell: Cell<'_>) {
    let mut text = Vec::new();
    match cell {
        Cell::Text(name, _) => text.extend_from_slice(name.as_bytes()),
        other => value(&mut text, Token::No, other),
    }
    let text = String::from_utf8_lossy(&text);
    out.extend_from_slice(&head(text.trim_matches('"')));
}

/// Writes a JSON value without line breaks, at which readers split records. They occur only between
/// the tokens of valid JSON.
fn one_line(out: &mut Vec<u8>, token: &str) {
    for run in token.split(['\n', '\r']) {
        out.extend_from_slice(run.as_bytes());
    }
}

fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Writes a JSON string.
fn string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|&byte| needs_escape(byte)) {
        let (run, tail) = rest.split_at(at);
        out.extend_from_slice(run);
        let Some((&byte, after)) = tail.split_first() else { break };
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            other => {
                let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or(b'0');
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(other >> 4), digit(other & 15)]);
            }
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

//! Records in JSON: one object each, in the order of the selected columns.
//!
//! What is MISSING has no member. NULL has one.

use arrow::datatypes::Schema;

use super::rows::{Cell, Column};
use super::{Shape, Token};

/// How JSON is written.
#[derive(Clone, Debug)]
pub(super) struct JsonWriter {
    terminator: Vec<u8>,
    /// `"name":` of each column.
    heads: Vec<Vec<u8>>,
    shapes: Vec<Shape>,
}

impl JsonWriter {
    /// For rows of this schema, of columns of these shapes.
    pub fn new(terminator: &str, schema: &Schema, shapes: Vec<Shape>) -> Self {
        let heads = schema.fields().iter().map(|field| head(field.name())).collect();
        Self { terminator: terminator.into(), heads, shapes }
    }

    /// Whether text of these bytes needs no escapes.
    pub fn is_plain(&self, text: &[u8]) -> bool {
        !text.iter().any(|&byte| needs_escape(byte))
    }

    /// Writes one record.
    pub fn record(&self, out: &mut Vec<u8>, columns: &[Column], row: usize) {
        let shape = |place: usize| self.shapes.get(place).copied().unwrap_or_default();
        if let (Token::Record, [record]) = (shape(0).token, columns) {
            // `*` gives back the records as they are.
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
pub(super) fn head(name: &str) -> Vec<u8> {
    let mut head = Vec::new();
    string(&mut head, name);
    head.push(b':');
    head
}

/// Writes one value.
pub(super) fn value(out: &mut Vec<u8>, token: Token, cell: Cell<'_>) {
    match cell {
        Cell::Null => out.extend_from_slice(b"null"),
        Cell::Boolean(true) => out.extend_from_slice(b"true"),
        Cell::Boolean(false) => out.extend_from_slice(b"false"),
        Cell::Number(write) | Cell::Nested(write) => write(out),
        Cell::Float(value, write) if value.is_finite() => write(out),
        // JSON has no number for NaN and the infinities; as text they are at least not taken for NULL.
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

/// A JSON value without its line ends, which stand only between its tokens: readers cut records at them.
fn one_line(out: &mut Vec<u8>, token: &str) {
    for run in token.split(['\n', '\r']) {
        out.extend_from_slice(run.as_bytes());
    }
}

fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// A JSON string, copied in runs between the characters that need an escape.
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

//! Records in JSON: one object each, in the order of the selected columns.

use arrow::datatypes::Schema;

use super::Token;
use super::rows::{Cell, Column};

/// How JSON is written.
#[derive(Clone, Debug)]
pub(super) struct JsonWriter {
    terminator: Vec<u8>,
    /// `{"name":` of the first column, `,"name":` of the others.
    heads: Vec<Vec<u8>>,
    tokens: Vec<Token>,
}

impl JsonWriter {
    /// For rows of this schema; `tokens` says which of its texts are JSON already.
    pub fn new(terminator: &str, schema: &Schema, tokens: Vec<Token>) -> Self {
        let head = |(place, name): (usize, &str)| {
            let mut head = Vec::new();
            head.push(if place == 0 { b'{' } else { b',' });
            string(&mut head, name);
            head.push(b':');
            head
        };
        let names = schema.fields().iter().map(|field| field.name().as_str());
        Self { terminator: terminator.into(), heads: names.enumerate().map(head).collect(), tokens }
    }

    /// Whether text of these bytes needs no escapes.
    pub fn is_plain(&self, text: &[u8]) -> bool {
        !text.iter().any(|&byte| needs_escape(byte))
    }

    /// Writes one record.
    pub fn record(&self, out: &mut Vec<u8>, columns: &[Column], row: usize) {
        if let (&[Token::Record], [record]) = (self.tokens.as_slice(), columns) {
            // `*` gives back the records as they are.
            record.cell(row, |cell| self.value(out, Token::Record, cell));
        } else {
            for (place, (head, column)) in self.heads.iter().zip(columns).enumerate() {
                out.extend_from_slice(head);
                let token = self.tokens.get(place).copied().unwrap_or(Token::No);
                column.cell(row, |cell| self.value(out, token, cell));
            }
            out.extend_from_slice(if columns.is_empty() { b"{}" } else { b"}" });
        }
        out.extend_from_slice(&self.terminator);
    }

    fn value(&self, out: &mut Vec<u8>, token: Token, cell: Cell<'_>) {
        match cell {
            Cell::Null => out.extend_from_slice(b"null"),
            Cell::Boolean(true) => out.extend_from_slice(b"true"),
            Cell::Boolean(false) => out.extend_from_slice(b"false"),
            Cell::Number(write) => write(out),
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

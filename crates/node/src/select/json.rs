//! Records in JSON: one object each, in the order of the selected columns.

use arrow::datatypes::Schema;
use bytes::{BufMut, BytesMut};

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
            let mut head = BytesMut::new();
            head.put_u8(if place == 0 { b'{' } else { b',' });
            string(&mut head, name);
            head.put_u8(b':');
            head.to_vec()
        };
        let names = schema.fields().iter().map(|field| field.name().as_str());
        Self { terminator: terminator.into(), heads: names.enumerate().map(head).collect(), tokens }
    }

    /// Writes one record.
    pub fn record(&self, out: &mut BytesMut, columns: &[Column], row: usize) {
        if let (&[Token::Record], [record]) = (self.tokens.as_slice(), columns) {
            // `*` gives back the records as they are.
            record.cell(row, |cell| self.value(out, Token::Record, cell));
        } else {
            for (place, (head, column)) in self.heads.iter().zip(columns).enumerate() {
                out.put_slice(head);
                let token = self.tokens.get(place).copied().unwrap_or(Token::No);
                column.cell(row, |cell| self.value(out, token, cell));
            }
            out.put_slice(if columns.is_empty() { b"{}" } else { b"}" });
        }
        out.put_slice(&self.terminator);
    }

    fn value(&self, out: &mut BytesMut, token: Token, cell: Cell<'_>) {
        match cell {
            Cell::Null => out.put_slice(b"null"),
            Cell::Boolean(true) => out.put_slice(b"true"),
            Cell::Boolean(false) => out.put_slice(b"false"),
            Cell::Number(write) => write(out),
            Cell::Float(value, write) if value.is_finite() => write(out),
            // JSON has no number for NaN and the infinities; as text they are at least not taken for NULL.
            Cell::Float(_, write) | Cell::Time(write) => {
                out.put_u8(b'"');
                write(out);
                out.put_u8(b'"');
            }
            Cell::Text(text) if token == Token::No => string(out, text),
            Cell::Text(token) => one_line(out, token),
        }
    }
}

/// A JSON value without its line ends, which stand only between its tokens: readers cut records at them.
fn one_line(out: &mut BytesMut, token: &str) {
    for run in token.split(['\n', '\r']) {
        out.put_slice(run.as_bytes());
    }
}

/// A JSON string, copied in runs between the characters that need an escape.
pub(super) fn string(out: &mut BytesMut, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.put_u8(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        let (run, tail) = rest.split_at(at);
        out.put_slice(run);
        let Some((&byte, after)) = tail.split_first() else { break };
        match byte {
            b'"' => out.put_slice(b"\\\""),
            b'\\' => out.put_slice(b"\\\\"),
            b'\n' => out.put_slice(b"\\n"),
            b'\r' => out.put_slice(b"\\r"),
            b'\t' => out.put_slice(b"\\t"),
            other => {
                let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or(b'0');
                out.put_slice(&[b'\\', b'u', b'0', b'0', digit(other >> 4), digit(other & 15)]);
            }
        }
        rest = after;
    }
    out.put_slice(rest);
    out.put_u8(b'"');
}

//! Records in CSV, as OutputSerialization asks for them.
//!
//! Values of JSON lose their quotes: `"a"` is written as `a`, `null` as nothing, `{…}` as it is.

use bytes::{BufMut, BytesMut};

use super::Token;
use super::rows::{Cell, Column};

/// How CSV is written.
#[derive(Clone, Debug)]
pub(super) struct CsvWriter {
    delimiter: Vec<u8>,
    terminator: Vec<u8>,
    quote: u8,
    escape: u8,
    always: bool,
    /// Bytes that make a field need quotes.
    special: Box<[bool; 256]>,
    tokens: Vec<Token>,
}

impl CsvWriter {
    pub fn new(delimiter: &str, terminator: &str, quote: u8, escape: u8, always: bool) -> Self {
        let mut special = Box::new([false; 256]);
        for byte in delimiter.bytes().chain(terminator.bytes()).chain([quote, b'\n', b'\r']) {
            if let Some(place) = special.get_mut(usize::from(byte)) {
                *place = true;
            }
        }
        let (delimiter, terminator) = (delimiter.into(), terminator.into());
        Self { delimiter, terminator, quote, escape, always, special, tokens: Vec::new() }
    }

    /// For rows of which some columns hold JSON.
    pub fn with_tokens(mut self, tokens: Vec<Token>) -> Self {
        self.tokens = tokens;
        self
    }

    /// Writes one record.
    pub fn record(&self, out: &mut BytesMut, columns: &[Column], row: usize) {
        let start = out.len();
        for (place, column) in columns.iter().enumerate() {
            if place > 0 {
                out.put_slice(&self.delimiter);
            }
            let token = self.tokens.get(place).copied().unwrap_or(Token::No);
            column.cell(row, |cell| match (token, cell) {
                (Token::Value, Cell::Text(text)) => self.token(out, text),
                (Token::Record, Cell::Text(text)) => self.members(out, text),
                (_, cell) => self.field(out, cell),
            });
        }
        // An empty line would not be seen as a record of one empty field.
        if out.len() == start {
            out.put_slice(&[self.quote, self.quote]);
        }
        out.put_slice(&self.terminator);
    }

    fn field(&self, out: &mut BytesMut, cell: Cell<'_>) {
        let plain: &[u8] = match cell {
            Cell::Text(text) => text.as_bytes(),
            Cell::Number(write) | Cell::Float(_, write) | Cell::Time(write) => return self.written(out, write),
            Cell::Null => b"",
            Cell::Boolean(true) => b"true",
            Cell::Boolean(false) => b"false",
        };
        self.text(out, plain);
    }

    /// Writes a value in place; it is taken back only if it needs quotes.
    fn written(&self, out: &mut BytesMut, write: &dyn Fn(&mut BytesMut)) {
        let start = out.len();
        write(out);
        if self.always || out.get(start..).is_some_and(|value| self.needs_quotes(value)) {
            let value = out.split_off(start);
            self.text(out, &value);
        }
    }

    fn needs_quotes(&self, value: &[u8]) -> bool {
        value.iter().any(|&byte| self.special.get(usize::from(byte)).copied().unwrap_or(true))
    }

    fn text(&self, out: &mut BytesMut, value: &[u8]) {
        if !self.always && !self.needs_quotes(value) {
            out.put_slice(value);
            return;
        }
        out.put_u8(self.quote);
        for &byte in value {
            if byte == self.quote || byte == self.escape {
                out.put_u8(self.escape);
            }
            out.put_u8(byte);
        }
        out.put_u8(self.quote);
    }

    fn token(&self, out: &mut BytesMut, token: &str) {
        let token = token.trim();
        if token.starts_with('"')
            && let Ok(text) = serde_json::from_str::<String>(token)
        {
            self.text(out, text.as_bytes());
        } else {
            self.text(out, if token == "null" { b"" } else { token.as_bytes() });
        }
    }

    /// The values of a record side by side, as `*` selects them.
    fn members(&self, out: &mut BytesMut, record: &str) {
        match members(record) {
            Some(values) => {
                for (place, value) in values.into_iter().enumerate() {
                    if place > 0 {
                        out.put_slice(&self.delimiter);
                    }
                    self.token(out, value);
                }
            }
            None => self.token(out, record),
        }
    }
}

/// The values of a JSON object in order; none if it is no object. It is known to be JSON.
fn members(record: &str) -> Option<Vec<&str>> {
    let inside = record.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut values = Vec::new();
    let (mut depth, mut in_string, mut escaped, mut start) = (0usize, false, false, None);
    for (at, byte) in inside.bytes().enumerate() {
        if in_string {
            (in_string, escaped) = (escaped || byte != b'"', !escaped && byte == b'\\');
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b':' if depth == 0 => start = Some(at + 1),
            b',' if depth == 0 => values.extend(start.take().and_then(|start| inside.get(start..at))),
            _ => {}
        }
    }
    values.extend(start.and_then(|start| inside.get(start..)));
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_in_order() {
        let record = r#" {"b" : "x,\"}:" , "a":{"c":[1,2],"d":3},"e":17.00} "#;
        let values: Vec<&str> = members(record).unwrap().into_iter().map(str::trim).collect();
        assert_eq!(values, [r#""x,\"}:""#, r#"{"c":[1,2],"d":3}"#, "17.00"]);
        assert_eq!(members("{}"), Some(vec![]));
        assert_eq!(members("[1]"), None);
    }
}

//! Records in CSV, as OutputSerialization asks for them.
//!
//! Values of JSON lose their quotes: `"a"` is written as `a`, `null` as nothing, `{…}` as it is.

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
    /// One of those stands in numbers or times.
    odd: bool,
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
        let odd = b"0123456789+-.:eEinfNaTZ".iter().any(|&byte| special.get(usize::from(byte)) == Some(&true));
        let (delimiter, terminator) = (delimiter.into(), terminator.into());
        Self { delimiter, terminator, quote, escape, always, special, odd, tokens: Vec::new() }
    }

    /// For rows of which some columns hold JSON.
    pub fn with_tokens(mut self, tokens: Vec<Token>) -> Self {
        self.tokens = tokens;
        self
    }

    /// Writes one record.
    pub fn record(&self, out: &mut Vec<u8>, columns: &[Column], row: usize) {
        let start = out.len();
        for (place, column) in columns.iter().enumerate() {
            if place > 0 {
                out.extend_from_slice(&self.delimiter);
            }
            let token = self.tokens.get(place).copied().unwrap_or(Token::No);
            column.cell(row, |cell| match (token, cell) {
                (Token::Value, Cell::Text(text, _)) => self.token(out, text),
                (Token::Record, Cell::Text(text, _)) => self.members(out, text),
                (_, cell) => self.field(out, cell),
            });
        }
        // An empty line would not be seen as a record of one empty field.
        if out.len() == start {
            out.extend_from_slice(&[self.quote, self.quote]);
        }
        out.extend_from_slice(&self.terminator);
    }

    fn field(&self, out: &mut Vec<u8>, cell: Cell<'_>) {
        match cell {
            Cell::Text(text, true) => self.plain(out, text.as_bytes()),
            Cell::Text(text, false) => self.text(out, text.as_bytes()),
            Cell::Number(write) | Cell::Float(_, write) | Cell::Time(write) => self.written(out, write),
            Cell::Null => self.text(out, b""),
            Cell::Boolean(value) => self.text(out, if value { b"true" } else { b"false" }),
        }
    }

    /// Writes a value in place; it is taken back only where it may need quotes.
    fn written(&self, out: &mut Vec<u8>, write: &dyn Fn(&mut Vec<u8>)) {
        let start = out.len();
        write(out);
        if self.always || self.odd {
            let value = out.split_off(start);
            self.text(out, &value);
        }
    }

    fn needs_quotes(&self, value: &[u8]) -> bool {
        value.iter().any(|&byte| self.special.get(usize::from(byte)).copied().unwrap_or(true))
    }

    /// Whether text of these bytes is written as it is, between quotes or not.
    pub fn is_plain(&self, text: &[u8]) -> bool {
        !(self.needs_quotes(text) || self.always && text.contains(&self.escape))
    }

    fn plain(&self, out: &mut Vec<u8>, value: &[u8]) {
        if self.always {
            out.push(self.quote);
            out.extend_from_slice(value);
            out.push(self.quote);
        } else {
            out.extend_from_slice(value);
        }
    }

    fn text(&self, out: &mut Vec<u8>, value: &[u8]) {
        if self.is_plain(value) {
            return self.plain(out, value);
        }
        out.push(self.quote);
        for &byte in value {
            if byte == self.quote || byte == self.escape {
                out.push(self.escape);
            }
            out.push(byte);
        }
        out.push(self.quote);
    }

    fn token(&self, out: &mut Vec<u8>, token: &str) {
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
    fn members(&self, out: &mut Vec<u8>, record: &str) {
        match members(record) {
            Some(values) => {
                for (place, value) in values.into_iter().enumerate() {
                    if place > 0 {
                        out.extend_from_slice(&self.delimiter);
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

//! Writes records in CSV, as the OutputSerialization asks.
//!
//! JSON strings lose their quotes: `"a"` is written as `a`, `null` as an empty field, `{…}`
//! unchanged. A CSV record selected by `*` keeps its number of fields.

use memchr::memmem;

use super::json::nested;
use super::shape::{Shape, Token};
use super::values::{Cell, Column};

/// A CSV dialect for output.
#[derive(Clone, Debug)]
pub(super) struct CsvWriter {
    delimiter: Vec<u8>,
    terminator: Vec<u8>,
    quote: Vec<u8>,
    escape: Vec<u8>,
    always: bool,
    /// Bytes that require quoting.
    special: Box<[bool; 256]>,
    /// Multi-byte characters that require quoting.
    special_characters: Vec<String>,
    /// Whether a special character occurs in numbers or times.
    special_in_numbers: bool,
    shapes: Vec<Shape>,
}

impl CsvWriter {
    pub fn new(delimiter: &str, terminator: &str, quote: &str, escape: &str, always: bool) -> Self {
        let mut special = Box::new([false; 256]);
        let mut special_characters = Vec::new();
        for c in delimiter.chars().chain(terminator.chars()).chain(quote.chars()).chain(['\n', '\r']) {
            match u8::try_from(c).ok().filter(u8::is_ascii).and_then(|byte| special.get_mut(usize::from(byte))) {
                Some(place) => *place = true,
                None => special_characters.push(c.to_string()),
            }
        }
        let special_in_numbers =
            b"0123456789+-.:eEinfNaTZ".iter().any(|&byte| special.get(usize::from(byte)) == Some(&true));
        Self {
            delimiter: delimiter.into(),
            terminator: terminator.into(),
            quote: quote.into(),
            escape: escape.into(),
            always,
            special,
            special_characters,
            special_in_numbers,
            shapes: Vec::new(),
        }
    }

    /// Sets the shapes of the columns.
    pub fn with_shapes(mut self, shapes: Vec<Shape>) -> Self {
        self.shapes = shapes;
        self
    }

    /// Writes one record. Stops early if it is longer than `max_bytes` bytes.
    pub fn record(&self, out: &mut Vec<u8>, columns: &[Column], row: usize, max_bytes: usize) {
        let start = out.len();
        let (columns, rest) = match columns.split_last() {
            Some((Column::Rest(rest), columns)) => {
                let rest = rest.get(row).map_or(&[] as &[String], Vec::as_slice);
                let has = columns.iter().rposition(|column| !column.is_null(row)).map_or(1, |last| last + 1);
                let shown = if rest.is_empty() { has } else { columns.len() };
                (columns.get(..shown).unwrap_or(columns), rest)
            }
            _ => (columns, &[] as &[String]),
        };
        for (place, column) in columns.iter().enumerate() {
            if out.len() - start > max_bytes {
                return;
            }
            if place > 0 {
                out.extend_from_slice(&self.delimiter);
            }
            let token = self.shapes.get(place).map_or(Token::No, |shape| shape.token);
            column.cell(row, |cell| match (token, cell) {
                (Token::Value, Cell::Text(text, _)) => self.token(out, text),
                (Token::Record, Cell::Text(text, _)) => self.members(out, text),
                (_, cell) => self.field(out, cell),
            });
        }
        for field in rest {
            out.extend_from_slice(&self.delimiter);
            self.text(out, field.as_bytes());
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
            // As JSON, since CSV has no nested values.
            Cell::Nested(column, row) => {
                let start = out.len();
                nested(out, column, row);
                let value = out.split_off(start);
                self.text(out, &value);
            }
        }
    }

    /// Writes a number or time in place, and rewrites it only if it may need quotes.
    fn written(&self, out: &mut Vec<u8>, write: &dyn Fn(&mut Vec<u8>)) {
        let start = out.len();
        write(out);
        if self.always || self.special_in_numbers {
            let value = out.split_off(start);
            self.text(out, &value);
        }
    }

    fn needs_quotes(&self, value: &[u8]) -> bool {
        value.iter().any(|&byte| self.special.get(usize::from(byte)).copied().unwrap_or(true))
            || self.special_characters.iter().any(|c| memmem::find(value, c.as_bytes()).is_some())
    }

    /// Whether `text` is written unchanged, apart from quotes around it.
    pub fn is_plain(&self, text: &[u8]) -> bool {
        !(self.needs_quotes(text) || self.always && memmem::find(text, &self.escape).is_some())
    }

    fn plain(&self, out: &mut Vec<u8>, value: &[u8]) {
        if self.always {
            out.extend_from_slice(&self.quote);
            out.extend_from_slice(value);
            out.extend_from_slice(&self.quote);
        } else {
            out.extend_from_slice(value);
        }
    }

    fn text(&self, out: &mut Vec<u8>, value: &[u8]) {
        if self.is_plain(value) {
            return self.plain(out, value);
        }
        out.extend_from_slice(&self.quote);
        let mut rest = value;
        while let Some((byte, after)) = rest.split_first() {
            // This never matches part of another character: UTF-8 is self-synchronizing.
            if rest.starts_with(&self.quote) || rest.starts_with(&self.escape) {
                out.extend_from_slice(&self.escape);
            }
            out.push(*byte);
            rest = after;
        }
        out.extend_from_slice(&self.quote);
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

    /// Writes the values of a JSON record's members, as `*` selects them.
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

/// The member values of valid JSON in order; `None` if it is not an object.
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

    #[test]
    fn marks_of_any_script_are_quoted_and_escaped() {
        let field = |csv: &CsvWriter, text: &str| {
            let mut out = Vec::new();
            csv.text(&mut out, text.as_bytes());
            String::from_utf8(out).unwrap()
        };
        let wide = CsvWriter::new("¦", "\n", "«", "«", false);
        assert_eq!(field(&wide, "a¦b«"), "«a¦b«««");
        // Another character with the same first byte.
        assert_eq!(field(&wide, "©"), "©");
        let long = CsvWriter::new("||", "\n", "\"", "\\", false);
        assert_eq!(field(&long, "a|"), "\"a|\"");
        assert_eq!(field(&long, "a\\\"|"), "\"a\\\\\\\"|\"");
    }
}

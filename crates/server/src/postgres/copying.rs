//! Encodes rows in the formats of COPY: text, CSV, or binary.

use pushdowndb_contract::Result;

use super::output::{Column, int16, message, set_length};
use super::rows::RowWriter;
use crate::statement::copy::{CopyFormat, CopyOut};
use crate::values::Format;
use crate::values::cells::Cells;

/// The header of the binary format: the signature, no flags, no extension.
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// Writes rows in the format that COPY specifies.
pub(super) struct CopyRows<'a> {
    options: &'a CopyOut,
    value: Vec<u8>,
    has_begun: bool,
}

impl<'a> CopyRows<'a> {
    /// Creates a writer with these options.
    pub fn new(options: &'a CopyOut) -> Self {
        Self { options, value: Vec::new(), has_begun: false }
    }

    /// Writes the header, if the options ask for one.
    pub fn begin(&mut self, columns: &[Column], out: &mut Vec<u8>) {
        if self.options.header {
            message(out, b'd', |out| {
                for (at, column) in columns.iter().enumerate() {
                    if at > 0 {
                        out.push(self.options.delimiter);
                    }
                    self.field(column.name.as_bytes(), columns.len() == 1, out);
                }
                out.push(b'\n');
            });
        }
    }

    /// Writes the trailer of the binary format.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        if self.options.format == CopyFormat::Binary {
            message(out, b'd', |out| {
                if !self.has_begun {
                    out.extend_from_slice(SIGNATURE);
                }
                out.extend_from_slice(&(-1_i16).to_be_bytes());
            });
        }
    }

    /// Writes a value that is not NULL.
    fn field(&self, value: &[u8], is_alone: bool, out: &mut Vec<u8>) {
        let options = self.options;
        if options.format == CopyFormat::Text {
            for byte in value {
                let after_backslash = match byte {
                    b'\x08' => b'b',
                    b'\x0c' => b'f',
                    b'\n' => b'n',
                    b'\r' => b'r',
                    b'\t' => b't',
                    b'\x0b' => b'v',
                    b'\\' => b'\\',
                    other if *other == options.delimiter => *other,
                    other => {
                        out.push(*other);
                        continue;
                    }
                };
                out.extend_from_slice(&[b'\\', after_backslash]);
            }
            return;
        }
        let is_special = |byte: &u8| {
            *byte == options.delimiter
                || *byte == options.quote
                || *byte == options.escape
                || matches!(byte, b'\n' | b'\r')
        };
        // Quoted, since old readers treat a line with only `\.` as the end of the data.
        let is_end = is_alone && value == b"\\.";
        if !options.force_quote && value != options.null.as_bytes() && !is_end && !value.iter().any(is_special) {
            out.extend_from_slice(value);
            return;
        }
        out.push(options.quote);
        for byte in value {
            if *byte == options.quote || *byte == options.escape {
                out.push(options.escape);
            }
            out.push(*byte);
        }
        out.push(options.quote);
    }
}

impl RowWriter for CopyRows<'_> {
    fn format(&self, _: usize) -> Format {
        if self.options.format == CopyFormat::Binary { Format::Binary } else { Format::Text }
    }

    fn row(&mut self, cells: &[Cells], row: usize, out: &mut Vec<u8>) -> Result<()> {
        out.push(b'd');
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        if self.options.format == CopyFormat::Binary {
            if !std::mem::replace(&mut self.has_begun, true) {
                out.extend_from_slice(SIGNATURE);
            }
            int16(out, cells.len());
            for cell in cells {
                cell.write_with_length(row, out)?;
            }
        } else {
            for (at, cell) in cells.iter().enumerate() {
                if at > 0 {
                    out.push(self.options.delimiter);
                }
                if cell.is_null(row) {
                    out.extend_from_slice(self.options.null.as_bytes());
                    continue;
                }
                let mut value = std::mem::take(&mut self.value);
                value.clear();
                cell.write(row, &mut value)?;
                self.field(&value, cells.len() == 1, out);
                self.value = value;
            }
            out.push(b'\n');
        }
        set_length(out, start);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::words::Words;

    fn field(options: &str, value: &str) -> String {
        let sql = format!("COPY (SELECT 1) TO STDOUT {options}");
        let options = CopyOut::parse(&mut Words::new(&sql)).unwrap().unwrap();
        let mut out = Vec::new();
        CopyRows::new(&options).field(value.as_bytes(), false, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_are_escaped_as_by_postgres() {
        assert_eq!(field("", "a\tb\\c\nd"), "a\\tb\\\\c\\nd");
        assert_eq!(field("(FORMAT csv)", "plain"), "plain");
        assert_eq!(field("(FORMAT csv)", ""), "\"\"", "not NULL");
        assert_eq!(field("(FORMAT csv)", "a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
        assert_eq!(field("(FORMAT csv, QUOTE '''', ESCAPE '\\')", "it's"), "'it\\'s'");
        assert_eq!(field("(FORMAT csv, FORCE_QUOTE *)", "x"), "\"x\"");
    }
}

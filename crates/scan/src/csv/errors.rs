//! What is wrong with a record or a field, as users read it.

use pushdown::Error;

use super::cut::{Shape, Stopped, Text, Why};
use super::fuse::DecodedColumn;
use super::tokenize::{Dialect, Malformed};
use crate::text::columns::{BadField, Spelling};
use crate::text::fields::FieldColumn;
use crate::text::records::too_long;
use crate::types::sql_type;

/// The text in which something is wrong.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) location: &'a str,
    pub(crate) dialect: &'a Dialect,
    pub(crate) shape: &'a Shape,
    pub(crate) text: Text<'a>,
}

impl Place<'_> {
    /// The error for a record at which cutting stopped.
    #[cold]
    pub(crate) fn stopped(self, stopped: Stopped) -> Error {
        match stopped.why {
            Why::TooLong => too_long(self.location, self.text.offset + stopped.at as u64, self.shape.record_bytes),
            Why::Malformed(why) => self.malformed(stopped.at, why),
        }
    }

    /// The error for a record that cannot be cut. `at` is where it starts in the text.
    #[cold]
    pub(crate) fn malformed(self, at: usize, why: Malformed) -> Error {
        let Self { location, dialect, shape: Shape { columns, .. }, text: Text { text, offset, .. } } = self;
        match why {
            Malformed::OpenQuote(quote) => {
                // Closed further on, it holds a record delimiter; otherwise it is simply open.
                let closes = !dialect.newlines_in_values && dialect.closes_later(text, quote);
                let code = if closes { "CSVEscapingRecordDelimiter" } else { "CSVUnescapedQuote" };
                Error::invalid(format!(
                    "{location}, byte {}: a quote is opened and not closed in its record; if values hold line ends, \
                 declare newlines_in_values",
                    offset + quote as u64
                ))
                .with_code(code)
            }
            Malformed::FieldCount => {
                let line = dialect.line(text, at, true).ok().flatten();
                let found = line.and_then(|line| dialect.all_fields(text, line).ok()).map_or(0, |spans| spans.len());
                Error::invalid(format!(
                    "{location}, byte {}: the record has {found} fields and the table {columns} columns; correct the \
                 declaration, or declare that records may be ragged",
                    offset + at as u64
                ))
            }
        }
    }

    /// The error for a field that does not go into its column.
    #[cold]
    pub(crate) fn bad_field(self, column: &DecodedColumn, fields: &FieldColumn<'_>, bad: &BadField) -> Error {
        let (location, offset) = (self.location, self.text.offset);
        let name = &column.name;
        let place = if bad.span.is_missing() {
            format!("{location}, column \"{name}\"")
        } else {
            format!("{location}, byte {}, column \"{name}\"", offset + bad.span.start() as u64)
        };
        if bad.null {
            return Error::invalid(format!("{place}: the field is NULL, but the column is declared NOT NULL"));
        }
        let value = fields.shown(bad.span);
        if column.data_type.is_string() {
            return Error::invalid(format!("{place}: '{value}' is not UTF-8")).with_code("InvalidTextEncoding");
        }
        let way_out = match column.spelling {
            Spelling::Declared => "; a column declared VARCHAR takes any text",
            Spelling::Cast => "",
        };
        Error::invalid(format!("{place}: cannot parse '{value}' as {}{way_out}", sql_type(&column.data_type)))
            .with_code("CastFailed")
    }
}

//! Errors in CSV records and fields, as reported to users.

use pushdowndb_contract::{Error, Result};

use crate::text::csv::cut::{Shape, Stopped, Text, Why};
use crate::text::csv::dialect::{Dialect, Malformed};
use crate::text::csv::fuse::DecodedColumn;
use crate::text::errors::too_long;
use crate::types::sql_type;
use crate::values::fields::FieldColumn;
use crate::values::nulls::{BadField, Spelling};

/// Compares the `header` of an object with the column `names` of its table, by position. A
/// different name is an error. Names that were generated for unnamed or duplicate columns match,
/// and blanks around names are ignored.
pub fn check_header(names: &[String], header: &[String], location: &str) -> Result<()> {
    let is_made_of = |name: &str, field: &str| {
        let (name, field) = (name.trim(), field.trim());
        let same = name.get(..field.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(field));
        field.is_empty()
            || same && (name.len() == field.len() || name.get(field.len()..).is_some_and(|end| end.starts_with('_')))
    };
    match names.iter().zip(header).position(|(name, field)| !is_made_of(name, field)) {
        None => Ok(()),
        Some(at) => Err(Error::invalid(format!(
            "{location}: column {} is '{}' in its header and '{}' in those that the columns were inferred from; set OPTIONS \
             ('union_by_name' 'true') to read all columns by name, or declare the columns",
            at + 1,
            header.get(at).map_or("", String::as_str),
            names.get(at).map_or("", String::as_str),
        ))),
    }
}

/// Returns an error if the `header`, which no record follows, contains carriage returns: most
/// likely, they are the line ends.
#[cold]
pub(crate) fn check_line_ends(header: &[u8], dialect: &Dialect, location: &str) -> Result<()> {
    let is_quoted = dialect.quoting.is_some_and(|quoting| header.contains(&quoting.quote));
    if !dialect.crlf || is_quoted || !header.contains(&b'\r') {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{location}: the header holds carriage returns and no record follows it; if they end the records, set OPTIONS \
         ('terminator' '\\r')"
    )))
}

/// The text that contains an error.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) location: &'a str,
    pub(crate) dialect: &'a Dialect,
    pub(crate) shape: &'a Shape,
    pub(crate) text: Text<'a>,
}

impl Place<'_> {
    /// Returns the error for a record at which cutting stopped.
    #[cold]
    pub(crate) fn stopped(self, stopped: Stopped) -> Error {
        match stopped.why {
            Why::TooLong => too_long(self.location, self.text.offset + stopped.at as u64, self.shape.record_bytes),
            Why::Malformed(why) => self.malformed(stopped.at, why),
        }
    }

    /// Returns the error for a malformed record that starts at `at` in the text.
    #[cold]
    pub(crate) fn malformed(self, at: usize, why: Malformed) -> Error {
        let Self { location, dialect, shape: Shape { columns, .. }, text: Text { text, offset, .. } } = self;
        match why {
            Malformed::OpenQuote(quote) => {
                // If the quote is closed later, the field contains a record delimiter.
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
                    "{location}, byte {}: the record has {found} fields and the table {columns} columns; with \
                 null_padding = true records may have any number, with ignore_errors = true such are left out",
                    offset + at as u64
                ))
            }
        }
    }

    /// Returns the error for a field that cannot be decoded.
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
            Spelling::Declared | Spelling::Inferred => "; a column declared VARCHAR takes any text",
            Spelling::Cast => "",
        };
        Error::invalid(format!("{place}: cannot parse '{value}' as {}{way_out}", sql_type(&column.data_type)))
            .with_code("CastFailed")
    }
}

//! The body of SelectObjectContent.

use std::ops::Range;

use arrow_schema::Field;
use pushdowndb_contract::{
    AggregateCall, AggregateFunction, Compression, CsvOptions, Expr, Format, Fragment, JsonShape, Literal, NamedExpr,
    Output,
};
use quick_xml::escape::escape;

/// The comment character in requests for tables without comments.
///
/// Servers skip records that start with `#` unless the request names another comment character, and
/// there is no way to turn comments off. This is a Unicode noncharacter: it should not occur in
/// text, but XML can carry it.
pub const NO_COMMENTS: char = '\u{fdd0}';

/// The format of the result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OutputSerialization {
    /// CSV: commas, newlines, quotes where needed.
    Csv,
    /// CSV with every field in quotes, so that a record of one empty field is not an empty line.
    QuotedCsv,
    /// JSON, one object per line, with the names of the columns.
    Json,
}

impl OutputSerialization {
    /// Returns the most compact format that preserves the rows of `fragment`.
    ///
    /// CSV input gives CSV output with the same rule for NULL. Parquet input gives CSV if an empty
    /// field is unambiguous: it is NULL if no column is text, and empty text if no column can be
    /// NULL. Otherwise the format is JSON, which repeats the names in every record.
    pub fn of(fragment: &Fragment) -> Self {
        let any = |columns: &[NamedExpr], test: &dyn Fn(&Field) -> bool| {
            columns.iter().flat_map(|column| column.expr.columns()).any(|index| test(fragment.schema.field(index)))
        };
        let (columns, ambiguous) = match &fragment.output {
            Output::Rows(columns) => (columns.len(), any(columns, &is_text) && any(columns, &Field::is_nullable)),
            // MIN and MAX of no rows are NULL, even of a column without NULL.
            Output::Aggregate { calls, .. } => (calls.len(), calls.iter().any(|call| !is_number(fragment, call))),
        };
        match fragment.format {
            Format::Json(_) => Self::Json,
            Format::Parquet if ambiguous => Self::Json,
            // A computed text may be empty, which CSV does not distinguish from NULL.
            Format::Csv(_) if ambiguous && matches!(fragment.output, Output::Aggregate { .. }) => Self::Json,
            Format::Csv(_) | Format::Parquet if columns == 1 => Self::QuotedCsv,
            Format::Csv(_) | Format::Parquet => Self::Csv,
        }
    }
}

/// Returns whether an aggregate yields a number or NULL, which CSV can distinguish.
fn is_number(fragment: &Fragment, call: &AggregateCall) -> bool {
    match call.function {
        AggregateFunction::Min | AggregateFunction::Max => {
            !call.argument.iter().any(|argument| may_be_text(argument, fragment))
        }
        AggregateFunction::Count
        | AggregateFunction::Sum
        | AggregateFunction::Avg
        | AggregateFunction::Mean
        | AggregateFunction::SquaredDeviations => true,
    }
}

/// Returns whether the value of `expr` may be text, because of a column or a literal. The
/// conditions of a CASE do not count, since they are not among its values.
fn may_be_text(expr: &Expr, fragment: &Fragment) -> bool {
    match expr {
        Expr::Column(index) => is_text(fragment.schema.field(*index)),
        Expr::Literal(literal) => matches!(literal, Literal::Utf8(_)),
        Expr::Case { branches, otherwise } => {
            branches.iter().map(|(_, then)| then).chain(otherwise.as_deref()).any(|value| may_be_text(value, fragment))
        }
        other => other.children().into_iter().any(|part| may_be_text(part, fragment)),
    }
}

/// Returns whether the values of a column may be empty text.
fn is_text(field: &Field) -> bool {
    !field.data_type().is_numeric() && !field.data_type().is_temporal()
}

/// One request: SQL over one object.
#[derive(Clone, Debug)]
pub struct SelectRequest {
    /// The SQL.
    pub expression: String,
    /// The format of the object.
    pub input: Format,
    /// The format of the result.
    pub output: OutputSerialization,
    /// If given, only records that start in this byte range are scanned.
    pub scan_range: Option<Range<u64>>,
    /// True if the server is to report its progress.
    pub request_progress: bool,
}

impl SelectRequest {
    /// Returns the XML body of the request.
    pub fn to_xml(&self) -> String {
        let mut xml = String::with_capacity(self.expression.len() + 1024);
        xml.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>");
        xml.push_str("<SelectObjectContentRequest xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
        element(&mut xml, "Expression", &self.expression);
        element(&mut xml, "ExpressionType", "SQL");
        let progress = if self.request_progress { "true" } else { "false" };
        nested(&mut xml, "RequestProgress", |xml| element(xml, "Enabled", progress));
        nested(&mut xml, "InputSerialization", |xml| {
            let compression = match self.input.compression() {
                Compression::None => "NONE",
                Compression::Gzip => "GZIP",
                Compression::Bzip2 => "BZIP2",
                Compression::Zstd => "ZSTD",
            };
            element(xml, "CompressionType", compression);
            match &self.input {
                Format::Csv(options) => nested(xml, "CSV", |xml| csv_input(xml, options)),
                Format::Json(options) => nested(xml, "JSON", |xml| {
                    let shape = match options.shape {
                        JsonShape::Lines => "LINES",
                        JsonShape::Document => "DOCUMENT",
                    };
                    element(xml, "Type", shape);
                }),
                Format::Parquet => xml.push_str("<Parquet></Parquet>"),
            }
        });
        nested(&mut xml, "OutputSerialization", |xml| match self.output {
            OutputSerialization::Csv => nested(xml, "CSV", |xml| csv_output(xml, "ASNEEDED")),
            OutputSerialization::QuotedCsv => nested(xml, "CSV", |xml| csv_output(xml, "ALWAYS")),
            OutputSerialization::Json => nested(xml, "JSON", |xml| element(xml, "RecordDelimiter", "\n")),
        });
        if let Some(range) = &self.scan_range {
            nested(&mut xml, "ScanRange", |xml| {
                element(xml, "Start", &range.start.to_string());
                // The end of a ScanRange is inclusive.
                element(xml, "End", &range.end.saturating_sub(1).to_string());
            });
        }
        xml.push_str("</SelectObjectContentRequest>");
        xml
    }
}

fn csv_input(xml: &mut String, options: &CsvOptions) {
    let byte = |byte: u8| char::from(byte).to_string();
    element(xml, "FileHeaderInfo", if options.header { "IGNORE" } else { "NONE" });
    // With a newline as delimiter, servers accept both kinds of line ends.
    element(xml, "RecordDelimiter", &options.terminator.map_or("\n".to_owned(), byte));
    element(xml, "FieldDelimiter", &byte(options.delimiter));
    element(xml, "QuoteCharacter", &options.quote.map(byte).unwrap_or_default());
    if let Some(escape) = options.escape.or(options.quote) {
        element(xml, "QuoteEscapeCharacter", &byte(escape));
    }
    element(xml, "Comments", &options.comment.map_or(NO_COMMENTS.to_string(), byte));
    element(xml, "AllowQuotedRecordDelimiter", if options.newlines_in_values { "true" } else { "false" });
}

fn csv_output(xml: &mut String, quotes: &str) {
    element(xml, "QuoteFields", quotes);
    element(xml, "RecordDelimiter", "\n");
    element(xml, "FieldDelimiter", ",");
    element(xml, "QuoteCharacter", "\"");
    element(xml, "QuoteEscapeCharacter", "\"");
}

fn nested(xml: &mut String, name: &str, inside: impl FnOnce(&mut String)) {
    xml.push_str(&format!("<{name}>"));
    inside(xml);
    xml.push_str(&format!("</{name}>"));
}

fn element(xml: &mut String, name: &str, text: &str) {
    nested(xml, name, |xml| {
        // XML parsers trim and merge white space unless it is escaped.
        for c in escape(text).chars() {
            match c {
                '\t' => xml.push_str("&#9;"),
                '\n' => xml.push_str("&#10;"),
                '\r' => xml.push_str("&#13;"),
                c => xml.push(c),
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_escape_what_xml_would_change() {
        let request = SelectRequest {
            expression: "SELECT s._1 FROM S3Object s WHERE s._1 < 'a&\r\n'".into(),
            input: Format::Csv(CsvOptions { delimiter: b'\t', compression: Compression::Gzip, ..Default::default() }),
            output: OutputSerialization::QuotedCsv,
            scan_range: Some(10..21),
            request_progress: false,
        };
        let xml = request.to_xml();
        assert!(xml.contains("<Expression>SELECT s._1 FROM S3Object s WHERE s._1 &lt; &apos;a&amp;&#13;&#10;&apos;<"));
        assert!(xml.contains("<FileHeaderInfo>IGNORE</FileHeaderInfo>"));
        assert!(xml.contains("<FieldDelimiter>&#9;</FieldDelimiter>"));
        assert!(xml.contains("<CompressionType>GZIP</CompressionType>"));
        assert!(xml.contains("<Comments>\u{fdd0}</Comments>"));
        assert!(xml.contains("<QuoteFields>ALWAYS</QuoteFields>"));
        assert!(xml.contains("<ScanRange><Start>10</Start><End>20</End></ScanRange>"));
    }
}

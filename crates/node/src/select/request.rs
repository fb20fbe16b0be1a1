//! Refuses elements that this node would otherwise ignore, with the error codes that AWS documents.

use pushdowndb_contract::{Compression, CsvOptions, Format, JsonOptions, JsonShape, NullRule, Ragged};
use pushdowndb_select::{NO_COMMENTS, Statement};
use s3s::dto::{
    CSVInput, CSVOutput, CompressionType, ExpressionType, FileHeaderInfo, InputSerialization, JSONInput, JSONType,
    OutputSerialization, QuoteFields, ScanRange, SelectObjectContentRequest,
};
use s3s::{S3Result, s3_error};

use super::csv::CsvWriter;
use super::delimiters::{Delimiters, one_character};
use super::errors;

/// A valid request, before its object is opened.
pub(super) struct Request {
    pub statement: Statement,
    pub format: Format,
    /// Whether the first record of a CSV object names its columns.
    pub named: bool,
    pub output: OutputFormat,
    pub range: Option<Bounds>,
    pub progress: bool,
}

/// The format of the returned rows.
pub(super) enum OutputFormat {
    Csv(CsvWriter),
    /// The record delimiter.
    Json(String),
}

/// A ScanRange as in the request: both ends are inclusive, and an end without a start counts from
/// the back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Bounds {
    From(u64),
    Between(u64, u64),
    Last(u64),
}

impl Bounds {
    /// The byte range in an object of `size` bytes.
    pub fn of(self, size: u64) -> std::ops::Range<u64> {
        let (start, end) = match self {
            Self::From(start) => (start, size),
            Self::Between(start, last) => (start, last.saturating_add(1)),
            Self::Last(count) => (size.saturating_sub(count), size),
        };
        start.min(size)..end.min(size)
    }
}

impl Request {
    pub fn new(request: SelectObjectContentRequest) -> S3Result<Self> {
        if !request.expression_type.as_str().eq_ignore_ascii_case(ExpressionType::SQL) {
            return Err(s3_error!(InvalidExpressionType, "the ExpressionType must be SQL"));
        }
        let (format, named) = input(&request.input_serialization)?;
        let range = request.scan_range.as_ref().map(bounds).transpose()?;
        if range.is_some() && !format.is_splittable() {
            return Err(s3_error!(
                UnsupportedScanRangeInput,
                "ScanRange takes uncompressed CSV without quoted record delimiters, uncompressed JSON lines or Parquet"
            ));
        }
        Ok(Self {
            statement: pushdowndb_select::parse(&request.expression).map_err(errors::of_select)?,
            format,
            named,
            output: output(&request.output_serialization)?,
            range,
            progress: request.request_progress.and_then(|progress| progress.enabled) == Some(true),
        })
    }
}

fn bounds(range: &ScanRange) -> S3Result<Bounds> {
    let number = |value: Option<i64>| {
        value
            .map(|value| u64::try_from(value).map_err(|_| s3_error!(InvalidScanRange, "a ScanRange is not negative")))
            .transpose()
    };
    match (number(range.start)?, number(range.end)?) {
        (None, None) => Err(s3_error!(InvalidScanRange, "a ScanRange has a Start, an End or both")),
        (Some(start), None) => Ok(Bounds::From(start)),
        (None, Some(count)) => Ok(Bounds::Last(count)),
        (Some(start), Some(end)) if start > end => {
            Err(s3_error!(InvalidScanRange, "the ScanRange ends at {} before it starts at {}", end, start))
        }
        (Some(start), Some(end)) => Ok(Bounds::Between(start, end)),
    }
}

fn input(input: &InputSerialization) -> S3Result<(Format, bool)> {
    let compression = compression(input.compression_type.as_ref())?;
    match (&input.csv, &input.json, &input.parquet) {
        (Some(csv), None, None) => csv_input(csv, compression),
        (None, Some(json), None) => Ok((json_input(json, compression)?, false)),
        (None, None, Some(_)) if compression == Compression::None => Ok((Format::Parquet, false)),
        (None, None, Some(_)) => Err(s3_error!(
            InvalidCompressionFormat,
            "Parquet objects compress their columns themselves; set CompressionType to NONE"
        )),
        (None, None, None) => {
            Err(s3_error!(MissingRequiredParameter, "the InputSerialization names no CSV, JSON or Parquet"))
        }
        _ => Err(s3_error!(ObjectSerializationConflict, "the InputSerialization names more than one format")),
    }
}

fn compression(kind: Option<&CompressionType>) -> S3Result<Compression> {
    match kind.map(|kind| kind.as_str().to_ascii_uppercase()).as_deref() {
        None | Some("" | CompressionType::NONE) => Ok(Compression::None),
        Some(CompressionType::GZIP) => Ok(Compression::Gzip),
        Some(CompressionType::BZIP2) => Ok(Compression::Bzip2),
        // An extension of this node.
        Some("ZSTD") => Ok(Compression::Zstd),
        Some(other) => Err(s3_error!(InvalidCompressionFormat, "the CompressionType '{}' is unknown", other)),
    }
}

fn csv_input(csv: &CSVInput, compression: Compression) -> S3Result<(Format, bool)> {
    let (header, named) = match csv.file_header_info.as_ref().map(|info| info.as_str().to_ascii_uppercase()).as_deref()
    {
        None | Some("" | FileHeaderInfo::NONE) => (false, false),
        Some(FileHeaderInfo::IGNORE) => (true, false),
        Some(FileHeaderInfo::USE) => (true, true),
        Some(other) => {
            return Err(s3_error!(InvalidFileHeaderInfo, "FileHeaderInfo is NONE, USE or IGNORE, not '{}'", other));
        }
    };
    let marks = Delimiters {
        delimiter: csv.field_delimiter.as_deref().filter(|mark| !mark.is_empty()).unwrap_or(","),
        // `None` accepts both line endings.
        terminator: csv.record_delimiter.as_deref().filter(|mark| !matches!(*mark, "" | "\n" | "\r\n")),
        quote: Some(csv.quote_character.as_deref().unwrap_or("\"")).filter(|mark| !mark.is_empty()),
        escape: csv.quote_escape_character.as_deref().filter(|mark| !mark.is_empty()),
        comment: match csv.comments.as_deref() {
            None => Some("#"),
            Some("") => None,
            Some(comment) if comment.chars().eq([NO_COMMENTS]) => None,
            comment => comment,
        },
    };
    marks.check()?;
    let options = marks.put_into(CsvOptions {
        header,
        null: NullRule::Never,
        ragged: Ragged::Lenient,
        newlines_in_values: csv.allow_quoted_record_delimiter == Some(true),
        compression,
        ..CsvOptions::default()
    });
    Ok((Format::Csv(options), named))
}

fn json_input(json: &JSONInput, compression: Compression) -> S3Result<Format> {
    let shape = match json.type_.as_ref().map(|kind| kind.as_str().to_ascii_uppercase()).as_deref() {
        Some(JSONType::LINES) => JsonShape::Lines,
        // DOCUMENT reads lines as well, but objects cannot be scanned in ranges.
        None | Some("" | JSONType::DOCUMENT) => JsonShape::Document,
        Some(other) => return Err(s3_error!(InvalidJsonType, "the JSON Type is LINES or DOCUMENT, not '{}'", other)),
    };
    Ok(Format::Json(JsonOptions { shape, compression, raw_tokens: true, ..JsonOptions::default() }))
}

fn output(output: &OutputSerialization) -> S3Result<OutputFormat> {
    match (&output.csv, &output.json) {
        (Some(csv), None) => csv_output(csv).map(OutputFormat::Csv),
        (None, Some(json)) => Ok(OutputFormat::Json(delimiter(&json.record_delimiter, "\n").to_owned())),
        (None, None) => Err(s3_error!(MissingRequiredParameter, "the OutputSerialization names neither CSV nor JSON")),
        _ => Err(s3_error!(ObjectSerializationConflict, "the OutputSerialization names both CSV and JSON")),
    }
}

/// A delimiter of the output, which may be any text.
fn delimiter<'a>(given: &'a Option<String>, default: &'a str) -> &'a str {
    given.as_deref().filter(|given| !given.is_empty()).unwrap_or(default)
}

fn csv_output(csv: &CSVOutput) -> S3Result<CsvWriter> {
    let always = match csv.quote_fields.as_ref().map(|fields| fields.as_str().to_ascii_uppercase()).as_deref() {
        None | Some("" | QuoteFields::ASNEEDED) => false,
        Some(QuoteFields::ALWAYS) => true,
        Some(other) => {
            return Err(s3_error!(InvalidQuoteFields, "QuoteFields is ALWAYS or ASNEEDED, not '{}'", other));
        }
    };
    let quote = delimiter(&csv.quote_character, "\"");
    one_character("QuoteCharacter", quote)?;
    let escape = delimiter(&csv.quote_escape_character, quote);
    one_character("QuoteEscapeCharacter", escape)?;
    let (field, record) = (delimiter(&csv.field_delimiter, ","), delimiter(&csv.record_delimiter, "\n"));
    Ok(CsvWriter::new(field, record, quote, escape, always))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_both_ends() {
        assert_eq!(Bounds::Between(50, 100).of(1000), 50..101);
        assert_eq!(Bounds::Between(50, 100).of(60), 50..60);
        assert_eq!(Bounds::From(50).of(60), 50..60);
        assert_eq!(Bounds::From(70).of(60), 60..60);
        assert_eq!(Bounds::Last(50).of(60), 10..60);
        assert_eq!(Bounds::Last(90).of(60), 0..60);
        let range = |start, end| bounds(&ScanRange { start, end });
        assert_eq!(range(Some(3), Some(3)).unwrap(), Bounds::Between(3, 3));
        assert!(range(Some(3), Some(2)).is_err());
        assert!(range(Some(-1), None).is_err());
        assert!(range(None, None).is_err());
    }
}

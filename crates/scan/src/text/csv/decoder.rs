//! Decoding of CSV that is not an object, such as results of S3 Select and samples for inference.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use pushdowndb_contract::{CsvOptions, Error, Format, Fragment, Result};

use crate::source::SourceOptions;
use crate::text::BYTE_ORDER_MARK;
use crate::text::buffer::TextBuffer;
use crate::text::csv::dialect::{Dialect, Malformed};
use crate::text::csv::rows::CsvRows;
use crate::text::scan::RecordFormat;
use crate::text::translate::sample::{field as translated, started};
use crate::values::fields::FieldColumn;

/// Decodes CSV that arrives in pieces into batches with a schema.
pub struct CsvDecoder {
    location: String,
    rows: CsvRows,
    buffer: TextBuffer,
    ready: Vec<RecordBatch>,
}

impl CsvDecoder {
    /// Creates a decoder. Errors refer to the text as `location`.
    ///
    /// Expects decompressed text: the compression in `options` is ignored. The text must not start
    /// with a byte order mark; these bytes would be part of the first value.
    pub fn new(schema: SchemaRef, options: CsvOptions, location: impl Into<String>) -> Result<Self> {
        let location = location.into();
        let fragment = Fragment::all(Format::Csv(options.clone()), schema);
        let scan = SourceOptions::default();
        let (mut rows, _) = CsvRows::new(&fragment, &options, &location, 0, 0, &scan)?;
        rows.expect_no_mark();
        Ok(Self { location, rows, buffer: TextBuffer::new(0, scan.record_bytes), ready: vec![] })
    }

    /// Returns the schema of the batches.
    pub fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    /// Adds the next bytes of the text, and decodes the records that they complete.
    pub fn feed(&mut self, mut bytes: Bytes) -> Result<()> {
        while !bytes.is_empty() {
            self.buffer.fill(&mut bytes);
            if self.buffer.is_ready() {
                self.decode()?;
            }
        }
        Ok(())
    }

    /// Returns all rows of complete records that were not returned yet.
    pub fn flush(&mut self) -> Result<Vec<RecordBatch>> {
        self.decode()?;
        self.ready.extend(self.rows.take()?);
        Ok(std::mem::take(&mut self.ready))
    }

    /// Returns the full batches. Other rows wait for a batch to be full.
    pub fn take_ready(&mut self) -> Vec<RecordBatch> {
        std::mem::take(&mut self.ready)
    }

    /// Ends the text. Returns all rows that were not returned yet, including a last record without
    /// a terminator.
    pub fn finish(&mut self) -> Result<Vec<RecordBatch>> {
        self.buffer.finish();
        self.flush()
    }

    fn decode(&mut self) -> Result<()> {
        loop {
            let advance = self.rows.advance_within(&self.buffer, u64::MAX, None)?;
            if self.rows.is_full() {
                self.ready.extend(self.rows.take()?);
            }
            if advance.bytes == 0 {
                break;
            }
            self.buffer.consume(advance.bytes);
            self.buffer.narrow();
        }
        if self.buffer.is_ready() && !self.buffer.is_whole() {
            self.buffer.widen(&self.location)?;
        }
        Ok(())
    }
}

/// Returns the fields of the first records of a CSV, including the header, for inference.
///
/// `bytes` is the beginning of the object, before translation. An incomplete record at its end is
/// omitted, unless `bytes` is the `whole` text. Text that is not UTF-8 is an error.
pub fn tokenize_sample(bytes: &[u8], whole: bool, options: &CsvOptions) -> Result<Vec<Vec<String>>> {
    let (bytes, canonical) = started(bytes, whole, options)?;
    let dialect = Dialect::new(canonical.as_ref().unwrap_or(options))?;
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes);
    let skipped = bytes.len() - text.len();
    let open_quote = |why| match why {
        Malformed::OpenQuote(at) => Error::invalid(format!(
            "byte {}: a quote is opened and not closed in its record; if values hold line ends, declare \
             newlines_in_values",
            at + skipped
        )),
        Malformed::FieldCount => Error::internal("fields are not counted here"),
    };
    let mut records = Vec::new();
    let mut at = 0;
    while let Some(line) = dialect.line(text, at, whole).map_err(open_quote)? {
        at = line.next;
        if !line.is_record {
            continue;
        }
        let spans = dialect.all_fields(text, line).map_err(open_quote)?;
        let quoting = dialect.quoting.unwrap_or_default();
        let fields = FieldColumn { data: text, spans: &spans, stride: 1, column: 0, rows: None, quoting };
        let mut record = Vec::with_capacity(spans.len());
        let mut scratch = Vec::new();
        for row in 0..fields.len() {
            let span = fields.span(row);
            let field = fields.bytes(span, &mut scratch).unwrap_or_default();
            let not_text = |_| {
                Error::invalid(format!(
                    "byte {}: the text is not UTF-8; name its 'encoding', such as windows-1252",
                    span.start() + skipped
                ))
            };
            record.push(translated(std::str::from_utf8(field).map_err(not_text)?.to_owned(), options));
        }
        records.push(record);
    }
    Ok(records)
}

//! The last stage of a translation, which translates the fields of each record.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use pushdowndb_contract::{Compression, CsvOptions, NullRule, Ragged, Result, Translation};

use crate::rejects::Rejects;
use crate::text::csv::decoder::CsvDecoder;
use crate::text::csv::dialect::{Dialect, Line, Malformed};
use crate::text::errors::too_long;
use crate::text::stage::Stage;
use crate::text::translate::spelling::Kind;

/// The number of bytes of records that are checked together.
const CHECKED_BYTES: usize = 64 * 1024;

/// Translates the fields of each record, and drops records that do not match the columns.
pub(crate) struct Fields {
    location: String,
    dialect: Dialect,
    /// The options with which the translated text is read.
    options: CsvOptions,
    translation: Arc<Translation>,
    schema: SchemaRef,
    kinds: Vec<Kind>,
    record_bytes: usize,
    /// True if the next record is the header.
    header: bool,
    /// Text that does not contain a complete record yet.
    rest: Vec<u8>,
    /// The offset of `rest` in the text.
    offset: u64,
    /// Records that are not checked yet.
    pending: Vec<Pending>,
    pending_text: Vec<u8>,
    rejects: Option<Arc<Rejects>>,
}

/// A translated record that is not checked yet.
struct Pending {
    /// The range of the translated record in [`Fields::pending_text`].
    place: Range<usize>,
    /// The offset and the text of the original record.
    byte: u64,
    record: Vec<u8>,
    /// Why it does not match, if that is already known.
    reason: Option<String>,
}

impl Fields {
    /// Creates the stage for text that is read with `options` as columns of `schema`.
    pub(crate) fn new(
        options: &CsvOptions,
        translation: &Arc<Translation>,
        schema: &SchemaRef,
        location: &str,
        record_bytes: usize,
        rejects: Option<Arc<Rejects>>,
    ) -> Result<Self> {
        let plain = CsvOptions { translation: None, compression: Compression::None, ..options.clone() };
        Ok(Self {
            location: location.to_owned(),
            dialect: Dialect::new(options)?,
            kinds: schema.fields().iter().map(|field| Kind::of(field.data_type(), translation)).collect(),
            options: CsvOptions { header: false, ..plain },
            translation: Arc::clone(translation),
            schema: Arc::clone(schema),
            record_bytes,
            header: options.header,
            rest: Vec::new(),
            offset: 0,
            pending: Vec::new(),
            pending_text: Vec::new(),
            rejects,
        })
    }

    fn translate(&mut self, whole: bool) -> Result<Bytes> {
        let text = std::mem::take(&mut self.rest);
        let mut out = Vec::with_capacity(text.len());
        let mut at = 0;
        loop {
            match self.dialect.line(&text, at, whole) {
                Ok(Some(line)) => {
                    self.record(&text, line, &mut out)?;
                    at = line.next;
                }
                Ok(None) => break,
                // A quote is not closed before the end of the text. Unless such records are
                // skipped, the scan reports it.
                Err(_) => {
                    let record = text.get(at..).unwrap_or_default();
                    match self.translation.ignores_errors {
                        true => self.reject(self.offset + at as u64, "a quote is opened and never closed", record),
                        false => out.extend_from_slice(record),
                    }
                    at = text.len();
                }
            }
        }
        if self.pending_text.len() >= CHECKED_BYTES || whole {
            self.check(&mut out)?;
        }
        self.rest = text.get(at..).unwrap_or_default().to_vec();
        self.offset += at as u64;
        if self.rest.len() > self.record_bytes {
            return Err(too_long(&self.location, self.offset, self.record_bytes));
        }
        Ok(out.into())
    }

    fn record(&mut self, text: &[u8], line: Line, out: &mut Vec<u8>) -> Result<()> {
        let record = text.get(line.start..line.next).unwrap_or_default();
        if !line.is_record {
            return Ok(());
        }
        if std::mem::take(&mut self.header) {
            out.extend_from_slice(record);
            return Ok(());
        }
        let byte = self.offset + line.start as u64;
        let (translated, reason) = match self.fields(text, line) {
            Ok((translated, fields)) => {
                let columns = self.schema.fields().len();
                let fits = self.options.ragged == Ragged::Lenient || fields == columns;
                let reason = (!fits).then(|| format!("the record has {fields} fields and the table {columns} columns"));
                (translated, reason)
            }
            Err(_) => (record.to_vec(), Some("a quote is opened and not closed in the record".to_owned())),
        };
        if !self.translation.ignores_errors {
            out.extend_from_slice(&translated);
            return Ok(());
        }
        let start = self.pending_text.len();
        if reason.is_none() {
            self.pending_text.extend_from_slice(&translated);
        }
        let place = start..self.pending_text.len();
        self.pending.push(Pending { place, byte, record: record.to_vec(), reason });
        match self.pending_text.len() >= CHECKED_BYTES {
            true => self.check(out),
            false => Ok(()),
        }
    }

    /// Returns the translated record, and the number of its fields.
    fn fields(&self, text: &[u8], line: Line) -> Result<(Vec<u8>, usize), Malformed> {
        let fields = self.dialect.raw_fields(text, line)?;
        let mut out = Vec::with_capacity(line.next - line.start);
        let mut value = Vec::new();
        for (index, raw) in fields.iter().enumerate() {
            if index > 0 {
                out.push(self.dialect.delimiter);
            }
            let raw = text.get(raw.clone()).unwrap_or_default();
            let quoting = self.dialect.quoting.filter(|quoting| raw.first() == Some(&quoting.quote));
            let field = match quoting {
                Some(quoting) => {
                    quoting.unquote(raw, &mut value);
                    value.as_slice()
                }
                None => raw,
            };
            let is_null = self.translation.nulls.iter().any(|null| null.as_bytes() == field);
            if let (true, NullRule::Text(null)) = (is_null, &self.options.null) {
                self.put(null.as_bytes(), &mut out);
                continue;
            }
            let kind = self.kinds.get(index).copied().unwrap_or(Kind::AsIs);
            match kind.translate(field, &self.translation) {
                Some(translated) => self.put(translated.as_bytes(), &mut out),
                None => out.extend_from_slice(raw),
            }
        }
        out.extend_from_slice(text.get(line.end..line.next).unwrap_or_default());
        Ok((out, fields.len()))
    }

    /// Appends a field, in quotes if it needs them.
    fn put(&self, field: &[u8], out: &mut Vec<u8>) {
        let Dialect { delimiter, quoting, terminator, .. } = &self.dialect;
        let quote = quoting.map(|quoting| quoting.quote);
        let is_mark = |byte: &u8| byte == delimiter || byte == terminator || *byte == b'\r' || Some(*byte) == quote;
        match quote.filter(|_| field.iter().any(is_mark)) {
            Some(quote) => {
                out.push(quote);
                for byte in field {
                    if *byte == quote {
                        out.push(quoting.and_then(|quoting| quoting.escape).unwrap_or(quote));
                    }
                    out.push(*byte);
                }
                out.push(quote);
            }
            None => out.extend_from_slice(field),
        }
    }

    /// Passes on the pending records that can be decoded, and rejects the others.
    fn check(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let (pending, text) = (std::mem::take(&mut self.pending), std::mem::take(&mut self.pending_text));
        let (good, bad): (Vec<_>, Vec<_>) = pending.into_iter().partition(|pending| pending.reason.is_none());
        for pending in bad {
            self.reject(pending.byte, &pending.reason.unwrap_or_default(), &pending.record);
        }
        self.check_some(&text, &good, out)
    }

    fn check_some(&self, text: &[u8], records: &[Pending], out: &mut Vec<u8>) -> Result<()> {
        let (Some(first), Some(last)) = (records.first(), records.last()) else { return Ok(()) };
        crate::runtime::interrupt::check_interrupt()?;
        let these = text.get(first.place.start..last.place.end).unwrap_or_default();
        match (self.decode(these), records) {
            (Ok(()), _) => out.extend_from_slice(these),
            (Err(error), [one]) => {
                let message = error.message();
                let reason = message.find("column \"").and_then(|at| message.get(at..)).unwrap_or(message);
                self.reject(one.byte, reason, &one.record);
            }
            (Err(_), _) => {
                let (before, after) = records.split_at(records.len() / 2);
                self.check_some(text, before, out)?;
                self.check_some(text, after, out)?;
            }
        }
        Ok(())
    }

    fn decode(&self, text: &[u8]) -> Result<()> {
        let mut decoder = CsvDecoder::new(Arc::clone(&self.schema), self.options.clone(), self.location.as_str())?;
        decoder.feed(Bytes::copy_from_slice(text))?;
        decoder.finish().map(|_| ())
    }

    fn reject(&self, byte: u64, reason: &str, record: &[u8]) {
        if let Some(rejects) = &self.rejects {
            let end = record.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
            rejects.add(&self.location, byte, reason.to_owned(), record.get(..end).unwrap_or_default());
        }
    }
}

impl Stage for Fields {
    fn feed(&mut self, piece: &[u8]) -> Result<Bytes> {
        self.rest.extend_from_slice(piece);
        self.translate(false)
    }

    fn finish(&mut self) -> Result<Bytes> {
        self.translate(true)
    }
}

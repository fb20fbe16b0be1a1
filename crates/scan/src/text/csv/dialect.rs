//! Cutting text into records, and records into fields.
//!
//! Records end at a terminator. If values may contain line ends, a terminator within quotes does
//! not count. Otherwise every terminator counts, so that byte ranges can be read independently.
//! Within a record, the rules are those of csv-core, DataFusion's reader: a quote has a meaning
//! only at the start of a field, blank records and comments are skipped, and text after a closing
//! quote belongs to the field.
//!
//! Fields are found 64 bytes at a time, up to the last needed one. A field that begins with a quote
//! is cut separately.

use std::ops::Range;

use memchr::{memchr, memchr2};
use pushdowndb_contract::{CsvOptions, Error, Ragged, Result};

use crate::simd::{BLOCK, Lanes, Portable};
use crate::values::fields::{FieldColumn, Quoting, Span};

/// The delimiters of records and fields, and rules about them.
#[derive(Clone, Debug)]
pub(crate) struct Dialect {
    pub(crate) delimiter: u8,
    pub(crate) quoting: Option<Quoting>,
    pub(crate) terminator: u8,
    /// True if a `\r` before the terminator belongs to it.
    pub(crate) crlf: bool,
    pub(crate) comment: Option<u8>,
    pub(crate) newlines_in_values: bool,
    pub(crate) ragged: Ragged,
}

/// A line: a record, or a line without a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The start of the next line.
    pub(crate) next: usize,
    /// False for blank lines and comments.
    pub(crate) is_record: bool,
}

/// The reason why a record cannot be cut.
#[derive(Debug)]
pub(crate) enum Malformed {
    /// A quote that is not closed, and its position.
    OpenQuote(usize),
    /// Too few fields, or more fields than columns.
    FieldCount,
}

impl Dialect {
    /// Checks the options for consistency.
    pub(crate) fn new(options: &CsvOptions) -> Result<Self> {
        let terminator = options.terminator.unwrap_or(b'\n');
        if !terminator.is_ascii() {
            // Otherwise it could be part of a character or of a byte order mark.
            return Err(Error::invalid("the record terminator of a CSV must be one ASCII character"));
        }
        let quoting = options.quote.map(|quote| Quoting { quote, escape: options.escape.filter(|e| *e != quote) });
        let marks = [Some(options.delimiter), Some(terminator), options.quote];
        for (i, mark) in marks.iter().enumerate() {
            if mark.is_some() && marks.iter().skip(i + 1).any(|other| other == mark) {
                return Err(Error::invalid("delimiter, quote and record terminator of a CSV must differ"));
            }
        }
        Ok(Self {
            delimiter: options.delimiter,
            quoting,
            terminator,
            crlf: options.terminator.is_none(),
            comment: options.comment,
            newlines_in_values: options.newlines_in_values && quoting.is_some(),
            ragged: options.ragged,
        })
    }

    /// Returns the terminator at which byte ranges may be cut; `None` if they may not be cut.
    pub(crate) fn cut_at(&self) -> Option<u8> {
        (!self.newlines_in_values).then_some(self.terminator)
    }

    /// Returns the line at `start`; `None` if `text` does not contain its end and is not `whole`.
    #[inline]
    pub(crate) fn line(&self, text: &[u8], start: usize, whole: bool) -> Result<Option<Line>, Malformed> {
        let Some(rest) = text.get(start..).filter(|rest| !rest.is_empty()) else { return Ok(None) };
        let (mut end, next) = match memchr(self.terminator, rest) {
            Some(at) => (start + at, start + at + 1),
            None if whole => (text.len(), text.len()),
            None => return Ok(None),
        };
        let is_comment = self.comment.is_some() && rest.first().copied() == self.comment;
        if self.newlines_in_values
            && !is_comment
            && let Some(quoting) = self.quoting
            && memchr(quoting.quote, text.get(start..end).unwrap_or_default()).is_some()
        {
            return self.quoted_line(text, start, whole, quoting);
        }
        if self.crlf && end > start && text.get(end - 1) == Some(&b'\r') {
            end -= 1;
        }
        Ok(Some(Line { start, end, next, is_record: end > start && !is_comment }))
    }

    /// Returns the start of the first line at or after `at` that is not blank, or that begins at or
    /// after `stop`.
    pub(crate) fn past_blank_lines(&self, text: &[u8], mut at: usize, stop: usize) -> usize {
        let stop = stop.min(text.len());
        loop {
            let rest = text.get(at..stop).unwrap_or_default();
            at += rest.iter().position(|byte| *byte != self.terminator).unwrap_or(rest.len());
            if !self.crlf || at >= stop || text.get(at..at + 2) != Some(b"\r\n") {
                return at;
            }
            at += 2;
        }
    }

    /// Returns the start of the first line that begins at or after `at`. Expects that every
    /// terminator ends a line.
    pub(crate) fn first_line(&self, text: &[u8], at: usize) -> usize {
        let Some(before) = at.checked_sub(1) else { return 0 };
        let found = text.get(before..).and_then(|rest| memchr(self.terminator, rest));
        found.map_or(text.len(), |end| before + end + 1)
    }

    /// Like [`Self::line`], for text with quotes, where the terminator may be a later one.
    fn quoted_line(&self, text: &[u8], start: usize, whole: bool, quoting: Quoting) -> Result<Option<Line>, Malformed> {
        let mut at = start;
        loop {
            if text.get(at) == Some(&quoting.quote) {
                match closing_quote(text, at, quoting) {
                    // The next byte decides whether the quote closes the field.
                    Some(close) if close + 1 < text.len() || whole => at = close + 1,
                    _ if whole => return Err(Malformed::OpenQuote(at)),
                    _ => return Ok(None),
                }
            }
            let rest = text.get(at..).unwrap_or_default();
            match memchr2(self.delimiter, self.terminator, rest).map(|found| at + found) {
                Some(found) if text.get(found) == Some(&self.delimiter) => at = found + 1,
                Some(end) => {
                    let cr = self.crlf && end > start && text.get(end - 1) == Some(&b'\r');
                    return Ok(Some(Line { start, end: end - usize::from(cr), next: end + 1, is_record: true }));
                }
                None if whole => {
                    let cr = self.crlf && text.last() == Some(&b'\r');
                    let end = text.len() - usize::from(cr);
                    return Ok(Some(Line { start, end, next: text.len(), is_record: true }));
                }
                None => return Ok(None),
            }
        }
    }

    /// Appends the spans of the `wanted` fields (ascending) of the record that ends at `end`. Field
    /// number `first` begins at `start`. `padded` must extend at least 64 bytes beyond `end`.
    ///
    /// Returns the start of the field after the last wanted one, which is greater than `end` if
    /// there is none.
    #[inline]
    pub(crate) fn split(
        &self,
        padded: &[u8],
        start: usize,
        end: usize,
        first: usize,
        wanted: &[usize],
        spans: &mut Vec<Span>,
    ) -> Result<usize, Malformed> {
        let before = spans.len();
        let mut wanted_left = wanted.iter().copied();
        let Some(mut want) = wanted_left.next() else { return Ok(start) };
        let (mut field, mut at) = (first, start);
        // Ends field number `field`. Leaves the record when no more fields are wanted.
        macro_rules! field_ends {
            ($span:expr, $next:expr) => {{
                let next = $next;
                if field == want {
                    spans.push($span);
                    match wanted_left.next() {
                        Some(further) => want = further,
                        None => return Ok(next),
                    }
                }
                field += 1;
                at = next;
            }};
        }
        'fields: while at <= end {
            if let Some(quoting) = self.quoting
                && at < end
                && padded.get(at) == Some(&quoting.quote)
            {
                let (span, next) = self.quoted_field(padded.get(..end).unwrap_or_default(), at, quoting)?;
                field_ends!(span, next);
                continue;
            }
            let mut block_start = at;
            while block_start < end {
                let Some(block) = padded.get(block_start..).and_then(|rest| rest.first_chunk::<BLOCK>()) else { break };
                let valid = if end - block_start < BLOCK { (1u64 << (end - block_start)) - 1 } else { u64::MAX };
                let mut delimiters = Portable.equal(block, self.delimiter) & valid;
                while delimiters != 0 {
                    let found = block_start + delimiters.trailing_zeros() as usize;
                    delimiters &= delimiters - 1;
                    field_ends!(Span::plain(at, found), found + 1);
                    if self.quoting.is_some_and(|q| padded.get(at) == Some(&q.quote)) {
                        continue 'fields;
                    }
                }
                block_start += BLOCK;
            }
            // The last field has no delimiter after it.
            field_ends!(Span::plain(at, end), end + 1);
        }
        let found = spans.len() - before;
        if found < wanted.len() {
            if self.ragged == Ragged::Error {
                return Err(Malformed::FieldCount);
            }
            spans.resize(before + wanted.len(), Span::MISSING);
        }
        Ok(end + 1)
    }

    /// Returns the field whose opening quote is at `at`, and the start of the next field, which
    /// lies outside the record if there is none.
    fn quoted_field(&self, record: &[u8], at: usize, quoting: Quoting) -> Result<(Span, usize), Malformed> {
        let close = closing_quote(record, at, quoting).ok_or(Malformed::OpenQuote(at))?;
        let end = self.field_end(record, close + 1);
        let inner = record.get(at + 1..close).unwrap_or_default();
        let escaped = match quoting.escape {
            Some(escape) => memchr2(quoting.quote, escape, inner).is_some(),
            None => memchr(quoting.quote, inner).is_some(),
        };
        let span = if end == close + 1 && !escaped { Span::plain(at + 1, close) } else { Span::raw(at, end) };
        Ok((span, end + 1))
    }

    /// Returns the position of the first delimiter at or after `from`, or the end of the record.
    fn field_end(&self, record: &[u8], from: usize) -> usize {
        let rest = record.get(from..).unwrap_or_default();
        if rest.first() == Some(&self.delimiter) {
            from
        } else {
            memchr(self.delimiter, rest).map_or(record.len(), |i| from + i)
        }
    }

    /// Returns whether a quote that is open at the end of its record is closed later in the text.
    pub(crate) fn closes_later(&self, text: &[u8], open: usize) -> bool {
        self.quoting.is_some_and(|quoting| closing_quote(text, open, quoting).is_some())
    }

    /// Returns the ranges of all fields of a record, including their quotes.
    pub(crate) fn raw_fields(&self, text: &[u8], line: Line) -> Result<Vec<Range<usize>>, Malformed> {
        let record = text.get(..line.end).unwrap_or_default();
        let mut fields = Vec::new();
        let mut at = line.start;
        while at <= record.len() {
            let end = match self.quoting {
                Some(quoting) if record.get(at) == Some(&quoting.quote) => {
                    self.quoted_field(record, at, quoting)?.1 - 1
                }
                _ => self.field_end(record, at),
            };
            fields.push(at..end);
            at = end + 1;
        }
        Ok(fields)
    }

    /// Returns the spans of all fields of a record.
    pub(crate) fn all_fields(&self, text: &[u8], line: Line) -> Result<Vec<Span>, Malformed> {
        let record = text.get(..line.end).unwrap_or_default();
        let mut spans = Vec::new();
        let mut at = line.start;
        while at <= record.len() {
            let (span, next) = match self.quoting {
                Some(quoting) if record.get(at) == Some(&quoting.quote) => self.quoted_field(record, at, quoting)?,
                _ => {
                    let end = self.field_end(record, at);
                    (Span::plain(at, end), end + 1)
                }
            };
            spans.push(span);
            at = next;
        }
        Ok(spans)
    }
}

/// Returns the fields in a part of a record that begins with a field.
pub(crate) fn tokenize_fields(part: &[u8], dialect: &Dialect) -> Result<Vec<String>> {
    let line = Line { start: 0, end: part.len(), next: part.len(), is_record: true };
    let open = |_| Error::invalid("a quote is opened and not closed in its record").with_code("CSVUnescapedQuote");
    let spans = dialect.all_fields(part, line).map_err(open)?;
    let quoting = dialect.quoting.unwrap_or_default();
    let fields = FieldColumn { data: part, spans: &spans, stride: 1, column: 0, rows: None, quoting };
    let mut scratch = Vec::new();
    let text = |row| {
        let field = fields.bytes(fields.span(row), &mut scratch).unwrap_or_default();
        String::from_utf8_lossy(field).into_owned()
    };
    Ok((0..fields.len()).map(text).collect())
}

/// Returns the position of the quote that closes the field opened at `open`: one that is neither
/// doubled nor escaped.
fn closing_quote(text: &[u8], open: usize, quoting: Quoting) -> Option<usize> {
    let mut at = open + 1;
    loop {
        let rest = text.get(at..)?;
        let found = at
            + match quoting.escape {
                Some(escape) => memchr2(quoting.quote, escape, rest)?,
                None => memchr(quoting.quote, rest)?,
            };
        if text.get(found) != Some(&quoting.quote) || text.get(found + 1) == Some(&quoting.quote) {
            at = found + 2;
        } else {
            return Some(found);
        }
    }
}

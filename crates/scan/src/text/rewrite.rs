//! Rewrites CSV with multi-byte delimiters to CSV with single-byte delimiters.
//!
//! All other code searches for single bytes, many at a time. Delimiters such as `||` or `¦` are
//! rare, so such text is rewritten first: every field is written in double quotes, with commas
//! between fields. The rules are those of [`crate::text::csv::dialect`]. Only the rewriter knows
//! the offsets of records in the object, so it also selects the records of a byte range, and drops
//! the header, comments and blank records.

use std::ops::Range;

use bytes::Bytes;
use pushdowndb_contract::{CsvOptions, Error, Result, WideMarks};

use crate::text::BYTE_ORDER_MARK;
use crate::text::errors::too_long;

/// The maximum growth of a record. An empty field of one byte becomes `"",`, and a quote becomes
/// two.
pub(crate) const MAX_GROWTH: usize = 4;

/// Returns the options with which the rewritten text is read.
pub(crate) fn canonical(options: &CsvOptions) -> CsvOptions {
    CsvOptions {
        header: false,
        delimiter: b',',
        quote: Some(b'"'),
        escape: None,
        comment: None,
        terminator: None,
        newlines_in_values: true,
        wide: None,
        ..options.clone()
    }
}

/// Rewrites text that arrives in pieces.
#[derive(Debug)]
pub(crate) struct Rewriter {
    location: String,
    marks: WideMarks,
    newlines_in_values: bool,
    record_bytes: usize,
    /// True if the next record is the header.
    header: bool,
    /// Records that begin in this range are needed.
    range: Range<u64>,
    /// Text that may be the beginning of a delimiter.
    rest: Vec<u8>,
    /// The offset of `rest` in the object.
    offset: u64,
    /// The start of the current record.
    record: u64,
    state: State,
    /// True if the next record is the first of the object. A byte order mark before it belongs to
    /// it.
    first: bool,
    /// True if the current record is written, false if it is dropped.
    wanted: bool,
    /// Bytes of wanted records so far.
    scanned: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// Before the first byte of the object.
    Start,
    /// In a record of the previous range.
    Foreign,
    Record,
    Comment,
    Field,
    Unquoted,
    Quoted,
    /// After a closing quote. Bytes that follow belong to the field.
    Closed,
    /// After the end of the range.
    Done,
}

impl Rewriter {
    /// Returns an error for delimiters that cannot be distinguished.
    pub(crate) fn new(options: &CsvOptions, marks: &WideMarks, location: &str, record_bytes: usize) -> Result<Self> {
        let all = [Some(&marks.delimiter), marks.terminator.as_ref(), marks.quote.as_ref()];
        let all: Vec<&String> = all.into_iter().flatten().collect();
        let clash = all.iter().enumerate().any(|(i, mark)| all.iter().skip(i + 1).any(|other| other == mark));
        if clash || all.iter().any(|mark| mark.is_empty()) {
            return Err(Error::invalid("delimiter, quote and record terminator of a CSV must differ"));
        }
        let mut marks = marks.clone();
        marks.escape = marks.escape.filter(|escape| Some(escape) != marks.quote.as_ref() && !escape.is_empty());
        Ok(Self {
            location: location.to_owned(),
            marks,
            newlines_in_values: options.newlines_in_values,
            record_bytes,
            header: options.header,
            range: 0..u64::MAX,
            rest: Vec::new(),
            offset: 0,
            record: 0,
            state: State::Start,
            first: false,
            wanted: true,
            scanned: 0,
        })
    }

    /// Returns the number of bytes before a range that are needed to find the start of its first
    /// record.
    pub(crate) fn terminator_bytes(&self) -> u64 {
        let terminator = self.marks.terminator.as_deref().map(str::as_bytes);
        let overlaps_itself = |mark: &[u8]| (1..mark.len()).any(|n| mark.get(n..) == mark.get(..mark.len() - n));
        let begins = |byte: &u8| match terminator {
            None => matches!(byte, b'\r' | b'\n'),
            Some(mark) => mark.first() == Some(byte),
        };
        let WideMarks { delimiter, quote, escape, comment, terminator: _ } = &self.marks;
        let others = [Some(delimiter), quote.as_ref(), escape.as_ref(), comment.as_ref()];
        let shared = others.into_iter().flatten().any(|mark| mark.as_bytes().iter().any(begins));
        match terminator {
            // `@@` found in `@@@` may be off by one, and `\n` may be the end of a delimiter `,\n`.
            // Then record ends are known only when reading from the first record on.
            _ if shared => u64::MAX,
            Some(mark) if overlaps_itself(mark) => u64::MAX,
            Some(mark) => mark.len() as u64,
            None => 1,
        }
    }

    /// Sets the offset `start` of the text in the object, and the range whose records are needed.
    pub(crate) fn of_range(self, start: u64, range: Range<u64>) -> Self {
        let state = if start == 0 { State::Start } else { State::Foreign };
        Self { offset: start, record: start, range, state, header: self.header && start == 0, ..self }
    }

    /// Returns whether no more text is needed.
    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Returns the number of bytes so far that belong to the range.
    pub(crate) fn scanned(&self) -> u64 {
        self.scanned
    }

    /// Rewrites the next piece of the text.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> Result<Bytes> {
        self.rest.extend_from_slice(piece);
        self.rewrite(false)
    }

    /// Rewrites the end of the text.
    pub(crate) fn finish(&mut self) -> Result<Bytes> {
        let mut out = Vec::from(self.rewrite(true)?);
        match self.state {
            State::Quoted => return Err(self.error("a quote is opened and never closed", "CSVUnescapedQuote")),
            State::Field if self.wanted => out.extend_from_slice(b"\"\"\n"),
            State::Unquoted | State::Closed if self.wanted => out.extend_from_slice(b"\"\n"),
            _ => {}
        }
        Ok(out.into())
    }

    fn error(&self, what: &str, code: &'static str) -> Error {
        Error::invalid(format!("{}, byte {}: {what}", self.location, self.record)).with_code(code)
    }

    fn rewrite(&mut self, whole: bool) -> Result<Bytes> {
        let text = std::mem::take(&mut self.rest);
        let marks = self.marks.clone();
        let terminator = marks.terminator.as_deref().map(str::as_bytes);
        let (quote, escape) = (marks.quote.as_deref().map(str::as_bytes), marks.escape.as_deref().map(str::as_bytes));
        let (delimiter, comment) = (marks.delimiter.as_bytes(), marks.comment.as_deref().map(str::as_bytes));
        let longest = [Some(delimiter), terminator, quote, escape, comment, Some(BYTE_ORDER_MARK)];
        // A doubled quote is a single delimiter, and so is an escape with the character after it.
        let ahead = 2 * longest.into_iter().flatten().map(<[u8]>::len).max().unwrap_or(1);
        let mut out = Vec::with_capacity(text.len() + text.len() / 4);
        let mut at = 0;
        while at < text.len() && (whole || text.len() - at >= ahead) && self.state != State::Done {
            let rest = text.get(at..).unwrap_or_default();
            let has = |mark: Option<&[u8]>| mark.filter(|mark| rest.starts_with(mark)).map_or(0, <[u8]>::len);
            let terminator_of = |text: &[u8]| match terminator {
                Some(mark) if text.starts_with(mark) => mark.len(),
                Some(_) => 0,
                None if text.starts_with(b"\r\n") => 2,
                None => usize::from(text.starts_with(b"\n")),
            };
            let ends = terminator_of(rest);
            let escaped = rest.get(has(escape)..).filter(|_| has(escape) > 0).unwrap_or_default();
            let here = self.offset + at as u64;
            let mut copy = |bytes: &[u8], wanted: bool| {
                for byte in bytes.iter().filter(|_| wanted) {
                    // A quote character is doubled in the rewritten text.
                    if *byte == b'"' {
                        out.push(b'"');
                    }
                    out.push(*byte);
                }
            };
            at += match self.state {
                State::Done => break,
                State::Start => {
                    self.state = State::Record;
                    self.first = true;
                    has(Some(BYTE_ORDER_MARK))
                }
                State::Foreign | State::Comment if ends > 0 => {
                    self.state = State::Record;
                    ends
                }
                State::Foreign | State::Comment => 1,
                State::Record => {
                    self.record = if std::mem::take(&mut self.first) { self.record } else { here };
                    if self.record >= self.range.end {
                        self.state = State::Done;
                        break;
                    }
                    self.wanted = self.record >= self.range.start;
                    if ends > 0 {
                        ends
                    } else if has(comment) > 0 {
                        self.state = State::Comment;
                        has(comment)
                    } else {
                        self.wanted &= !std::mem::take(&mut self.header);
                        self.state = State::Field;
                        0
                    }
                }
                State::Field => {
                    if has(quote) > 0 {
                        self.state = State::Quoted;
                    } else {
                        self.state = State::Unquoted;
                    }
                    if self.wanted {
                        out.push(b'"');
                    }
                    has(quote)
                }
                State::Quoted if !self.newlines_in_values && has(quote) == 0 && ends + terminator_of(escaped) > 0 => {
                    let what = "a record delimiter stands within quotes; set AllowQuotedRecordDelimiter to TRUE";
                    return Err(self.error(what, "CSVEscapingRecordDelimiter"));
                }
                State::Quoted if has(escape) > 0 => {
                    let escaped = escaped.get(..1).unwrap_or_default();
                    copy(escaped, self.wanted);
                    has(escape) + escaped.len()
                }
                State::Quoted if has(quote) > 0 => {
                    let doubled = rest.get(has(quote)..).is_some_and(|rest| quote.is_some_and(|q| rest.starts_with(q)));
                    if doubled {
                        copy(quote.unwrap_or_default(), self.wanted);
                        2 * has(quote)
                    } else {
                        self.state = State::Closed;
                        has(quote)
                    }
                }
                State::Unquoted | State::Closed if ends > 0 => {
                    self.state = State::Record;
                    if self.wanted {
                        out.extend_from_slice(b"\"\n");
                    }
                    ends
                }
                State::Unquoted | State::Closed if has(Some(delimiter)) > 0 => {
                    self.state = State::Field;
                    if self.wanted {
                        out.extend_from_slice(b"\",");
                    }
                    delimiter.len()
                }
                State::Quoted | State::Unquoted | State::Closed => {
                    copy(rest.get(..1).unwrap_or_default(), self.wanted);
                    1
                }
            };
            if self.record >= self.range.start && self.state != State::Foreign {
                self.scanned += self.offset + at as u64 - here;
            }
            let in_record = matches!(self.state, State::Field | State::Unquoted | State::Quoted | State::Closed);
            if in_record && self.offset + at as u64 - self.record > self.record_bytes as u64 {
                return Err(too_long(&self.location, self.record, self.record_bytes));
            }
        }
        self.rest = text.get(at..).unwrap_or_default().to_vec();
        self.offset += at as u64;
        Ok(out.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(delimiter: &str, terminator: Option<&str>) -> WideMarks {
        WideMarks {
            delimiter: delimiter.to_owned(),
            terminator: terminator.map(str::to_owned),
            quote: Some("\"".to_owned()),
            escape: None,
            comment: Some("#".to_owned()),
        }
    }

    fn rewrite(text: &str, marks: &WideMarks, range: Range<u64>, piece: usize) -> Result<String> {
        let options = CsvOptions { header: false, newlines_in_values: true, ..CsvOptions::default() };
        let rewriter = Rewriter::new(&options, marks, "k", 1 << 20)?;
        let start = range.start.saturating_sub(rewriter.terminator_bytes());
        let mut rewriter = rewriter.of_range(start, range);
        let mut out = Vec::new();
        for piece in text.as_bytes()[usize::try_from(start).unwrap()..].chunks(piece) {
            out.extend_from_slice(&rewriter.feed(piece)?);
        }
        out.extend_from_slice(&rewriter.finish()?);
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn long_marks_become_short_ones_however_the_text_is_cut() {
        for (text, delimiter, terminator, expected) in [
            ("a¦b\n1¦\n", "¦", None, "\"a\",\"b\"\n\"1\",\"\"\n"),
            ("a||\"b||\"\"c\"\"\"\r\n\n# x\n|1||2", "||", None, "\"a\",\"b||\"\"c\"\"\"\n\"|1\",\"2\"\n"),
            ("a,b\r\nc,\"d\ne\"\r\n", ",", Some("\r\n"), "\"a\",\"b\"\n\"c\",\"d\ne\"\n"),
            ("\u{feff}a,b@@c,d@@", ",", Some("@@"), "\"a\",\"b\"\n\"c\",\"d\"\n"),
            ("a\"b¦\"c\"d\n", "¦", None, "\"a\"\"b\",\"cd\"\n"),
        ] {
            for piece in [1, 2, 3, 100] {
                assert_eq!(
                    rewrite(text, &marks(delimiter, terminator), 0..u64::MAX, piece).unwrap(),
                    expected,
                    "{text}"
                );
            }
        }
        let open = rewrite("a¦\"b\n", &marks("¦", None), 0..u64::MAX, 100).unwrap_err();
        assert_eq!(open.code(), Some("CSVUnescapedQuote"));
        assert!(rewrite("", &marks("@@", Some("@@")), 0..1, 1).is_err());
    }

    #[test]
    fn every_record_belongs_to_one_range() {
        every_record_once("a¦1@@b¦2@@@@#c¦@@d¦4", &marks("¦", Some("@@")));
        every_record_once("||\n1,)", &marks("é", None));
        every_record_once("\u{feff}a\nb\n", &marks("é", None));
        every_record_once("\u{feff}\na\n", &marks("é", None));
        every_record_once("a,\n0\n1,\n\n2", &marks(",\n", None));
        every_record_once("a-@@@b@@c-@-@@@", &marks("-@", Some("@@")));
        every_record_once("x,abaab1,ab2aba,", &marks(",a", Some("ab")));
    }

    fn every_record_once(text: &str, marks: &WideMarks) {
        let whole = rewrite(text, marks, 0..u64::MAX, 100).unwrap();
        for cut in 0..=text.len() as u64 {
            for piece in [1, 7] {
                let parts =
                    rewrite(text, marks, 0..cut, piece).unwrap() + &rewrite(text, marks, cut..99, piece).unwrap();
                assert_eq!(parts, whole, "cut at {cut}");
            }
        }
    }
}

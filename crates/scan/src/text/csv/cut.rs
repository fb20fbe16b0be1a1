//! Cutting of many records at once.
//!
//! If every terminator ends a record, the ends of all records of a group are found first, 64 bytes
//! of text at a time. Then, record by record, delimiters are found in blocks that begin with the
//! record, up to the last needed field. Only the delimiters around needed fields are converted from
//! bits to positions.
//!
//! The text between an odd-numbered quote and the next one is quoted. A prefix XOR finds it
//! (Langdale and Lemire, "Parsing Gigabytes of JSON per Second", Section 3.1.1), as long as each
//! odd-numbered quote begins a field or is the second of a doubled quote. Other records, and those
//! with escaped quotes, are cut by [`Dialect::split`].

// Compiled into functions with the features of the lanes, see `crate::simd`.
#![allow(clippy::inline_always, reason = "what is not inlined there is compiled without them")]

use std::ops::Range;

use memchr::memchr;
use pushdowndb_contract::Ragged;

use crate::limits::GROUP_RECORDS;
use crate::simd::{self, BLOCK, Kernel, Lanes};
use crate::text::csv::dialect::{Dialect, Malformed};
use crate::values::fields::Span;

/// The range of a record in the text, without its terminator. Buffers are far smaller than 4 GiB.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Record {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// Some fields of some records.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    /// The numbers of the fields, ascending.
    pub(crate) fields: Vec<usize>,
    /// Record after record, the spans of these fields.
    pub(crate) spans: Vec<Span>,
}

/// Properties of the records of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Number of fields in a record.
    pub(crate) columns: usize,
    /// The field that takes the rest of a record, if there is one; it is the last field.
    pub(crate) rest: Option<usize>,
    /// Maximum length of a record.
    pub(crate) record_bytes: usize,
}

/// The text from which records are cut.
#[derive(Clone, Copy)]
pub(crate) struct Text<'a> {
    pub(crate) text: &'a [u8],
    /// `text`, followed by at least 64 more bytes.
    pub(crate) padded: &'a [u8],
    /// Offset of the text in the object.
    pub(crate) offset: u64,
}

/// The position at which cutting stopped, and the reason.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) at: usize,
    pub(crate) why: Why,
}

/// The fault of a record.
#[derive(Debug)]
pub(crate) enum Why {
    TooLong,
    Malformed(Malformed),
}

/// Appends to `records` up to `most` records that begin in `within` and end with a terminator.
/// Skips blank lines and comments. Returns the start of the next line. `ends` is scratch space.
pub(crate) fn find_records(
    dialect: &Dialect,
    text: Text<'_>,
    within: Range<usize>,
    most: usize,
    shape: &Shape,
    ends: &mut Vec<u32>,
    records: &mut Vec<Record>,
) -> Result<usize, Stopped> {
    let Range { start, end: stop } = within;
    let (from, most_lines) = (dialect.past_blank_lines(text.text, start, stop), most.max(GROUP_RECORDS));
    let lines = simd::run(LineEnds { text, from, most: most_lines, terminator: dialect.terminator, ends });
    records.reserve(lines.min(most));
    let mut start = from;
    for end in ends.iter().take(lines).map(|end| *end as usize) {
        if start >= stop || records.len() >= most {
            break;
        }
        let next = end + 1;
        let cr = usize::from(dialect.crlf && end > start && text.text.get(end - 1) == Some(&b'\r'));
        let end = end - cr;
        let is_comment = dialect.comment.is_some() && text.text.get(start).copied() == dialect.comment;
        if end > start && !is_comment {
            if end - start > shape.record_bytes {
                return Err(Stopped { at: start, why: Why::TooLong });
            }
            records.push(Record { start: start as u32, end: end as u32 });
        }
        start = next;
    }
    Ok(start)
}

/// Finds terminators. Its output is the number of `ends` that were found.
struct LineEnds<'a> {
    text: Text<'a>,
    from: usize,
    most: usize,
    terminator: u8,
    ends: &'a mut Vec<u32>,
}

impl Kernel for LineEnds<'_> {
    type Output = usize;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> usize {
        /// The number of positions that are written for every block, even if it has fewer
        /// terminators. Records are rarely shorter than half a block.
        const AT_ONCE: usize = 2;
        let Self { text: Text { text, padded, .. }, from, most, terminator, ends } = self;
        if ends.len() < most + BLOCK {
            ends.resize(most + BLOCK, 0);
        }
        let mut found = 0;
        let mut base = from;
        while base < text.len() && found < most {
            let Some(block) = padded.get(base..).and_then(|rest| rest.first_chunk::<BLOCK>()) else { break };
            let mut mask = lanes.equal(block, terminator);
            if text.len() - base < BLOCK {
                mask &= (1u64 << (text.len() - base)) - 1;
            }
            let count = mask.count_ones() as usize;
            let Some(places) = ends.get_mut(found..found + BLOCK) else { break };
            let mut next = || {
                let place = (base as u32).wrapping_add(mask.trailing_zeros());
                mask &= mask.wrapping_sub(1);
                place
            };
            let (first, others) = places.split_at_mut(AT_ONCE);
            first.iter_mut().for_each(|place| *place = next());
            if count > AT_ONCE {
                others.iter_mut().take(count - AT_ONCE).for_each(|place| *place = next());
            }
            found += count;
            base += BLOCK;
        }
        found.min(most)
    }
}

/// Appends the fields of `cells` in these records.
pub(crate) fn cut_fields(
    dialect: &Dialect,
    text: Text<'_>,
    records: impl ExactSizeIterator<Item = Record>,
    shape: &Shape,
    cells: &mut Cells,
) -> Result<(), Stopped> {
    if cells.fields.is_empty() {
        return Ok(());
    }
    let has_rest = cells.fields.last().copied() == shape.rest;
    let strict_end = dialect.ragged == Ragged::Error && cells.fields.last().copied() == shape.columns.checked_sub(1);
    let (wanted, rest) = match cells.fields.split_last() {
        Some((_, others)) if has_rest => (others, true),
        _ => (cells.fields.as_slice(), false),
    };
    let slow = Slow { dialect, padded: text.padded, wanted, rest, strict_end };
    simd::run(Fields { slow, records, strict_end, stride: cells.fields.len(), spans: &mut cells.spans })
}

/// Cuts one record at a time, whatever quotes it has.
struct Slow<'a> {
    dialect: &'a Dialect,
    padded: &'a [u8],
    wanted: &'a [usize],
    rest: bool,
    strict_end: bool,
}

impl Slow<'_> {
    #[inline(never)]
    fn cut(&self, record: Record, spans: &mut Vec<Span>) -> Result<(), Stopped> {
        let (start, end) = (record.start as usize, record.end as usize);
        let stopped = |why| Stopped { at: start, why: Why::Malformed(why) };
        let next = self.dialect.split(self.padded, start, end, 0, self.wanted, spans).map_err(stopped)?;
        if self.strict_end && next <= end {
            return Err(stopped(Malformed::FieldCount));
        }
        if self.rest {
            spans.push(if next <= end { Span::plain(next, end) } else { Span::MISSING });
        }
        Ok(())
    }
}

struct Fields<'a, I> {
    slow: Slow<'a>,
    records: I,
    strict_end: bool,
    stride: usize,
    spans: &'a mut Vec<Span>,
}

impl<I: ExactSizeIterator<Item = Record>> Kernel for Fields<'_, I> {
    type Output = Result<(), Stopped>;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Result<(), Stopped> {
        let Self { slow, records, strict_end, stride, spans } = self;
        let marks =
            Marks { delimiter: slow.dialect.delimiter, quote: slow.dialect.quoting.map(|quoting| quoting.quote) };
        let is_plain = !slow.rest && slow.dialect.quoting.is_none_or(|quoting| quoting.escape.is_none());
        spans.reserve(records.len() * stride);
        for record in records {
            if is_plain {
                let before = spans.len();
                if Delimiters::new(lanes, slow.padded, record, marks).cut(slow.wanted, strict_end, spans) {
                    continue;
                }
                spans.truncate(before);
            }
            slow.cut(record, spans)?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Marks {
    delimiter: u8,
    quote: Option<u8>,
}

/// Finds the delimiters of one record, block by block.
struct Delimiters<'a, L> {
    lanes: L,
    padded: &'a [u8],
    marks: Marks,
    start: usize,
    end: usize,
    /// The start of the block.
    base: usize,
    /// The delimiters in the block that are not quoted.
    mask: u64,
    /// The number of delimiters before the block, and up to its end.
    before: usize,
    up_to: usize,
    quotes: Quotes,
}

/// The state of quotes before a block.
#[derive(Clone, Copy, Default)]
struct Quotes {
    /// All ones if the block begins inside quotes.
    inside: u64,
    /// One if a quote in the first byte of the block may begin a field, or be the second of two
    /// quotes.
    may_open: u64,
    /// Nonzero if a quote is at an unexpected position.
    odd: bool,
}

impl<'a, L: Lanes> Delimiters<'a, L> {
    #[inline(always)]
    fn new(lanes: L, padded: &'a [u8], record: Record, marks: Marks) -> Self {
        let (start, end) = (record.start as usize, record.end as usize);
        let quotes = Quotes { may_open: 1, ..Quotes::default() };
        let mut all = Self { lanes, padded, marks, start, end, base: start, mask: 0, before: 0, up_to: 0, quotes };
        all.look();
        all
    }

    #[inline(always)]
    fn look(&mut self) {
        let Some(block) = self.padded.get(self.base..).and_then(|rest| rest.first_chunk::<BLOCK>()) else { return };
        let left = self.end - self.base;
        let valid = if left < BLOCK { (1u64 << left) - 1 } else { u64::MAX };
        self.mask = self.lanes.equal(block, self.marks.delimiter) & valid;
        if let Some(quote) = self.marks.quote {
            let quotes = self.lanes.equal(block, quote) & valid;
            if quotes | self.quotes.inside != 0 {
                self.mask &= !self.quotes.quoted(quotes, self.mask);
            }
            self.quotes.may_open = (self.mask | quotes) >> 63;
        }
        self.up_to = self.before + self.mask.count_ones() as usize;
    }

    /// Returns the position of the delimiter after field number `field`.
    #[inline(always)]
    fn after(&mut self, field: usize) -> Option<usize> {
        while self.up_to <= field {
            if self.end - self.base <= BLOCK {
                return None;
            }
            self.base += BLOCK;
            self.before = self.up_to;
            self.look();
        }
        Some(self.base + self.lanes.nth(self.mask, (field - self.before) as u32) as usize)
    }

    /// Appends the spans of the `wanted` fields. Returns false if the record has too few fields,
    /// has more although `strict_end` is true, or has quotes that are not around fields.
    #[inline(always)]
    fn cut(mut self, wanted: &[usize], strict_end: bool, spans: &mut Vec<Span>) -> bool {
        // The number of the field that begins at `begin`.
        let (mut field, mut begin) = (0, self.start);
        for want in wanted {
            if *want > field {
                let Some(delimiter) = self.after(*want - 1) else { return false };
                (field, begin) = (*want, delimiter + 1);
            }
            let end = match self.after(field) {
                Some(delimiter) => delimiter,
                // This is the last field of the record, unless there are no more fields.
                None if begin > self.end || self.quotes.inside != 0 => return false,
                None => self.end,
            };
            spans.push(self.span(begin, end));
            (field, begin) = (field + 1, end + 1);
        }
        !self.quotes.odd && (!strict_end || begin > self.end)
    }

    #[inline(always)]
    fn span(&self, begin: usize, end: usize) -> Span {
        let is_quoted =
            begin < end && self.marks.quote.is_some() && self.padded.get(begin).copied() == self.marks.quote;
        if is_quoted { self.quoted_span(begin, end) } else { Span::plain(begin, end) }
    }

    /// Returns the span of a field that begins with a quote.
    #[inline(always)]
    fn quoted_span(&self, begin: usize, end: usize) -> Span {
        let quote = self.marks.quote.unwrap_or_default();
        match self.padded.get(begin + 1..end) {
            Some([inner @ .., last]) if *last == quote && memchr(quote, inner).is_none() => {
                Span::plain(begin + 1, end - 1)
            }
            _ => Span::raw(begin, end),
        }
    }
}

impl Quotes {
    /// Returns the mask of the quoted bytes of a block with these quotes and delimiters.
    #[inline(always)]
    fn quoted(&mut self, quotes: u64, delimiters: u64) -> u64 {
        let mut inside = quotes;
        for shift in [1, 2, 4, 8, 16, 32] {
            inside ^= inside << shift;
        }
        inside ^= self.inside;
        let opening = quotes & inside;
        let may_open = (delimiters & !inside | quotes) << 1 | self.may_open;
        self.odd |= opening & !may_open != 0;
        self.inside = ((inside.cast_signed()) >> 63).cast_unsigned();
        inside
    }
}

#[cfg(test)]
mod tests {
    use pushdowndb_contract::CsvOptions;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// Cuts a record with these lanes. Returns `None` if it can only be cut in the general way.
    fn cut_at_once<L: Lanes>(lanes: L, padded: &[u8], record: Record, wanted: &[usize]) -> Option<Vec<Span>> {
        let marks = Marks { delimiter: b',', quote: Some(b'"') };
        let mut spans = vec![];
        Delimiters::new(lanes, padded, record, marks).cut(wanted, false, &mut spans).then_some(spans)
    }

    #[test]
    fn records_are_cut_at_once_as_one_by_one() {
        let dialect = Dialect::new(&CsvOptions { ragged: Ragged::Lenient, ..CsvOptions::default() }).unwrap();
        let mut random = StdRng::seed_from_u64(7);
        let mut next = |below: usize| random.random_range(0..below);
        let (mut plain, mut at_once) = (0, 0);
        for _ in 0..20_000 {
            let mut record: Vec<u8> = vec![];
            for field in 0..next(9) {
                if field > 0 {
                    record.push(b',');
                }
                let long = next(8) == 0;
                let text: String = (0..next(if long { 90 } else { 9 })).map(|_| ["a", "1", "é"][next(3)]).collect();
                let field = match next(12) {
                    0 => format!("\"{text},{text}\""),
                    1 => format!("\"{text}\"\"{text}\""),
                    2 => format!("\"{text}\""),
                    3 if next(4) == 0 => format!("{text}\"{text}"),
                    4 if next(4) == 0 => format!("\"{text}\"{text}"),
                    5 if next(4) == 0 => format!("\"{text}"),
                    _ => text,
                };
                record.extend_from_slice(field.as_bytes());
            }
            let shown = String::from_utf8_lossy(&record).into_owned();
            let end = record.len();
            record.extend_from_slice(&[b','; BLOCK]);
            let mut wanted: Vec<usize> = (0..9).filter(|_| next(3) == 0).collect();
            wanted.truncate(next(5));
            let place = Record { start: 0, end: end as u32 };
            let mut expected = vec![];
            let one_by_one = dialect.split(&record, 0, end, 0, &wanted, &mut expected);
            if let Some(cells) = cut_at_once(simd::Portable, &record, place, &wanted) {
                at_once += 1;
                assert!(one_by_one.is_ok(), "{shown}");
                assert_eq!(cells, expected, "{shown} {wanted:?}");
            }
            // Runs with the lanes of this processor.
            let mut cells = Cells { fields: wanted.clone(), spans: vec![] };
            let text = Text { text: &record[..end], padded: &record, offset: 0 };
            let shape = Shape { columns: 20, rest: None, record_bytes: 1000 };
            let cut = cut_fields(&dialect, text, std::iter::once(place), &shape, &mut cells);
            assert_eq!(cut.is_ok(), one_by_one.is_ok(), "{shown}");
            if cut.is_ok() {
                assert_eq!(cells.spans, expected, "{shown} {wanted:?}");
            }
            plain += 1;
        }
        // With fewer records cut at once, this test would prove nothing.
        assert!(at_once * 3 > plain, "{at_once} of {plain}");
    }

    #[test]
    fn lines_end_where_terminators_are() {
        let dialect = Dialect::new(&CsvOptions::default()).unwrap();
        let lines =
            ["1,2", "", "\r", "3\r", "a much longer line that goes on and on, well beyond sixty-four bytes", "x"];
        for count in 0..200 {
            let mut text: String = (0..count).map(|i| format!("{}\n", lines[i * 7 % lines.len()])).collect();
            let expected: Vec<String> =
                text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
            let length = text.len();
            // The bytes after the text must be ignored.
            text.push_str(&"\n".repeat(BLOCK));
            let padded = text.as_bytes();
            let text = Text { text: &padded[..length], padded, offset: 7 };
            let shape = Shape { columns: 1, rest: None, record_bytes: 1000 };
            let (mut ends, mut records) = (vec![], vec![]);
            let at = find_records(&dialect, text, 0..1 << 20, 1 << 20, &shape, &mut ends, &mut records).unwrap();
            let found: Vec<&[u8]> = records.iter().map(|r| &padded[r.start as usize..r.end as usize]).collect();
            assert_eq!(at, length);
            assert_eq!(found, expected.iter().map(|line| line.trim_end().as_bytes()).collect::<Vec<_>>());
        }
    }
}

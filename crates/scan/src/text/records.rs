//! Which records of a text object a byte range holds, and the buffer they are cut from.
//!
//! A record belongs to the range that holds its first byte. A range that does not begin the object therefore
//! starts one byte early and drops everything up to the first terminator, and the last record is read to its end
//! wherever that is.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use pushdown::{Compression, Error, Result};

use super::source::TextSource;
use crate::csv::Rewriter;
use crate::limits::BLOCK_BYTES;
use crate::{MemoryBudget, ObjectReader, ScanCounters, Spawner};

/// Zeros after the text, so that it can be looked at 64 bytes at a time.
pub(crate) const PADDING: usize = 64;

/// A header may follow comments and blank lines, so ranges that begin this early look for it from the start.
const HEADER_BYTES: u64 = 64 * 1024;

/// Pieces of at least so many bytes are looked at where they are.
const BORROWED_BYTES: usize = 64 * 1024;

/// The most of a piece that is looked at at a time, so that places in it are small numbers.
const WINDOW_BYTES: usize = 4 * 1024 * 1024;

/// How much of the next piece is copied behind what is left of the one before.
const SEAM_BYTES: usize = 16 * 1024;

/// Text that has arrived and is not yet consumed.
///
/// A large piece is borrowed: its text but for the last [`PADDING`] bytes is looked at in place. What is left at its end
/// is copied, the beginning of the next piece behind it, and when the record that lies across the two was consumed,
/// the next piece is borrowed in turn. Small pieces are copied together.
#[derive(Debug)]
pub(crate) struct TextBuffer {
    /// The text, in place; if there is none it is in `copied`.
    borrowed: Option<Bytes>,
    /// The text and [`PADDING`] zeros.
    copied: Vec<u8>,
    head: usize,
    /// Where the text begins in the text of the object.
    base: u64,
    /// Bytes at the end of `copied` that are still in the piece which they come from.
    lent: usize,
    /// How much is gathered before it is worth cutting records.
    target: usize,
    /// The longest record there may be.
    record_bytes: usize,
    /// Nothing more will come.
    whole: bool,
}

/// The longest terminator after a record.
const TERMINATOR_BYTES: usize = 2;

impl TextBuffer {
    pub(crate) fn new(base: u64, record_bytes: usize) -> Self {
        let copied = vec![0; PADDING];
        Self { borrowed: None, copied, head: 0, base, lent: 0, target: BLOCK_BYTES, record_bytes, whole: false }
    }

    /// The text and at least [`PADDING`] bytes more.
    fn bytes(&self) -> &[u8] {
        self.borrowed.as_deref().unwrap_or(&self.copied)
    }

    /// The text not yet consumed, followed by at least [`PADDING`] bytes, which are not part of it.
    pub(crate) fn padded(&self) -> &[u8] {
        self.bytes().get(self.head..).unwrap_or_default()
    }

    /// The text not yet consumed.
    pub(crate) fn text(&self) -> &[u8] {
        let bytes = self.bytes();
        bytes.get(self.head..bytes.len() - PADDING).unwrap_or_default()
    }

    /// Where [`Self::text`] begins in the text of the object.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.head as u64
    }

    /// Where [`Self::text`] lies in the text of the object.
    pub(crate) fn range(&self) -> Range<u64> {
        self.offset()..self.offset() + self.text().len() as u64
    }

    /// Whether the text goes to the end of the object.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Whether it is worth cutting records, rather than waiting for more text.
    pub(crate) fn is_ready(&self) -> bool {
        self.whole || self.text().len() >= self.target
    }

    /// Marks the end of the object.
    pub(crate) fn finish(&mut self) {
        self.own();
        self.whole = true;
    }

    /// Goes on to the text after these bytes.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.head = (self.head + bytes).min(self.bytes().len() - PADDING);
    }

    /// Takes as much of `piece` as is wanted. What it leaves is to be given again, until nothing is left.
    pub(crate) fn fill(&mut self, piece: &mut Bytes) {
        let before = self.copied.len() - PADDING;
        // Whether everything before the piece was consumed.
        if self.borrowed.is_none() && self.head + self.lent >= before {
            let consumed = self.head + self.lent - before;
            if piece.len() - consumed >= BORROWED_BYTES {
                self.base += self.head as u64;
                piece.advance(consumed);
                self.borrowed = Some(piece.split_to(piece.len().min(WINDOW_BYTES)));
                (self.head, self.lent) = (0, 0);
                self.copied.clear();
                self.copied.resize(PADDING, 0);
                return;
            }
            piece.advance(self.lent);
            self.lent = 0;
        }
        self.own();
        self.base += self.head as u64;
        self.copied.drain(..self.head);
        self.head = 0;
        let text = self.copied.len() - PADDING;
        self.copied.truncate(text);
        let rest = piece.get(self.lent..).unwrap_or_default();
        let is_seam = self.lent > 0 || piece.len() >= BORROWED_BYTES;
        let wanted = if is_seam && text < self.target.min(BLOCK_BYTES) {
            self.target = text + SEAM_BYTES.min(rest.len());
            SEAM_BYTES
        } else {
            self.target.saturating_sub(text)
        };
        let taken = wanted.clamp(1, rest.len().max(1)).min(rest.len());
        self.copied.extend_from_slice(rest.get(..taken).unwrap_or_default());
        self.copied.extend_from_slice(&[0; PADDING]);
        if is_seam {
            self.lent += taken;
        } else {
            piece.advance(taken);
        }
        if self.lent == piece.len() {
            self.lent = 0;
            piece.clear();
        }
    }

    /// Copies what is left of a piece that was looked at in place.
    fn own(&mut self) {
        if let Some(piece) = self.borrowed.take() {
            self.copied.clear();
            self.copied.extend_from_slice(piece.get(self.head..).unwrap_or_default());
            self.copied.extend_from_slice(&[0; PADDING]);
            self.base += self.head as u64;
            self.head = 0;
        }
    }

    /// Asks for more text because what is here holds no complete record.
    pub(crate) fn widen(&mut self, location: &str) -> Result<()> {
        let most = self.record_bytes + TERMINATOR_BYTES;
        if self.text().len() >= most {
            return Err(too_long(location, self.offset(), self.record_bytes));
        }
        self.target = (self.text().len() * 2).max(BLOCK_BYTES).min(most);
        Ok(())
    }

    /// Goes back to the usual amount after a long record.
    pub(crate) fn narrow(&mut self) {
        self.target = BLOCK_BYTES;
    }
}

/// What a search of the text left to look at. Only of text in which every terminator ends a line.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    /// Where the lines begin that may hold rows, ascending, in the text of the object.
    pub(crate) starts: VecDeque<u64>,
    /// Lines that begin before it and are not among those hold no row. A line begins here, or the text ends.
    pub(crate) searched: u64,
}

/// The error for a record that is longer than allowed.
#[cold]
pub(crate) fn too_long(location: &str, at: u64, record_bytes: usize) -> Error {
    let most =
        if record_bytes >= 1 << 20 { format!("{} MiB", record_bytes >> 20) } else { format!("{record_bytes} bytes") };
    let message = format!("{location}, byte {at}: a record is longer than {most}; is the record delimiter right?");
    Error::invalid(message).with_code("OverMaxRecordSize")
}

/// The text of a scan: the buffer, the source it is filled from, and the range whose records are wanted.
pub(crate) struct TextInput {
    location: String,
    source: TextSource,
    piece: Bytes,
    pub(crate) buffer: TextBuffer,
    /// Records that begin in here are wanted.
    pub(crate) range: Range<u64>,
    /// Text up to the first terminator belongs to a record of the range before.
    partial: Option<u8>,
    /// Ends records; `None` if the text is not cut by byte ranges.
    terminator: Option<u8>,
}

/// How the text of an object is opened.
pub(crate) struct TextOptions {
    /// How the object is compressed.
    pub(crate) compression: Compression,
    /// Ends records; `None` if the text is not cut by byte ranges.
    pub(crate) terminator: Option<u8>,
    /// The first record is looked for by ranges that could hold it.
    pub(crate) header: bool,
    /// The longest record there may be.
    pub(crate) record_bytes: usize,
    /// Rewrites text whose marks are longer than one byte; it also picks the records of the range.
    pub(crate) rewrite: Option<Rewriter>,
    /// Starts the task that decompresses, and what that takes.
    pub(crate) spawner: Spawner,
    pub(crate) memory: MemoryBudget,
}

impl TextInput {
    /// Opens `range` of the object, or all of it.
    pub(crate) fn open(
        reader: Arc<dyn ObjectReader>,
        range: Option<Range<u64>>,
        options: TextOptions,
        counters: &Arc<ScanCounters>,
    ) -> Result<Self> {
        let TextOptions { compression, terminator, header, record_bytes, rewrite, spawner, memory } = options;
        let size = reader.size();
        let location = reader.location().to_owned();
        let range = range.filter(|r| r.start > 0 || r.end < size);
        let splittable = terminator.is_some() && compression == Compression::None;
        if range.is_some() && !splittable {
            let why = if compression == Compression::None { "may hold line ends in values" } else { "is compressed" };
            return Err(Error::unsupported(format!("{location}: {why}, so a byte range of it cannot be read alone")));
        }
        let early = rewrite.as_ref().map_or(1, Rewriter::terminator_bytes);
        // A range that could hold the header is read from the start of the object.
        let inner = range.as_ref().map(|range| range.start).filter(|at| *at > 0 && !(header && *at < HEADER_BYTES));
        let start = inner.map_or(0, |at| at.saturating_sub(early));
        let plain = |reader| TextSource::plain(reader, start..range.as_ref().map_or(size, |range| range.end));
        let source = match compression {
            Compression::None => plain(reader),
            _ => TextSource::compressed(reader, compression, Arc::clone(counters), spawner, &memory),
        };
        if let Some(rewriter) = rewrite {
            let rewriter = rewriter.of_range(start, range.clone().unwrap_or(0..u64::MAX));
            let counted = compression == Compression::None;
            let source = source.rewritten(rewriter, counted.then(|| Arc::clone(counters)));
            let buffer = TextBuffer::new(0, record_bytes);
            let range = 0..u64::MAX;
            return Ok(Self { location, source, piece: Bytes::new(), buffer, range, partial: None, terminator: None });
        }
        let partial = terminator.filter(|_| inner.is_some());
        let range = range.unwrap_or(0..u64::MAX);
        let buffer = TextBuffer::new(start, record_bytes);
        Ok(Self { location, source, piece: Bytes::new(), buffer, range, partial, terminator })
    }

    /// Text that was read already and holds whole records; it begins at `start` of the object.
    pub(crate) fn of_part(reader: Arc<dyn ObjectReader>, start: u64, text: Bytes, record_bytes: usize) -> Self {
        let location = reader.location().to_owned();
        let source = TextSource::read(reader, text);
        let buffer = TextBuffer::new(start, record_bytes);
        let range = 0..u64::MAX;
        Self { location, source, piece: Bytes::new(), buffer, range, partial: None, terminator: None }
    }

    /// Waits until the buffer is ready to be cut. The caller has consumed all complete records in it.
    pub(crate) async fn fill(&mut self) -> Result<()> {
        loop {
            self.drop_partial();
            if self.buffer.is_ready() || self.has_last_record() {
                return Ok(());
            }
            if self.piece.is_empty() {
                match self.source.next().await? {
                    Some(piece) => self.piece = piece,
                    None => {
                        self.buffer.finish();
                        continue;
                    }
                }
            }
            if !self.piece.is_empty() {
                self.buffer.fill(&mut self.piece);
            }
        }
    }

    /// Whether the last record of the range is here to its end: more text would be read for nothing.
    fn has_last_record(&self) -> bool {
        let Some(terminator) = self.terminator.filter(|_| self.partial.is_none()) else { return false };
        let inside = usize::try_from(self.range.end.saturating_sub(self.buffer.offset())).unwrap_or(usize::MAX);
        let text = self.buffer.text();
        let beyond = text.get(inside.saturating_sub(1)..).unwrap_or_default();
        // Less may be the beginning of a byte order mark.
        text.len() >= 3 && memchr::memchr(terminator, beyond).is_some()
    }

    /// What is called when no complete record was found in a buffer that is not whole.
    pub(crate) fn widen(&mut self) -> Result<()> {
        self.buffer.widen(&self.location)
    }

    /// Whether all records of the range have been consumed.
    pub(crate) fn is_done(&self) -> bool {
        let past = self.partial.is_none() && self.buffer.offset() >= self.range.end;
        past || (self.buffer.is_whole() && self.buffer.text().is_empty())
    }

    fn drop_partial(&mut self) {
        if let Some(terminator) = self.partial {
            match memchr::memchr(terminator, self.buffer.text()) {
                Some(at) => {
                    self.buffer.consume(at + 1);
                    self.partial = None;
                }
                None => {
                    self.buffer.consume(self.buffer.text().len());
                    if self.buffer.is_whole() {
                        self.partial = None;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// Pieces of these sizes come out as they went in, line by line, whatever is borrowed and whatever is copied.
    #[test]
    fn text_is_the_same_in_place_and_copied() {
        let mut random = StdRng::seed_from_u64(3);
        let mut next = |below: usize| random.random_range(0..below);
        for round in 0..40 {
            let mut text = Vec::new();
            while text.len() < 3_000_000 {
                let long = if next(200) == 0 { 60_000 * next(9) } else { 0 };
                text.resize(text.len() + next(200) + long, b'a' + next(20) as u8);
                text.push(b'\n');
            }
            let largest = [50, 5_000, 100_000, 900_000, 3_000_000][round % 5];
            let mut pieces = Bytes::from(text.clone());
            let mut buffer = TextBuffer::new(0, 1 << 30);
            let mut piece = Bytes::new();
            let mut at = 0;
            while at < text.len() {
                // As a scan does: complete records, then more text.
                while let Some(end) = memchr::memchr(b'\n', buffer.text()) {
                    let (rest, line) = (&text[at..], &buffer.text()[..=end]);
                    assert_eq!(buffer.offset(), at as u64);
                    assert!(rest.starts_with(line), "at {at}");
                    assert!(buffer.padded().len() >= buffer.text().len() + PADDING);
                    at += end + 1;
                    buffer.consume(end + 1);
                    buffer.narrow();
                }
                if at == text.len() {
                    break;
                }
                if buffer.is_ready() {
                    buffer.widen("t").unwrap();
                }
                while !buffer.is_ready() {
                    if piece.is_empty() {
                        piece = pieces.split_to((1 + next(largest)).min(pieces.len()));
                    }
                    if piece.is_empty() {
                        buffer.finish();
                    } else {
                        buffer.fill(&mut piece);
                    }
                }
            }
            assert!(buffer.text().is_empty() && piece.is_empty() && pieces.is_empty());
        }
    }
}

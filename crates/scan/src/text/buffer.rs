//! The buffer from which records are cut, and which records belong to a byte range.
//!
//! A record belongs to the range that contains its first byte. So a range that does not begin at
//! the start of the object starts one byte early, and drops everything up to the first terminator.
//! Its last record is read to its end, even beyond the range.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use pushdowndb_contract::{Compression, Error, Result};

use crate::counters::ScanCounters;
use crate::io::reader::ObjectReader;
use crate::limits::BLOCK_BYTES;
use crate::runtime::memory::MemoryBudget;
use crate::runtime::spawner::Spawner;
use crate::text::errors::too_long;
use crate::text::rewrite::Rewriter;
use crate::text::source::TextSource;
use crate::text::stage::Stage;

/// The number of bytes after the text, so that it can be read 64 bytes at a time.
pub(crate) const PADDING: usize = 64;

/// The maximum offset of a header, which may follow comments and blank lines. Ranges that begin
/// before it are read from the start of the object.
const MAX_HEADER_OFFSET_BYTES: u64 = 64 * 1024;

/// The minimum size of a piece that is scanned in place, in bytes.
const MIN_BORROWED_BYTES: usize = 64 * 1024;

/// The maximum number of bytes of a piece that are scanned at a time, so that positions fit into 32
/// bits.
const MAX_WINDOW_BYTES: usize = 4 * 1024 * 1024;

/// The number of bytes of the next piece that are copied after the rest of the previous piece.
const SEAM_BYTES: usize = 16 * 1024;

/// Text that has arrived and is not yet consumed.
///
/// A large piece is borrowed: it is scanned in place, except for its last [`PADDING`] bytes. Its
/// rest is copied, followed by the beginning of the next piece. When the record that spans both
/// pieces is consumed, the next piece is borrowed. Small pieces are copied together.
#[derive(Debug)]
pub(crate) struct TextBuffer {
    /// The text, if it is scanned in place; otherwise it is in `copied`.
    borrowed: Option<Bytes>,
    /// The copied text, followed by [`PADDING`] zeros.
    copied: Vec<u8>,
    head: usize,
    /// The offset of the text in the text of the object.
    base: u64,
    /// The number of bytes at the end of `copied` that are still in the piece from which they were
    /// copied.
    lent: usize,
    /// The number of bytes to buffer before records are cut.
    target: usize,
    /// Maximum length of a record.
    record_bytes: usize,
    /// True if there is no more text.
    whole: bool,
}

/// Maximum length of a terminator.
const MAX_TERMINATOR_BYTES: usize = 2;

impl TextBuffer {
    pub(crate) fn new(base: u64, record_bytes: usize) -> Self {
        let copied = vec![0; PADDING];
        Self { borrowed: None, copied, head: 0, base, lent: 0, target: BLOCK_BYTES, record_bytes, whole: false }
    }

    /// Returns the text, followed by at least [`PADDING`] bytes.
    fn bytes(&self) -> &[u8] {
        self.borrowed.as_deref().unwrap_or(&self.copied)
    }

    /// Returns the text not yet consumed, followed by at least [`PADDING`] bytes that do not belong
    /// to it.
    pub(crate) fn padded(&self) -> &[u8] {
        self.bytes().get(self.head..).unwrap_or_default()
    }

    /// Returns the text not yet consumed.
    pub(crate) fn text(&self) -> &[u8] {
        let bytes = self.bytes();
        bytes.get(self.head..bytes.len() - PADDING).unwrap_or_default()
    }

    /// Returns the offset of [`Self::text`] in the text of the object.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.head as u64
    }

    /// Returns the range of [`Self::text`] in the text of the object.
    pub(crate) fn range(&self) -> Range<u64> {
        self.offset()..self.offset() + self.text().len() as u64
    }

    /// Returns whether the text extends to the end of the object.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Returns whether records should be cut now, before more text is read.
    pub(crate) fn is_ready(&self) -> bool {
        self.whole || self.text().len() >= self.target
    }

    /// Marks the end of the object.
    pub(crate) fn finish(&mut self) {
        self.own();
        self.whole = true;
    }

    pub(crate) fn consume(&mut self, bytes: usize) {
        self.head = (self.head + bytes).min(self.bytes().len() - PADDING);
    }

    /// Takes as many bytes of `piece` as fit. Call it again with the rest, until nothing is left.
    pub(crate) fn fill(&mut self, piece: &mut Bytes) {
        let before = self.copied.len() - PADDING;
        // True if everything before the piece was consumed.
        if self.borrowed.is_none() && self.head + self.lent >= before {
            let consumed = self.head + self.lent - before;
            if piece.len() - consumed >= MIN_BORROWED_BYTES {
                self.base += self.head as u64;
                piece.advance(consumed);
                self.borrowed = Some(piece.split_to(piece.len().min(MAX_WINDOW_BYTES)));
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
        let is_seam = self.lent > 0 || piece.len() >= MIN_BORROWED_BYTES;
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

    /// Copies the rest of a borrowed piece.
    fn own(&mut self) {
        if let Some(piece) = self.borrowed.take() {
            self.copied.clear();
            self.copied.extend_from_slice(piece.get(self.head..).unwrap_or_default());
            self.copied.extend_from_slice(&[0; PADDING]);
            self.base += self.head as u64;
            self.head = 0;
        }
    }

    /// Requests more text, because the buffer does not contain a complete record.
    pub(crate) fn widen(&mut self, location: &str) -> Result<()> {
        let most = self.record_bytes + MAX_TERMINATOR_BYTES;
        if self.text().len() >= most {
            return Err(too_long(location, self.offset(), self.record_bytes));
        }
        self.target = (self.text().len() * 2).max(BLOCK_BYTES).min(most);
        Ok(())
    }

    /// Resets the number of bytes to buffer, after a long record.
    pub(crate) fn narrow(&mut self) {
        self.target = BLOCK_BYTES;
    }
}

/// The results of a search of the text. Used only for text in which every terminator ends a line.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    /// The starts of the lines that may contain rows, ascending, as offsets in the text of the
    /// object.
    pub(crate) starts: VecDeque<u64>,
    /// Lines that begin before this offset and are not in `starts` contain no row. A line begins at
    /// this offset, or the text ends there.
    pub(crate) searched: u64,
}

/// The text of a scan: its buffer, its source, and the range of the needed records.
pub(crate) struct TextInput {
    location: String,
    source: TextSource,
    piece: Bytes,
    pub(crate) buffer: TextBuffer,
    /// Records that begin in this range are needed.
    pub(crate) range: Range<u64>,
    /// If set, the text up to this terminator belongs to a record of the previous range.
    partial: Option<u8>,
    /// The byte that ends records; `None` if the text cannot be cut by byte ranges.
    terminator: Option<u8>,
}

/// Options for opening the text of an object.
pub(crate) struct TextOptions {
    pub(crate) compression: Compression,
    /// The byte that ends records; `None` if the text cannot be cut by byte ranges.
    pub(crate) terminator: Option<u8>,
    /// True if the first record is a header. Ranges that may contain it are read from the start.
    pub(crate) header: bool,
    /// Maximum length of a record, in bytes.
    pub(crate) record_bytes: usize,
    /// Rewrites text with multi-byte delimiters, and selects the records of the range.
    pub(crate) rewrite: Option<Rewriter>,
    /// Translates text before it is rewritten, and afterwards.
    pub(crate) translate: Translate,
    /// Starts the decompression task.
    pub(crate) spawner: Spawner,
    pub(crate) memory: MemoryBudget,
}

/// Adds the stages that translate all text of an object to its source.
fn translated(
    mut source: TextSource,
    translate: Translate,
    rewrite: Option<Rewriter>,
    compression: Compression,
    counters: &Arc<ScanCounters>,
) -> TextSource {
    // Compressed bytes are counted where they are decompressed.
    let mut counted = (compression == Compression::None).then(|| Arc::clone(counters));
    if let Some(start) = translate.start {
        source = source.translated(start, counted.take());
    }
    if let Some(rewriter) = rewrite {
        source = source.rewritten(rewriter.of_range(0, 0..u64::MAX), counted.take());
    }
    match translate.fields {
        Some(fields) => source.translated(fields, counted.take()),
        None => source,
    }
}

/// The stages of a translation.
#[derive(Default)]
pub(crate) struct Translate {
    /// Converts bytes to UTF-8.
    pub(crate) start: Option<Box<dyn Stage>>,
    /// Translates the fields of records.
    pub(crate) fields: Option<Box<dyn Stage>>,
}

impl Translate {
    /// Returns whether the text needs no translation.
    pub(crate) fn is_none(&self) -> bool {
        self.start.is_none() && self.fields.is_none()
    }
}

impl TextInput {
    /// Opens `range` of the object; `None` opens all of it.
    pub(crate) fn open(
        reader: Arc<dyn ObjectReader>,
        range: Option<Range<u64>>,
        options: TextOptions,
        counters: &Arc<ScanCounters>,
    ) -> Result<Self> {
        let TextOptions { compression, terminator, header, record_bytes, rewrite, translate, spawner, memory } =
            options;
        let size = reader.size();
        let location = reader.location().to_owned();
        let range = range.filter(|r| r.start > 0 || r.end < size);
        let splittable = terminator.is_some() && compression == Compression::None && translate.is_none();
        if range.is_some() && !splittable {
            let why = match compression {
                Compression::None if translate.is_none() => "may hold line ends in values",
                Compression::None => "is translated",
                _ => "is compressed",
            };
            return Err(Error::unsupported(format!("{location}: {why}, so a byte range of it cannot be read alone")));
        }
        let early = rewrite.as_ref().map_or(1, Rewriter::terminator_bytes);
        // A range that may contain the header is read from the start of the object.
        let inner =
            range.as_ref().map(|range| range.start).filter(|at| *at > 0 && !(header && *at < MAX_HEADER_OFFSET_BYTES));
        let start = inner.map_or(0, |at| at.saturating_sub(early));
        let plain = |reader| TextSource::plain(reader, start..range.as_ref().map_or(size, |range| range.end));
        let source = match compression {
            Compression::None => plain(reader),
            _ => TextSource::compressed(reader, compression, Arc::clone(counters), spawner, &memory),
        };
        if !translate.is_none() {
            let source = translated(source, translate, rewrite, compression, counters);
            let (buffer, range) = (TextBuffer::new(0, record_bytes), 0..u64::MAX);
            return Ok(Self { location, source, piece: Bytes::new(), buffer, range, partial: None, terminator: None });
        }
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

    /// Wraps text that was already read. It must contain whole records, and begin at `start` of the
    /// object.
    pub(crate) fn of_part(reader: Arc<dyn ObjectReader>, start: u64, text: Bytes, record_bytes: usize) -> Self {
        let location = reader.location().to_owned();
        let source = TextSource::read(reader, text);
        let buffer = TextBuffer::new(start, record_bytes);
        let range = 0..u64::MAX;
        Self { location, source, piece: Bytes::new(), buffer, range, partial: None, terminator: None }
    }

    /// Waits until records can be cut. Expects that all complete records in the buffer were
    /// consumed.
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

    /// Returns whether the last record of the range is complete, so that no more text is needed.
    fn has_last_record(&self) -> bool {
        let Some(terminator) = self.terminator.filter(|_| self.partial.is_none()) else { return false };
        let inside = usize::try_from(self.range.end.saturating_sub(self.buffer.offset())).unwrap_or(usize::MAX);
        let text = self.buffer.text();
        let beyond = text.get(inside.saturating_sub(1)..).unwrap_or_default();
        // With fewer bytes, the text may be the beginning of a byte order mark.
        text.len() >= 3 && memchr::memchr(terminator, beyond).is_some()
    }

    /// Requests more text, because the buffer is not at the end and does not contain a complete
    /// record.
    pub(crate) fn widen(&mut self) -> Result<()> {
        self.buffer.widen(&self.location)
    }

    /// Returns whether all records of the range were consumed.
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

    /// Pieces of these sizes must be returned unchanged, line by line, whether they are borrowed or
    /// copied.
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
                // As in a scan: complete records are consumed, and then more text is added.
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

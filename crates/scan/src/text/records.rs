//! Which records of a text object a byte range holds, and the buffer they are cut from.
//!
//! A record belongs to the range that holds its first byte. A range that does not begin the object therefore
//! starts one byte early and drops everything up to the first terminator, and the last record is read to its end
//! wherever that is.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use pushdown::{Compression, Error, Result};

use super::source::TextSource;
use crate::limits::{BLOCK_BYTES, RECORD_BYTES};
use crate::{ObjectReader, ScanCounters};

/// Zeros after the text, so that it can be looked at 64 bytes at a time.
pub(crate) const PADDING: usize = 64;

/// A header may follow comments and blank lines, so ranges that begin this early look for it from the start.
const HEADER_BYTES: u64 = 64 * 1024;

/// Text that has arrived and is not yet consumed.
#[derive(Debug)]
pub(crate) struct TextBuffer {
    /// The text and [`PADDING`] zeros.
    bytes: Vec<u8>,
    head: usize,
    /// Where `bytes` begins in the text of the object.
    base: u64,
    /// How much is gathered before it is worth cutting records.
    target: usize,
    /// Nothing more will come.
    whole: bool,
}

impl TextBuffer {
    pub(crate) fn new(base: u64) -> Self {
        Self { bytes: vec![0; PADDING], head: 0, base, target: BLOCK_BYTES, whole: false }
    }

    /// The text not yet consumed, followed by [`PADDING`] zeros, which are not part of it.
    pub(crate) fn padded(&self) -> &[u8] {
        self.bytes.get(self.head..).unwrap_or_default()
    }

    /// The text not yet consumed.
    pub(crate) fn text(&self) -> &[u8] {
        self.bytes.get(self.head..self.bytes.len() - PADDING).unwrap_or_default()
    }

    /// Where [`Self::text`] begins in the text of the object.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.head as u64
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
        self.whole = true;
    }

    /// Goes on to the text after these bytes.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.head = (self.head + bytes).min(self.bytes.len() - PADDING);
    }

    /// Takes as much of `piece` as is wanted, at least one byte.
    pub(crate) fn fill(&mut self, piece: &mut Bytes) {
        if self.head > 0 {
            self.base += self.head as u64;
            self.bytes.drain(..self.head);
            self.head = 0;
        }
        let text = self.bytes.len() - PADDING;
        let taken = self.target.saturating_sub(text).clamp(1, piece.len().max(1)).min(piece.len());
        self.bytes.truncate(text);
        self.bytes.extend_from_slice(piece.get(..taken).unwrap_or_default());
        self.bytes.extend_from_slice(&[0; PADDING]);
        piece.advance(taken);
    }

    /// Asks for more text because what is here holds no complete record.
    pub(crate) fn widen(&mut self, location: &str) -> Result<()> {
        if self.text().len() >= RECORD_BYTES {
            return Err(Error::invalid(format!(
                "{location}, byte {}: a record is longer than {} MiB; is the record delimiter right?",
                self.offset(),
                RECORD_BYTES / (1024 * 1024)
            )));
        }
        self.target = (self.text().len() * 2).clamp(BLOCK_BYTES, RECORD_BYTES);
        Ok(())
    }

    /// Goes back to the usual amount after a long record.
    pub(crate) fn narrow(&mut self) {
        self.target = BLOCK_BYTES;
    }
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
}

impl TextInput {
    /// Opens `range` of the object, or all of it. `terminator` ends records; `None` if the text is not cut by byte
    /// ranges. With `header` the first record is looked for by ranges that could hold it.
    pub(crate) fn open(
        reader: Arc<dyn ObjectReader>,
        compression: Compression,
        range: Option<Range<u64>>,
        terminator: Option<u8>,
        header: bool,
        counters: &Arc<ScanCounters>,
    ) -> Result<Self> {
        let size = reader.size();
        let location = reader.location().to_owned();
        let range = range.filter(|r| r.start > 0 || r.end < size);
        let splittable = terminator.filter(|_| compression == Compression::None);
        let (source, start, partial) = match (&range, splittable) {
            (Some(_), None) => {
                let why =
                    if compression == Compression::None { "may hold line ends in values" } else { "is compressed" };
                return Err(Error::unsupported(format!(
                    "{location}: {why}, so a byte range of it cannot be read alone"
                )));
            }
            (None, _) if compression != Compression::None => {
                (TextSource::compressed(reader, compression, Arc::clone(counters)), 0, None)
            }
            (None, _) => (TextSource::plain(reader, 0..size), 0, None),
            (Some(range), Some(terminator)) => {
                let from_start = range.start == 0 || (header && range.start < HEADER_BYTES);
                let start = if from_start { 0 } else { range.start - 1 };
                (TextSource::plain(reader, start..range.end), start, (!from_start).then_some(terminator))
            }
        };
        let range = range.unwrap_or(0..u64::MAX);
        let buffer = TextBuffer::new(start);
        Ok(Self { location, source, piece: Bytes::new(), buffer, range, partial })
    }

    /// Waits until the buffer is ready to be cut. The caller has consumed all complete records in it.
    pub(crate) async fn fill(&mut self) -> Result<()> {
        loop {
            self.drop_partial();
            if self.buffer.is_ready() {
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

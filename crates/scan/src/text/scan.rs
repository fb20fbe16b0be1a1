//! The read loop of text formats: fill the buffer, search it, cut records, and decode those that
//! pass.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use pushdowndb_contract::{Compression, Result};

use crate::counters::ScanCounters;
use crate::io::reader::ObjectReader;
use crate::prefilter::sample::Prefilter;
use crate::range::positions::Parts;
use crate::runtime::interrupt::check_interrupt;
use crate::runtime::time_slice::TimeSlice;
use crate::source::{BatchSource, ScanInput};
use crate::text::buffer::{Candidates, TextBuffer, TextInput, TextOptions};

/// A text format of records. It cuts a buffer into records and collects the rows that pass.
pub(crate) trait RecordFormat: Send {
    /// Returns the schema of the batches.
    fn schema(&self) -> SchemaRef;

    /// Returns whether a batch is ready to be taken.
    fn is_full(&self) -> bool;

    /// Returns the rows collected so far, if there are any.
    fn take(&mut self) -> Result<Option<RecordBatch>>;

    /// Returns whether [`Self::advance`] should process only records at `candidates`.
    fn takes_candidates(&mut self, buffer: &TextBuffer) -> bool;

    /// Processes the next complete records of the buffer that begin before the end of the range.
    fn advance(&mut self, input: &mut TextInput, candidates: Option<&mut Candidates>) -> Result<Advance>;

    /// Returns whether the text may end after the records seen so far.
    fn may_end(&self) -> bool {
        true
    }

    /// Called when the whole text was read, and the rest of it contains no record.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is truncated.
    fn check_end(&self) -> Result<()> {
        Ok(())
    }

    /// Called when all records that begin before offset `end` were processed.
    fn finish_zones(&mut self, end: u64);
}

/// The result of one step of a [`RecordFormat`].
pub(crate) struct Advance {
    /// The number of bytes to consume; 0 if there was no complete record.
    pub(crate) bytes: usize,
    /// The number of these bytes that belong to the scan's range.
    pub(crate) scanned: u64,
    /// The number of records that were processed.
    pub(crate) records: u64,
}

/// The parts of an object that are scanned instead of the whole object, see
/// [`crate::range::scan_range::ScanRange::Records`].
struct PartQueue {
    parts: Parts,
    reader: Arc<dyn ObjectReader>,
    record_bytes: usize,
}

/// A scan of a text object.
pub(crate) struct TextScan<F> {
    input: TextInput,
    format: F,
    matcher: Option<Prefilter>,
    candidates: Candidates,
    parts: Option<PartQueue>,
    /// True if the source counts bytes (of compressed or rewritten text), so that they are not
    /// counted here.
    counted_at_source: bool,
    done: bool,
    slice: TimeSlice,
    counters: Arc<ScanCounters>,
}

impl<F: RecordFormat> TextScan<F> {
    /// Opens the text. `format` gets the input, and whether it consists of parts of the object. It
    /// returns the format, and the prefilter to search the text with.
    pub(crate) fn open(
        scan: ScanInput,
        text: TextOptions,
        format: impl FnOnce(&TextInput, bool) -> Result<(F, Option<Prefilter>)>,
    ) -> Result<Self> {
        let ScanInput { reader, range, counters, .. } = scan;
        let record_bytes = text.record_bytes;
        let counted_at_source =
            text.compression != Compression::None || text.rewrite.is_some() || !text.translate.is_none();
        let (input, parts) = match range.parts() {
            None => (TextInput::open(reader, range.range(), text, &counters)?, None),
            Some(parts) => {
                let nothing = TextInput::of_part(Arc::clone(&reader), 0, Bytes::new(), record_bytes);
                let parts = Parts::new(Arc::clone(&reader), parts);
                (nothing, Some(PartQueue { parts, reader, record_bytes }))
            }
        };
        let (format, matcher) = format(&input, parts.is_some())?;
        let (candidates, slice) = Default::default();
        Ok(Self { input, format, matcher, candidates, parts, counted_at_source, done: false, slice, counters })
    }

    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            check_interrupt()?;
            if self.format.is_full() {
                return self.format.take();
            }
            if self.done || (self.input.is_done() && self.format.may_end()) {
                if self.next_part().await? {
                    continue;
                }
                self.done = true;
                self.format.finish_zones(self.input.range.end.min(self.input.buffer.offset()));
                return self.format.take();
            }
            self.search();
            let candidates = Some(&mut self.candidates).filter(|found| found.searched > self.input.buffer.offset());
            let advance = self.format.advance(&mut self.input, candidates)?;
            if advance.bytes > 0 || advance.records > 0 {
                self.input.buffer.consume(advance.bytes);
                self.input.buffer.narrow();
                self.counters.rows_scanned.fetch_add(advance.records, Ordering::Relaxed);
                if !self.counted_at_source {
                    self.counters.bytes_scanned.fetch_add(advance.scanned, Ordering::Relaxed);
                    self.counters.bytes_processed.fetch_add(advance.scanned, Ordering::Relaxed);
                }
            } else if self.input.buffer.is_whole() {
                self.format.check_end()?;
                self.done = true;
            } else {
                if self.input.buffer.is_ready() {
                    self.input.widen()?;
                }
                self.input.fill().await?;
                self.slice.others().await;
            }
        }
    }

    /// Moves to the next part of the object, if only parts are scanned.
    async fn next_part(&mut self) -> Result<bool> {
        let Some(PartQueue { parts, reader, record_bytes }) = &mut self.parts else { return Ok(false) };
        let Some((start, text)) = parts.next().await? else { return Ok(false) };
        self.input = TextInput::of_part(Arc::clone(reader), start, text, *record_bytes);
        self.done = false;
        Ok(true)
    }

    /// Searches for candidates in text that was not searched yet.
    fn search(&mut self) {
        let buffer = &self.input.buffer;
        if let Some(matcher) = &mut self.matcher
            && self.candidates.searched <= buffer.offset()
            && self.format.takes_candidates(buffer)
        {
            let Candidates { starts, searched } = &mut self.candidates;
            *searched = matcher.search(buffer.text(), buffer.offset(), buffer.is_whole(), starts).unwrap_or(0);
        }
    }
}

impl<F: RecordFormat> BatchSource for TextScan<F> {
    fn schema(&self) -> SchemaRef {
        self.format.schema()
    }

    fn next(&mut self) -> BoxFuture<'_, Result<Option<RecordBatch>>> {
        self.next_batch().boxed()
    }
}

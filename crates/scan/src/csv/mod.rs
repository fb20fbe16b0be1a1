//! CSV: delimited text, columns by position.

mod cut;
mod decoder;
mod errors;
mod fuse;
mod plan;
mod rewrite;
mod rows;
mod stages;
mod tokenize;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use pushdown::{Compression, CsvOptions, Fragment, Output, Result};

pub use decoder::{CsvDecoder, tokenize_sample};
pub(crate) use plan::CsvPlan;
pub(crate) use rewrite::Rewriter;
pub use rows::{REST, rest_fields};

use crate::extent::Extent;
use crate::interrupt::check_interrupt;
use crate::matcher::Matcher;
use crate::positions::Parts;
use crate::scan::can_be_zoned;
use crate::text::records::{Candidates, TextInput, TextOptions};
use crate::{ObjectReader, ScanCounters, ScanOptions, TimeSlice};
use rows::CsvRows;
use tokenize::Dialect;

/// A scan of a CSV object: the rows that pass, as columns that the rewritten output reads.
pub(crate) struct CsvScan {
    input: TextInput,
    rows: CsvRows,
    /// Looks for records that may pass, and those it has found.
    matcher: Option<Matcher>,
    candidates: Candidates,
    /// What is scanned instead of all of the object, and how its text is opened.
    parts: Option<(Parts, Arc<dyn ObjectReader>, usize)>,
    /// Bytes are counted_where_read where they are read: they are not the ones that are cut here.
    counted_where_read: bool,
    done: bool,
    slice: TimeSlice,
    counters: Arc<ScanCounters>,
}

impl CsvScan {
    pub(crate) fn new(
        fragment: &Fragment,
        options: &CsvOptions,
        reader: Arc<dyn ObjectReader>,
        extent: &Extent,
        scan: &ScanOptions,
        counters: Arc<ScanCounters>,
    ) -> Result<(Self, Output)> {
        let location = reader.location().to_owned();
        let canonical = options.wide.as_ref().map(|_| rewrite::canonical(options));
        let cut = canonical.as_ref().unwrap_or(options);
        let dialect = Dialect::new(cut)?;
        let (rewrite, terminator, scan) = match &options.wide {
            None => (None, dialect.cut_at(), scan.clone()),
            Some(wide) => {
                let rewriter = Rewriter::new(options, wide, &location, scan.record_bytes)?;
                let record_bytes = scan.record_bytes.saturating_mul(rewrite::GROWTH);
                (
                    Some(rewriter),
                    (!options.newlines_in_values || wide.quote.is_none()).then_some(b'\n'),
                    ScanOptions { record_bytes, ..scan.clone() },
                )
            }
        };
        let text = TextOptions {
            compression: options.compression,
            terminator,
            header: options.header,
            record_bytes: scan.record_bytes,
            rewrite,
            spawner: scan.spawner.clone(),
            memory: scan.memory.clone(),
        };
        let record_bytes = scan.record_bytes;
        let (input, parts) = match extent.parts() {
            None => (TextInput::open(reader, extent.range(), text, &counters)?, None),
            Some(parts) => {
                let parts = Parts::new(Arc::clone(&reader), parts);
                let nothing = TextInput::of_part(Arc::clone(&reader), 0, Bytes::new(), record_bytes);
                (nothing, Some((parts, reader, record_bytes)))
            }
        };
        // A part never holds the header.
        let header_at = if parts.is_some() { u64::MAX } else { input.buffer.offset() };
        let begin = input.range.start;
        let (mut rows, output) = CsvRows::new(fragment, cut, &location, header_at, begin, &scan)?;
        if extent.has_positions() {
            rows.note_positions();
        }
        if let Some(zones) = scan.zones.as_ref().filter(|_| parts.is_none() && can_be_zoned(fragment)) {
            rows.note_zones(zones, options, begin);
        }
        // Where every record has a place, and where they were picked already, nothing is left to be found.
        let matcher = rows.matcher(&scan).filter(|_| matches!(extent, Extent::Range(_)));
        let candidates = Candidates::default();
        let counted_where_read = options.compression != Compression::None || canonical.is_some();
        let slice = TimeSlice::default();
        Ok((Self { input, rows, matcher, candidates, parts, counted_where_read, done: false, slice, counters }, output))
    }

    /// The schema of the batches.
    pub(crate) fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    /// The next rows that pass.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            check_interrupt()?;
            if self.rows.is_full() {
                return self.rows.take();
            }
            if self.done || self.input.is_done() {
                if let Some((parts, reader, record_bytes)) = &mut self.parts
                    && let Some((start, text)) = parts.next().await?
                {
                    self.input = TextInput::of_part(Arc::clone(reader), start, text, *record_bytes);
                    self.done = false;
                    continue;
                }
                self.done = true;
                self.rows.finish_zones(self.input.range.end.min(self.input.buffer.offset()));
                return self.rows.take();
            }
            self.search();
            let buffer = &self.input.buffer;
            let candidates = Some(&mut self.candidates).filter(|found| found.searched > buffer.offset());
            let advance = self.rows.advance(buffer, self.input.range.end, candidates)?;
            if advance.bytes > 0 {
                self.input.buffer.consume(advance.bytes);
                self.input.buffer.narrow();
                self.counters.rows_scanned.fetch_add(advance.records, Ordering::Relaxed);
                if !self.counted_where_read {
                    self.counters.bytes_scanned.fetch_add(advance.scanned, Ordering::Relaxed);
                    self.counters.bytes_processed.fetch_add(advance.scanned, Ordering::Relaxed);
                }
            } else if self.input.buffer.is_whole() {
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

    /// Looks for candidates in text that was not searched yet.
    fn search(&mut self) {
        let buffer = &self.input.buffer;
        if let Some(matcher) = &mut self.matcher
            && self.candidates.searched <= buffer.offset()
            && self.rows.takes_candidates(buffer)
        {
            let Candidates { starts, searched } = &mut self.candidates;
            *searched = matcher.search(buffer.text(), buffer.offset(), buffer.is_whole(), starts).unwrap_or(0);
        }
    }
}

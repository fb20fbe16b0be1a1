//! CSV: delimited text, columns by position.

mod decoder;
mod fuse;
mod plan;
mod rewrite;
mod rows;
mod structural;
mod tokenize;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use pushdown::{Compression, CsvOptions, Fragment, Output, Result};

pub use decoder::{CsvDecoder, tokenize_sample};
pub(crate) use rewrite::Rewriter;
pub use rows::{REST, rest_fields};

use crate::text::records::{TextInput, TextOptions};
use crate::{ObjectReader, ScanCounters, ScanOptions};
use rows::CsvRows;
use tokenize::Dialect;

/// A scan of a CSV object: the rows that pass, as columns that the rewritten output reads.
pub(crate) struct CsvScan {
    input: TextInput,
    rows: CsvRows,
    /// Bytes are counted where they are read: they are not the ones that are cut here.
    counted: bool,
    done: bool,
    counters: Arc<ScanCounters>,
}

impl CsvScan {
    pub(crate) fn new(
        fragment: &Fragment,
        options: &CsvOptions,
        reader: Arc<dyn ObjectReader>,
        range: Option<Range<u64>>,
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
        };
        let input = TextInput::open(reader, range, text, &counters)?;
        let (start, begin) = (input.buffer.offset(), input.range.start);
        let (rows, output) = CsvRows::new(fragment, cut, &location, start, begin, &scan)?;
        let counted = options.compression != Compression::None || canonical.is_some();
        Ok((Self { input, rows, counted, done: false, counters }, output))
    }

    /// The schema of the batches.
    pub(crate) fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    /// The next rows that pass.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.rows.is_full() {
                return self.rows.take();
            }
            if self.done || self.input.is_done() {
                self.done = true;
                return self.rows.take();
            }
            let advance = self.rows.advance(&self.input.buffer, self.input.range.end)?;
            if advance.bytes > 0 {
                self.input.buffer.consume(advance.bytes);
                self.input.buffer.narrow();
                self.counters.rows_scanned.fetch_add(advance.records, Ordering::Relaxed);
                if !self.counted {
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
                tokio::task::yield_now().await;
            }
        }
    }
}

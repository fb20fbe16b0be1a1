//! CSV: delimited text, columns by position.

mod decoder;
mod fuse;
mod plan;
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

use crate::text::records::TextInput;
use crate::{ObjectReader, ScanCounters, ScanOptions};
use rows::CsvRows;
use tokenize::Dialect;

/// A scan of a CSV object: the rows that pass, as columns that the rewritten output reads.
pub(crate) struct CsvScan {
    input: TextInput,
    rows: CsvRows,
    compressed: bool,
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
        let cut_at = Dialect::new(options)?.cut_at();
        let input = TextInput::open(reader, options.compression, range, cut_at, options.header, &counters)?;
        let (start, begin) = (input.buffer.offset(), input.range.start);
        let (rows, output) = CsvRows::new(fragment, options, &location, start, begin, scan.batch_rows)?;
        let compressed = options.compression != Compression::None;
        Ok((Self { input, rows, compressed, done: false, counters }, output))
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
                if !self.compressed {
                    self.counters.bytes_scanned.fetch_add(advance.scanned, Ordering::Relaxed);
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

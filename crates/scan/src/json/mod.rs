//! JSON: one record a line, or values one after the other; columns by name.

mod alike;
mod commas;
mod descend;
mod numbers;
mod plain;
mod raw;
mod records;
mod stages;
pub(crate) mod token;
mod typed;
mod walk;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use bytes::Bytes;
use pushdown::{Compression, Error, Expr, JsonOptions, JsonShape, Result};

use crate::extent::Extent;
use crate::interrupt::check_interrupt;
use crate::limits::GROUP_RECORDS;
use crate::matcher::{Marks, Matcher, Stored};
use crate::output::record_batch;
use crate::positions::{Parts, Positions, with_positions};
use crate::pruning::zones::ZoneRecorder;
use crate::row_filter::RowFilter;
use crate::text::BYTE_ORDER_MARK;
use crate::text::records::{Candidates, TextInput, TextOptions, too_long};
use crate::{ObjectReader, ScanCounters, ScanOptions, TimeSlice};
use records::{Cut, Cutter};
use stages::{Rows, Stages};

/// A scan of a JSON object: the rows that pass, as columns of `schema`.
pub(crate) struct JsonScan {
    location: String,
    input: TextInput,
    cutter: Cutter,
    cut: Cut,
    /// Looks for lines that may pass, and those it has found.
    matcher: Option<Matcher>,
    candidates: Candidates,
    stages: Stages,
    group: usize,
    record_bytes: usize,
    compressed: bool,
    /// Adds where each record lies; the schema is that of the batches with them.
    positions: Option<SchemaRef>,
    /// What is scanned instead of all of the object.
    parts: Option<(Parts, Arc<dyn ObjectReader>)>,
    /// Gathers what the predicate's columns hold in all records.
    zones: Option<ZoneRecorder>,
    slice: TimeSlice,
    counters: Arc<ScanCounters>,
}

/// What finds the lines that may pass before they are decoded.
fn matcher(predicate: &Expr, schema: &SchemaRef, options: &JsonOptions, scan: &ScanOptions) -> Option<Matcher> {
    let stored = |column: usize| match schema.fields().get(column)?.data_type() {
        text if text.is_string() => Some(Stored::Text),
        DataType::Date32 if !options.raw_tokens => Some(Stored::Date),
        _ => None,
    };
    Matcher::new(predicate, &stored, Marks::json(), scan.matching, Arc::clone(&scan.learned))
}

impl JsonScan {
    pub(crate) fn new(
        schema: &SchemaRef,
        wanted: &RowFilter,
        options: &JsonOptions,
        reader: Arc<dyn ObjectReader>,
        extent: &Extent,
        scan: &ScanOptions,
        counters: Arc<ScanCounters>,
    ) -> Result<Self> {
        let location = reader.location().to_owned();
        let cut_at = (options.shape == JsonShape::Lines).then_some(b'\n');
        let stages = Stages::new(schema, wanted, options)?;
        let text = TextOptions {
            compression: options.compression,
            terminator: cut_at,
            header: false,
            record_bytes: scan.record_bytes,
            rewrite: None,
            spawner: scan.spawner.clone(),
            memory: scan.memory.clone(),
        };
        let (input, parts) = match extent.parts() {
            None => (TextInput::open(reader, extent.range(), text, &counters)?, None),
            Some(parts) => {
                let parts = Parts::new(Arc::clone(&reader), parts);
                let nothing = TextInput::of_part(Arc::clone(&reader), 0, Bytes::new(), scan.record_bytes);
                (nothing, Some((parts, reader)))
            }
        };
        let predicate = wanted.predicate.as_ref();
        let matcher = predicate
            .filter(|_| cut_at.is_some() && matches!(extent, Extent::Range(_)))
            .and_then(|predicate| matcher(predicate, schema, options, scan));
        let from = if options.raw_tokens { options.from.as_slice() } else { &[] };
        Ok(Self {
            location,
            input,
            cutter: Cutter::new(options.shape, from, !options.raw_tokens),
            cut: Cut::default(),
            matcher,
            candidates: Candidates::default(),
            stages,
            group: GROUP_RECORDS.min(scan.batch_rows.max(1)),
            record_bytes: scan.record_bytes,
            compressed: options.compression != Compression::None,
            positions: extent.has_positions().then(|| with_positions(schema)),
            parts,
            zones: None,
            slice: TimeSlice::default(),
            counters,
        })
    }

    /// Leaves behind what is seen of the columns that the predicate reads in all records.
    pub(crate) fn note_zones(&mut self, zones: ZoneRecorder) {
        self.zones = Some(zones);
    }

    /// The first byte that belongs to the scan.
    pub(crate) fn begin(&self) -> u64 {
        self.input.range.start
    }

    /// The schema of the batches, `decoded` being that of the records' columns.
    pub(crate) fn schema(&self, decoded: &SchemaRef) -> SchemaRef {
        Arc::clone(self.positions.as_ref().unwrap_or(decoded))
    }

    /// The next rows that pass.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            check_interrupt()?;
            if self.input.is_done() && self.cutter.may_end() {
                if let Some((parts, reader)) = &mut self.parts
                    && let Some((start, text)) = parts.next().await?
                {
                    self.input = TextInput::of_part(Arc::clone(reader), start, text, self.record_bytes);
                    continue;
                }
                let end = self.input.range.end.min(self.input.buffer.offset());
                if let Some(zones) = &mut self.zones {
                    zones.finish(end);
                }
                return Ok(None);
            }
            let buffer = &mut self.input.buffer;
            let (offset, whole) = (buffer.offset(), buffer.is_whole());
            if offset == 0 && buffer.text().starts_with(BYTE_ORDER_MARK) {
                buffer.consume(BYTE_ORDER_MARK.len());
                self.count(BYTE_ORDER_MARK.len());
                // The mark belongs to the first record, which thus begins at the first byte of the object.
                if self.input.range.end > 0 {
                    self.input.range.end = self.input.range.end.max(BYTE_ORDER_MARK.len() as u64 + 1);
                }
                continue;
            }
            let learns = self.learns();
            self.cut(learns).map_err(|at| {
                Error::invalid(format!("{}, byte {}: the text is not JSON", self.location, offset + at as u64))
                    .with_code("JSONParsingError")
            })?;
            if let Some(long) = self.cut.records.iter().find(|record| record.len() > self.record_bytes) {
                return Err(too_long(&self.location, offset + long.start as u64, self.record_bytes));
            }
            if self.cut.consumed == 0 && self.cut.records.is_empty() {
                if whole && self.cutter.may_end() && self.parts.is_none() {
                    return Ok(None);
                }
                if whole && self.cutter.may_end() {
                    // Blanks at the end of a part.
                    let blanks = self.input.buffer.text().len();
                    self.input.buffer.consume(blanks);
                    continue;
                }
                if whole {
                    let message = format!("{}: the JSON text is cut off", self.location);
                    return Err(Error::invalid(message).with_code("JSONParsingError"));
                }
                if self.input.buffer.is_ready() {
                    self.input.widen()?;
                }
                self.input.fill().await?;
                self.slice.others().await;
                continue;
            }
            let batch = self.decode(learns)?;
            self.input.buffer.consume(self.cut.consumed);
            self.input.buffer.narrow();
            self.counters.rows_scanned.fetch_add(self.cut.records.len() as u64, Ordering::Relaxed);
            self.count(self.cut.consumed);
            if let Some(batch) = batch.filter(|batch| batch.num_rows() > 0) {
                return Ok(Some(batch));
            }
        }
    }

    /// Whether zones are still to be learned from the text at hand, and thus from all of its records.
    fn learns(&mut self) -> bool {
        let text = self.input.buffer.range();
        self.zones.as_mut().is_some_and(|zones| zones.wants(&text))
    }

    /// Cuts the next records: those of all lines, or only of those that may pass unless zones learn from them. Gives
    /// where the text is malformed.
    fn cut(&mut self, learns: bool) -> Result<(), usize> {
        let (buffer, end) = (&self.input.buffer, self.input.range.end);
        let (text, offset, whole) = (buffer.text(), buffer.offset(), buffer.is_whole());
        if let Some(matcher) = self.matcher.as_mut().filter(|_| !learns) {
            let Candidates { starts, searched } = &mut self.candidates;
            if *searched <= offset {
                *searched = matcher.search(text, offset, whole, starts).unwrap_or(0);
            }
            if *searched > offset {
                let (extent, found) = ((offset, end), &mut self.candidates);
                return self.cutter.cut_candidates(text, extent, whole, self.group, found, &mut self.cut);
            }
        }
        let stop = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
        self.cutter.cut(text, whole, stop, self.group, &mut self.cut)
    }

    /// Counts bytes that belong to the range, where they are not counted as they are read.
    fn count(&self, bytes: usize) {
        if !self.compressed {
            self.counters.bytes_scanned.fetch_add(bytes as u64, Ordering::Relaxed);
            self.counters.bytes_processed.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// The rows of the records at hand that pass; `learns` is whether zones take in what is decoded of all.
    fn decode(&mut self, learns: bool) -> Result<Option<RecordBatch>> {
        let (buffer, records) = (&self.input.buffer, &self.cut.records);
        if records.is_empty() {
            return Ok(None);
        }
        let offset = buffer.offset();
        let mut zones = self.zones.as_mut().filter(|_| learns);
        let mut observe = |columns: &[ArrayRef]| match &mut zones {
            Some(zones) => {
                let starts: Vec<u64> = records.iter().map(|record| offset + record.start as u64).collect();
                zones.observe(&starts, columns)
            }
            None => Ok(()),
        };
        let rows = self.stages.decode(buffer.text(), records, &mut observe).map_err(|(at, error)| match at {
            Some(at) => error.context(format!("{}, byte {}", self.location, offset + at as u64)),
            None => error,
        })?;
        let Some(Rows { mut columns, records }) = rows else { return Ok(None) };
        let Some(schema) = &self.positions else {
            return record_batch(self.stages.schema(), columns, records.len()).map(Some);
        };
        let mut positions = Positions::default();
        for record in &records {
            positions.push(offset + record.start as u64..offset + record.end as u64);
        }
        columns.extend(positions.take());
        record_batch(schema, columns, records.len()).map(Some)
    }
}

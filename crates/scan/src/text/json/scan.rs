//! Scanning a JSON object: records are cut, decoded and filtered, group by group.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use pushdowndb_contract::{Error, Expr, Format, Fragment, JsonOptions, JsonShape, Output, Result};

use crate::batch::record_batch;
use crate::limits::GROUP_RECORDS;
use crate::operators::row_filter::narrow;
use crate::prefilter::derive::Stored;
use crate::prefilter::sample::Prefilter;
use crate::prefilter::search::RecordDelimiters;
use crate::range::positions::{Positions, with_positions};
use crate::range::scan_range::ScanRange;
use crate::runtime::interrupt::check_interrupt;
use crate::source::{ScanInput, SourceOptions};
use crate::text::BYTE_ORDER_MARK;
use crate::text::buffer::{Candidates, TextBuffer, TextInput, TextOptions, Translate};
use crate::text::errors::too_long;
use crate::text::json::cut::{Cut, Cutter};
use crate::text::json::stages::{Rows, Stages};
use crate::text::scan::{Advance, RecordFormat, TextScan};
use crate::zones::recorder::ZoneRecorder;
use crate::zones::search::{decides, wants_keys};
use crate::zones::zone::{ZoneColumn, can_be_zoned, column_key};

/// A scan of a JSON object. It returns the rows that pass, with the columns that the rewritten
/// output reads.
pub(crate) type JsonScan = TextScan<JsonRows>;

/// Decodes the rows of a JSON text and collects them in a batch.
pub(crate) struct JsonRows {
    location: String,
    cutter: Cutter,
    cut: Cut,
    stages: Stages,
    /// The maximum number of records that are cut at a time.
    group: usize,
    record_bytes: usize,
    /// The schema of batches that include positions, if they are requested.
    positions: Option<SchemaRef>,
    /// Records zones from the predicate's columns in all records.
    zones: Option<ZoneRecorder>,
    /// The rows of the last group that passed.
    ready: Option<RecordBatch>,
}

fn matcher(predicate: &Expr, schema: &SchemaRef, options: &JsonOptions, scan: &SourceOptions) -> Option<Prefilter> {
    let stored = |column: usize| match schema.fields().get(column)?.data_type() {
        text if text.is_string() => Some(Stored::Text),
        DataType::Date32 if !options.raw_tokens => Some(Stored::Date),
        _ => None,
    };
    Prefilter::new(predicate, &stored, RecordDelimiters::json(), scan.matching, Arc::clone(&scan.verdict))
}

impl JsonScan {
    /// Creates a scan for the fragment. Also returns the fragment's output, rewritten to the
    /// columns that the scan returns.
    pub(crate) fn new(fragment: &Fragment, options: &JsonOptions, input: ScanInput) -> Result<(Self, Output)> {
        let (schema, wanted, output) = narrow(fragment, &input.options.threshold)?;
        let location = input.reader.location().to_owned();
        let (scan, range) = (input.options.clone(), input.range.clone());
        let is_range = matches!(range, ScanRange::Bytes(_));
        let terminator = (options.shape == JsonShape::Lines).then_some(b'\n');
        let text = TextOptions {
            compression: options.compression,
            terminator,
            header: false,
            record_bytes: scan.record_bytes,
            rewrite: None,
            translate: Translate::default(),
            spawner: scan.spawner.clone(),
            memory: scan.memory.clone(),
        };
        let opened = Self::open(input, text, |input, _| {
            let predicate = wanted.predicate.as_ref().filter(|_| is_range);
            let lines = predicate.filter(|_| terminator.is_some());
            let matcher = lines.and_then(|predicate| matcher(predicate, &schema, options, &scan));
            let zones = predicate.zip(scan.zones.as_ref()).filter(|_| can_be_zoned(fragment));
            let zones = zones.and_then(|(predicate, zones)| {
                ZoneRecorder::new(zones, observed(predicate, &schema, options)?, input.range.start)
            });
            let from = if options.raw_tokens { options.from.as_slice() } else { &[] };
            let mut stages = Stages::new(&schema, &wanted, options)?;
            if !options.raw_tokens {
                stages.refuse_surplus(options.inferred, fragment.refuses_surplus());
            }
            let rows = JsonRows {
                location,
                cutter: Cutter::new(options.shape, from, !options.raw_tokens),
                cut: Cut::default(),
                stages,
                group: GROUP_RECORDS.min(scan.batch_rows),
                record_bytes: scan.record_bytes,
                positions: range.has_positions().then(|| with_positions(&schema)),
                zones,
                ready: None,
            };
            Ok((rows, matcher))
        })?;
        Ok((opened, output))
    }
}

/// Returns the identity of a column for zones; `None` if its type has no wire form.
fn zone_column(field: &Field, options: &JsonOptions) -> Option<ZoneColumn> {
    let key = column_key().field(field).ok()?.format(&Format::Json(options.clone())).ok()?.finish();
    Some(ZoneColumn { key, field: field.clone() })
}

/// Returns the condition of a fragment by which zones can be pruned, and the columns that it reads.
pub(crate) fn zoned(fragment: &Fragment, options: &JsonOptions) -> Result<Option<(Expr, Vec<ZoneColumn>)>> {
    let (schema, wanted, _) = narrow(fragment, &Arc::default())?;
    let columns = schema.fields().iter().map(|field| zone_column(field, options)).collect::<Option<_>>();
    Ok(wanted.predicate.zip(columns))
}

/// Returns the columns that the predicate reads, each with whether its keys are useful. Returns
/// `None` if zones of these columns could never exclude records.
fn observed(predicate: &Expr, schema: &Schema, options: &JsonOptions) -> Option<Vec<(ZoneColumn, bool)>> {
    let columns = predicate.columns();
    let goes_on = || check_interrupt().is_ok();
    if !columns.iter().take_while(|_| goes_on()).any(|column| decides(predicate, *column, schema)) {
        return None;
    }
    let observed = columns.iter().take_while(|_| goes_on()).map(|index| {
        let column = zone_column(schema.fields().get(*index)?, options)?;
        let keys = wants_keys(predicate, *index, &column.field);
        Some((column, keys))
    });
    observed.collect()
}

impl RecordFormat for JsonRows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.positions.as_ref().unwrap_or(self.stages.schema()))
    }

    fn is_full(&self) -> bool {
        self.ready.is_some()
    }

    fn take(&mut self) -> Result<Option<RecordBatch>> {
        Ok(self.ready.take())
    }

    fn takes_candidates(&mut self, buffer: &TextBuffer) -> bool {
        !starts_with_mark(buffer) && !self.learns(buffer)
    }

    fn advance(&mut self, input: &mut TextInput, candidates: Option<&mut Candidates>) -> Result<Advance> {
        if starts_with_mark(&input.buffer) {
            // A byte order mark belongs to the first record, which then begins at the first byte of
            // the object.
            if input.range.end > 0 {
                input.range.end = input.range.end.max(BYTE_ORDER_MARK.len() as u64 + 1);
            }
            let bytes = BYTE_ORDER_MARK.len();
            return Ok(Advance { bytes, scanned: bytes as u64, records: 0 });
        }
        let (buffer, end) = (&input.buffer, input.range.end);
        let learns = self.learns(buffer);
        let (text, offset, whole) = (buffer.text(), buffer.offset(), buffer.is_whole());
        let cut = match candidates.filter(|_| !learns) {
            Some(candidates) => {
                self.cutter.cut_candidates(text, offset..end, whole, self.group, candidates, &mut self.cut)
            }
            None => {
                let stop = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
                self.cutter.cut(text, whole, stop, self.group, &mut self.cut)
            }
        };
        cut.map_err(|at| {
            Error::invalid(format!("{}, byte {}: the text is not JSON", self.location, offset + at as u64))
                .with_code("JSONParsingError")
        })?;
        if let Some(long) = self.cut.records.iter().find(|record| record.len() > self.record_bytes) {
            return Err(too_long(&self.location, offset + long.start as u64, self.record_bytes));
        }
        self.ready = self.decode(buffer, learns)?.filter(|batch| batch.num_rows() > 0);
        let (bytes, records) = (self.cut.consumed, self.cut.records.len() as u64);
        Ok(Advance { bytes, scanned: bytes as u64, records })
    }

    fn may_end(&self) -> bool {
        self.cutter.may_end()
    }

    fn check_end(&self) -> Result<()> {
        if self.cutter.may_end() {
            return Ok(());
        }
        let message = format!("{}: the JSON text is cut off", self.location);
        Err(Error::invalid(message).with_code("JSONParsingError"))
    }

    fn finish_zones(&mut self, end: u64) {
        if let Some(zones) = &mut self.zones {
            zones.finish(end);
        }
    }
}

fn starts_with_mark(buffer: &TextBuffer) -> bool {
    buffer.offset() == 0 && buffer.text().starts_with(BYTE_ORDER_MARK)
}

impl JsonRows {
    /// Returns whether zones of the text in the buffer have not been recorded yet.
    fn learns(&mut self, buffer: &TextBuffer) -> bool {
        self.zones.as_mut().is_some_and(|zones| zones.wants(&buffer.range()))
    }

    /// Returns the rows of the current records that pass. If `learns` is true, zones are recorded
    /// from the columns that are decoded for all records.
    fn decode(&mut self, buffer: &TextBuffer, learns: bool) -> Result<Option<RecordBatch>> {
        let records = &self.cut.records;
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

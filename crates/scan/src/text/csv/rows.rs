//! Decodes the records of a CSV text that pass: finds records, filters them
//! ([`crate::text::csv::stages`]), and appends those that pass to the output columns.
//!
//! Records are processed in groups, small enough that their text and field positions stay in a CPU
//! cache. Output columns are appended group after group, so that batches are full even if few rows
//! pass.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use pushdowndb_contract::{CsvOptions, Fragment, Output, Result};

use crate::batch::record_batch;
use crate::error::from_arrow;
use crate::limits::{GROUP_RECORDS, MAX_BATCH_TEXT_BYTES};
use crate::prefilter::sample::Prefilter;
use crate::range::positions::{Positions, with_positions};
use crate::runtime::interrupt::Steps;
use crate::source::SourceOptions;
use crate::text::BYTE_ORDER_MARK;
use crate::text::buffer::{Candidates, TextBuffer, TextInput};
use crate::text::csv::cut::{Record, Shape, Stopped, Text, Why, find_records};
use crate::text::csv::dialect::{Dialect, Line, tokenize_fields};
use crate::text::csv::errors::{Place, check_header, check_line_ends};
use crate::text::csv::fuse::DecodedColumn;
use crate::text::csv::plan::{CsvColumns, CsvPlan};
use crate::text::csv::stages::{Group, Observe, STEPS_PER_FIELD, Stages};
use crate::text::scan::{Advance, RecordFormat};
use crate::values::builders::ColumnBuilder;
use crate::zones::recorder::ZoneRecorder;
use crate::zones::store::Zones;

/// The key of the field metadata that marks a last text column for the fields of a record beyond
/// the other columns, as they are written; NULL if there are none. With it, `*` returns all fields
/// of ragged records, see [`rest_fields`].
pub const REST: &str = "rest";

/// Returns the fields in a value of a [`REST`] column.
pub fn rest_fields(rest: &str, options: &CsvOptions) -> Result<Vec<String>> {
    let canonical = options.wide.as_ref().map(|_| crate::text::rewrite::canonical(options));
    tokenize_fields(rest.as_bytes(), &Dialect::new(canonical.as_ref().unwrap_or(options))?)
}

/// Decodes the rows of a CSV text and collects them in batches.
pub(crate) struct CsvRows {
    location: String,
    dialect: Dialect,
    shape: Shape,
    columns: CsvColumns,
    stages: Stages,
    /// Builders of the output columns, which are emptied when a batch is taken.
    output: Vec<Box<dyn ColumnBuilder>>,
    rows: usize,
    batch_rows: usize,
    /// True if the next record is the header.
    header: bool,
    /// The names that the header must have, if columns were inferred from other objects.
    names: Vec<String>,
    /// True if the text may begin with a byte order mark.
    marked: bool,
    /// Records that begin before this offset are skipped.
    begin: u64,
    /// The size of the text, if it is known before the end is read.
    size: Option<u64>,
    group: Group,
    /// Scratch space for line ends.
    ends: Vec<u32>,
    /// The positions of the rows, if they are requested.
    positions: Option<Positions>,
    /// The schema of the batches.
    schema: SchemaRef,
    /// Records zones from the columns that the first stage decodes for all records.
    zones: Option<ZoneRecorder>,
}

impl CsvRows {
    /// Creates the decoder of a text that begins at `start`; records before `begin` are skipped.
    /// Also returns the fragment's output, rewritten to the columns of the batches.
    pub(crate) fn new(
        fragment: &Fragment,
        options: &CsvOptions,
        location: &str,
        start: u64,
        begin: u64,
        scan: &SourceOptions,
    ) -> Result<(Self, Output)> {
        let dialect = Dialect::new(options)?;
        let CsvPlan { stages, columns, output } = CsvPlan::new(fragment, options, &scan.threshold)?;
        let width = fragment.schema.fields().len();
        let last = fragment.schema.fields().last();
        let shape = Shape {
            columns: width,
            rest: last.filter(|field| field.metadata().contains_key(REST)).map(|_| width - 1),
            record_bytes: scan.record_bytes,
        };
        let rows = Self {
            location: location.to_owned(),
            dialect,
            shape,
            stages: Stages::new(stages, &columns.output)?,
            output: columns.output.iter().map(DecodedColumn::builder).collect::<Result<_>>()?,
            schema: SchemaRef::clone(&columns.schema),
            columns,
            rows: 0,
            batch_rows: scan.batch_rows.max(1),
            header: options.header && start == 0,
            names: match options.inferred {
                true => fragment.schema.fields().iter().map(|field| field.name().clone()).collect(),
                false => vec![],
            },
            marked: true,
            begin,
            size: None,
            group: Group::default(),
            ends: vec![],
            positions: None,
            zones: None,
        };
        Ok((rows, output))
    }

    /// Sets the size of the text, which a range that ends earlier does not find out by reading.
    pub(crate) fn note_size(&mut self, size: u64) {
        self.size = Some(size);
    }

    /// Adds the two columns of positions to the batches.
    pub(crate) fn note_positions(&mut self) {
        self.schema = with_positions(&self.columns.schema);
        self.positions = Some(Positions::default());
    }

    /// Returns the prefilter of the predicate, if there is one.
    pub(crate) fn matcher(&self, scan: &SourceOptions) -> Option<Prefilter> {
        self.columns.matcher(&self.dialect, scan)
    }

    /// Records zones of the records from offset `from` on.
    pub(crate) fn note_zones(&mut self, zones: &Arc<Zones>, options: &CsvOptions, from: u64) {
        self.zones = ZoneRecorder::new(zones, self.columns.observed(options), from);
    }

    /// Processes the next group of complete records that begin before `end`.
    ///
    /// In text that was searched, these are only the candidates, which are taken from their queue.
    /// But all records are processed before the range, before the header, and where zones are still
    /// to be recorded.
    pub(crate) fn advance_within(
        &mut self,
        buffer: &TextBuffer,
        end: u64,
        candidates: Option<&mut Candidates>,
    ) -> Result<Advance> {
        let is_inside = self.is_inside(buffer);
        let learns = self.learns(buffer);
        let text = Text { text: buffer.text(), padded: buffer.padded(), offset: buffer.offset() };
        self.group.clear();
        let most = GROUP_RECORDS.min(self.batch_rows.saturating_sub(self.rows).max(1));
        let (bytes, foreign) = match candidates {
            Some(candidates) if is_inside && !learns && candidates.searched > buffer.offset() => {
                (self.find_candidates(text, buffer.is_whole(), end, most, candidates)?, 0)
            }
            _ if is_inside && !self.dialect.newlines_in_values => {
                (self.find_lines(text, buffer.is_whole(), end, most)?, 0)
            }
            _ => self.find_any(text, buffer.is_whole(), end, most)?,
        };
        let records = self.group.records.len() as u64;
        if records > 0 {
            self.evaluate(text, learns)?;
        }
        Ok(Advance { bytes, scanned: (bytes - foreign) as u64, records })
    }

    /// Returns whether the header and the records before the range were passed.
    fn is_inside(&self, buffer: &TextBuffer) -> bool {
        !self.header && buffer.offset() >= self.begin.max(1)
    }

    /// Declares that the text does not begin with a byte order mark: these bytes would belong to
    /// the first value.
    pub(crate) fn expect_no_mark(&mut self) {
        self.marked = false;
    }

    /// Returns whether zones of the text in the buffer have not been recorded yet.
    fn learns(&mut self, buffer: &TextBuffer) -> bool {
        self.zones.as_mut().is_some_and(|zones| zones.wants(&buffer.range()))
    }

    /// Finds the records of the group. Expects that every terminator ends a record, and that all
    /// records belong to the range. Returns the number of bytes to consume.
    fn find_lines(&mut self, text: Text<'_>, whole: bool, end: u64, most: usize) -> Result<usize> {
        let stop = within(text, end);
        let (ends, records) = (&mut self.ends, &mut self.group.records);
        let found = find_records(&self.dialect, text, 0..stop, most, &self.shape, ends, records);
        let at = found.map_err(|stopped| self.place(text).stopped(stopped))?;
        if at < stop.min(text.text.len()) && self.group.records.len() < most && whole {
            // The rest may be a record without a terminator.
            let line = self.dialect.line(text.text, at, whole);
            if let Some(line) = line.map_err(|why| self.place(text).malformed(at, why))?
                && line.next == text.text.len()
            {
                self.add(text, line)?;
                return Ok(line.next);
            }
        }
        Ok(at)
    }

    /// Finds the records of the group one by one. Returns the number of bytes to consume, and how
    /// many of them are in lines that begin before the range.
    fn find_any(&mut self, text: Text<'_>, whole: bool, end: u64, most: usize) -> Result<(usize, usize)> {
        let stop = within(text, end);
        let mut at = 0;
        if text.offset == 0 && self.marked {
            if text.text.len() < BYTE_ORDER_MARK.len() && !whole {
                return Ok((0, 0));
            }
            if text.text.starts_with(BYTE_ORDER_MARK) {
                at = BYTE_ORDER_MARK.len();
            }
        }
        // A byte order mark belongs to the first record, which then begins at the first byte of the
        // object.
        let lead = at;
        let mut foreign = 0;
        while self.group.records.len() < most && (at < stop || (at == lead && stop > 0)) {
            let line = self.dialect.line(text.text, at, whole);
            let Some(line) = line.map_err(|why| self.place(text).malformed(at, why))? else { break };
            let line_start = if at == lead { 0 } else { at };
            at = line.next;
            let is_foreign = text.offset + (line_start as u64) < self.begin;
            if is_foreign {
                foreign += at - line_start;
            } else if !line.is_record {
                at = self.dialect.past_blank_lines(text.text, at, stop);
            }
            if line.is_record && std::mem::take(&mut self.header) {
                let header = text.text.get(line.start..line.end).unwrap_or_default();
                let is_last = self.size == Some(text.offset + line.next as u64);
                if is_last || (whole && line.next == text.text.len()) {
                    check_line_ends(header, &self.dialect, &self.location)?;
                }
                if !self.names.is_empty() {
                    check_header(&self.names, &tokenize_fields(header, &self.dialect)?, &self.location)?;
                }
                continue;
            }
            if !line.is_record || is_foreign {
                continue;
            }
            self.add(text, line)?;
        }
        let only_mark = at == lead && !(whole && at == text.text.len());
        if only_mark { Ok((0, 0)) } else { Ok((at, foreign)) }
    }

    /// Finds the records that begin at candidates. Returns the number of bytes to consume.
    fn find_candidates(
        &mut self,
        text: Text<'_>,
        whole: bool,
        end: u64,
        most: usize,
        candidates: &mut Candidates,
    ) -> Result<usize> {
        let mut at = 0;
        while self.group.records.len() < most {
            let Some(start) = candidates.starts.pop_front_if(|start| *start < end.min(candidates.searched)) else {
                // Continues with the first line that was not searched or is outside the range.
                let beyond = within(text, candidates.searched.min(end));
                return Ok(at.max(self.dialect.first_line(text.text, beyond)));
            };
            // This record was already cut, as part of a group, before the search began.
            let Some(start) = start.checked_sub(text.offset).and_then(|start| usize::try_from(start).ok()) else {
                continue;
            };
            let line = self.dialect.line(text.text, start, whole);
            // Only complete lines are searched.
            let Some(line) = line.map_err(|why| self.place(text).malformed(start, why))? else { return Ok(at) };
            at = line.next;
            if line.is_record {
                self.add(text, line)?;
            }
        }
        Ok(at)
    }

    /// Adds a record to the group.
    fn add(&mut self, text: Text<'_>, line: Line) -> Result<()> {
        if line.end - line.start > self.shape.record_bytes {
            return Err(self.place(text).stopped(Stopped { at: line.start, why: Why::TooLong }));
        }
        if line.is_record {
            self.group.records.push(Record { start: line.start as u32, end: line.end as u32 });
        }
        Ok(())
    }

    fn place<'a>(&'a self, text: Text<'a>) -> Place<'a> {
        Place { location: &self.location, dialect: &self.dialect, shape: &self.shape, text }
    }

    /// Filters the group, and appends the rows that pass to the output columns. If `learns` is
    /// true, zones are recorded from the columns that the first stage decodes.
    fn evaluate(&mut self, text: Text<'_>, learns: bool) -> Result<()> {
        let place = Place { location: &self.location, dialect: &self.dialect, shape: &self.shape, text };
        let zones = self.zones.as_mut().filter(|_| learns);
        let mut observe = zones.map(|zones| {
            |records: &[Record], arrays: &[ArrayRef]| {
                let starts: Vec<u64> = records.iter().map(|record| text.offset + u64::from(record.start)).collect();
                zones.observe(&starts, arrays)
            }
        });
        let observe = observe.as_mut().map(|observe| observe as Observe<'_>);
        let passed = self.stages.run(&mut self.group, &self.columns.output, place, observe)?;
        if passed.count == 0 {
            return Ok(());
        }
        let mut steps = Steps::default();
        for (column, builder) in self.columns.output.iter().zip(&mut self.output) {
            let fields = self.group.fields(column.field, &passed, place);
            builder.append(&fields).map_err(|bad| place.bad_field(column, &fields, &bad))?;
            steps.did(passed.count * STEPS_PER_FIELD)?;
        }
        if let Some(positions) = &mut self.positions {
            for record in self.group.records_of(&passed) {
                positions.push(text.offset + u64::from(record.start)..text.offset + u64::from(record.end));
            }
        }
        self.rows += passed.count;
        Ok(())
    }
}

impl RecordFormat for CsvRows {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    fn is_full(&self) -> bool {
        self.rows >= self.batch_rows
            || self.output.iter().map(|c| c.text_bytes()).sum::<usize>() >= MAX_BATCH_TEXT_BYTES
    }

    fn take(&mut self) -> Result<Option<RecordBatch>> {
        let rows = std::mem::take(&mut self.rows);
        if rows == 0 {
            return Ok(None);
        }
        let columns = self.output.iter_mut().map(|c| c.finish()).collect::<Result<Vec<_>, _>>();
        let mut columns = columns.map_err(from_arrow)?;
        columns.extend(self.positions.iter_mut().flat_map(Positions::take));
        record_batch(&self.schema, columns, rows).map(Some)
    }

    fn takes_candidates(&mut self, buffer: &TextBuffer) -> bool {
        self.is_inside(buffer) && !self.learns(buffer)
    }

    fn advance(&mut self, input: &mut TextInput, candidates: Option<&mut Candidates>) -> Result<Advance> {
        self.advance_within(&input.buffer, input.range.end, candidates)
    }

    fn finish_zones(&mut self, end: u64) {
        if let Some(zones) = &mut self.zones {
            zones.finish(end);
        }
    }
}

/// Returns the position in the text of byte `at` of the object, which may lie after the end of the
/// text.
fn within(text: Text<'_>, at: u64) -> usize {
    usize::try_from(at.saturating_sub(text.offset)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use bytes::Bytes;
    use pushdowndb_contract::{AggregateCall, AggregateFunction, CsvOptions, Expr, Format, Output};

    /// Blank lines and comments take no extra steps, even if few records are requested.
    #[test]
    fn lines_that_are_no_records_are_passed_over_together() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8, true)]));
        for (blank, header) in [("\n", false), ("\r\n", false), ("#\n", false), ("\n", true)] {
            let options = CsvOptions { header, comment: Some(b'#'), ..CsvOptions::default() };
            let fragment = Fragment::all(Format::Csv(options.clone()), Arc::clone(&schema));
            let scan = SourceOptions { batch_rows: 1, ..SourceOptions::default() };
            let (mut rows, _) = CsvRows::new(&fragment, &options, "t", 0, 0, &scan).unwrap();
            let text = format!("x\n{}x\n", blank.repeat(100_000));
            let mut buffer = TextBuffer::new(0, 1 << 20);
            let (mut piece, mut steps, mut records) = (Bytes::from(text), 0, 0);
            loop {
                while !piece.is_empty() && !buffer.is_ready() {
                    buffer.fill(&mut piece);
                }
                if piece.is_empty() && !buffer.is_whole() {
                    buffer.finish();
                }
                let step = rows.advance_within(&buffer, u64::MAX, None).unwrap();
                (steps, records) = (steps + 1, records + step.records);
                buffer.consume(step.bytes);
                rows.take().unwrap();
                if step.bytes == 0 && buffer.is_whole() {
                    break;
                }
            }
            assert_eq!(records, if header { 1 } else { 2 });
            assert!(steps < 300, "{steps} steps for 100,000 of {blank:?}");
        }
    }

    /// Bytes and rows of each step over text with these candidates.
    #[test]
    fn only_candidates_are_cut_and_the_text_searched_is_consumed() {
        let text = "h,i\n1,a\n2,b\n\n3,c\r\n4,d\n5,e\n";
        let schema = Schema::new(vec![Field::new("h", DataType::Int64, true), Field::new("i", DataType::Utf8, true)]);
        let options = CsvOptions::default();
        let mut fragment = Fragment::all(Format::Csv(options.clone()), Arc::new(schema));
        fragment.predicate = Some(Expr::compare(pushdowndb_contract::CompareOp::Gt, Expr::Column(0), Expr::int(0)));
        let call = AggregateCall { function: AggregateFunction::Count, argument: None, name: "n".into() };
        fragment.output = Output::scalar(vec![call]);
        let scan = SourceOptions { batch_rows: 1, ..SourceOptions::default() };
        let (mut rows, _) = CsvRows::new(&fragment, &options, "t", 0, 0, &scan).unwrap();
        let mut buffer = TextBuffer::new(0, 1 << 20);
        buffer.fill(&mut Bytes::from_static(text.as_bytes()));
        buffer.finish();
        // The candidates are "2,b", the blank line, "3,c" and "5,e"; the searched text ends before
        // "5,e".
        let mut candidates = Candidates { starts: [8, 12, 13, 22].into(), searched: 22 };
        let mut seen = vec![];
        while !buffer.text().is_empty() {
            let step = rows.advance_within(&buffer, 100, Some(&mut candidates)).unwrap();
            buffer.consume(step.bytes);
            seen.push((buffer.offset(), step.records));
            rows.take().unwrap();
        }
        // The header and "1,a" are read before the search begins.
        assert_eq!(seen, [(8, 1), (12, 1), (18, 1), (22, 0), (26, 1)]);
    }
}

//! From text to the rows that pass: find records, leave the predicate to [`super::stages`], decode what passed.
//!
//! Works through the buffer in groups of records small enough that their text and field positions stay in the
//! processor's cache. Output columns are appended group after group, so batches are full however few rows pass.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use pushdown::{CsvOptions, Fragment, Output, Result};

use super::cut::{Record, Shape, Stopped, Text, Why, find_records};
use super::errors::Place;
use super::fuse::DecodedColumn;
use super::plan::CsvPlan;
use super::stages::{Group, Observe, STEPS_A_FIELD, Stages};
use super::tokenize::{Dialect, Line, tokenize_fields};
use crate::ScanOptions;
use crate::errors::from_arrow;
use crate::interrupt::Steps;
use crate::limits::{BATCH_TEXT_BYTES, GROUP_RECORDS};
use crate::matcher::Matcher;
use crate::output::record_batch;
use crate::positions::{Positions, with_positions};
use crate::pruning::zones::{ZoneRecorder, Zones};
use crate::text::BYTE_ORDER_MARK;
use crate::text::columns::ColumnBuilder;
use crate::text::records::{Candidates, TextBuffer};

/// The metadata key of a last text column that holds what a record has beyond the other columns, as it is written;
/// NULL if it has nothing more. This is how `*` keeps the fields of ragged records, see [`rest_fields`].
pub const REST: &str = "rest";

/// The fields in a value of a [`REST`] column.
pub fn rest_fields(rest: &str, options: &CsvOptions) -> Result<Vec<String>> {
    let canonical = options.wide.as_ref().map(|_| super::rewrite::canonical(options));
    tokenize_fields(rest.as_bytes(), &Dialect::new(canonical.as_ref().unwrap_or(options))?)
}

/// Rows of a CSV text under way to a batch.
pub(crate) struct CsvRows {
    location: String,
    dialect: Dialect,
    shape: Shape,
    plan: CsvPlan,
    stages: Stages,
    /// Builders of the output columns, emptied when a batch is full.
    output: Vec<Box<dyn ColumnBuilder>>,
    rows: usize,
    batch_rows: usize,
    /// The next record is the header.
    header: bool,
    /// Whether the text may begin with a byte order mark, which is none of it.
    marked: bool,
    /// Records that begin before it are not wanted.
    begin: u64,
    group: Group,
    /// Space for where lines end.
    ends: Vec<u32>,
    /// Where the rows lie, if that is asked for.
    positions: Option<Positions>,
    /// Of the batches.
    schema: SchemaRef,
    /// Gathers what the first stage sees of all records.
    zones: Option<ZoneRecorder>,
}

/// What one step did.
pub(crate) struct Advance {
    /// Bytes to consume; 0 if there was no complete record.
    pub(crate) bytes: usize,
    /// Bytes of those that belong to the scan's range.
    pub(crate) scanned: u64,
    /// Records looked at.
    pub(crate) records: u64,
}

impl CsvRows {
    /// For a scan whose text begins at `start` and wants records from `begin` on. Also gives the fragment's output,
    /// rewritten to the columns of the batches that come out here.
    pub(crate) fn new(
        fragment: &Fragment,
        options: &CsvOptions,
        location: &str,
        start: u64,
        begin: u64,
        scan: &ScanOptions,
    ) -> Result<(Self, Output)> {
        let dialect = Dialect::new(options)?;
        let (mut plan, output) = CsvPlan::new(fragment, options, &scan.threshold)?;
        let columns = fragment.schema.fields().len();
        let last = fragment.schema.fields().last();
        let shape = Shape {
            columns,
            rest: last.filter(|field| field.metadata().contains_key(REST)).map(|_| columns - 1),
            record_bytes: scan.record_bytes,
        };
        let rows = Self {
            location: location.to_owned(),
            dialect,
            shape,
            stages: Stages::new(&mut plan)?,
            output: plan.output.iter().map(DecodedColumn::builder).collect::<Result<_>>()?,
            schema: SchemaRef::clone(&plan.schema),
            plan,
            rows: 0,
            batch_rows: scan.batch_rows.max(1),
            header: options.header && start == 0,
            marked: true,
            begin,
            group: Group::default(),
            ends: vec![],
            positions: None,
            zones: None,
        };
        Ok((rows, output))
    }

    /// Adds two columns to the batches: where each row's record lies.
    pub(crate) fn note_positions(&mut self) {
        self.schema = with_positions(&self.plan.schema);
        self.positions = Some(Positions::default());
    }

    /// What finds the records that may pass before they are cut.
    pub(crate) fn matcher(&self, scan: &ScanOptions) -> Option<Matcher> {
        self.plan.matcher(&self.dialect, scan)
    }

    /// Leaves behind in `zones` what is seen of the records from byte `from` on.
    pub(crate) fn note_zones(&mut self, zones: &Arc<Zones>, options: &CsvOptions, from: u64) {
        self.zones = ZoneRecorder::new(zones, self.plan.observed(options), from);
    }

    /// All records that begin before `end` were worked through.
    pub(crate) fn finish_zones(&mut self, end: u64) {
        if let Some(zones) = &mut self.zones {
            zones.finish(end);
        }
    }

    /// The schema of the batches.
    pub(crate) fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    /// Whether a batch should be taken.
    pub(crate) fn is_full(&self) -> bool {
        self.rows >= self.batch_rows || self.output.iter().map(|c| c.text_bytes()).sum::<usize>() >= BATCH_TEXT_BYTES
    }

    /// The rows gathered so far, if any.
    pub(crate) fn take(&mut self) -> Result<Option<RecordBatch>> {
        let rows = std::mem::take(&mut self.rows);
        if rows == 0 {
            return Ok(None);
        }
        let columns = self.output.iter_mut().map(|c| c.finish()).collect::<Result<Vec<_>, _>>();
        let mut columns = columns.map_err(from_arrow)?;
        columns.extend(self.positions.iter_mut().flat_map(Positions::take));
        record_batch(&self.schema, columns, rows).map(Some)
    }

    /// Works through the next group of complete records that begin before `end`. Of the text that was searched it
    /// looks at the candidates only, and takes them from the queue; but at all records before the range or the header,
    /// and where zones are still to be learned.
    pub(crate) fn advance(
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

    /// Whether candidates are of use in the text at hand.
    pub(crate) fn takes_candidates(&mut self, buffer: &TextBuffer) -> bool {
        self.is_inside(buffer) && !self.learns(buffer)
    }

    /// Whether the header and the records before the range were passed.
    fn is_inside(&self, buffer: &TextBuffer) -> bool {
        !self.header && buffer.offset() >= self.begin.max(1)
    }

    /// Takes text that begins with no byte order mark: one there is a character of the first value.
    pub(crate) fn expect_no_mark(&mut self) {
        self.marked = false;
    }

    /// Whether zones are still to be learned.
    fn learns(&mut self, buffer: &TextBuffer) -> bool {
        self.zones.as_mut().is_some_and(|zones| zones.wants(&buffer.range()))
    }

    /// Finds the records of the group where every terminator ends one and none of them is foreign. Gives the bytes that
    /// are done with.
    fn find_lines(&mut self, text: Text<'_>, whole: bool, end: u64, most: usize) -> Result<usize> {
        let stop = within(text, end);
        let found = (&mut self.ends, &mut self.group.records);
        let found = find_records(&self.dialect, text, (0, stop), most, &self.shape, found);
        let at = found.map_err(|stopped| self.place(text).stopped(stopped))?;
        if at < stop.min(text.text.len()) && self.group.records.len() < most && whole {
            // What is left may be a record without a terminator.
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

    /// Finds the records of the group one by one. Gives the bytes that are done with, and how many of them belong to
    /// lines that begin before the range.
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
        // The mark belongs to the first record, which begins at the first byte of the object.
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
            if !line.is_record || std::mem::take(&mut self.header) || is_foreign {
                continue;
            }
            self.add(text, line)?;
        }
        let only_mark = at == lead && !(whole && at == text.text.len());
        if only_mark { Ok((0, 0)) } else { Ok((at, foreign)) }
    }

    /// Finds the records that begin where the candidates do. Gives the bytes that are done with.
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
                // On to the first line that was not searched, or that is not in the range.
                let beyond = within(text, candidates.searched.min(end));
                return Ok(at.max(self.dialect.first_line(text.text, beyond)));
            };
            // One that was cut as part of a group before the search had begun.
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

    /// Runs the stages over the group and appends what passes to the output columns. `learns` is whether zones take in
    /// what the first stage decodes.
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
        let passed = self.stages.run(&mut self.group, &self.plan.output, place, observe)?;
        if passed.count == 0 {
            return Ok(());
        }
        let mut steps = Steps::default();
        for (column, builder) in self.plan.output.iter().zip(&mut self.output) {
            let fields = self.group.fields(column.field, &passed, place);
            builder.append(&fields).map_err(|bad| place.bad_field(column, &fields, &bad))?;
            steps.did(passed.count * STEPS_A_FIELD)?;
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

/// Where the byte `at` of the object is in the text, or would be.
fn within(text: Text<'_>, at: u64) -> usize {
    usize::try_from(at.saturating_sub(text.offset)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use bytes::Bytes;
    use pushdown::{AggregateCall, AggregateFunction, CsvOptions, Expr, Format, Output};

    /// Blank lines and comments take no steps of their own, however few records are wanted.
    #[test]
    fn lines_that_are_no_records_are_passed_over_together() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8, true)]));
        for (blank, header) in [("\n", false), ("\r\n", false), ("#\n", false), ("\n", true)] {
            let options = CsvOptions { header, comment: Some(b'#'), ..CsvOptions::default() };
            let fragment = Fragment::all(Format::Csv(options.clone()), Arc::clone(&schema));
            let scan = ScanOptions { batch_rows: 1, ..ScanOptions::default() };
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
                let step = rows.advance(&buffer, u64::MAX, None).unwrap();
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

    /// Ends and rows of each step over text with these candidates.
    #[test]
    fn only_candidates_are_cut_and_the_text_searched_is_consumed() {
        let text = "h,i\n1,a\n2,b\n\n3,c\r\n4,d\n5,e\n";
        let schema = Schema::new(vec![Field::new("h", DataType::Int64, true), Field::new("i", DataType::Utf8, true)]);
        let options = CsvOptions::default();
        let mut fragment = Fragment::all(Format::Csv(options.clone()), Arc::new(schema));
        fragment.predicate = Some(Expr::compare(pushdown::CompareOp::Gt, Expr::Column(0), Expr::int(0)));
        let call = AggregateCall { function: AggregateFunction::Count, argument: None, name: "n".into() };
        fragment.output = Output::scalar(vec![call]);
        let scan = ScanOptions { batch_rows: 1, ..ScanOptions::default() };
        let (mut rows, _) = CsvRows::new(&fragment, &options, "t", 0, 0, &scan).unwrap();
        let mut buffer = TextBuffer::new(0, 1 << 20);
        buffer.fill(&mut Bytes::from_static(text.as_bytes()));
        buffer.finish();
        // "2,b", the blank line, "3,c" and "5,e"; what is searched ends before the last.
        let mut candidates = Candidates { starts: [8, 12, 13, 22].into(), searched: 22 };
        let mut seen = vec![];
        while !buffer.text().is_empty() {
            let step = rows.advance(&buffer, 100, Some(&mut candidates)).unwrap();
            buffer.consume(step.bytes);
            seen.push((buffer.offset(), step.records));
            rows.take().unwrap();
        }
        // The header and "1,a" are read before the search has begun.
        assert_eq!(seen, [(8, 1), (12, 1), (18, 1), (22, 0), (26, 1)]);
    }
}

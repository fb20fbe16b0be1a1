//! From text to the rows that pass: cut records, decode what the predicate reads, decode the rest of what is left.
//!
//! Works through the buffer in groups of records small enough that their text and field positions stay in the
//! processor's cache. Output columns are appended group after group, so batches are full however few rows pass.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use pushdown::{CsvOptions, Error, Fragment, Output, Ragged, Result};

use super::fuse::DecodedColumn;
use super::plan::CsvPlan;
use super::tokenize::{Dialect, Line, Malformed, tokenize_fields};
use crate::ScanOptions;
use crate::errors::from_arrow;
use crate::limits::{BATCH_TEXT_BYTES, GROUP_RECORDS};
use crate::matcher::{Matcher, Matching};
use crate::output::record_batch;
use crate::positions::{Positions, with_positions};
use crate::text::columns::{BadField, ColumnBuilder, Spelling};
use crate::text::fields::{FieldColumn, Span};
use crate::text::records::{Candidates, TextBuffer, too_long};
use crate::types::{is_text, sql_type};
use crate::zones::{ZoneRecorder, Zones};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

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
    /// How many fields a record should have.
    columns: usize,
    /// The column, if any, that takes what is left of a record.
    rest: Option<usize>,
    /// The longest record there may be.
    record_bytes: usize,
    plan: CsvPlan,
    /// Builders of each stage's columns, emptied after every group.
    staged: Vec<Vec<Box<dyn ColumnBuilder>>>,
    /// Builders of the output columns, emptied when a batch is full.
    output: Vec<Box<dyn ColumnBuilder>>,
    rows: usize,
    batch_rows: usize,
    /// The next record is the header.
    header: bool,
    /// Records that begin before it are not wanted.
    begin: u64,
    group: Group,
    /// Where the rows lie, if that is asked for.
    positions: Option<Positions>,
    /// Of the batches.
    schema: SchemaRef,
    /// Gathers what the first stage sees of all records.
    zones: Option<ZoneRecorder>,
}

/// The records of one group, and where their fields are.
#[derive(Default)]
struct Group {
    lines: Vec<Line>,
    /// Fields cut for all records.
    fields: Vec<usize>,
    spans: Vec<Span>,
    /// Where cutting stopped in each record.
    resume: Vec<usize>,
    /// Fields cut only for records that passed.
    late_fields: Vec<usize>,
    late_spans: Vec<Span>,
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
        let (plan, output) = CsvPlan::new(fragment, options, &scan.threshold)?;
        let build = |columns: &[DecodedColumn]| columns.iter().map(DecodedColumn::builder).collect::<Result<Vec<_>>>();
        let (fields, late_fields) = plan.fields();
        let rows = Self {
            location: location.to_owned(),
            dialect,
            columns: fragment.schema.fields().len(),
            rest: fragment
                .schema
                .fields()
                .last()
                .filter(|field| field.metadata().contains_key(REST))
                .map(|_| fragment.schema.fields().len() - 1),
            record_bytes: scan.record_bytes,
            staged: plan.stages.iter().map(|s| build(&s.columns)).collect::<Result<_>>()?,
            output: build(&plan.output)?,
            schema: SchemaRef::clone(&plan.schema),
            plan,
            rows: 0,
            batch_rows: scan.batch_rows.max(1),
            header: options.header && start == 0,
            begin,
            group: Group { fields, late_fields, ..Group::default() },
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
    pub(crate) fn matcher(&self, matching: Matching) -> Option<Matcher> {
        self.plan.matcher(&self.dialect, self.begin, matching)
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
        let learns = self.learns(buffer);
        let (bytes, foreign) = match candidates {
            Some(candidates) if self.is_inside(buffer) && !learns && candidates.searched > buffer.offset() => {
                (self.cut_candidates(buffer, end, candidates)?, 0)
            }
            _ => self.cut(buffer, end)?,
        };
        let records = self.group.lines.len() as u64;
        if records > 0 {
            self.evaluate(buffer, learns)?;
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

    /// Whether zones are still to be learned.
    fn learns(&mut self, buffer: &TextBuffer) -> bool {
        self.zones.as_mut().is_some_and(|zones| zones.wants(&buffer.range()))
    }

    /// Cuts the group's records and the fields wanted of all of them. Gives the bytes that are done with, and how
    /// many of them belong to lines that begin before the range.
    fn cut(&mut self, buffer: &TextBuffer, end: u64) -> Result<(usize, usize)> {
        let (text, offset) = (buffer.text(), buffer.offset());
        self.group.clear();
        let most = self.group_records();
        let stop = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut at = 0;
        if offset == 0 {
            if text.len() < BYTE_ORDER_MARK.len() && !buffer.is_whole() {
                return Ok((0, 0));
            }
            if text.starts_with(BYTE_ORDER_MARK) {
                at = BYTE_ORDER_MARK.len();
            }
        }
        // The mark belongs to the first record, which begins at the first byte of the object.
        let lead = at;
        let mut foreign = 0;
        while self.group.lines.len() < most && (at < stop || (at == lead && stop > 0)) {
            let cut = self.dialect.line(text, at, buffer.is_whole());
            let cut = cut.map_err(|why| self.malformed(text, offset, at, why));
            let Some(line) = cut? else { break };
            let line_start = if at == lead { 0 } else { at };
            at = line.next;
            let is_foreign = offset + (line_start as u64) < self.begin;
            if is_foreign {
                foreign += at - line_start;
            }
            if !line.is_record || std::mem::take(&mut self.header) || is_foreign {
                continue;
            }
            self.cut_record(buffer, line)?;
        }
        let only_mark = at == lead && !(buffer.is_whole() && at == text.len());
        if only_mark { Ok((0, 0)) } else { Ok((at, foreign)) }
    }

    /// How many records may go into the next group.
    fn group_records(&self) -> usize {
        GROUP_RECORDS.min(self.batch_rows.saturating_sub(self.rows).max(1))
    }

    /// Adds a record to the group, with the fields wanted of all records.
    fn cut_record(&mut self, buffer: &TextBuffer, line: Line) -> Result<()> {
        if line.end - line.start > self.record_bytes {
            return Err(too_long(&self.location, buffer.offset() + line.start as u64, self.record_bytes));
        }
        let Group { lines, fields, spans, resume, .. } = &mut self.group;
        if !fields.is_empty() {
            let strict_end =
                self.dialect.ragged == Ragged::Error && fields.last() == self.columns.checked_sub(1).as_ref();
            let (wanted, rest) = without_rest(fields, self.rest);
            let cut = self.dialect.split(buffer.padded(), line.start, line.end, 0, wanted, spans);
            let cut =
                cut.and_then(|next| if strict_end && next <= line.end { Err(Malformed::FieldCount) } else { Ok(next) });
            let next = match cut {
                Ok(next) => next,
                Err(why) => return Err(self.malformed(buffer.text(), buffer.offset(), line.start, why)),
            };
            if rest {
                spans.push(rest_span(next, line.end));
            }
            resume.push(next);
        }
        lines.push(line);
        Ok(())
    }

    /// Cuts the records that begin where the candidates do, and the fields wanted of all of them. Gives the bytes that
    /// are done with.
    fn cut_candidates(&mut self, buffer: &TextBuffer, end: u64, candidates: &mut Candidates) -> Result<usize> {
        let (text, offset) = (buffer.text(), buffer.offset());
        self.group.clear();
        let most = self.group_records();
        let mut at = 0;
        while self.group.lines.len() < most {
            let Some(start) = candidates.starts.pop_front_if(|start| *start < end.min(candidates.searched)) else {
                // On to the first line that was not searched, or that is not in the range.
                let beyond = candidates.searched.min(end).saturating_sub(offset);
                let beyond = usize::try_from(beyond).unwrap_or(usize::MAX);
                return Ok(at.max(self.dialect.first_line(text, beyond)));
            };
            // One that was cut as part of a group before the search had begun.
            let Some(start) = start.checked_sub(offset).and_then(|start| usize::try_from(start).ok()) else { continue };
            let cut = self.dialect.line(text, start, buffer.is_whole());
            let cut = cut.map_err(|why| self.malformed(text, offset, start, why))?;
            // Only complete lines are searched.
            let Some(line) = cut else { return Ok(at) };
            at = line.next;
            if line.is_record {
                self.cut_record(buffer, line)?;
            }
        }
        Ok(at)
    }

    /// Runs the stages over the group and appends what passes to the output columns. `learns` is whether zones take in
    /// what the first stage decodes.
    fn evaluate(&mut self, buffer: &TextBuffer, learns: bool) -> Result<()> {
        let padded = buffer.padded();
        let group = &mut self.group;
        let quoting = self.dialect.quoting.unwrap_or_default();
        let mut passed: Option<Vec<u32>> = None;
        for (stage, builders) in self.plan.stages.iter().zip(&mut self.staged) {
            let rows = passed.as_ref().map_or(group.lines.len(), Vec::len);
            if rows == 0 {
                return Ok(());
            }
            let mut arrays = Vec::with_capacity(stage.columns.len());
            for (column, builder) in stage.columns.iter().zip(builders) {
                let fields = group.column(padded, column.field, passed.as_deref(), quoting);
                builder
                    .append(&fields)
                    .map_err(|bad| bad_field(&self.location, buffer.offset(), column, &fields, &bad))?;
                arrays.push(builder.finish().map_err(from_arrow)?);
            }
            if let (None, Some(zones)) = (&passed, self.zones.as_mut().filter(|_| learns)) {
                let starts: Vec<u64> = group.lines.iter().map(|line| buffer.offset() + line.start as u64).collect();
                zones.observe(&starts, &arrays)?;
            }
            let matches = stage.matches(&record_batch(&stage.schema, arrays, rows)?)?;
            let indices = matches.values().set_indices_u32();
            passed = Some(match passed {
                None => indices.collect(),
                Some(before) => indices.filter_map(|i| before.get(i as usize).copied()).collect(),
            });
        }
        let rows = passed.as_ref().map_or(group.lines.len(), Vec::len);
        if rows == 0 {
            return Ok(());
        }
        if !group.late_fields.is_empty() {
            self.cut_late(buffer, passed.as_deref())?;
        }
        let group = &self.group;
        for (column, builder) in self.plan.output.iter().zip(&mut self.output) {
            let fields = group.column(padded, column.field, passed.as_deref(), quoting);
            builder.append(&fields).map_err(|bad| bad_field(&self.location, buffer.offset(), column, &fields, &bad))?;
        }
        if let Some(positions) = &mut self.positions {
            let offset = buffer.offset();
            let mut note = |line: &Line| positions.push(offset + line.start as u64..offset + line.end as u64);
            match &passed {
                None => group.lines.iter().for_each(note),
                Some(rows) => rows.iter().filter_map(|row| group.lines.get(*row as usize)).for_each(&mut note),
            }
        }
        self.rows += rows;
        Ok(())
    }

    #[cold]
    fn malformed(&self, text: &[u8], offset: u64, at: usize, why: Malformed) -> Error {
        malformed(&self.location, &self.dialect, self.columns, text, offset, at, why)
    }

    /// Cuts the fields wanted only of the records that passed.
    fn cut_late(&mut self, buffer: &TextBuffer, passed: Option<&[u32]>) -> Result<()> {
        let (text, padded) = (buffer.text(), buffer.padded());
        let Group { lines, fields, resume, late_fields, late_spans, .. } = &mut self.group;
        late_spans.clear();
        let strict_end =
            self.dialect.ragged == Ragged::Error && late_fields.last() == self.columns.checked_sub(1).as_ref();
        let (wanted, rest) = without_rest(late_fields, self.rest);
        let first = fields.last().map_or(0, |last| last + 1);
        let all = 0..u32::try_from(lines.len()).unwrap_or(u32::MAX);
        for row in passed.map_or_else(|| all.collect(), <[u32]>::to_vec) {
            let Some(line) = lines.get(row as usize) else { continue };
            let start = resume.get(row as usize).copied().unwrap_or(line.start);
            let cut = self.dialect.split(padded, start, line.end, first, wanted, late_spans);
            let cut =
                cut.and_then(|next| if strict_end && next <= line.end { Err(Malformed::FieldCount) } else { Ok(next) });
            let next = cut.map_err(|why| {
                malformed(&self.location, &self.dialect, self.columns, text, buffer.offset(), line.start, why)
            })?;
            if rest {
                late_spans.push(rest_span(next, line.end));
            }
        }
        Ok(())
    }
}

impl Group {
    fn clear(&mut self) {
        self.lines.clear();
        self.spans.clear();
        self.resume.clear();
    }

    /// One field of the records in `rows`.
    fn column<'a>(
        &'a self,
        data: &'a [u8],
        field: usize,
        rows: Option<&'a [u32]>,
        quoting: crate::text::fields::Quoting,
    ) -> FieldColumn<'a> {
        match self.fields.binary_search(&field) {
            Ok(column) => FieldColumn { data, spans: &self.spans, stride: self.fields.len(), column, rows, quoting },
            Err(_) => {
                let column = self.late_fields.binary_search(&field).unwrap_or_default();
                let stride = self.late_fields.len();
                FieldColumn { data, spans: &self.late_spans, stride, column, rows: None, quoting }
            }
        }
    }
}

/// The fields to look for, and whether what comes after them is wanted too.
fn without_rest(fields: &[usize], rest: Option<usize>) -> (&[usize], bool) {
    match fields.split_last() {
        Some((last, others)) if Some(*last) == rest => (others, true),
        _ => (fields, false),
    }
}

/// What is left of a record that goes up to `end` when its next field begins at `next`.
fn rest_span(next: usize, end: usize) -> Span {
    if next <= end { Span::plain(next, end) } else { Span::MISSING }
}

/// The error for a record that cannot be cut. `at` is where it starts in `text`.
#[cold]
fn malformed(
    location: &str,
    dialect: &Dialect,
    columns: usize,
    text: &[u8],
    offset: u64,
    at: usize,
    why: Malformed,
) -> Error {
    match why {
        Malformed::OpenQuote(quote) => {
            // Closed further on, it holds a record delimiter; otherwise it is simply open.
            let closes = !dialect.newlines_in_values && dialect.closes_later(text, quote);
            let code = if closes { "CSVEscapingRecordDelimiter" } else { "CSVUnescapedQuote" };
            Error::invalid(format!(
                "{location}, byte {}: a quote is opened and not closed in its record; if values hold line ends, \
                 declare newlines_in_values",
                offset + quote as u64
            ))
            .with_code(code)
        }
        Malformed::FieldCount => {
            let line = dialect.line(text, at, true).ok().flatten();
            let found = line.and_then(|line| dialect.all_fields(text, line).ok()).map_or(0, |spans| spans.len());
            Error::invalid(format!(
                "{location}, byte {}: the record has {found} fields and the table {columns} columns; correct the \
                 declaration, or declare that records may be ragged",
                offset + at as u64
            ))
        }
    }
}

#[cold]
fn bad_field(location: &str, offset: u64, column: &DecodedColumn, fields: &FieldColumn<'_>, bad: &BadField) -> Error {
    let name = &column.name;
    let place = if bad.span.is_missing() {
        format!("{location}, column \"{name}\"")
    } else {
        format!("{location}, byte {}, column \"{name}\"", offset + bad.span.start() as u64)
    };
    if bad.null {
        return Error::invalid(format!("{place}: the field is NULL, but the column is declared NOT NULL"));
    }
    let value = fields.shown(bad.span);
    if is_text(&column.data_type) {
        return Error::invalid(format!("{place}: '{value}' is not UTF-8")).with_code("InvalidTextEncoding");
    }
    let way_out = match column.spelling {
        Spelling::Declared => "; a column declared VARCHAR takes any text",
        Spelling::Cast => "",
    };
    Error::invalid(format!("{place}: cannot parse '{value}' as {}{way_out}", sql_type(&column.data_type)))
        .with_code("CastFailed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use bytes::Bytes;
    use pushdown::{AggregateCall, AggregateFunction, CsvOptions, Expr, Format, Output};

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

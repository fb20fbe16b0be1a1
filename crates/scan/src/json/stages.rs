//! What is decoded of JSON records, and when.
//!
//! What the predicate reads is decoded of all records, the key of an ORDER BY … LIMIT of those that pass it, and the
//! other columns of the records that are left. Where records have to be parsed for the first of these, or most of them
//! pass, all are found at once.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::filter;
use arrow::datatypes::SchemaRef;
use pushdown::{Error, JsonOptions, Result};

use super::plain::PlainRecords;
use super::raw::RawRecords;
use super::typed::{BadRecord, TypedRecords};
use crate::errors::from_arrow;
use crate::evaluate::Evaluator;
use crate::output::{place, record_batch, renumber};
use crate::row_filter::{RowCondition, RowFilter};

/// The steps from records to rows.
pub(super) struct Stages {
    schema: SchemaRef,
    conditions: Vec<Condition>,
    /// The columns that no condition reads.
    late: Columns,
    /// All columns, where there are conditions that stay what they are, and other columns.
    all: Option<Columns>,
    /// Of the last records: how many there were, and how many passed.
    seen: usize,
    passed: usize,
}

/// All columns are found at once where more than one of so many records passes.
const MOST_PASS: usize = 2;

/// As many records are remembered.
const REMEMBERED: usize = 16 * 1024;

/// Some of the columns.
struct Columns {
    /// Which, ascending.
    indices: Vec<usize>,
    decode: Decode,
}

enum Decode {
    Plain(Box<PlainRecords>),
    Typed(TypedRecords),
    Raw(RawRecords),
}

/// What rows must fulfil.
struct Condition {
    /// What it reads that no condition before it does.
    columns: Columns,
    /// All that it reads, ascending, and their schema.
    reads: Vec<usize>,
    schema: SchemaRef,
    test: RowCondition,
}

/// The rows that passed.
pub(super) struct Rows {
    pub(super) columns: Vec<ArrayRef>,
    /// Where their records lie in the text.
    pub(super) records: Vec<Range<usize>>,
}

/// An error, and where the record begins that is to blame for it.
type AtRecord = (Option<usize>, Error);

impl Stages {
    pub(super) fn new(schema: &SchemaRef, wanted: &RowFilter, options: &JsonOptions) -> Result<Self> {
        let all = || (0..schema.fields().len()).collect::<Vec<_>>();
        let own = |reads: &[usize]| schema.project(reads).map(Arc::new).map_err(from_arrow);
        let mut tests = Vec::new();
        if let Some(predicate) = &wanted.predicate {
            let reads = predicate.columns();
            let predicate = renumber(predicate, &reads);
            let predicate = Evaluator::predicate(&predicate, &own(&reads)?)?;
            tests.push((reads, RowCondition::Predicate(predicate)));
        }
        if let Some(first) = &wanted.first {
            let reads = first.key.columns();
            if let Some(bound) = first.bound(&own(&reads)?, &mut |column| place(&reads, column))? {
                tests.push((reads, RowCondition::Live(bound)));
            }
        }
        let mut conditions = Vec::new();
        let mut decoded: Vec<usize> = Vec::new();
        for (reads, test) in tests {
            let at_once = Columns::are_found_at_once(&own(&reads)?, options)?;
            let mut new = if at_once { all() } else { reads.clone() };
            new.retain(|column| !decoded.contains(column));
            decoded.extend(&new);
            let columns = Columns::new(new, schema, options)?;
            conditions.push(Condition { columns, schema: own(&reads)?, reads, test });
        }
        let late: Vec<usize> = all().into_iter().filter(|column| !decoded.contains(column)).collect();
        // A bound that tightens leaves few records soon, however many there were before.
        let is_live = conditions.iter().any(|condition: &Condition| matches!(condition.test, RowCondition::Live(_)));
        let in_turn = !late.is_empty() && !conditions.is_empty() && !is_live;
        Ok(Self {
            late: Columns::new(late, schema, options)?,
            all: in_turn.then(|| Columns::new(all(), schema, options)).transpose()?,
            schema: SchemaRef::clone(schema),
            conditions,
            seen: 0,
            passed: 0,
        })
    }

    /// That of the rows.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rows of these records that pass, if any do. `observe` is given what the predicate reads of all records.
    pub(super) fn decode(
        &mut self,
        text: &[u8],
        records: &[Range<usize>],
        observe: &mut dyn FnMut(&[ArrayRef]) -> Result<()>,
    ) -> Result<Option<Rows>, AtRecord> {
        if self.seen > REMEMBERED {
            (self.seen, self.passed) = (self.seen / 2, self.passed / 2);
        }
        let rows = self.passing(text, records, observe)?;
        self.seen += records.len();
        self.passed += rows.as_ref().map_or(0, |rows| rows.records.len());
        Ok(rows)
    }

    fn passing(
        &mut self,
        text: &[u8],
        records: &[Range<usize>],
        observe: &mut dyn FnMut(&[ArrayRef]) -> Result<()>,
    ) -> Result<Option<Rows>, AtRecord> {
        let nowhere = |error: Error| (None, error);
        let mut decoded: Vec<Option<ArrayRef>> = vec![None; self.schema.fields().len()];
        let mut left = records.to_vec();
        let at_once = match &mut self.all {
            // What is wrong with a record that does not pass is nobody's business: then it goes in turn.
            Some(all) if self.passed * MOST_PASS > self.seen => all.decode(text, &left, &mut decoded).is_ok(),
            _ => false,
        };
        if !at_once {
            // After a failure the next records go in turn as well.
            self.passed = self.passed.min(self.seen / MOST_PASS);
        }
        for condition in &mut self.conditions {
            if !at_once {
                condition.columns.decode(text, &left, &mut decoded)?;
            }
            let columns: Vec<ArrayRef> =
                condition.reads.iter().filter_map(|column| decoded.get(*column)?.clone()).collect();
            if let RowCondition::Predicate(_) = condition.test {
                observe(&columns).map_err(nowhere)?;
            }
            let batch = record_batch(&condition.schema, columns, left.len()).map_err(nowhere)?;
            let matches = condition.test.matches(&batch).map_err(nowhere)?;
            match matches.true_count() {
                0 => return Ok(None),
                all if all == left.len() => continue,
                _ => {}
            }
            for column in decoded.iter_mut().flatten() {
                *column = filter(column, &matches).map_err(|error| nowhere(from_arrow(error)))?;
            }
            left = matches.values().set_indices().filter_map(|row| left.get(row).cloned()).collect();
        }
        if !at_once {
            self.late.decode(text, &left, &mut decoded)?;
        }
        Ok(Some(Rows { columns: decoded.into_iter().flatten().collect(), records: left }))
    }
}

impl Columns {
    fn new(indices: Vec<usize>, schema: &SchemaRef, options: &JsonOptions) -> Result<Self> {
        let schema = Arc::new(schema.project(&indices).map_err(from_arrow)?);
        let decode = if options.raw_tokens {
            Decode::Raw(RawRecords::new(&schema)?)
        } else {
            match PlainRecords::new(&schema)? {
                Some(plain) => Decode::Plain(Box::new(plain)),
                None => Decode::Typed(TypedRecords::new(&schema)?),
            }
        };
        Ok(Self { indices, decode })
    }

    /// Whether records are parsed for them, so that few of them take as long as all.
    fn are_found_at_once(schema: &SchemaRef, options: &JsonOptions) -> Result<bool> {
        Ok(options.raw_tokens && !RawRecords::new(schema)?.is_walked())
    }

    /// Decodes them of these records, into their places.
    fn decode(&mut self, text: &[u8], records: &[Range<usize>], into: &mut [Option<ArrayRef>]) -> Result<(), AtRecord> {
        let batch = match &mut self.decode {
            Decode::Plain(plain) => plain.decode(text, records),
            Decode::Typed(typed) => typed.decode(text, records),
            Decode::Raw(raw) => raw.decode(text, records),
        };
        let batch = batch.map_err(|BadRecord { record, error }| {
            let record = record.and_then(|number| records.get(number)).or(records.first());
            (Some(record.map_or(0, |record| record.start)), error)
        })?;
        for (index, column) in self.indices.iter().zip(batch.columns()) {
            if let Some(slot) = into.get_mut(*index) {
                *slot = Some(Arc::clone(column));
            }
        }
        Ok(())
    }
}

//! Decoding of JSON records in stages.
//!
//! The predicate's columns are decoded for all records, the key of an ORDER BY … LIMIT for those
//! that pass the predicate, and the other columns for the rest. If records have to be parsed for
//! the first of these columns, or most records pass, all columns are decoded at once.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::filter;
use arrow::datatypes::SchemaRef;
use pushdowndb_contract::{Error, JsonOptions, Result};

use crate::batch::record_batch;
use crate::error::from_arrow;
use crate::expr::columns::{place, renumber};
use crate::expr::evaluator::Evaluator;
use crate::operators::row_filter::{RowCondition, RowFilter};
use crate::text::json::plain::PlainRecords;
use crate::text::json::raw::RawRecords;
use crate::text::json::surplus::Surplus;
use crate::text::json::typed::{BadRecord, TypedRecords};
use crate::values::nulls::Spelling;

pub(crate) struct Stages {
    schema: SchemaRef,
    conditions: Vec<Condition>,
    /// The columns that no condition reads.
    late: Columns,
    /// All columns, if there are other columns and no condition changes during the scan.
    all: Option<Columns>,
    /// Finds values that the columns cannot represent.
    surplus: Option<Surplus>,
    /// The number of recent records, and how many of them passed.
    seen: usize,
    passed: usize,
}

/// All columns are decoded at once if more than one in this number of records passes.
const MAX_PASS_FACTOR: usize = 2;

/// The maximum number of recent records.
const REMEMBERED: usize = 16 * 1024;

struct Columns {
    /// The indexes of the columns, ascending.
    indices: Vec<usize>,
    decode: Decode,
}

enum Decode {
    Plain(Box<PlainRecords>),
    Typed(TypedRecords),
    Raw(RawRecords),
}

/// A condition, and the columns that it needs.
struct Condition {
    /// The columns that no earlier condition reads.
    columns: Columns,
    /// All columns that the condition reads, ascending, and their schema.
    reads: Vec<usize>,
    schema: SchemaRef,
    test: RowCondition,
}

pub(crate) struct Rows {
    pub(crate) columns: Vec<ArrayRef>,
    /// The ranges of their records in the text.
    pub(crate) records: Vec<Range<usize>>,
}

/// The start of the record that caused an error, if known, and the error.
type AtRecord = (Option<usize>, Error);

impl Stages {
    pub(crate) fn new(schema: &SchemaRef, wanted: &RowFilter, options: &JsonOptions) -> Result<Self> {
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
        // A bound becomes tighter, so it soon excludes most records, even if it did not before.
        let is_live = conditions.iter().any(|condition: &Condition| matches!(condition.test, RowCondition::Live(_)));
        let in_turn = !late.is_empty() && !conditions.is_empty() && !is_live;
        Ok(Self {
            late: Columns::new(late, schema, options)?,
            all: in_turn.then(|| Columns::new(all(), schema, options)).transpose()?,
            schema: SchemaRef::clone(schema),
            conditions,
            surplus: None,
            seen: 0,
            passed: 0,
        })
    }

    /// Makes it an error if a record that passes has values that the columns, which may be
    /// `inferred`, cannot represent. If `is_all` is true, a field without a column is an error,
    /// too.
    pub(crate) fn refuse_surplus(&mut self, inferred: bool, is_all: bool) {
        self.surplus = Surplus::new(&self.schema, inferred, is_all);
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the rows of these records that pass, if any. `observe` gets the predicate's columns,
    /// decoded for all records.
    pub(crate) fn decode(
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
            // A malformed record that does not pass is not an error, so the group is decoded again
            // in stages.
            Some(all) if self.passed * MAX_PASS_FACTOR > self.seen => all.decode(text, &left, &mut decoded).is_ok(),
            _ => false,
        };
        if !at_once {
            // After a failure, the next records are decoded in stages, too.
            self.passed = self.passed.min(self.seen / MAX_PASS_FACTOR);
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
        if let Some(surplus) = &self.surplus {
            surplus.check(text, &left)?;
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
            let spelling = if options.inferred { Spelling::Inferred } else { Spelling::Declared };
            match PlainRecords::new(&schema, spelling)? {
                Some(plain) => Decode::Plain(Box::new(plain)),
                None => Decode::Typed(TypedRecords::new(&schema, spelling)?),
            }
        };
        Ok(Self { indices, decode })
    }

    /// Returns whether records are parsed, so that decoding a few columns takes as long as decoding
    /// all.
    fn are_found_at_once(schema: &SchemaRef, options: &JsonOptions) -> Result<bool> {
        Ok(options.raw_tokens && !RawRecords::new(schema)?.is_walked())
    }

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

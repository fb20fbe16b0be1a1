//! Reading a row group: the predicate's columns first, the others where rows passed.
//!
//! ```text
//! rows that statistics leave ─► fetch and decode the predicate's columns ─► evaluate ─► rows that passed
//!                                                                                           │
//!                                  one batch after the other  ◄── fetch the other columns ◄─┘
//! ```
//!
//! Of a row group without a row that passed nothing else is fetched. Of the other columns only the pages that hold
//! such rows are decoded, and only those are fetched where the file tells where its pages lie.

use arrow::array::{ArrayRef, BooleanArray, BooleanBufferBuilder, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{and, concat_batches, filter_record_batch};
use arrow::datatypes::{Schema, SchemaRef};
use pushdown::Result;

use super::Wanted;
use super::chunks::Chunks;
use super::decode::{Batches, Columns};
use super::errors::{contradiction, explain};
use super::selection::Rows;
use crate::errors::from_arrow;
use crate::evaluate::Evaluator;
use crate::output::{map_columns, record_batch};
use crate::top_k::LiveBound;

/// Values of the predicate's columns are kept for the output up to so many bytes of a row group; beyond that they are
/// decoded again, batch by batch.
const KEPT_BYTES: usize = 16 << 20;

/// A row group and the rows of it that are read.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) group: usize,
    pub(super) rows: Rows,
}

/// How row groups of a file are read.
#[derive(Debug)]
pub(super) struct Groups {
    chunks: Chunks,
    filter: Option<Filter>,
    /// All columns that come out.
    output: Columns,
    batch_rows: usize,
}

/// What decides whether a row comes out.
#[derive(Debug)]
struct Filter {
    columns: Columns,
    predicate: Option<Evaluator>,
    /// What holds of the first rows in an order, if only those are wanted.
    bound: Option<LiveBound>,
    /// Which of its columns come out, too.
    kept: Vec<usize>,
    /// The columns that come out and are not its own.
    rest: Columns,
    /// For each column that comes out where it is from.
    origins: Vec<Origin>,
}

#[derive(Clone, Copy, Debug)]
enum Origin {
    Kept(usize),
    Rest(usize),
}

impl Groups {
    /// Rows as they are `wanted`, of `schema`, of which the columns `output` come out. `file` is the schema of the file.
    pub(super) fn new(
        chunks: Chunks,
        schema: &Schema,
        wanted: &Wanted,
        output: &[usize],
        file: &Schema,
        batch_rows: usize,
    ) -> Result<Self> {
        let columns = |indexes: &[usize]| {
            let declared = schema.project(indexes).map_err(from_arrow)?;
            Columns::new(chunks.reader.location(), declared.into(), file, &chunks.metadata)
        };
        let own = wanted.columns();
        let filter = (!own.is_empty() || wanted.predicate.is_some()).then(|| {
            let (mut kept, mut rest, mut origins) = (Vec::new(), Vec::new(), Vec::new());
            for index in output {
                match own.binary_search(index) {
                    Ok(place) => {
                        origins.push(Origin::Kept(kept.len()));
                        kept.push(place);
                    }
                    Err(_) => {
                        origins.push(Origin::Rest(rest.len()));
                        rest.push(*index);
                    }
                }
            }
            let columns_of_filter = columns(&own)?;
            let schema = columns_of_filter.schema();
            let mut place = |i| own.binary_search(&i).unwrap_or(usize::MAX);
            let predicate = wanted.predicate.as_ref().map(|predicate| map_columns(predicate, &mut place));
            let predicate = predicate.map(|predicate| Evaluator::predicate(&predicate, schema)).transpose()?;
            let bound = wanted.first.as_ref().map(|first| first.learning_bound(schema, &mut place)).transpose()?;
            let (bound, rest) = (bound.flatten(), columns(&rest)?);
            Ok(Filter { columns: columns_of_filter, predicate, bound, kept, rest, origins })
        });
        Ok(Self { filter: filter.transpose()?, output: columns(output)?, chunks, batch_rows })
    }

    /// Fetches what is needed of a row group. `None` if no row of it passes.
    pub(super) async fn open(&self, part: Part) -> Result<Option<GroupRows>> {
        let schema = self.output.schema().clone();
        let (rows, asked) = part.rows.passing(&BooleanBuffer::new_set(part.rows.len()));
        let Some(filter) = &self.filter else {
            let batches = self.decode(&self.output, part.group, &rows).await?;
            return Ok(Some(GroupRows { schema, batches, passed: asked, taken: 0, kept: None }));
        };
        let batches = self.decode(&filter.columns, part.group, &rows).await?;
        let Some(passed) = filter.passed(batches, asked.as_ref())? else { return Ok(None) };
        if passed.bits.len() != rows.len() {
            return Err(contradiction(self.chunks.reader.location()));
        }
        let columns = if passed.kept.is_some() { &filter.rest } else { &self.output };
        let (rows, bits) = match columns.leaves.is_empty() {
            // Everything is known of them.
            true => (Rows::all(passed.bits.true_count()), None),
            false => rows.passing(passed.bits.values()),
        };
        let batches = self.decode(columns, part.group, &rows).await?;
        let kept = passed.kept.map(|batch| Kept { batch, given: 0, origins: filter.origins.clone() });
        Ok(Some(GroupRows { schema, batches, passed: bits, taken: 0, kept }))
    }

    async fn decode(&self, columns: &Columns, group: usize, rows: &Rows) -> Result<Batches> {
        let pages = self.chunks.pages(group, &columns.leaves, rows).await;
        let pages = pages.map_err(|error| explain(self.chunks.reader.location(), error))?;
        columns.decode(pages, rows, self.batch_rows)
    }
}

/// What the predicate said of a row group.
struct Passed {
    /// For each row that was decoded, whether it passed.
    bits: BooleanArray,
    /// Of those that did, the predicate's columns that come out, if they are not too many bytes.
    kept: Option<RecordBatch>,
}

impl Filter {
    /// Which rows of the batch pass, of those `asked` for.
    fn matches(&self, batch: &RecordBatch, asked: Option<&BooleanArray>) -> Result<BooleanArray> {
        let mut passed = match &self.predicate {
            Some(predicate) => predicate.matches(batch)?,
            None => BooleanArray::from(vec![true; batch.num_rows()]),
        };
        if let Some(asked) = asked {
            passed = and(&passed, asked).map_err(from_arrow)?;
        }
        self.bound.as_ref().map_or(Ok(passed.clone()), |bound| bound.matches_among(batch, &passed))
    }

    /// Of all rows, or of those `asked` for. `None` if no row passed.
    fn passed(&self, mut batches: Batches, asked: Option<&BooleanArray>) -> Result<Option<Passed>> {
        let mut bits = BooleanBufferBuilder::new(0);
        let mut kept = Vec::new();
        let (mut bytes, mut any) = (0, false);
        while let Some(batch) = batches.next()? {
            let first = bits.len();
            let asked = asked.filter(|asked| first + batch.num_rows() <= asked.len());
            let asked = asked.map(|asked| asked.slice(first, batch.num_rows()));
            let matches = self.matches(&batch, asked.as_ref())?;
            bits.append_buffer(matches.values());
            let count = matches.true_count();
            any |= count > 0;
            if count > 0 && bytes <= KEPT_BYTES {
                let own = batch.project(&self.kept).map_err(from_arrow)?;
                let own = if count == own.num_rows() {
                    own
                } else {
                    filter_record_batch(&own, &matches).map_err(from_arrow)?
                };
                bytes += own.get_array_memory_size();
                kept.push(own);
            }
        }
        let Some(first) = kept.first().filter(|_| any) else { return Ok(None) };
        let kept = if bytes <= KEPT_BYTES {
            Some(concat_batches(first.schema_ref(), &kept).map_err(from_arrow)?)
        } else {
            None
        };
        Ok(Some(Passed { bits: BooleanArray::new(bits.finish(), None), kept }))
    }
}

/// The rows of a row group that passed.
#[derive(Debug)]
pub(super) struct GroupRows {
    schema: SchemaRef,
    batches: Batches,
    /// Which of the rows that are decoded passed; all of them without.
    passed: Option<BooleanArray>,
    /// How many were decoded.
    taken: usize,
    kept: Option<Kept>,
}

/// Columns of the rows that passed, known already.
#[derive(Debug)]
struct Kept {
    batch: RecordBatch,
    given: usize,
    origins: Vec<Origin>,
}

impl GroupRows {
    /// The next rows, of the columns that come out.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(mut batch) = self.batches.next()? {
            if let Some(passed) = &self.passed {
                let own = passed.slice(self.taken, batch.num_rows());
                self.taken += batch.num_rows();
                if own.true_count() < own.len() {
                    batch = filter_record_batch(&batch, &own).map_err(from_arrow)?;
                }
            }
            if batch.num_rows() == 0 {
                continue;
            }
            return match &mut self.kept {
                Some(kept) => kept.join(&self.schema, &batch).map(Some),
                None => Ok(Some(batch)),
            };
        }
        Ok(None)
    }
}

impl Kept {
    /// The next rows, with the columns that were decoded of them.
    fn join(&mut self, schema: &SchemaRef, rest: &RecordBatch) -> Result<RecordBatch> {
        let own = self.batch.slice(self.given, rest.num_rows());
        self.given += rest.num_rows();
        let column = |origin: &Origin| -> Option<ArrayRef> {
            match origin {
                Origin::Kept(place) => own.columns().get(*place).cloned(),
                Origin::Rest(place) => rest.columns().get(*place).cloned(),
            }
        };
        record_batch(schema, self.origins.iter().filter_map(column).collect(), rest.num_rows())
    }
}

//! Reading a row group: the predicate's columns first, the others where rows passed.
//!
//! ```text
//! rows that statistics leave ─► fetch the predicate's columns ─► stage after stage ─► rows that passed
//!                                                                                         │
//!                                one batch after the other  ◄── fetch the other columns ◄─┘
//! ```
//!
//! Of a row group without a row that passed nothing else is fetched. Of the other columns only the pages that hold
//! such rows are decoded, and only those are fetched where the file tells where its pages lie.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat, filter, filter_record_batch};
use arrow::datatypes::SchemaRef;
use pushdown::Result;

use super::Wanted;
use super::chunks::{Chunks, Fetched};
use super::decode::{Batches, Columns, FileSchema};
use super::dictionary::look_up;
use super::errors::{contradiction, explain};
use super::selection::Rows;
use super::stages::{Stage, stages};
use crate::errors::from_arrow;
use crate::output::record_batch;

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
    file: FileSchema,
    /// All columns that are read, and those of them that come out.
    schema: SchemaRef,
    output: Vec<usize>,
    stages: Vec<Stage>,
    batch_rows: usize,
}

impl Groups {
    /// Rows as they are `wanted`, of `schema`, of which the columns `output` come out.
    pub(super) fn new(
        chunks: Chunks,
        schema: &SchemaRef,
        wanted: &Wanted,
        output: &[usize],
        file: FileSchema,
        batch_rows: usize,
    ) -> Result<Self> {
        let stages = stages(chunks.reader.location(), wanted, schema, &file)?;
        Ok(Self { chunks, file, schema: Arc::clone(schema), output: output.to_vec(), stages, batch_rows })
    }

    /// Fetches what is needed of a row group. `None` if no row of it passes.
    pub(super) async fn open(&self, part: Part) -> Result<Option<GroupRows>> {
        let mut passing = Passing { bits: part.rows.bits(), kept: Vec::new() };
        if !self.stages.is_empty() {
            let mut leaves: Vec<usize> = self.stages.iter().flat_map(|stage| &stage.columns.leaves).copied().collect();
            leaves.sort_unstable();
            leaves.dedup();
            let fetched = self.fetch(part.group, &leaves, &passing.bits).await?;
            for stage in &self.stages {
                self.pass(stage, &fetched, &mut passing)?;
                if passing.bits.count_set_bits() == 0 {
                    return Ok(None);
                }
            }
        }
        let missing = self.output.iter().filter(|index| passing.find(**index).is_none()).copied().collect::<Vec<_>>();
        let declared = |indexes: &[usize]| self.schema.project(indexes).map(Arc::new).map_err(from_arrow);
        let columns = Columns::new(self.chunks.reader.location(), declared(&missing)?, &self.file)?;
        let (rows, wanted) = match columns.leaves.is_empty() {
            // Everything is known of them.
            true => (Rows::all(passing.bits.count_set_bits()), None),
            false => passing.rows(),
        };
        let fetched = self.fetch(part.group, &columns.leaves, &passing.bits).await?;
        let batches = self.decode(&columns, &fetched, &rows)?;
        let place = |index: &usize| match missing.iter().position(|own| own == index) {
            Some(place) => Some(Origin::Decoded(place)),
            None => passing.find(*index).cloned().map(Origin::Kept),
        };
        let origins = self.output.iter().filter_map(place).collect();
        Ok(Some(GroupRows { schema: declared(&self.output)?, batches, wanted, decoded: 0, given: 0, origins }))
    }

    /// Leaves those rows that pass the stage.
    fn pass(&self, stage: &Stage, fetched: &Fetched, passing: &mut Passing) -> Result<()> {
        if let Some(bits) = self.look_up(stage, fetched, passing.bits.len())? {
            return passing.narrow(&passing.bits.clone() & &bits);
        }
        let (rows, asked) = passing.rows();
        let mut batches = self.decode(&stage.columns, fetched, &rows)?;
        let mut bits = BooleanBufferBuilder::new(rows.len());
        let mut kept: Vec<Vec<ArrayRef>> = vec![Vec::new(); stage.indexes.len()];
        let comes_out: Vec<bool> = stage.indexes.iter().map(|index| self.output.contains(index)).collect();
        let mut bytes = 0;
        while let Some(batch) = batches.next()? {
            let first = bits.len();
            let asked = asked.as_ref().filter(|asked| first + batch.num_rows() <= asked.len());
            let asked = asked.map(|asked| asked.slice(first, batch.num_rows()));
            let matches = stage.matches(&batch, asked.as_ref())?;
            bits.append_buffer(matches.values());
            if matches.true_count() == 0 || bytes > KEPT_BYTES {
                continue;
            }
            for ((column, kept), _) in batch.columns().iter().zip(&mut kept).zip(&comes_out).filter(|(_, out)| **out) {
                let own = filter(column, &matches).map_err(from_arrow)?;
                bytes += own.get_array_memory_size();
                kept.push(own);
            }
        }
        if bits.len() != rows.len() {
            return Err(contradiction(self.chunks.reader.location()));
        }
        passing.narrow(rows.spread(&bits.finish()))?;
        if bytes <= KEPT_BYTES {
            for (index, pieces) in stage.indexes.iter().zip(&kept).filter(|(_, pieces)| !pieces.is_empty()) {
                let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
                passing.kept.push((*index, concat(&pieces).map_err(from_arrow)?));
            }
        }
        Ok(())
    }

    /// What a dictionary says of each row, if it can answer.
    fn look_up(&self, stage: &Stage, fetched: &Fetched, rows: usize) -> Result<Option<BooleanBuffer>> {
        let Some((leaf, column)) = &stage.flat else { return Ok(None) };
        let explained = |error| explain(self.chunks.reader.location(), error);
        let pages = self.chunks.pages(fetched, *leaf).map_err(explained)?;
        let Some(answers) = stage.answers(&pages) else { return Ok(None) };
        if !answers.any(column) {
            return Ok(Some(BooleanBuffer::new_unset(rows)));
        }
        look_up(pages, column, &answers, rows).map_err(explained)
    }

    async fn fetch(&self, group: usize, leaves: &[usize], bits: &BooleanBuffer) -> Result<Fetched> {
        let (rows, _) = Rows::all(bits.len()).passing(bits);
        let fetched = self.chunks.fetch(group, leaves, &rows).await;
        fetched.map_err(|error| explain(self.chunks.reader.location(), error))
    }

    fn decode(&self, columns: &Columns, fetched: &Fetched, rows: &Rows) -> Result<Batches> {
        let pages = columns.leaves.iter().map(|leaf| Ok((*leaf, self.chunks.pages(fetched, *leaf)?)));
        let pages = pages.collect::<::parquet::errors::Result<_>>();
        let pages = pages.map_err(|error| explain(self.chunks.reader.location(), error))?;
        columns.decode(pages, rows, self.batch_rows)
    }
}

/// The rows of a row group that passed so far.
struct Passing {
    /// A bit for each row of the row group.
    bits: BooleanBuffer,
    /// Columns that come out, by their index, of the rows that passed.
    kept: Vec<(usize, ArrayRef)>,
}

impl Passing {
    /// What is decoded to have them, and which rows of that they are.
    fn rows(&self) -> (Rows, Option<BooleanArray>) {
        Rows::all(self.bits.len()).passing(&self.bits)
    }

    fn find(&self, index: usize) -> Option<&ArrayRef> {
        self.kept.iter().find(|(own, _)| *own == index).map(|(_, column)| column)
    }

    /// Leaves these of them.
    fn narrow(&mut self, bits: BooleanBuffer) -> Result<()> {
        if !self.kept.is_empty() {
            let (now, before) = (BooleanArray::new(bits.clone(), None), BooleanArray::new(self.bits.clone(), None));
            let left = filter(&now, &before).map_err(from_arrow)?;
            let left = left.as_boolean();
            for (_, column) in &mut self.kept {
                *column = filter(column, left).map_err(from_arrow)?;
            }
        }
        self.bits = bits;
        Ok(())
    }
}

/// The rows of a row group that passed.
#[derive(Debug)]
pub(super) struct GroupRows {
    schema: SchemaRef,
    batches: Batches,
    /// Which of the rows that are decoded passed; all of them without.
    wanted: Option<BooleanArray>,
    /// How many were decoded, and how many came out.
    decoded: usize,
    given: usize,
    /// For each column that comes out where it is from.
    origins: Vec<Origin>,
}

#[derive(Clone, Debug)]
enum Origin {
    /// It was decoded for the predicate: its values of all rows that passed.
    Kept(ArrayRef),
    /// It is this one of those decoded now.
    Decoded(usize),
}

impl GroupRows {
    /// The next rows, of the columns that come out.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(mut batch) = self.batches.next()? {
            if let Some(wanted) = &self.wanted {
                let own = wanted.slice(self.decoded, batch.num_rows());
                self.decoded += batch.num_rows();
                if own.true_count() < own.len() {
                    batch = filter_record_batch(&batch, &own).map_err(from_arrow)?;
                }
            }
            let rows = batch.num_rows();
            if rows == 0 {
                continue;
            }
            let column = |origin: &Origin| match origin {
                Origin::Kept(column) => Some(column.slice(self.given, rows)),
                Origin::Decoded(place) => batch.columns().get(*place).cloned(),
            };
            let columns = self.origins.iter().filter_map(column).collect();
            self.given += rows;
            return record_batch(&self.schema, columns, rows).map(Some);
        }
        Ok(None)
    }
}

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
use std::sync::atomic::Ordering;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat, filter};
use arrow::datatypes::Schema;
use pushdown::Result;

use super::adapt::unexpected_null;
use super::chunks::{Chunks, Fetched};
use super::coded::Coded;
use super::decode::{BATCH_BYTES, Batches, Columns};
use super::errors::{contradiction, explain};
use super::fixed::{Fixed, Within, is_fixed, is_read};
use super::group_rows::{Direct, GroupRows, Origin, runs};
use super::pages::Pages;
use super::plan::{Plan, Single};
use super::prune::column_bounds;
use super::selection::Rows;
use super::stages::Stage;
use crate::errors::from_arrow;
use crate::interrupt::check_interrupt;
use crate::output::record_batch;
use crate::{Reservation, ScanCounters};

/// Values of the predicate's columns are kept for the output up to so many bytes of a row group; beyond that they are
/// decoded again, batch by batch.
const KEPT_BYTES: usize = 16 << 20;

/// So many bits are there of each row of a row group at once: those that pass, those of a stage, and copies on the way.
const BITS_OF_ROW: usize = 6;

/// A condition is asked of a dictionary that has at most so many values for each row that is left.
const VALUES_A_ROW_TO_ASK: usize = 2;

/// Numbers are looked up in a dictionary as it is stored if it has more than so many values for each row.
const VALUES_A_ROW_TO_LOOK_UP: usize = 8;

/// A row group, or a part of a large one, and the rows of it that are read.
#[derive(Clone, Debug)]
pub(super) struct GroupPart {
    pub(super) group: usize,
    pub(super) rows: Rows,
    /// Whether it is the first one of its row group.
    pub(super) is_first: bool,
}

/// How row groups of a file are read.
#[derive(Debug)]
pub(super) struct Groups {
    chunks: Chunks,
    plan: Arc<Plan>,
    batch_rows: usize,
}

impl Groups {
    pub(super) fn new(chunks: Chunks, plan: Arc<Plan>, batch_rows: usize) -> Self {
        Self { chunks, plan, batch_rows }
    }

    /// Whether bytes are fetched that have to be waited for, as far as the last ones tell.
    pub(super) fn are_waited_for(&self) -> bool {
        self.chunks.are_waited_for.load(Ordering::Relaxed)
    }

    /// Where the scan counts.
    pub(super) fn counters(&self) -> &ScanCounters {
        &self.chunks.counters
    }

    /// Fetches what is needed of a row group, and counts that in `counters`. `None` if no row of it passes.
    pub(super) async fn open(&self, part: GroupPart, counters: &ScanCounters) -> Result<Option<GroupRows>> {
        let groups = u64::from(part.is_first);
        if !self.may_hold_first(part.group)? {
            counters.row_groups_pruned.fetch_add(groups, Ordering::Relaxed);
            return Ok(None);
        }
        counters.row_groups_scanned.fetch_add(groups, Ordering::Relaxed);
        counters.rows_scanned.fetch_add(part.rows.len() as u64, Ordering::Relaxed);
        let memory = self.chunks.memory.budget();
        // A bit for each row, at each step twice.
        let bits = self.chunks.memory.reserve(part.rows.of_group().div_ceil(8).saturating_mul(BITS_OF_ROW));
        let bits = bits.map_err(|error| self.explained(error))?;
        let kept = Kept { columns: Vec::new(), bytes: memory.empty() };
        let mut passing = Passing { bits: part.rows.bits(), kept };
        let mut before = None;
        if !self.plan.stages.is_empty() {
            let mut leaves: Vec<usize> =
                self.plan.stages.iter().flat_map(|stage| &stage.columns.leaves).copied().collect();
            leaves.sort_unstable();
            leaves.dedup();
            let fetched = self.fetch(part.group, &leaves, &passing.bits, counters).await?;
            for stage in &self.plan.stages {
                self.pass(stage, &fetched, &mut passing)?;
                if passing.bits.count_set_bits() == 0 {
                    return Ok(None);
                }
            }
            before = Some(fetched);
        }
        let missing =
            self.plan.output.iter().filter(|index| passing.find(**index).is_none()).copied().collect::<Vec<_>>();
        let location = self.chunks.reader.location();
        let mut leaves = self.plan.columns(location, &missing)?.leaves.clone();
        leaves.retain(|leaf| !before.as_ref().is_some_and(|before| before.holds(*leaf)));
        let mut fetched = self.fetch(part.group, &leaves, &passing.bits, counters).await?;
        before.into_iter().for_each(|before| fetched.join(before));
        let left = passing.bits.count_set_bits();
        let (mut direct, mut decoded, mut opened) = (Vec::new(), Vec::new(), Vec::new());
        let mut row_bytes = 0;
        for index in missing {
            let Some(single) = self.plan.singles.iter().find(|single| single.index == index) else {
                decoded.push(index);
                continue;
            };
            let pages = self.chunks.pages(&fetched, single.leaf).map_err(|error| self.explained(error))?;
            match self.direct(single, pages, left, &mut row_bytes)? {
                Ok(column) => direct.push((index, column)),
                Err(pages) => {
                    decoded.push(index);
                    opened.push((single.leaf, pages));
                }
            }
        }
        let columns = self.plan.columns(location, &decoded)?;
        let (rows, wanted) = match columns.leaves.is_empty() {
            // Everything is known of them.
            true => (Rows::all(passing.bits.count_set_bits()), None),
            false => passing.rows(),
        };
        let batches = self.decode(&columns, &fetched, opened, &rows)?;
        let place = |index: &usize| match decoded.iter().position(|own| own == index) {
            Some(place) => Some(Origin::Decoded(place)),
            None => match direct.iter().position(|(own, _)| own == index) {
                Some(place) => Some(Origin::Direct(place)),
                None => passing.find(*index).cloned().map(Origin::Kept),
            },
        };
        let origins = self.plan.output.iter().filter_map(place).collect();
        let of_output = |index: &usize| {
            let field = self.plan.schema.fields().get(*index)?;
            Some(match direct.iter().find(|(own, _)| own == index) {
                Some((_, column)) => Arc::new(field.as_ref().clone().with_data_type(column.data_type())),
                None => Arc::clone(field),
            })
        };
        let schema = Schema::new(self.plan.output.iter().filter_map(of_output).collect::<Vec<_>>());
        let direct = direct.into_iter().map(|(_, column)| column).collect();
        Ok(Some(GroupRows {
            location: location.to_owned(),
            schema: Arc::new(schema),
            batches,
            wanted,
            decoded: 0,
            direct,
            passing: passing.bits,
            at: 0,
            given: 0,
            origins,
            _reserved: [bits, passing.kept.bytes],
        }))
    }

    /// Whether one of its rows may be among the first in the order that is asked for, as far as is known by now.
    fn may_hold_first(&self, group: usize) -> Result<bool> {
        let Some((bound, key)) = &self.plan.first else { return Ok(true) };
        let metadata = &self.chunks.metadata;
        let Some(group) = metadata.row_groups().get(group) else { return Ok(true) };
        match column_bounds(key, &self.plan.file.schema, metadata, &[group]) {
            Some((smallest, largest)) => bound.may_match(&smallest, &largest, key.is_nullable()),
            None => Ok(true),
        }
    }

    /// Leaves those rows that pass the stage.
    fn pass(&self, stage: &Stage, fetched: &Fetched, passing: &mut Passing) -> Result<()> {
        if self.pass_by_pages(stage, fetched, passing)? {
            return Ok(());
        }
        let memory = self.chunks.memory.budget();
        let (rows, asked) = passing.rows();
        let mut batches = self.decode(&stage.columns, fetched, Vec::new(), &rows)?;
        let mut bits = BooleanBufferBuilder::new(rows.len());
        let mut kept: Vec<Vec<ArrayRef>> = vec![Vec::new(); stage.indexes.len()];
        let comes_out: Vec<bool> = stage.indexes.iter().map(|index| self.plan.output.contains(index)).collect();
        let mut kept_bytes = Some(memory.empty());
        while let Some(batch) = batches.next()? {
            check_interrupt()?;
            let first = bits.len();
            let asked = asked.as_ref().filter(|asked| first + batch.num_rows() <= asked.len());
            let asked = asked.map(|asked| asked.slice(first, batch.num_rows()));
            let matches = stage.matches(&batch, asked.as_ref())?;
            bits.append_buffer(matches.values());
            if matches.true_count() == 0 || kept_bytes.is_none() {
                continue;
            }
            for ((column, kept), _) in batch.columns().iter().zip(&mut kept).zip(&comes_out).filter(|(_, out)| **out) {
                let own = filter(column, &matches).map_err(from_arrow)?;
                kept_bytes = passing.kept.room_for(kept_bytes, own.get_array_memory_size());
                kept.push(own);
            }
        }
        if bits.len() != rows.len() {
            return Err(contradiction(self.chunks.reader.location()));
        }
        passing.narrow(rows.spread(&bits.finish()))?;
        if let Some(bytes) = kept_bytes {
            for (index, pieces) in stage.indexes.iter().zip(&kept) {
                passing.keep(*index, pieces)?;
            }
            passing.kept.add(&bytes);
        }
        Ok(())
    }

    /// Leaves those rows that pass the stage, if that can be told from the pages of its only column without decoding them.
    fn pass_by_pages(&self, stage: &Stage, fetched: &Fetched, passing: &mut Passing) -> Result<bool> {
        let (Some((leaf, _)), [index]) = (&stage.flat, stage.indexes.as_slice()) else { return Ok(false) };
        let explained = |error| self.explained(error);
        let pages = self.chunks.pages(fetched, *leaf).map_err(explained)?;
        let is_coded = pages.is_dictionary_only().unwrap_or_default();
        let is_decided = is_coded || stage.search.is_some();
        // Of few rows that are left, the values are looked at and not all of the dictionary.
        let few =
            is_coded && passing.bits.count_set_bits().saturating_mul(VALUES_A_ROW_TO_ASK) < pages.dictionary_values();
        let pages = match is_decided && !few {
            true => pages,
            false => match self.fixed(&stage.columns, pages)? {
                Ok(column) => {
                    self.pass_numbers(stage, column, *index, passing)?;
                    return Ok(true);
                }
                Err(pages) => pages,
            },
        };
        if !is_decided {
            return Ok(false);
        }
        if self.plan.output.contains(index) {
            fetched.keep_pages(*leaf, KEPT_BYTES);
        }
        let decided = stage.decide(pages, is_coded, passing.bits.len(), self.chunks.memory.budget());
        let decided = decided.map_err(explained)?;
        let Some(bits) = decided else { return Ok(false) };
        passing.narrow(&passing.bits.clone() & &bits)?;
        Ok(true)
    }

    /// Leaves those rows that pass the stage by their number in its only column.
    fn pass_numbers(&self, stage: &Stage, mut column: Fixed, index: usize, passing: &mut Passing) -> Result<()> {
        let (comes_out, schema) = (self.plan.output.contains(&index), stage.columns.schema());
        let (mut at, mut kept) = (0, Vec::new());
        let mut kept_bytes = Some(self.chunks.memory.budget().empty());
        let mut bits = BooleanBufferBuilder::new(passing.bits.len());
        loop {
            check_interrupt()?;
            let runs = runs(&passing.bits, &mut at, self.batch_rows);
            if runs.is_empty() {
                break;
            }
            let explained = |error| self.explained(error);
            let not_null = |nulls: usize| match schema.fields().first() {
                Some(field) if nulls > 0 && !field.is_nullable() => {
                    Err(unexpected_null(self.chunks.reader.location(), field))
                }
                _ => Ok(()),
            };
            let (found, values) = match &stage.range {
                Some(range) => {
                    let Within { found, values, nulls } = column.within(range, &runs).map_err(explained)?;
                    not_null(nulls)?;
                    (found, values)
                }
                None => {
                    let values = column.next(&runs).map_err(explained)?;
                    not_null(values.null_count())?;
                    let found = stage.matches(&record_batch(schema, vec![Arc::clone(&values)], values.len())?, None)?;
                    (found.values().clone(), filter(&values, &found).map_err(from_arrow)?)
                }
            };
            let mut taken = 0;
            for run in runs {
                bits.append_n(run.start - bits.len(), false);
                bits.append_buffer(&found.slice(taken, run.len()));
                taken += run.len();
            }
            if comes_out && kept_bytes.is_some() && !values.is_empty() {
                kept_bytes = passing.kept.room_for(kept_bytes, values.get_array_memory_size());
                kept.push(values);
            }
        }
        bits.append_n(passing.bits.len() - bits.len(), false);
        passing.narrow(bits.finish())?;
        if let Some(bytes) = kept_bytes {
            passing.keep(index, &kept)?;
            passing.kept.add(&bytes);
        }
        Ok(())
    }

    /// The column of so many rows read out of its pages: as places in its dictionary if all its values stand there, or as
    /// numbers. Gives the pages back if it is to be decoded. `row_bytes` is what a row of all such columns may come to.
    fn direct(
        &self,
        single: &Single,
        pages: Pages,
        rows: usize,
        row_bytes: &mut usize,
    ) -> Result<std::result::Result<Direct, Pages>> {
        let is_coded = pages.is_dictionary_only().unwrap_or_default();
        let as_dictionary = self.plan.dictionaries.contains(&single.index);
        // Of few rows, values become Arrow's and not all of the dictionary.
        let few = !as_dictionary && rows.saturating_mul(VALUES_A_ROW_TO_LOOK_UP) < pages.dictionary_values();
        let pages = match is_coded && !few {
            true => pages,
            false => match self.fixed(&single.columns, pages)? {
                Ok(column) => return Ok(Ok(Direct::Fixed(column))),
                Err(pages) => pages,
            },
        };
        if !is_coded {
            return Ok(Err(pages));
        }
        // As places they take no more than numbers do.
        let longer = row_bytes.saturating_add(if as_dictionary { 0 } else { pages.longest });
        if longer.saturating_mul(self.batch_rows) > BATCH_BYTES {
            return Ok(Err(pages));
        }
        *row_bytes = longer;
        // A value that does not fit the declared type may be one of no row that counts.
        let memory = self.chunks.memory.budget();
        let values = pages.dictionary().and_then(|values| single.columns.decode_dictionary(values, memory).ok()?);
        let first =
            |(values, reserved): (RecordBatch, Reservation)| Some((values.columns().first()?.clone(), reserved));
        let Some(values) = values.and_then(first) else { return Ok(Err(pages)) };
        let column = single.columns.descriptor(single.leaf);
        Ok(Ok(Direct::Coded(Coded::new(column, values, pages, as_dictionary))))
    }

    /// The only one of these columns as numbers of a fixed width, if it is stored as such; otherwise its pages.
    fn fixed(&self, columns: &Columns, pages: Pages) -> Result<std::result::Result<Fixed, Pages>> {
        let ([leaf], [declared]) = (columns.leaves.as_slice(), columns.schema().fields().as_ref()) else {
            return Ok(Err(pages));
        };
        let (column, declared) = (columns.descriptor(*leaf), declared.data_type());
        let stored = self.plan.file.schema.field_with_name(column.name());
        if !stored.is_ok_and(|stored| is_fixed(&column, stored.data_type(), declared))
            || !pages.are_all(is_read).unwrap_or_default()
        {
            return Ok(Err(pages));
        }
        Fixed::new(column, declared.clone(), pages).map(Ok).map_err(|error| self.explained(error))
    }

    fn explained(&self, error: ::parquet::errors::ParquetError) -> pushdown::Error {
        explain(self.chunks.reader.location(), error)
    }

    async fn fetch(
        &self,
        group: usize,
        leaves: &[usize],
        bits: &BooleanBuffer,
        counters: &ScanCounters,
    ) -> Result<Fetched> {
        let all = Rows::all(bits.len());
        // Without an index of pages chunks come whole.
        let rows = if self.chunks.metadata.offset_index().is_some() { all.passing(bits).0 } else { all };
        self.chunks.fetch(group, leaves, &rows, counters).await.map_err(|error| self.explained(error))
    }

    /// Decodes columns, of which the pages of some are `opened` already.
    fn decode(
        &self,
        columns: &Columns,
        fetched: &Fetched,
        mut opened: Vec<(usize, Pages)>,
        rows: &Rows,
    ) -> Result<Batches> {
        let mut pages = |leaf: &usize| match opened.iter().position(|(own, _)| own == leaf) {
            Some(place) => Ok(opened.swap_remove(place)),
            None => Ok((*leaf, self.chunks.pages(fetched, *leaf)?)),
        };
        let pages: ::parquet::errors::Result<Vec<_>> = columns.leaves.iter().map(&mut pages).collect();
        let pages = pages.map_err(|error| self.explained(error))?;
        // Rows without columns take no room, and each batch a turn of whoever counts them.
        let batch_rows =
            if self.plan.output.is_empty() && pages.is_empty() { rows.len().max(1) } else { self.batch_rows };
        columns.decode(pages, rows, batch_rows, &self.chunks.memory)
    }
}

/// The rows of a row group that passed so far.
struct Passing {
    /// A bit for each row of the row group.
    bits: BooleanBuffer,
    /// What is kept of them for the output.
    kept: Kept,
}

/// Columns that were decoded for the predicate and come out, by their index, of the rows that passed.
struct Kept {
    columns: Vec<(usize, ArrayRef)>,
    bytes: Reservation,
}

impl Kept {
    /// What is reserved for a stage, with so many bytes more; nothing if they are too many to be kept beside what is there.
    fn room_for(&self, of_stage: Option<Reservation>, more: usize) -> Option<Reservation> {
        let of_stage = of_stage.filter(|stage| self.bytes.bytes() + stage.bytes() + more <= 2 * KEPT_BYTES)?;
        // Once more while they are put together.
        of_stage.grow(more.saturating_mul(2)).ok().map(|()| of_stage)
    }

    /// Takes over what was reserved for a stage.
    fn add(&mut self, of_stage: &Reservation) {
        let bytes = of_stage.bytes();
        of_stage.shrink(bytes);
        // It was there a moment ago; if others have taken it, the budget of the scan is short by it for a while.
        let _ = self.bytes.grow(bytes);
    }
}

impl Passing {
    /// What is decoded to have them, and which rows of that they are.
    fn rows(&self) -> (Rows, Option<BooleanArray>) {
        Rows::all(self.bits.len()).passing(&self.bits)
    }

    fn find(&self, index: usize) -> Option<&ArrayRef> {
        self.kept.columns.iter().find(|(own, _)| *own == index).map(|(_, column)| column)
    }

    /// Keeps a column, in pieces, of the rows that passed.
    fn keep(&mut self, index: usize, pieces: &[ArrayRef]) -> Result<()> {
        if !pieces.is_empty() {
            let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
            self.kept.columns.push((index, concat(&pieces).map_err(from_arrow)?));
        }
        Ok(())
    }

    /// Leaves these of them.
    fn narrow(&mut self, bits: BooleanBuffer) -> Result<()> {
        if !self.kept.columns.is_empty() {
            let (now, before) = (BooleanArray::new(bits.clone(), None), BooleanArray::new(self.bits.clone(), None));
            let left = filter(&now, &before).map_err(from_arrow)?;
            let left = left.as_boolean();
            for (_, column) in &mut self.kept.columns {
                *column = filter(column, left).map_err(from_arrow)?;
            }
        }
        self.bits = bits;
        Ok(())
    }
}

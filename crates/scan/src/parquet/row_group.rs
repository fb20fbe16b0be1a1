//! Reading a row group with late materialization: first the columns of the predicate, then the
//! other columns for the rows that passed.
//!
//! ```text
//! rows that statistics leave ─► fetch the predicate's columns ─► stage after stage ─► rows that passed
//!                                                                                         │
//!                                one batch after the other  ◄── fetch the other columns ◄─┘
//! ```
//!
//! If no row passed, nothing else is fetched. For the other columns, only pages with rows that
//! passed are decoded, and, if the file has a page index, only these are fetched.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat, filter};
use arrow::datatypes::Schema;
use pushdowndb_contract::Result;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::batch::record_batch;
use crate::counters::ScanCounters;
use crate::error::from_arrow;
use crate::parquet::decode::adapt::unexpected_null;
use crate::parquet::decode::batches::{Batches, Columns, MAX_BATCH_BYTES};
use crate::parquet::decode::dictionary_codes::DictionaryCodes;
use crate::parquet::decode::fixed_width::{FixedWidth, Within, is_fixed, is_read};
use crate::parquet::errors::{contradiction, explain};
use crate::parquet::plan::{Plan, Single};
use crate::parquet::prune::row_groups::column_bounds;
use crate::parquet::read::chunks::{Chunks, Fetched};
use crate::parquet::read::pages::Pages;
use crate::parquet::read::selection::Rows;
use crate::parquet::row_group_output::{Direct, Origin, RowGroupOutput, runs};
use crate::parquet::stages::Stage;
use crate::runtime::interrupt::check_interrupt;
use crate::runtime::memory::Reservation;

/// The maximum bytes of predicate columns held for the output of a row group; others are decoded
/// again.
const MAX_CACHED_BYTES: usize = 16 << 20;

/// The bits per row in memory at the same time: of the rows that passed, of a stage, and copies.
const BITS_PER_ROW: usize = 6;

/// A condition is evaluated on a dictionary with at most this many values per remaining row.
const MAX_VALUES_PER_ROW_TO_EVALUATE: usize = 2;

/// If a dictionary has more than this number of values per row, it is not decoded as a whole;
/// values are looked up in their stored form.
const MAX_VALUES_PER_ROW_TO_LOOK_UP: usize = 8;

/// A row group, or a slice of a large one, with the rows to read.
#[derive(Clone, Debug)]
pub(crate) struct RowGroupSlice {
    pub(crate) group: usize,
    pub(crate) rows: Rows,
    /// True for the first slice of a row group.
    pub(crate) is_first: bool,
}

/// The row groups of a file.
#[derive(Debug)]
pub(crate) struct Groups {
    pub(crate) chunks: Chunks,
    pub(crate) plan: Arc<Plan>,
    pub(crate) batch_rows: usize,
    /// A permit for each row group that is decoded at a time.
    pub(crate) decoding: Option<Arc<Semaphore>>,
}

impl Groups {
    /// Waits for a permit to decode; `None` if there is no limit. The semaphore is never closed.
    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(self.decoding.as_ref()?).acquire_owned().await.ok()
    }

    /// Returns whether the last fetch had to wait.
    pub(crate) fn are_waited_for(&self) -> bool {
        self.chunks.are_waited_for.load(Ordering::Relaxed)
    }

    /// Fetches and filters a row group, counted in `counters`. Returns `None` if no row passes.
    pub(crate) async fn open(&self, part: RowGroupSlice, counters: &ScanCounters) -> Result<Option<RowGroupOutput>> {
        let groups = u64::from(part.is_first);
        if !self.may_hold_first(part.group)? {
            counters.row_groups_pruned.fetch_add(groups, Ordering::Relaxed);
            return Ok(None);
        }
        counters.row_groups_scanned.fetch_add(groups, Ordering::Relaxed);
        counters.rows_scanned.fetch_add(part.rows.len() as u64, Ordering::Relaxed);
        let memory = self.chunks.memory.budget();
        // A bit for each row, twice in each step.
        let bits = self.chunks.memory.reserve(part.rows.of_group().div_ceil(8).saturating_mul(BITS_PER_ROW));
        let bits = bits.map_err(|error| self.explained(error))?;
        let kept = Kept { columns: Vec::new(), bytes: memory.empty() };
        let mut passing = Passing { bits: part.rows.bits(), kept };
        let mut before = None;
        if !self.plan.stages.is_empty() {
            let mut leaves: Vec<usize> =
                self.plan.stages.iter().flat_map(|stage| &stage.columns.leaves).copied().collect();
            leaves.extend(self.worth_along(part.group)?);
            leaves.sort_unstable();
            leaves.dedup();
            let fetched = self.fetch(part.group, &leaves, &passing.bits, counters).await?;
            let _permit = self.permit().await;
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
        let permit = self.permit().await;
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
            // All columns are already decoded, or read directly from their pages.
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
            let field = self.plan.declared.fields().get(*index)?;
            Some(match direct.iter().find(|(own, _)| own == index) {
                Some((_, column)) => Arc::new(field.as_ref().clone().with_data_type(column.data_type())),
                None => Arc::clone(field),
            })
        };
        let schema = Schema::new(self.plan.output.iter().filter_map(of_output).collect::<Vec<_>>());
        let direct = direct.into_iter().map(|(_, column)| column).collect();
        Ok(Some(RowGroupOutput {
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
            _permit: permit,
        }))
    }

    /// Returns the output columns of a row group that should be fetched together with the
    /// predicate's columns. It does so if they have so few bytes that this takes less time than an
    /// additional request.
    fn worth_along(&self, group: usize) -> Result<Vec<usize>> {
        let reader = &self.chunks.reader;
        let most = reader.bytes_per_request();
        if most == 0 {
            return Ok(vec![]);
        }
        let leaves = self.plan.columns(reader.location(), &self.plan.output)?.leaves.clone();
        let bytes = |leaf: &usize| {
            let chunk = self.chunks.chunk(group, *leaf).map_err(|error| self.explained(error))?;
            Ok(u64::try_from(chunk.compressed_size()).unwrap_or(u64::MAX))
        };
        let all = leaves.iter().map(bytes).try_fold(0_u64, |all, bytes: Result<u64>| Ok(all.saturating_add(bytes?)))?;
        Ok(if all <= most { leaves } else { vec![] })
    }

    /// Returns whether a row may be among the first rows of the order, by the current bound.
    fn may_hold_first(&self, group: usize) -> Result<bool> {
        let Some((bound, key)) = &self.plan.first else { return Ok(true) };
        let metadata = &self.chunks.metadata;
        let Some(group) = metadata.row_groups().get(group) else { return Ok(true) };
        match column_bounds(key, &self.plan.file.schema, metadata, &[group]) {
            Some((smallest, largest)) => bound.may_match(&smallest, &largest, key.is_nullable()),
            None => Ok(true),
        }
    }

    /// Narrows `passing` to the rows that pass the stage.
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

    /// Like [`Self::pass`], if the pages of the stage's only column decide it without decoding
    /// rows. Returns false if they do not.
    fn pass_by_pages(&self, stage: &Stage, fetched: &Fetched, passing: &mut Passing) -> Result<bool> {
        let (Some((leaf, _)), [index]) = (&stage.flat, stage.indexes.as_slice()) else { return Ok(false) };
        let explained = |error| self.explained(error);
        let pages = self.chunks.pages(fetched, *leaf).map_err(explained)?;
        let is_coded = pages.is_dictionary_only().unwrap_or_default();
        let is_decided = is_coded || stage.search.is_some();
        // If few rows are left, evaluating their values is cheaper than evaluating the whole
        // dictionary.
        let few = is_coded
            && passing.bits.count_set_bits().saturating_mul(MAX_VALUES_PER_ROW_TO_EVALUATE) < pages.dictionary_values();
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
            fetched.keep_pages(*leaf, MAX_CACHED_BYTES);
        }
        let decided = stage.decide(pages, is_coded, passing.bits.len(), self.chunks.memory.budget());
        let decided = decided.map_err(explained)?;
        let Some(bits) = decided else { return Ok(false) };
        passing.narrow(&passing.bits.clone() & &bits)?;
        Ok(true)
    }

    /// Like [`Self::pass`], for a stage on a single column of fixed-width numbers.
    fn pass_numbers(&self, stage: &Stage, mut column: FixedWidth, index: usize, passing: &mut Passing) -> Result<()> {
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

    /// Opens a column so that its rows are read directly from its pages: as dictionary codes if all
    /// its values are in the dictionary, or as fixed-width numbers. Returns the pages if the column
    /// must be decoded instead. `row_bytes` is the size of a row of all columns that are read
    /// directly.
    fn direct(
        &self,
        single: &Single,
        pages: Pages,
        rows: usize,
        row_bytes: &mut usize,
    ) -> Result<std::result::Result<Direct, Pages>> {
        let is_coded = pages.is_dictionary_only().unwrap_or_default();
        let as_dictionary = self.plan.dictionaries.contains(&single.index);
        // If few rows are left, decoding their values is cheaper than decoding the whole
        // dictionary.
        let few = !as_dictionary && rows.saturating_mul(MAX_VALUES_PER_ROW_TO_LOOK_UP) < pages.dictionary_values();
        let pages = match is_coded && !few {
            true => pages,
            false => match self.fixed(&single.columns, pages)? {
                Ok(column) => return Ok(Ok(Direct::FixedWidth(column))),
                Err(pages) => pages,
            },
        };
        if !is_coded {
            return Ok(Err(pages));
        }
        // Codes take no more space than numbers.
        let longer = row_bytes.saturating_add(if as_dictionary { 0 } else { pages.longest });
        if longer.saturating_mul(self.batch_rows) > MAX_BATCH_BYTES {
            return Ok(Err(pages));
        }
        *row_bytes = longer;
        // A value that does not fit the declared type is not an error if it belongs to no selected
        // row.
        let memory = self.chunks.memory.budget();
        let values = pages.dictionary().and_then(|values| single.columns.decode_dictionary(values, memory).ok()?);
        let first =
            |(values, reserved): (RecordBatch, Reservation)| Some((values.columns().first()?.clone(), reserved));
        let Some(values) = values.and_then(first) else { return Ok(Err(pages)) };
        let column = single.columns.descriptor(single.leaf);
        Ok(Ok(Direct::DictionaryCodes(DictionaryCodes::new(column, values, pages, as_dictionary))))
    }

    /// Opens the only one of these columns as fixed-width numbers; otherwise returns its pages.
    fn fixed(&self, columns: &Columns, pages: Pages) -> Result<std::result::Result<FixedWidth, Pages>> {
        let ([leaf], [declared]) = (columns.leaves.as_slice(), columns.schema().fields().as_ref()) else {
            return Ok(Err(pages));
        };
        let (column, declared) = (columns.descriptor(*leaf), declared.data_type());
        let stored = self.plan.file.field(column.name());
        if !stored.is_some_and(|stored| is_fixed(&column, stored.data_type(), declared))
            || !pages.are_all(is_read).unwrap_or_default()
        {
            return Ok(Err(pages));
        }
        FixedWidth::new(column, declared.clone(), pages).map(Ok).map_err(|error| self.explained(error))
    }

    fn explained(&self, error: ::parquet::errors::ParquetError) -> pushdowndb_contract::Error {
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
        // Without a page index, chunks are read as a whole.
        let rows = if self.chunks.metadata.offset_index().is_some() { all.passing(bits).0 } else { all };
        self.chunks.fetch(group, leaves, &rows, counters).await.map_err(|error| self.explained(error))
    }

    /// Decodes columns. The pages of some of them are already `opened`.
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
        // Rows without columns take no space, but each batch has a cost.
        let batch_rows =
            if self.plan.output.is_empty() && pages.is_empty() { rows.len().max(1) } else { self.batch_rows };
        columns.decode(pages, rows, batch_rows, &self.chunks.memory)
    }
}

/// The rows of a row group that have passed so far.
struct Passing {
    /// A bit for each row of the row group.
    bits: BooleanBuffer,
    /// Columns that are held for the output.
    kept: Kept,
}

/// Output columns that were decoded for the predicate, by index, with the rows that passed.
struct Kept {
    columns: Vec<(usize, ArrayRef)>,
    bytes: Reservation,
}

impl Kept {
    /// Reserves `more` bytes for a stage. Returns `None` if they are too many to be held.
    fn room_for(&self, of_stage: Option<Reservation>, more: usize) -> Option<Reservation> {
        let of_stage = of_stage.filter(|stage| self.bytes.bytes() + stage.bytes() + more <= 2 * MAX_CACHED_BYTES)?;
        // While pieces are concatenated, a second copy exists.
        of_stage.grow(more.saturating_mul(2)).ok().map(|()| of_stage)
    }

    /// Takes over the reservation of a stage.
    fn add(&mut self, of_stage: &Reservation) {
        let bytes = of_stage.bytes();
        of_stage.shrink(bytes);
        // The memory was available a moment ago. If it was taken since, the budget is exceeded for
        // a while.
        let _ = self.bytes.grow(bytes);
    }
}

impl Passing {
    /// Returns the rows to decode, and which of them have passed.
    fn rows(&self) -> (Rows, Option<BooleanArray>) {
        Rows::all(self.bits.len()).passing(&self.bits)
    }

    fn find(&self, index: usize) -> Option<&ArrayRef> {
        self.kept.columns.iter().find(|(own, _)| *own == index).map(|(_, column)| column)
    }

    /// Holds a column of the rows that passed, given in pieces.
    fn keep(&mut self, index: usize, pieces: &[ArrayRef]) -> Result<()> {
        if !pieces.is_empty() {
            let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
            self.kept.columns.push((index, concat(&pieces).map_err(from_arrow)?));
        }
        Ok(())
    }

    /// Narrows the rows to those with a set bit in `bits`.
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

//! Buffering of the input in sorted runs, and spilling of ranges of it when memory runs out.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion_common::Result;
use datafusion_common::utils::memory::get_record_batch_memory_size;

use super::chunk::{Chunk, spill_runs};
use super::keys::Key;
use super::memory::{Sizes, compact, rows_within, slice_bytes};
use super::ranges::{cutoff, split_highest};
use super::restore::Restore;
use super::run::{Run, SORT_FACTOR, sort_run};
use super::setup::Setup;
use super::share::Share;

/// The sort of one partition while its input arrives.
pub(super) struct Buffer {
    setup: Arc<Setup>,
    /// Batches for the next run, and the memory to sort them.
    pending: Vec<RecordBatch>,
    pending_memory: Share,
    runs: Vec<Run>,
    chunks: Vec<Chunk>,
    /// Memory for the batches that a merge emits.
    output_memory: Share,
    /// An upper bound of the keys in the output, if known: rows with greater keys are dropped.
    cutoff: Option<Key>,
    /// The number of rows that arrived, and their bytes.
    rows: usize,
    bytes: usize,
}

/// How memory was freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// It was not: nothing is buffered.
    None,
    /// A good part of the buffered rows was dropped, because the output does not need them.
    Dropped,
    /// A range was spilled.
    Spilled,
}

impl Buffer {
    pub(super) fn new(setup: Arc<Setup>) -> Self {
        Self {
            pending: Vec::new(),
            pending_memory: setup.memory(),
            runs: Vec::new(),
            chunks: Vec::new(),
            output_memory: setup.memory(),
            cutoff: None,
            rows: 0,
            bytes: 0,
            setup,
        }
    }

    /// Adds the rows of `batch`.
    ///
    /// # Errors
    ///
    /// Returns an error if spilling fails, or if the batch does not fit into memory after all
    /// others were spilled.
    pub(super) async fn insert(&mut self, batch: RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(());
        }
        let purpose = format!("for a batch of {rows} rows");
        let mut arrived = self.setup.memory();
        self.grow(&mut arrived, slice_bytes(&batch)?, &purpose).await?;
        let batch = compact(batch)?;
        let bytes = get_record_batch_memory_size(&batch);
        self.grow(&mut arrived, bytes, &purpose).await?;
        self.rows += rows;
        self.bytes = self.bytes.saturating_add(bytes);
        self.reserve_output().await?;

        let sizes = self.setup.sizes;
        let at_once = if bytes <= sizes.run { rows } else { rows_within(sizes.run, rows, bytes, rows) };
        for first in (0..rows).step_by(at_once) {
            let part = batch.slice(first, at_once.min(rows - first));
            // The part's share of the bytes of the batch.
            let part_bytes = (bytes as u128 * part.num_rows() as u128 / rows as u128) as usize;
            self.add_pending(part, part_bytes).await?;
        }
        // Pending rows of a batch that was too large for one run would keep the whole batch in
        // memory.
        match at_once < rows {
            true => self.sort_pending(),
            false => Ok(()),
        }
    }

    /// Ends the input. The result merges the buffered and the spilled rows.
    pub(super) fn finish(mut self) -> Result<Restore> {
        self.sort_pending()?;
        let output_rows = self.rows_within(self.setup.sizes.output);
        let spilled_rows = self.rows_within(self.setup.sizes.batch);
        Ok(Restore::new(self.setup, self.runs, self.chunks, self.output_memory, output_rows, spilled_rows))
    }

    /// Adds `part`, which has `part_bytes` bytes, and sorts a run when there are enough rows.
    async fn add_pending(&mut self, part: RecordBatch, part_bytes: usize) -> Result<()> {
        let needed = SORT_FACTOR * part_bytes;
        let mut room = Room::Dropped;
        while let Err(error) = self.pending_memory.try_grow(needed) {
            room = self.make_room(room == Room::Spilled).await?;
            if room == Room::None {
                return Err(self.setup.exhausted(&error, needed, &format!("to sort {} rows", part.num_rows())));
            }
        }
        self.pending.push(part);
        match self.pending_memory.size() >= SORT_FACTOR * self.setup.sizes.run {
            true => self.sort_pending(),
            false => Ok(()),
        }
    }

    /// Sorts the pending batches into a run, within their reserved memory.
    fn sort_pending(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let mut memory = self.pending_memory.take();
        let _timer = self.setup.baseline.elapsed_compute().timer();
        let run = sort_run(&self.setup, std::mem::take(&mut self.pending), &mut memory, self.cutoff.as_ref())?;
        self.runs.extend(run);
        Ok(())
    }

    /// Returns the number of rows that have about `bytes`, judged by the rows that arrived so far.
    fn rows_within(&self, bytes: usize) -> usize {
        rows_within(bytes, self.rows, self.bytes, self.setup.batch_rows)
    }

    /// Reserves memory for two batches of the output: the one that is being built, and the input
    /// rows that it still refers to.
    async fn reserve_output(&mut self) -> Result<()> {
        let row = self.bytes / self.rows.max(1) + 1;
        let target = self.setup.sizes.output.max(self.setup.sizes.batch);
        let bytes = 2 * row.saturating_mul(self.setup.batch_rows).min(target).max(row);
        if bytes > self.output_memory.size() {
            let mut memory = self.output_memory.take();
            self.grow(&mut memory, bytes, "for a batch of its output").await?;
            self.output_memory = memory;
        }
        Ok(())
    }

    /// Grows `memory` to `bytes`, and spills until the pool grants it.
    async fn grow(&mut self, memory: &mut Share, bytes: usize, purpose: &str) -> Result<()> {
        let mut room = Room::Dropped;
        while let Err(error) = memory.try_resize(bytes) {
            room = self.make_room(room == Room::Spilled).await?;
            if room == Room::None {
                return Err(self.setup.exhausted(&error, bytes, purpose));
            }
        }
        Ok(())
    }

    /// Frees memory: drops rows that the output does not need, or else spills the highest range of
    /// the buffered rows, or all of them if `everything` is true.
    async fn make_room(&mut self, everything: bool) -> Result<Room> {
        if self.runs.is_empty() {
            self.sort_pending()?;
        }
        let before = buffered(&self.runs);
        if before == 0 {
            return Ok(Room::None);
        }
        self.drop_above_cutoff()?;
        let now = buffered(&self.runs);
        if !everything && now <= before - before / 8 {
            return Ok(Room::Dropped);
        }
        let target = if everything { now } else { Sizes::spill_target(now, self.chunks.len()) };
        let highest = split_highest(&mut self.runs, target, &self.setup)?;
        let batch_rows = self.rows_within(self.setup.sizes.batch);
        self.chunks.extend(spill_runs(&self.setup, highest, batch_rows).await?);
        Ok(Room::Spilled)
    }

    /// Drops rows with keys above the key up to which there are enough rows for the whole output.
    fn drop_above_cutoff(&mut self) -> Result<()> {
        let Some(fetch) = self.setup.fetch else {
            return Ok(());
        };
        let spilled: Vec<_> = self.chunks.iter().flat_map(|chunk| &chunk.marks).collect();
        let Some(cutoff) = cutoff(&self.runs, &spilled, fetch, &self.setup)? else {
            return Ok(());
        };
        for run in &mut self.runs {
            run.split_above(&cutoff, &self.setup)?;
        }
        self.runs.retain(|run| !run.pieces.is_empty());
        self.chunks.retain(|chunk| chunk.min <= cutoff);
        self.cutoff = Some(cutoff);
        Ok(())
    }
}

/// Returns the total bytes of `runs`.
fn buffered(runs: &[Run]) -> usize {
    runs.iter().map(Run::bytes).sum()
}

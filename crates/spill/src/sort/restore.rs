//! The output: rows in memory and spilled rows, merged range by range.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::TryEmitter;
use datafusion_physical_plan::metrics::RecordOutput;
use futures::TryStreamExt;
use parking_lot::Mutex;

use super::chunk::{Chunk, spill_runs, spill_sources};
use super::memory::MIN_CHUNK_BYTES;
use super::merge::{SharedSource, Source, merge};
use super::ranges::split_highest;
use super::run::Run;
use super::setup::Setup;
use super::share::Share;

/// The maximum number of chunks that are opened before they are needed, if there is memory.
const READ_AHEAD_CHUNKS: usize = 2;

/// The sort of one partition after its input has ended.
pub(super) struct Restore {
    setup: Arc<Setup>,
    /// The runs in memory.
    residents: Vec<SharedSource>,
    /// The chunks that are being read.
    open: Vec<SharedSource>,
    /// The chunks that are not needed yet, in the order of their first keys.
    waiting: VecDeque<Chunk>,
    /// The number of rows per batch of the output, and per spilled batch.
    output_rows: usize,
    spilled_rows: usize,
    /// The number of rows that may still be emitted.
    left: usize,
    /// Memory for the batches that a merge emits.
    _output_memory: Share,
}

impl Restore {
    /// Creates the output of `runs` and `chunks` in batches of `output_rows` rows, with memory for
    /// them. Rows that have to be spilled again are written in batches of `spilled_rows` rows.
    pub(super) fn new(
        setup: Arc<Setup>,
        runs: Vec<Run>,
        chunks: Vec<Chunk>,
        output_memory: Share,
        output_rows: usize,
        spilled_rows: usize,
    ) -> Self {
        let mut restore = Self {
            residents: runs.into_iter().map(shared).collect(),
            open: Vec::new(),
            waiting: VecDeque::new(),
            output_rows,
            spilled_rows,
            left: setup.fetch.unwrap_or(usize::MAX),
            _output_memory: output_memory,
            setup,
        };
        chunks.into_iter().for_each(|chunk| restore.insert(chunk));
        restore
    }

    /// Emits all rows in order.
    ///
    /// All rows up to the first key of the next chunk are in memory or in open chunks. They are
    /// merged and emitted, and then the next chunk is opened.
    pub(super) async fn emit(mut self, mut emitter: TryEmitter<RecordBatch, DataFusionError>) -> Result<()> {
        self.limit_fan_in().await?;
        loop {
            if self.residents.is_empty() && self.open.is_empty() {
                if self.waiting.is_empty() {
                    return Ok(());
                }
                self.open_next().await?;
            }
            self.read_ahead()?;
            let bound = self.waiting.front().map(|chunk| chunk.min.clone());
            let sources = self.residents.iter().chain(&self.open);
            let mut merged = merge(&self.setup, sources, bound.as_ref(), self.output_rows)?;
            while let Some(batch) = merged.try_next().await? {
                let batch = batch.slice(0, batch.num_rows().min(self.left));
                self.left -= batch.num_rows();
                if batch.num_rows() > 0 {
                    let batch = self.setup.emitted(batch)?;
                    emitter.emit(batch.record_output(&self.setup.baseline)).await;
                }
                if self.left == 0 {
                    return Ok(());
                }
            }
            drop(merged);
            self.residents.retain(|source| !source.lock().is_done());
            self.open.retain(|source| !source.lock().is_done());
            if bound.is_some() {
                self.open_next().await?;
            }
        }
    }

    /// Adds `chunk` to the waiting ones.
    fn insert(&mut self, chunk: Chunk) {
        let place = self.waiting.partition_point(|other| other.min <= chunk.min);
        self.waiting.insert(place, chunk);
    }

    /// Opens the next chunk. This is allowed at any time, and necessary when all rows up to the
    /// first key of that chunk have been emitted.
    async fn open_next(&mut self) -> Result<()> {
        while let Some(mut chunk) = self.waiting.pop_front() {
            if let Some(source) = chunk.ahead.take() {
                self.open.push(Arc::new(Mutex::new(source)));
                return Ok(());
            }
            match self.read_memory(chunk.read_bytes()).await? {
                Ok(mut memory) => {
                    self.extend_for_read_ahead(&chunk, &mut memory);
                    self.open.push(Arc::new(Mutex::new(chunk.open(&self.setup, memory)?)));
                    return Ok(());
                }
                Err(error) if self.open.len() < 2 => {
                    return Err(self.setup.exhausted(&error, chunk.read_bytes(), "to read a spilled chunk"));
                }
                Err(_) => {
                    self.insert(chunk);
                    self.merge_open().await?;
                }
            }
        }
        Ok(())
    }

    /// Reserves `bytes` to read a chunk. To free memory, it stops reading ahead, and then spills
    /// rows from memory. The inner error is that of the pool, if nothing is left to free.
    async fn read_memory(&mut self, bytes: usize) -> Result<Result<Share>> {
        let mut memory = self.setup.memory();
        while let Err(error) = memory.try_grow(bytes) {
            let closed = self.waiting.iter_mut().rev().find_map(|chunk| chunk.ahead.take()).is_some();
            if !closed && !self.spill_residents(bytes).await? {
                return Ok(Err(error));
            }
        }
        Ok(Ok(memory))
    }

    /// Grows `memory`, with which `chunk` will be read, by the memory for reading ahead. Does
    /// nothing and returns false unless there is also enough for all chunks that may have to be
    /// opened at the same time.
    fn extend_for_read_ahead(&self, chunk: &Chunk, memory: &mut Share) -> bool {
        let others: usize = self.waiting.iter().take(self.setup.fan_in).map(Chunk::read_bytes).sum();
        let granted = memory.try_grow(chunk.read_ahead_bytes() + others).is_ok();
        if granted {
            memory.shrink(others);
        }
        granted
    }

    /// Begins to read the chunks that will be opened next, if there is memory, and unless the
    /// sources that are already open have enough rows for the rest of the output.
    fn read_ahead(&mut self) -> Result<()> {
        let rows: usize = self.residents.iter().chain(&self.open).map(|source| source.lock().rows()).sum();
        if rows >= self.left {
            return Ok(());
        }
        for next in 0..self.waiting.len().min(READ_AHEAD_CHUNKS) {
            let chunk = &self.waiting[next];
            let mut memory = self.setup.memory();
            if chunk.ahead.is_some() || memory.try_grow(chunk.read_bytes()).is_err() {
                continue;
            }
            if self.extend_for_read_ahead(chunk, &mut memory) {
                self.waiting[next].ahead = Some(chunk.open(&self.setup, memory)?);
            }
        }
        Ok(())
    }

    /// Spills the highest range of the rows in memory, so that all waiting chunks can be read with
    /// `bytes` each. Returns false if there are no rows in memory.
    async fn spill_residents(&mut self, bytes: usize) -> Result<bool> {
        let sources = std::mem::take(&mut self.residents);
        let mut runs: Vec<Run> = sources
            .into_iter()
            .filter_map(Arc::into_inner)
            .filter_map(|source| source.into_inner().into_run())
            .collect();
        if runs.is_empty() {
            return Ok(false);
        }
        let total: usize = runs.iter().map(Run::bytes).sum();
        let needed = bytes.saturating_mul(self.waiting.len().clamp(1, self.setup.fan_in));
        let target = needed.max(MIN_CHUNK_BYTES.min(total - total / 4));
        let highest = split_highest(&mut runs, target, &self.setup)?;
        self.residents = runs.into_iter().map(shared).collect();
        if let Some(chunk) = spill_runs(&self.setup, highest, self.spilled_rows).await? {
            self.insert(chunk);
        }
        Ok(true)
    }

    /// Merges the smaller half of the open chunks, at least two of them, into one chunk that waits.
    async fn merge_open(&mut self) -> Result<()> {
        self.open.sort_by_key(|source| source.lock().rows());
        let count = (self.open.len() / 2).max(2).min(self.open.len());
        let smaller: Vec<_> = self.open.drain(..count).collect();
        if let Some(chunk) = spill_sources(&self.setup, &smaller, self.spilled_rows).await? {
            self.insert(chunk);
        }
        Ok(())
    }

    /// Merges chunks until the number of chunks that overlap at any key is small enough to read at
    /// once.
    async fn limit_fan_in(&mut self) -> Result<()> {
        loop {
            let largest = self.waiting.iter().map(Chunk::read_bytes).max().unwrap_or(0);
            let fan_in = (self.setup.sizes.limit / 2 / largest.max(1)).clamp(2, self.setup.fan_in);
            let mut deepest = self.deepest();
            if deepest.len() <= fan_in {
                return Ok(());
            }
            deepest.sort_by_key(|chunk| self.waiting[*chunk].rows);
            deepest.truncate((deepest.len() - fan_in + 1).min(fan_in));
            // Removed from the last to the first, so that the remaining positions stay valid.
            deepest.sort_unstable_by(|a, b| b.cmp(a));
            let chunks: Vec<_> = deepest.into_iter().filter_map(|chunk| self.waiting.remove(chunk)).collect();
            let mut sources = Vec::with_capacity(chunks.len());
            for chunk in chunks {
                match self.read_memory(chunk.read_bytes()).await? {
                    Ok(memory) => sources.push(Arc::new(Mutex::new(chunk.open(&self.setup, memory)?))),
                    Err(_) if sources.len() >= 2 => self.insert(chunk),
                    Err(error) => {
                        return Err(self.setup.exhausted(&error, chunk.read_bytes(), "to merge two spilled chunks"));
                    }
                }
            }
            let merged = spill_sources(&self.setup, &sources, self.spilled_rows).await?;
            drop(sources);
            merged.into_iter().for_each(|chunk| self.insert(chunk));
        }
    }

    /// Returns the positions of the largest set of waiting chunks that have to be open at the same
    /// time.
    fn deepest(&self) -> Vec<usize> {
        let mut deepest = Vec::new();
        for (last, chunk) in self.waiting.iter().enumerate() {
            let open = (0..last).filter(|other| self.waiting[*other].max > chunk.min).chain([last]);
            let open: Vec<_> = open.collect();
            if open.len() > deepest.len() {
                deepest = open;
            }
        }
        deepest
    }
}

/// Wraps `run` as a source that several merges read.
fn shared(run: Run) -> SharedSource {
    Arc::new(Mutex::new(Source::from_run(run)))
}

//! The output: what is in memory and what was spilled, merged range by range.

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

/// Chunks that are opened before they are needed, if there is memory.
const READ_AHEAD_CHUNKS: usize = 2;

/// A sort of one partition after its input has ended.
pub(super) struct Restore {
    setup: Arc<Setup>,
    /// Runs in memory.
    residents: Vec<SharedSource>,
    /// Chunks that are being read.
    open: Vec<SharedSource>,
    /// Chunks that are not yet needed, by their first key.
    waiting: VecDeque<Chunk>,
    /// Of the batches of the output, and of spilled ones.
    output_rows: usize,
    spilled_rows: usize,
    /// Rows that the output may still have.
    left: usize,
    /// For the batches that a merge puts out.
    _output_memory: Share,
}

impl Restore {
    /// The output of `runs` and `chunks` in batches of `output_rows` rows, with memory for them.
    /// What must be spilled again has batches of `spilled_rows` rows.
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
    /// Up to the first key of the next chunk, all rows are in memory or in chunks that are open:
    /// they are merged and emitted, then that chunk is opened.
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

    /// Puts `chunk` among the waiting ones.
    fn insert(&mut self, chunk: Chunk) {
        let place = self.waiting.partition_point(|other| other.min <= chunk.min);
        self.waiting.insert(place, chunk);
    }

    /// Opens the next chunk. That is right at any time, and necessary when all rows up to its first
    /// key have been emitted.
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

    /// Memory of `bytes` to read a chunk. What is read ahead, and then what is in memory, makes room
    /// for it. The inner error is the pool's when nothing is left that could.
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

    /// Grows `memory`, with which `chunk` will be read, by what reading ahead needs, if there is
    /// enough for all chunks that may have to be opened beside it.
    fn extend_for_read_ahead(&self, chunk: &Chunk, memory: &mut Share) -> bool {
        let others: usize = self.waiting.iter().take(self.setup.fan_in).map(Chunk::read_bytes).sum();
        let granted = memory.try_grow(chunk.read_ahead_bytes() + others).is_ok();
        if granted {
            memory.shrink(others);
        }
        granted
    }

    /// Begins to read the chunks that will be opened next, if there is memory, and if the rows that
    /// can be read now may not be enough.
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

    /// Spills the highest range of what is in memory, so that there is room for reading all waiting
    /// chunks with `bytes` each. False if nothing is in memory.
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

    /// Merges the smaller half of the open chunks, at least two, to one that waits.
    async fn merge_open(&mut self) -> Result<()> {
        self.open.sort_by_key(|source| source.lock().rows());
        let count = (self.open.len() / 2).max(2).min(self.open.len());
        let smaller: Vec<_> = self.open.drain(..count).collect();
        if let Some(chunk) = spill_sources(&self.setup, &smaller, self.spilled_rows).await? {
            self.insert(chunk);
        }
        Ok(())
    }

    /// Merges chunks until no key is in more of them than can be read at once.
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
            // From the last to the first, so that positions stay those of the same chunks.
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

    /// The positions of the waiting chunks that must be open at once where these are the most.
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

/// The rows of `run`, for several merges.
fn shared(run: Run) -> SharedSource {
    Arc::new(Mutex::new(Source::from_run(run)))
}

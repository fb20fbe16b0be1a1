//! Spilled files of sorted rows, and the intervals of their keys.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion_common::Result;
use datafusion_execution::{SendableRecordBatchStream, SpillFile};
use futures::TryStreamExt;
use parking_lot::Mutex;

use super::keys::Key;
use super::memory::slice_bytes;
use super::merge::{SharedSource, Source, merge};
use super::ranges::Mark;
use super::run::Run;
use super::setup::Setup;
use super::share::Share;

/// The maximum number of bytes of a stored key; a longer key is truncated.
const MAX_KEY_BYTES: usize = 256;
/// The maximum number of marks of a chunk.
const MAX_MARKS: usize = 32;
/// The maximum memory to read a chunk, as a multiple of its largest batch: the encoded batch, the
/// decoded one, the batch before it until its rows are emitted, and their encoded keys.
const READ_FACTOR: usize = 4;
/// The additional memory to read ahead: two decoded batches and the one being decoded.
const READ_AHEAD_FACTOR: usize = 3;

/// A spilled file of sorted rows. It is deleted when the chunk is dropped or was read.
pub(super) struct Chunk {
    file: Arc<dyn SpillFile>,
    /// A lower bound of the keys: the first key, possibly truncated.
    pub(super) min: Key,
    /// The last key, possibly truncated.
    pub(super) max: Key,
    pub(super) rows: usize,
    /// The size of the largest batch in memory, in bytes.
    batch_bytes: usize,
    /// The numbers of rows up to some keys. Collected only if the output has a limit.
    pub(super) marks: Vec<Mark>,
    /// A reader that has begun to read before the chunk is needed.
    pub(super) ahead: Option<Source>,
}

impl Chunk {
    /// Returns the memory to read the chunk, in bytes.
    pub(super) fn read_bytes(&self) -> usize {
        READ_FACTOR * self.batch_bytes
    }

    /// Returns the memory to read ahead, in addition to [`Self::read_bytes`].
    pub(super) fn read_ahead_bytes(&self) -> usize {
        READ_AHEAD_FACTOR * self.batch_bytes
    }

    /// Opens the chunk, with `memory` for reading. Reads ahead if `memory` suffices for that.
    pub(super) fn open(&self, setup: &Setup, memory: Share) -> Result<Source> {
        let file = Arc::clone(&self.file);
        let stream = match memory.size() >= self.read_bytes() + self.read_ahead_bytes() {
            true => setup.spill.read_spill_as_stream(file, Some(self.batch_bytes))?,
            false => setup.spill.read_spill_as_stream_unbuffered(file, Some(self.batch_bytes))?,
        };
        Ok(Source::from_file(stream, self.rows, memory))
    }
}

/// Merges `runs` into one chunk with batches of about `batch_rows` rows. Returns `None` if there
/// are no rows.
pub(super) async fn spill_runs(setup: &Arc<Setup>, runs: Vec<Run>, batch_rows: usize) -> Result<Option<Chunk>> {
    let sources: Vec<_> = runs.into_iter().map(|run| Arc::new(Mutex::new(Source::from_run(run)))).collect();
    spill_sources(setup, &sources, batch_rows).await
}

/// Merges the remaining rows of `sources` into one chunk with batches of about `batch_rows` rows.
/// Returns `None` if there are no rows.
pub(super) async fn spill_sources(
    setup: &Arc<Setup>,
    sources: &[SharedSource],
    batch_rows: usize,
) -> Result<Option<Chunk>> {
    match sources.is_empty() {
        true => Ok(None),
        false => write(setup, merge(setup, sources.iter(), None, batch_rows)?).await,
    }
}

/// Writes the sorted rows of `stream` to a file. Returns `None` if there are no rows.
async fn write(setup: &Setup, mut stream: SendableRecordBatchStream) -> Result<Option<Chunk>> {
    let mut file = setup.spill.create_in_progress_file("RangeSortExec")?;
    let mut ends: Option<(Key, Key)> = None;
    let (mut rows, mut batch_bytes) = (0, 0);
    let mut marks = Marks::default();
    while let Some(batch) = stream.try_next().await? {
        if batch.num_rows() == 0 {
            continue;
        }
        let max = setup.keys.key(&batch, batch.num_rows() - 1)?;
        let min = match ends.take() {
            Some((min, _)) => min,
            None => short(setup.keys.key(&batch, 0)?),
        };
        if setup.fetch.is_some() {
            marks.add(&max, batch.num_rows());
        }
        ends = Some((min, short(max)));
        rows += batch.num_rows();
        for part in parts(batch, setup.sizes.batch)? {
            batch_bytes = file.append_batch(&part)?.max(batch_bytes);
        }
        // Yields explicitly, since neither merging nor writing waits for anything.
        tokio::task::yield_now().await;
    }
    let (Some(file), Some((min, max))) = (file.finish()?, ends) else {
        return Ok(None);
    };
    Ok(Some(Chunk { file, min, max, rows, batch_bytes, marks: marks.marks, ahead: None }))
}

/// Splits `batch` into parts of about `target` bytes if it is more than twice as large.
fn parts(batch: RecordBatch, target: usize) -> Result<impl Iterator<Item = RecordBatch>> {
    let bytes = slice_bytes(&batch)?;
    let count = if bytes > 2 * target { bytes.div_ceil(target.max(1)) } else { 1 };
    let rows = batch.num_rows().div_ceil(count).max(1);
    let firsts = (0..batch.num_rows()).step_by(rows);
    Ok(firsts.map(move |first| batch.slice(first, rows.min(batch.num_rows() - first))))
}

/// Truncates `key` to its first bytes, which are a lower bound of it.
fn short(key: Key) -> Key {
    match key.len() > MAX_KEY_BYTES {
        true => key[..MAX_KEY_BYTES].into(),
        false => key,
    }
}

/// Collects marks for rows that arrive in order, at most [`MAX_MARKS`].
#[derive(Default)]
struct Marks {
    marks: Vec<Mark>,
    /// The number of rows after the last mark.
    rest: usize,
    /// The minimum number of rows between marks.
    stride: usize,
}

impl Marks {
    /// Counts `rows` rows with keys up to and including `key`. If `key` is too long to be stored,
    /// they are counted with a later key.
    fn add(&mut self, key: &Key, rows: usize) {
        self.rest += rows;
        if self.rest < self.stride || key.len() > MAX_KEY_BYTES {
            return;
        }
        self.marks.push(Mark { key: key.clone(), rows: std::mem::take(&mut self.rest) });
        if self.marks.len() > MAX_MARKS {
            let halves = self.marks.chunks(2).map(|pair| Mark {
                key: pair[pair.len() - 1].key.clone(),
                rows: pair.iter().map(|mark| mark.rows).sum(),
            });
            self.marks = halves.collect();
            self.stride = self.marks[0].rows;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_count_every_row_once_and_stay_few() {
        let mut marks = Marks::default();
        for key in 0..10_000_u32 {
            let bytes: Key = match key % 7 {
                0 => vec![0; MAX_KEY_BYTES + 1].into(),
                _ => Box::new(key.to_be_bytes()),
            };
            marks.add(&bytes, 3);
        }
        let counted: usize = marks.marks.iter().map(|mark| mark.rows).sum();
        assert_eq!(counted + marks.rest, 30_000);
        assert!(marks.marks.len() <= MAX_MARKS && marks.marks.len() > MAX_MARKS / 4, "{}", marks.marks.len());
        // The rows counted up to a mark are those that arrived with keys up to that of the mark.
        let mut rows = 0;
        for mark in &marks.marks {
            rows += mark.rows;
            let key = u32::from_be_bytes(mark.key[..].try_into().unwrap()) as usize;
            assert_eq!(rows, 3 * (key + 1));
        }
    }
}

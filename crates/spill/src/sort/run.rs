//! Sorted rows in memory.

use std::collections::VecDeque;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{SortColumn, concat_batches, lexsort_to_indices};
use arrow::datatypes::DataType;
use arrow::row::Rows;
use datafusion_common::Result;
use datafusion_common::utils::memory::get_record_batch_memory_size;
use datafusion_physical_expr::expressions::Column;

use super::keys::{Key, partition_point};
use super::memory::{row_count, rows_within, take};
use super::setup::Setup;
use super::share::Share;

/// Bytes that are charged for a run in addition to its rows, for its cursor in a merge.
const RUN_OVERHEAD_BYTES: usize = 512;
/// The maximum memory to sort batches, as a multiple of their size: the rows that arrived, the same
/// rows in one batch, their encoded keys and positions, and the sorted copy.
pub(super) const SORT_FACTOR: usize = 4;

/// A part of a run, in separate buffers.
pub(super) struct Piece {
    pub(super) batch: RecordBatch,
    /// The key of the last row.
    pub(super) last: Key,
    /// The memory of `batch` and `last`.
    pub(super) memory: Share,
}

impl Piece {
    /// Creates a piece of the sorted rows `batch`. Its memory is split off from `memory`.
    fn new(batch: RecordBatch, last: Key, memory: &mut Share) -> Self {
        let bytes = get_record_batch_memory_size(&batch) + last.len();
        // Due to the rounding of buffers, the parts of a batch can be a few bytes larger than the
        // batch.
        let memory = memory.split(bytes);
        Self { batch, last, memory }
    }

    /// Splits the piece after `rows` rows, into two pieces with separate buffers.
    fn split(mut self, rows: usize, setup: &Setup) -> Result<(Self, Self)> {
        let count = row_count(&self.batch)?;
        let middle = u32::try_from(rows).unwrap_or(count).min(count);
        let low = take(&self.batch, &UInt32Array::from_iter_values(0..middle))?;
        let high = take(&self.batch, &UInt32Array::from_iter_values(middle..count))?;
        let key = setup.keys.key(&low, low.num_rows() - 1)?;
        let low = Self::new(low, key, &mut self.memory);
        Ok((low, Self { batch: high, last: self.last, memory: self.memory }))
    }
}

/// Sorted rows in pieces.
pub(super) struct Run {
    pub(super) pieces: VecDeque<Piece>,
    /// Memory that a merge needs to read the run, in addition to its pieces.
    pub(super) cursor: Share,
}

impl Run {
    /// Returns the number of bytes reserved for this run.
    pub(super) fn bytes(&self) -> usize {
        self.cursor.size() + self.pieces.iter().map(|piece| piece.memory.size()).sum::<usize>()
    }

    /// Returns the number of rows.
    pub(super) fn rows(&self) -> usize {
        self.pieces.iter().map(|piece| piece.batch.num_rows()).sum()
    }

    /// Returns the number of rows with keys up to and including `bound`.
    pub(super) fn rows_up_to(&self, bound: &[u8], setup: &Setup) -> Result<usize> {
        let whole = self.pieces.partition_point(|piece| *piece.last <= *bound);
        let rows = self.pieces.range(..whole).map(|piece| piece.batch.num_rows()).sum::<usize>();
        match self.pieces.get(whole) {
            Some(piece) => Ok(rows + setup.keys.count_up_to(&piece.batch, bound)?),
            None => Ok(rows),
        }
    }

    /// Removes the rows with keys above `bound` from this run, and returns them; `None` if there
    /// are none.
    pub(super) fn split_above(&mut self, bound: &[u8], setup: &Setup) -> Result<Option<Self>> {
        let whole = self.pieces.partition_point(|piece| *piece.last <= *bound);
        let mut high = self.pieces.split_off(whole);
        if let Some(piece) = high.pop_front() {
            let rows = setup.keys.count_up_to(&piece.batch, bound)?;
            if rows == 0 {
                high.push_front(piece);
            } else {
                let (low, above) = piece.split(rows, setup)?;
                self.pieces.push_back(low);
                high.push_front(above);
            }
        }
        Ok(self.with_cursor(high))
    }

    /// Removes the last piece if its last key is `key`, and returns it as a run.
    pub(super) fn split_last(&mut self, key: &[u8]) -> Option<Self> {
        if self.pieces.back().is_none_or(|piece| *piece.last != *key) {
            return None;
        }
        let last = self.pieces.pop_back().into_iter().collect();
        self.with_cursor(last)
    }

    /// Creates a run from `pieces`, which were removed from this run. It gets this run's cursor
    /// memory if this run is empty now, and otherwise none, since the two are not read at the same
    /// time.
    fn with_cursor(&mut self, pieces: VecDeque<Piece>) -> Option<Self> {
        if pieces.is_empty() {
            return None;
        }
        let cursor = match self.pieces.is_empty() {
            true => self.cursor.take(),
            false => self.cursor.new_empty(),
        };
        Some(Self { pieces, cursor })
    }
}

/// Sorts `batches` into a run. Its memory is split off from `memory`, which must have
/// [`SORT_FACTOR`] times the bytes of `batches`.
///
/// Rows with keys above `cutoff`, and rows that cannot be among the first `setup.fetch`, are
/// dropped. Returns `None` if no row is left.
pub(super) fn sort_run(
    setup: &Setup,
    mut batches: Vec<RecordBatch>,
    memory: &mut Share,
    cutoff: Option<&Key>,
) -> Result<Option<Run>> {
    let batch = match batches.len() {
        1 => batches.swap_remove(0),
        _ => concat_batches(&setup.schema, &batches)?,
    };
    drop(batches);
    let (positions, cursor_row) = match single_column(setup, &batch)? {
        Some(column) => {
            // A merge refers to a column without a copy, but has to evaluate any other expression.
            let row = match setup.ordering.first().expr.is::<Column>() {
                true => 0,
                false => column.values.get_array_memory_size() / batch.num_rows().max(1) + 1,
            };
            (lexsort_to_indices(&[column], setup.fetch)?, row)
        }
        None => {
            let rows = setup.keys.rows(&batch)?;
            let row = rows.size() / batch.num_rows().max(1) + 1;
            (sorted_positions(&rows, row_count(&batch)?, setup.fetch), row)
        }
    };
    let rows = match cutoff {
        None => positions.len(),
        Some(cutoff) => partition_point(positions.len(), |row| {
            Ok(setup.keys.key(&batch, positions.value(row) as usize)? <= *cutoff)
        })?,
    };
    let piece_rows = match setup.has_dictionary {
        true => rows,
        false => {
            rows_within(setup.sizes.piece, batch.num_rows(), get_record_batch_memory_size(&batch), setup.batch_rows)
        }
    };
    let mut pieces = VecDeque::with_capacity(rows.div_ceil(piece_rows.max(1)));
    for first in (0..rows).step_by(piece_rows.max(1)) {
        let piece = take(&batch, &positions.slice(first, piece_rows.min(rows - first)))?;
        let last = setup.keys.key(&piece, piece.num_rows() - 1)?;
        pieces.push_back(Piece::new(piece, last, memory));
    }
    // A merge encodes the keys of a piece while it still holds those of the piece before.
    let cursor = RUN_OVERHEAD_BYTES + 2 * cursor_row * piece_rows;
    let cursor = memory.split(cursor);
    Ok((!pieces.is_empty()).then_some(Run { pieces, cursor }))
}

/// Returns the only sort key, if its column can be sorted by Arrow and merged by DataFusion without
/// encoding; otherwise `None`.
fn single_column(setup: &Setup, batch: &RecordBatch) -> Result<Option<SortColumn>> {
    if setup.ordering.len() > 1 {
        return Ok(None);
    }
    let column = setup.ordering.first().evaluate_to_sort_column(batch)?;
    let plain = match column.values.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Binary | DataType::LargeBinary => true,
        data_type => data_type.is_primitive(),
    };
    Ok(plain.then_some(column))
}

/// Returns the positions of the first `fetch` of `count` encoded keys, in the order of the keys.
fn sorted_positions(rows: &Rows, count: u32, fetch: Option<usize>) -> UInt32Array {
    // The first bytes decide most comparisons without an additional memory access.
    let mut order: Vec<(u64, u32)> = (0..count)
        .map(|position| {
            let key = rows.row(position as usize).data();
            let mut first = [0; 8];
            let length = key.len().min(8);
            first[..length].copy_from_slice(&key[..length]);
            (u64::from_be_bytes(first), position)
        })
        .collect();
    let key = |position: u32| rows.row(position as usize);
    order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a.1).cmp(&key(b.1))));
    let most = fetch.unwrap_or(usize::MAX);
    order.into_iter().take(most).map(|(_, position)| position).collect::<Vec<_>>().into()
}

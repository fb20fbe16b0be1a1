//! Sizes of batches in memory, and the target sizes of a sort.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::take_arrays;
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType};
use datafusion_common::utils::memory::get_record_batch_memory_size;
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::memory_pool::{MemoryLimit, MemoryPool};

use crate::views::with_own_views;

/// The minimum and maximum size of a sorted run, in bytes. The maximum fits into a core's cache.
const MIN_RUN_BYTES: usize = 4 << 10;
const MAX_RUN_BYTES: usize = 1 << 20;
/// The minimum size of a piece of a run with several pieces, in bytes. Smaller pieces would waste a
/// larger part of their buffers.
const MIN_PIECE_BYTES: usize = 4 << 10;
/// The number of pieces of a run of full size.
const PIECES_PER_RUN: usize = 32;
/// The minimum and maximum size of a spilled batch, in bytes.
const MIN_BATCH_BYTES: usize = 1 << 10;
const MAX_BATCH_BYTES: usize = 1 << 20;
/// The minimum size of a chunk, in bytes, if there is enough memory. It is about the size of a part
/// in an object store.
pub(super) const MIN_CHUNK_BYTES: usize = 8 << 20;

/// Target sizes, in bytes, derived from the memory that one partition can expect.
///
/// They affect only the performance of the sort, not its result: a pool may grant less memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// The size of pending input at which it is sorted into a run.
    pub(super) run: usize,
    /// The size of the pieces into which a run is cut.
    pub(super) piece: usize,
    /// The size of a batch in a spilled file.
    pub(super) batch: usize,
    /// The size of a batch of the output.
    pub(super) output: usize,
    /// The memory that the partition can expect.
    pub(super) limit: usize,
}

impl Sizes {
    /// Returns the target sizes for each of `partitions` that share `pool`.
    pub(super) fn new(pool: &Arc<dyn MemoryPool>, partitions: usize) -> Self {
        let limit = match pool.memory_limit() {
            MemoryLimit::Finite(limit) => limit / partitions.max(1),
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        let run = (limit / 64).clamp(MIN_RUN_BYTES, MAX_RUN_BYTES);
        Self {
            run,
            piece: (run / PIECES_PER_RUN).max(MIN_PIECE_BYTES.min(run / 2)),
            batch: (limit / 128).clamp(MIN_BATCH_BYTES, MAX_BATCH_BYTES),
            output: (limit / 32).max(MIN_BATCH_BYTES),
            limit,
        }
    }

    /// Returns how many of the `buffered` bytes to spill, after `chunks` chunks have been spilled.
    ///
    /// It is half of them at first, so that little is spilled. It is more after several chunks:
    /// what could stay in memory is then a small part of the input, and fewer, larger chunks cost
    /// less to merge. It is also more if half of them would be smaller than the minimum size of a
    /// chunk.
    pub(super) fn spill_target(buffered: usize, chunks: usize) -> usize {
        let keep = match chunks {
            0..=2 => buffered / 2,
            3..=8 => buffered / 4,
            _ => buffered / 8,
        };
        (buffered - keep).max(MIN_CHUNK_BYTES.min(buffered - buffered / 4))
    }
}

/// Returns the number of rows, from 1 to `most`, in a batch of about `bytes`, if `rows` rows have
/// `total` bytes.
pub(super) fn rows_within(bytes: usize, rows: usize, total: usize, most: usize) -> usize {
    let row = (total / rows.max(1)).max(1);
    (bytes / row).clamp(1, most.max(1))
}

/// Returns the size in bytes that `batch` would have in separate buffers, without the rows around a
/// slice.
pub(super) fn slice_bytes(batch: &RecordBatch) -> Result<usize> {
    batch.columns().iter().map(array_bytes).sum()
}

/// Returns the size in bytes that `array` would have in separate buffers. Dictionaries are counted
/// fully.
fn array_bytes(array: &ArrayRef) -> Result<usize> {
    fn long_views<T: ByteViewType>(array: &ArrayRef) -> usize {
        let lengths = array.as_byte_view::<T>().views().iter().map(|view| *view as u32 as usize);
        lengths.filter(|length| *length > 12).sum()
    }
    fn list<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, values: &ArrayRef) -> Result<usize> {
        let (first, last) = (offsets[0].as_usize(), offsets[offsets.len() - 1].as_usize());
        Ok(size_of_val(&offsets[..]) + array_bytes(&values.slice(first, last - first))?)
    }
    let nulls = array.nulls().map_or(0, |nulls| nulls.len().div_ceil(8));
    Ok(match array.data_type() {
        DataType::Utf8View => nulls + array.len() * 16 + long_views::<StringViewType>(array),
        DataType::BinaryView => nulls + array.len() * 16 + long_views::<BinaryViewType>(array),
        DataType::List(_) => nulls + list(array.as_list::<i32>().offsets(), array.as_list::<i32>().values())?,
        DataType::LargeList(_) => nulls + list(array.as_list::<i64>().offsets(), array.as_list::<i64>().values())?,
        DataType::Map(_, _) => {
            let entries: ArrayRef = Arc::new(array.as_map().entries().clone());
            nulls + list(array.as_map().offsets(), &entries)?
        }
        DataType::Struct(_) => nulls + array.as_struct().columns().iter().map(array_bytes).sum::<Result<usize>>()?,
        _ => array.to_data().get_slice_memory_size()?,
    })
}

/// Copies `batch` if its buffers are much larger than its rows, as those of a slice are.
pub(super) fn compact(batch: RecordBatch) -> Result<RecordBatch> {
    if get_record_batch_memory_size(&batch) <= 2 * slice_bytes(&batch)? + MIN_BATCH_BYTES {
        return Ok(batch);
    }
    take(&batch, &UInt32Array::from_iter_values(0..row_count(&batch)?))
}

/// Returns the number of rows of `batch` in the integer type of row indices.
pub(super) fn row_count(batch: &RecordBatch) -> Result<u32> {
    u32::try_from(batch.num_rows()).map_err(|_| {
        DataFusionError::Execution(format!(
            "RangeSortExec: a batch of {} rows is too large, the most is {}; set datafusion.execution.batch_size lower",
            batch.num_rows(),
            u32::MAX
        ))
    })
}

/// Returns the rows of `batch` at `positions`, in separate buffers.
pub(super) fn take(batch: &RecordBatch, positions: &UInt32Array) -> Result<RecordBatch> {
    let mut columns = take_arrays(batch.columns(), positions, None)?;
    for column in &mut columns {
        if let Some(own) = with_own_views(column)? {
            *column = own;
        }
        // Taking rows of lists allocates memory for the elements of all rows.
        if column.data_type().is_nested() {
            column.shrink_to_fit();
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(positions.len()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}

/// Returns whether `data_type` contains a dictionary, which all slices of an array share.
pub(super) fn has_dictionary(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, _) => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_dictionary(field.data_type()),
        DataType::RunEndEncoded(_, field) => has_dictionary(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_dictionary(field.data_type())),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| has_dictionary(field.data_type())),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::super::tests::tables::{SHAPES, batch};
    use super::*;

    #[test]
    fn a_compact_slice_has_only_its_own_rows() {
        let whole = batch(SHAPES[0], 10_000, 10, &mut rand::rngs::StdRng::seed_from_u64(1));
        for (first, rows) in [(0, 1), (9_999, 1), (5_000, 100)] {
            let slice = compact(whole.slice(first, rows)).unwrap();
            assert_eq!(slice, whole.slice(first, rows));
            for (field, column) in slice.schema().fields().iter().zip(slice.columns()) {
                let bytes = column.get_buffer_memory_size();
                assert!(bytes < 64 * rows + 4096, "{rows} rows of {}: {bytes} bytes", field.name());
            }
        }
    }
}

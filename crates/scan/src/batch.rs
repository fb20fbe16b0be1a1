//! Creating and measuring batches, and compacting string views.
//!
//! A string view keeps alive the buffer into which it points, so a few rows selected from many
//! could hold the memory of all of them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericByteViewArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{ByteViewType, DataType, SchemaRef};
use pushdowndb_contract::Result;

use crate::error::from_arrow;

/// Copies text out of buffers of which less than half is used. The rows stay the same.
pub fn compact(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(compact_array);
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns.collect(), &options).map_err(from_arrow)
}

/// Copies text out of buffers of which less than half is used. The values stay the same.
pub(crate) fn compact_array(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => compact_views(column.as_string_view(), column),
        DataType::BinaryView => compact_views(column.as_binary_view(), column),
        _ => Arc::clone(column),
    }
}

fn compact_views<T: ByteViewType + ?Sized>(views: &GenericByteViewArray<T>, same: &ArrayRef) -> ArrayRef {
    let held: usize = views.data_buffers().iter().map(|buffer| buffer.len()).sum();
    if held / 2 > views.total_buffer_bytes_used() { Arc::new(views.gc()) } else { Arc::clone(same) }
}

/// Creates a batch with an explicit number of rows, since it may have no columns.
pub(crate) fn record_batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(from_arrow)
}

/// Returns the bytes of an array's own rows, without other parts of shared buffers.
pub fn slice_bytes(array: &ArrayRef) -> usize {
    array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size())
}

#[cfg(test)]
mod tests {
    use arrow::array::{StringViewArray, UInt32Array};
    use arrow::compute::take_record_batch;

    use super::*;

    #[test]
    fn a_few_rows_weigh_little() {
        let texts =
            StringViewArray::from_iter_values((0..10_000).map(|i| format!("a text of some length, number {i}")));
        let all = RecordBatch::try_from_iter([("t", Arc::new(texts) as ArrayRef)]).unwrap();
        let few = take_record_batch(&all, &UInt32Array::from(vec![3, 9_999])).unwrap();
        let light = compact(&few).unwrap();
        assert_eq!(few, light);
        assert!(few.get_array_memory_size() > 100_000 && light.get_array_memory_size() < 1_000);
        assert_eq!(compact(&all).unwrap().get_array_memory_size(), all.get_array_memory_size());
    }
}

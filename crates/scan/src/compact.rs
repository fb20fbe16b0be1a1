//! Text views keep the whole buffers alive that they point into: a few rows picked from many would weigh as much as
//! all.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericByteViewArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{ByteViewType, DataType};
use pushdown::Result;

use crate::errors::from_arrow;

/// The same rows, with texts copied out of buffers of which they use less than half.
pub fn compact(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(compact_array);
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns.collect(), &options).map_err(from_arrow)
}

/// The same values, with texts copied out of buffers of which they use less than half.
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

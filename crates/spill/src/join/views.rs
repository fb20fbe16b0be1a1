//! View columns (`Utf8View`, `BinaryView`) of a build side, with few buffers.
//!
//! A `HashJoinExec` concatenates the batches of its build side, whose view columns then list the
//! buffers of all batches. Each batch of its output lists them again, and a build side made of such
//! output the product of both: megabytes for each batch, which no reservation counts.

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::concat_batches;
use arrow::datatypes::DataType;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion_common::Result;

use crate::views::with_own_views;

/// Maximum number of buffers that the view columns of a build side list before they are copied.
const MAX_BUFFERS: usize = 256;

/// Number of batches that a build side is merged into.
const MERGED_BATCHES: usize = 32;

/// Merges `batches`, which have `rows` rows, so that their view columns have few buffers. Returns
/// `None` if they have few already.
pub(super) fn merged(batches: &[RecordBatch], rows: usize) -> Result<Option<Vec<RecordBatch>>> {
    let Some(first) = batches.first() else { return Ok(None) };
    if batches.iter().map(buffers).sum::<usize>() <= MAX_BUFFERS {
        return Ok(None);
    }
    let (schema, most) = (first.schema(), rows.div_ceil(MERGED_BATCHES));
    let (mut merged, mut from, mut collected) = (Vec::with_capacity(MERGED_BATCHES + 1), 0, 0);
    for (at, batch) in batches.iter().enumerate() {
        collected += batch.num_rows();
        if collected >= most || at + 1 == batches.len() {
            let group = batches.get(from..=at).unwrap_or_default();
            merged.push(compacted(&concat_batches(&schema, group)?)?);
            (from, collected) = (at + 1, 0);
        }
    }
    Ok(Some(merged))
}

/// Returns the number of buffers that the view columns of `batch` list.
fn buffers(batch: &RecordBatch) -> usize {
    let of = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8View => column.as_string_view().data_buffers().len(),
        DataType::BinaryView => column.as_binary_view().data_buffers().len(),
        _ => 0,
    };
    batch.columns().iter().map(of).sum()
}

/// Returns `batch` with the values of its view columns copied into buffers of their own.
fn compacted(batch: &RecordBatch) -> Result<RecordBatch> {
    let mut columns = batch.columns().to_vec();
    for column in &mut columns {
        if let Some(own) = with_own_views(column)? {
            *column = own;
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringViewArray};

    use super::*;

    fn batch(number: i64) -> RecordBatch {
        let text = (0..10).map(|row| (row != 3).then(|| format!("a value that is not short, {number} {row}")));
        let names = [("k", Arc::new(Int64Array::from_iter_values(0..10)) as ArrayRef)];
        let views = [("s", Arc::new(text.collect::<StringViewArray>()) as ArrayRef)];
        RecordBatch::try_from_iter(names.into_iter().chain(views)).unwrap()
    }

    #[test]
    fn many_buffers_become_few_and_rows_stay() {
        let batches: Vec<RecordBatch> = (0..1000).map(batch).collect();
        let merged = merged(&batches, 10_000).unwrap().unwrap();
        assert!(merged.len() <= MERGED_BATCHES + 1, "{}", merged.len());
        assert!(merged.iter().map(buffers).sum::<usize>() <= 2 * MERGED_BATCHES);
        let schema = batches[0].schema();
        assert_eq!(concat_batches(&schema, &merged).unwrap(), concat_batches(&schema, &batches).unwrap());
    }

    #[test]
    fn few_buffers_are_left_as_they_are() {
        let batches: Vec<RecordBatch> = (0..100).map(batch).collect();
        assert!(merged(&batches, 1000).unwrap().is_none());
        assert!(merged(&[], 0).unwrap().is_none());
    }
}

//! Sort keys as byte strings whose order is the order of the sort.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::Schema;
use arrow::row::{RowConverter, Rows, SortField};
use datafusion_common::Result;
use datafusion_physical_expr::{LexOrdering, PhysicalExpr};

/// An encoded sort key. Keys are compared bytewise.
pub(super) type Key = Box<[u8]>;

/// An encoder of the sort keys of rows.
pub(super) struct Keys {
    converter: RowConverter,
    columns: Vec<Arc<dyn PhysicalExpr>>,
}

impl Keys {
    /// Creates an encoder for `ordering` over rows of `schema`.
    ///
    /// # Errors
    ///
    /// Returns an error if a sort key has a type that cannot be encoded.
    pub(super) fn try_new(schema: &Schema, ordering: &LexOrdering) -> Result<Self> {
        let fields = ordering
            .iter()
            .map(|key| Ok(SortField::new_with_options(key.expr.data_type(schema)?, key.options)))
            .collect::<Result<Vec<_>>>()?;
        Ok(Self {
            converter: RowConverter::new(fields)?,
            columns: ordering.iter().map(|key| Arc::clone(&key.expr)).collect(),
        })
    }

    /// Returns the encoded keys of all rows of `batch`.
    pub(super) fn rows(&self, batch: &RecordBatch) -> Result<Rows> {
        let columns: Vec<ArrayRef> = self
            .columns
            .iter()
            .map(|column| column.evaluate(batch)?.into_array(batch.num_rows()))
            .collect::<Result<_>>()?;
        Ok(self.converter.convert_columns(&columns)?)
    }

    /// Returns the encoded key of the row at index `row` of `batch`.
    pub(super) fn key(&self, batch: &RecordBatch, row: usize) -> Result<Key> {
        Ok(self.rows(&batch.slice(row, 1))?.row(0).data().into())
    }

    /// Returns how many rows of `batch`, which must be sorted, have keys up to and including
    /// `bound`.
    pub(super) fn count_up_to(&self, batch: &RecordBatch, bound: &[u8]) -> Result<usize> {
        partition_point(batch.num_rows(), |row| Ok(*self.key(batch, row)? <= *bound))
    }
}

/// Returns the first of the positions `0..len` for which `below` is false; `len` if there is none.
/// Expects that `below` is true for all positions before it and false for all after it.
///
/// The last position is tested first, since most batches lie entirely on one side of a bound.
pub(super) fn partition_point(len: usize, mut below: impl FnMut(usize) -> Result<bool>) -> Result<usize> {
    if len == 0 || below(len - 1)? {
        return Ok(len);
    }
    let (mut low, mut high) = (0, len - 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if below(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

//! The bound that scans of the same top-k share.

use parking_lot::Mutex;

use arrow::array::{ArrayRef, UInt32Array, make_comparator};
use arrow::compute::{SortOptions, take};
use arrow::row::OwnedRow;
use pushdowndb_contract::Result;

use crate::error::from_arrow;

/// The first, in sort order, of the k-th rows that scans of the same top-k have found.
#[derive(Debug, Default)]
pub struct Threshold {
    /// The row's encoded sort keys.
    row: Mutex<Option<OwnedRow>>,
    /// The first sort key alone, as an array with one value. It may be found earlier than a row.
    key: Mutex<Option<ArrayRef>>,
}

impl Threshold {
    pub(crate) fn offer(&self, row: &OwnedRow) {
        let mut known = self.row.lock();
        if known.as_ref().is_none_or(|known| row < known) {
            *known = Some(row.clone());
        }
    }

    pub(crate) fn known(&self) -> Option<OwnedRow> {
        self.row.lock().clone()
    }

    /// Offers the first key of a k-th row, which replaces the current one if it sorts before that.
    pub(crate) fn offer_key(&self, key: &ArrayRef, order: SortOptions) -> Result<()> {
        let mut known = self.key.lock();
        let is_before = match known.as_ref().filter(|known| known.data_type() == key.data_type()) {
            Some(known) => make_comparator(key, known, order).map_err(from_arrow)?(0, 0).is_lt(),
            None => known.is_none(),
        };
        if is_before {
            // The array is copied, since it may be a slice of a larger one.
            *known = Some(take(key, &UInt32Array::from(vec![0]), None).map_err(from_arrow)?);
        }
        Ok(())
    }

    pub(crate) fn key(&self) -> Option<ArrayRef> {
        self.key.lock().clone()
    }
}

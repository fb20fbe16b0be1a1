//! Counts of all rows of a table, by ANALYZE TABLE.

use serde::{Deserialize, Serialize};

use super::ColumnFigures;

/// Maximum valid count.
const MAX_COUNT: f64 = 1e18;

/// Counts of a table.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Totals {
    pub(crate) rows: f64,
    /// The bytes of its objects.
    pub(crate) bytes: f64,
    pub(crate) columns: Vec<ColumnTotals>,
}

/// Counts of a column.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct ColumnTotals {
    pub(crate) nulls: f64,
    /// The number of distinct values, by HyperLogLog (Flajolet et al., 2007): within about 2 %.
    pub(crate) distinct: f64,
}

impl Totals {
    /// Sets the bytes of the objects.
    pub(crate) fn of_bytes(&mut self, bytes: u64) {
        self.bytes = bytes as f64;
    }

    /// Returns whether the counts are possible. The file may have been written by something other
    /// than ANALYZE.
    pub(super) fn is_valid(&self) -> bool {
        let counts = self.columns.iter().flat_map(|column| [column.nulls, column.distinct]);
        let mut counts = counts.chain([self.rows, self.bytes]);
        self.bytes > 0.0 && counts.all(|count| (0.0..=MAX_COUNT).contains(&count))
    }

    pub(super) fn row_bytes(&self) -> f64 {
        self.bytes / self.rows.max(1.0)
    }

    pub(super) fn distinct(&self, column: usize) -> Option<f64> {
        let column = self.columns.get(column)?;
        // NULL is a value of its own in GROUP BY.
        Some((column.distinct + f64::from(column.nulls > 0.0)).max(1.0))
    }

    pub(super) fn column(&self, column: usize) -> Option<ColumnFigures> {
        let (distinct, column) = (self.distinct(column)?, self.columns.get(column)?);
        Some(ColumnFigures { null_share: column.nulls / self.rows.max(1.0), distinct })
    }
}

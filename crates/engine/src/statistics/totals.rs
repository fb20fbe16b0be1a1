//! What all rows of a table tell, counted by ANALYZE TABLE.

use serde::{Deserialize, Serialize};

use super::ColumnFigures;

/// No table has more rows, or bytes.
const MOST: f64 = 1e18;

/// Of a table.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Totals {
    pub(super) rows: f64,
    /// Of its objects.
    pub(super) bytes: f64,
    pub(super) columns: Vec<ColumnTotals>,
}

/// Of a column.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct ColumnTotals {
    pub(super) nulls: f64,
    /// The number of values, by HyperLogLog (Flajolet et al., 2007): within about 2 %.
    pub(super) distinct: f64,
}

impl Totals {
    /// Counted in objects of so many bytes.
    pub(crate) fn of_bytes(&mut self, bytes: u64) {
        self.bytes = bytes as f64;
    }

    /// Whether they can be those of a table: whoever can write beside the data can write them.
    pub(super) fn are_sane(&self) -> bool {
        let counts = self.columns.iter().flat_map(|column| [column.nulls, column.distinct]);
        let mut counts = counts.chain([self.rows, self.bytes]);
        self.bytes > 0.0 && counts.all(|count| (0.0..=MOST).contains(&count))
    }

    pub(super) fn row_bytes(&self) -> f64 {
        self.bytes / self.rows.max(1.0)
    }

    pub(super) fn distinct(&self, column: usize) -> Option<f64> {
        let column = self.columns.get(column)?;
        // NULL is a value of its own where rows are grouped.
        Some((column.distinct + f64::from(column.nulls > 0.0)).max(1.0))
    }

    pub(super) fn column(&self, column: usize) -> Option<ColumnFigures> {
        let (distinct, column) = (self.distinct(column)?, self.columns.get(column)?);
        Some(ColumnFigures { null_share: column.nulls / self.rows.max(1.0), distinct })
    }
}

//! Figures of a column for DataFusion's optimizer.

use datafusion::common::ScalarValue;
use datafusion::common::stats::{ColumnStatistics, Precision};

/// Figures of a table's column.
#[derive(Clone, Debug)]
pub(crate) struct ColumnFigures {
    /// The share of rows that are NULL.
    pub(crate) null_share: f64,
    /// The number of distinct values, NULL included.
    pub(crate) distinct: f64,
}

impl ColumnFigures {
    /// Returns DataFusion's statistics for a table of `rows` rows. Bounds are left out, since the
    /// bounds of a sample are not those of the table.
    pub(crate) fn statistics(&self, rows: f64) -> ColumnStatistics {
        ColumnStatistics {
            null_count: Precision::Inexact((self.null_share * rows) as usize),
            distinct_count: Precision::Inexact(self.distinct.min(rows) as usize),
            min_value: Precision::<ScalarValue>::Absent,
            max_value: Precision::<ScalarValue>::Absent,
            ..ColumnStatistics::new_unknown()
        }
    }
}

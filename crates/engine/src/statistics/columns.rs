//! Figures of a column, as DataFusion's optimizer takes them.

use arrow::array::Array;
use datafusion::common::ScalarValue;
use datafusion::common::stats::{ColumnStatistics, Precision};
use pushdown::Expr;

use super::TableSample;

/// What is known of a column among the rows of its table.
#[derive(Clone, Debug)]
pub(crate) struct ColumnFigures {
    /// The share of rows that are NULL.
    pub(crate) null_share: f64,
    /// The number of values, NULL among them.
    pub(crate) distinct: f64,
}

impl ColumnFigures {
    /// Of a column of the sample.
    pub(crate) fn of(sample: &TableSample, column: usize) -> Option<Self> {
        let values = sample.rows.columns().get(column)?;
        let rows = sample.len().max(1) as f64;
        let distinct = sample.distinct(&[Expr::Column(column)], None)?;
        Some(Self { null_share: values.null_count() as f64 / rows, distinct })
    }

    /// For a table of so many rows. Bounds are left out: those of a sample are none of the table's.
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

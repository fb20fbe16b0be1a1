//! Helpers that create in-memory tables from values.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Int32Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::MemTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::collect;

/// The values of a column.
pub(super) enum Values {
    Text(Vec<Option<String>>),
    Int(Vec<Option<i32>>),
    Bool(Vec<Option<bool>>),
    /// Microseconds since 1970.
    Instant(Vec<Option<i64>>),
    /// A column of lists with this number of rows, all NULL.
    NoLists(usize),
}

/// A text column with this number of rows, all NULL.
pub(super) fn nulls(rows: usize) -> Values {
    Values::Text(vec![None; rows])
}

/// A text column with the same value in each of this number of rows.
pub(super) fn same(text: &str, rows: usize) -> Values {
    Values::Text(vec![Some(text.to_owned()); rows])
}

/// Creates a batch from columns with their names.
pub(super) fn batch(columns: Vec<(&str, Values)>) -> Result<RecordBatch> {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns
        .into_iter()
        .map(|(name, values)| {
            let array: ArrayRef = match values {
                Values::Text(values) => Arc::new(StringArray::from(values)),
                Values::Int(values) => Arc::new(Int32Array::from(values)),
                Values::Bool(values) => Arc::new(BooleanArray::from(values)),
                Values::NoLists(rows) => {
                    datafusion::arrow::array::new_null_array(&DataType::new_list(DataType::Utf8, true), rows)
                }
                Values::Instant(values) => Arc::new(TimestampMicrosecondArray::from(values).with_timezone("UTC")),
            };
            (Field::new(name, array.data_type().clone(), true), array)
        })
        .unzip();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

/// Creates a table from columns with their names.
pub(super) fn table(columns: Vec<(&str, Values)>) -> Result<Arc<dyn TableProvider>> {
    let batch = batch(columns)?;
    Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
}

/// Creates a table without rows, whose columns are text.
pub(super) fn empty(columns: &[&str]) -> Result<Arc<dyn TableProvider>> {
    table(columns.iter().map(|name| (*name, nulls(0))).collect())
}

/// The Arrow type of points in time.
pub(super) fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// Reads all rows of a table.
pub(super) async fn rows(table: &Arc<dyn TableProvider>, state: &dyn Session) -> Result<Vec<RecordBatch>> {
    let plan = table.scan(state, None, &[], None).await?;
    collect(plan, state.task_ctx()).await
}

/// Returns the column with this name.
///
/// # Errors
///
/// There is no such column.
pub(super) fn column<'a>(rows: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef> {
    rows.column_by_name(name).ok_or_else(|| DataFusionError::Internal(format!("pg_catalog without {name}")))
}

//! Columns of PARTITIONED BY as they are spelled in paths: NULL by Hive's name, the empty text as
//! nothing.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::datasource::physical_plan::FileSinkConfig;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use pushdowndb_contract::Error;

use crate::catalog::HIVE_NULL;
use crate::error::to_datafusion;

/// Returns the same `rows`, with the columns that `config` writes into paths as text.
pub(super) fn with_null_named(
    rows: SendableRecordBatchStream,
    config: &FileSinkConfig,
) -> DfResult<SendableRecordBatchStream> {
    let names: Vec<String> = config.table_partition_cols.iter().map(|(name, _)| name.clone()).collect();
    if names.is_empty() {
        return Ok(rows);
    }
    let kept = config.keep_partition_by_columns;
    let in_path = |field: &Field| !kept && names.contains(field.name());
    let before = rows.schema();
    let fields = before.fields().iter().map(|field| match in_path(field) {
        true => Arc::new(Field::new(field.name(), DataType::Utf8, false)),
        false => Arc::clone(field),
    });
    let schema = Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), before.metadata().clone()));
    let to = Arc::clone(&schema);
    let rows = rows.map(move |batch| named(batch?, &names, kept, &to));
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
}

fn named(batch: RecordBatch, names: &[String], kept: bool, schema: &SchemaRef) -> DfResult<RecordBatch> {
    let before = batch.schema();
    let columns = before.fields().iter().zip(batch.columns()).map(|(field, values)| {
        match (names.contains(field.name()), kept) {
            (false, _) => Ok(Arc::clone(values)),
            (true, false) => in_path(field.name(), values),
            // In the objects, the column keeps its type, so it cannot hold the text that means NULL
            // in a path.
            (true, true) if values.logical_null_count() > 0 => Err(to_datafusion(Error::unsupported(format!(
                "the column '{}' is NULL in a row: it cannot stand both in the path and in the objects",
                field.name()
            )))),
            (true, true) => Ok(Arc::clone(values)),
        }
    });
    let columns = columns.collect::<DfResult<Vec<_>>>()?;
    RecordBatch::try_new(Arc::clone(schema), columns).map_err(DataFusionError::from)
}

/// Returns the values of the column `name` as they are spelled in paths.
fn in_path(name: &str, values: &ArrayRef) -> DfResult<ArrayRef> {
    let text = cast(values, &DataType::Utf8)?;
    let text = text.as_string::<i32>();
    if text.iter().flatten().any(|value| value == HIVE_NULL) {
        return Err(to_datafusion(Error::unsupported(format!(
            "the column '{name}' holds the text {HIVE_NULL}, which means NULL in a path"
        ))));
    }
    Ok(Arc::new(StringArray::from_iter_values(text.iter().map(|value| value.unwrap_or(HIVE_NULL)))))
}

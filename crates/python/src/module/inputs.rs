//! Conversion of Python objects that export Arrow to tables of SQL.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use pyo3::prelude::*;
use pyo3_arrow::input::AnyRecordBatch;

use super::errors::invalid;
use super::rows::RawTable;

/// Converts `object` to a table. It is a [`RawTable`], or an object with `__arrow_c_stream__` or
/// `__arrow_c_array__`. Its buffers are shared, not copied; a stream is read to its end.
pub fn table(py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<Arc<dyn TableProvider>> {
    if let Ok(ours) = object.cast::<RawTable>() {
        let ours = ours.get();
        return in_memory(ours.schema(), ours.batches().to_vec());
    }
    let reader = object.extract::<AnyRecordBatch>()?.into_reader()?;
    let schema = reader.schema();
    // A Python stream acquires the GIL itself when it needs it.
    let batches = py.detach(|| reader.map(|batch| of_schema(batch?, &schema)).collect::<Result<Vec<_>, ArrowError>>());
    in_memory(&schema, batches.map_err(|error| invalid(format!("reading the table: {error}")))?)
}

/// Returns the batch with the schema of its stream, whose metadata it may lack.
fn of_schema(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    batch.with_schema(Arc::clone(schema))
}

fn in_memory(schema: &SchemaRef, batches: Vec<RecordBatch>) -> PyResult<Arc<dyn TableProvider>> {
    let mut seen = HashSet::new();
    if let Some(twice) = schema.fields().iter().find(|field| !seen.insert(field.name())) {
        return Err(invalid(format!("the table has two columns {}; rename one of them", twice.name())));
    }
    if schema.fields().is_empty() {
        return Err(invalid("the table has no columns"));
    }
    // A single partition keeps the order of the rows.
    let table = MemTable::try_new(Arc::clone(schema), vec![batches]);
    Ok(Arc::new(table.map_err(|error| invalid(error.strip_backtrace()))?))
}

//! `information_schema.columns`, with the types of SQL.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array, new_null_array};
use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::catalog::information_schema::INFORMATION_SCHEMA;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{CatalogProviderList, TableProvider};
use datafusion::common::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use pushdowndb_scan::sql_type;

/// A table of the columns of all tables. Tables that cannot be opened now are left out.
#[derive(Debug)]
pub(super) struct Columns {
    schema: SchemaRef,
    catalogs: Arc<dyn CatalogProviderList>,
}

/// A column, with the names of its table.
struct Row {
    names: [String; 3],
    position: u64,
    field: Arc<Field>,
}

impl Columns {
    /// Creates the table, with the same columns as DataFusion's own (`schema`).
    pub(super) fn table(schema: SchemaRef, catalogs: Arc<dyn CatalogProviderList>) -> DfResult<Arc<dyn TableProvider>> {
        let columns: Arc<dyn PartitionStream> = Arc::new(Self { schema: Arc::clone(&schema), catalogs });
        Ok(Arc::new(StreamingTable::try_new(schema, vec![columns])?))
    }

    async fn rows(catalogs: &dyn CatalogProviderList) -> Vec<Row> {
        let mut rows = Vec::new();
        for catalog_name in catalogs.catalog_names() {
            let Some(catalog) = catalogs.catalog(&catalog_name) else { continue };
            for schema_name in catalog.schema_names() {
                let Some(schema) = catalog.schema(&schema_name).filter(|_| schema_name != INFORMATION_SCHEMA) else {
                    continue;
                };
                for table_name in schema.table_names() {
                    let table = match schema.table(&table_name).await {
                        Ok(Some(table)) => table,
                        Ok(None) => continue,
                        Err(error) => {
                            tracing::debug!(table = table_name, %error, "the columns of a table are not known");
                            continue;
                        }
                    };
                    rows.extend(table.schema().fields().iter().zip(1..).map(|(field, position)| Row {
                        names: [catalog_name.clone(), schema_name.clone(), table_name.clone()],
                        position,
                        field: Arc::clone(field),
                    }));
                }
            }
        }
        rows
    }
}

impl PartitionStream for Columns {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (schema, catalogs) = (Arc::clone(&self.schema), Arc::clone(&self.catalogs));
        let rows = futures::stream::once(async move { batch(&schema, &Self::rows(catalogs.as_ref()).await) });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}

fn batch(schema: &SchemaRef, rows: &[Row]) -> DfResult<RecordBatch> {
    let text = |value: &dyn Fn(&Row) -> String| -> ArrayRef {
        Arc::new(rows.iter().map(|row| Some(value(row))).collect::<StringArray>())
    };
    let number =
        |value: &dyn Fn(&Row) -> Option<u64>| -> ArrayRef { Arc::new(rows.iter().map(value).collect::<UInt64Array>()) };
    let columns = schema.fields().iter().map(|column| match column.name().as_str() {
        "table_catalog" => text(&|row| row.names[0].clone()),
        "table_schema" => text(&|row| row.names[1].clone()),
        "table_name" => text(&|row| row.names[2].clone()),
        "column_name" => text(&|row| row.field.name().clone()),
        "ordinal_position" => number(&|row| Some(row.position)),
        "is_nullable" => text(&|row| is_nullable(&row.field).to_owned()),
        "data_type" => text(&|row| sql_type(row.field.data_type())),
        "numeric_precision" => number(&|row| numeric(row.field.data_type()).map(|(precision, ..)| precision)),
        "numeric_precision_radix" => number(&|row| numeric(row.field.data_type()).map(|(_, radix, _)| radix)),
        "numeric_scale" => number(&|row| numeric(row.field.data_type()).and_then(|(.., scale)| scale)),
        _ => new_null_array(column.data_type(), rows.len()),
    });
    Ok(RecordBatch::try_new(Arc::clone(schema), columns.collect())?)
}

/// YES or NO, as SQL says it.
pub(super) fn is_nullable(field: &Field) -> &'static str {
    if field.is_nullable() { "YES" } else { "NO" }
}

/// Returns the precision of a numeric type, its radix and its scale, as PostgreSQL shows them.
fn numeric(kind: &DataType) -> Option<(u64, u64, Option<u64>)> {
    let bits = |bits| Some((bits, 2, Some(0)));
    match kind {
        DataType::Int8 | DataType::UInt8 => bits(8),
        DataType::Int16 | DataType::UInt16 => bits(16),
        DataType::Int32 | DataType::UInt32 => bits(32),
        DataType::Int64 | DataType::UInt64 => bits(64),
        DataType::Float32 => Some((24, 2, None)),
        DataType::Float64 => Some((53, 2, None)),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => Some((u64::from(*precision), 10, u64::try_from(*scale).ok())),
        _ => None,
    }
}

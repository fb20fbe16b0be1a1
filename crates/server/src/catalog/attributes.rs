//! `pg_attribute` with the modifiers of types, which `datafusion-pg-catalog` does not have: without
//! them `numeric(10,2)` is shown as `numeric`, and DuckDB reads it as a floating-point number.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, AsArray, Int16Array, Int32Array, RecordBatch};
use datafusion::arrow::datatypes::{Int16Type, Int32Type, SchemaRef};
use datafusion::catalog::{MemTable, SchemaProvider, Session, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::build::{column, rows};
use super::tables::SessionTables;
use crate::values::types::PgType;

/// `pg_attribute`, based on the table of `datafusion-pg-catalog`.
pub(super) struct Attributes {
    attributes: Arc<dyn TableProvider>,
    classes: Arc<dyn TableProvider>,
    tables: Arc<SessionTables>,
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attributes").finish_non_exhaustive()
    }
}

impl Attributes {
    /// Creates the table from `pg_attribute` and `pg_class` of `inner`; `None` if one of them is
    /// missing.
    pub async fn over(
        inner: &Arc<dyn SchemaProvider>,
        tables: &Arc<SessionTables>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let (attributes, classes) = (inner.table("pg_attribute").await?, inner.table("pg_class").await?);
        let (Some(attributes), Some(classes)) = (attributes, classes) else { return Ok(None) };
        Ok(Some(Arc::new(Self { attributes, classes, tables: Arc::clone(tables) })))
    }

    /// The types of all columns of the session's tables, by table name and column name.
    async fn types(&self) -> HashMap<(String, String), PgType> {
        let mut types = HashMap::new();
        for table in self.tables.all() {
            let Some(columns) = self.tables.columns(&table).await else { continue };
            for field in columns.fields() {
                types.insert((table.name.clone(), field.name().clone()), PgType::of_field(field));
            }
        }
        types
    }
}

/// Sets the types in rows of `pg_attribute` to those in `types`, by table name and column name.
/// `names` maps the `oid` of a table to its name.
fn typed(
    rows: &RecordBatch,
    names: &HashMap<i32, String>,
    types: &HashMap<(String, String), PgType>,
) -> Result<RecordBatch> {
    let (tables, columns) = (column(rows, "attrelid")?, column(rows, "attname")?);
    let (tables, columns) = (tables.as_primitive::<Int32Type>(), columns.as_string::<i32>());
    let found: Vec<Option<PgType>> = (0..rows.num_rows())
        .map(|row| {
            let table = names.get(&tables.value(row))?;
            types.get(&(table.clone(), columns.value(row).to_owned())).copied()
        })
        .collect();
    let int32 = |name: &str, value: fn(PgType) -> i32| {
        let before = column(rows, name)?.as_primitive::<Int32Type>();
        let values = found.iter().zip(before.values()).map(|(found, before)| found.map_or(*before, value));
        Ok::<ArrayRef, DataFusionError>(Arc::new(Int32Array::from_iter_values(values)))
    };
    let arrays =
        rows.schema_ref().fields().iter().zip(rows.columns()).map(|(field, array)| match field.name().as_str() {
            "atttypid" => int32("atttypid", |pg_type| pg_type.oid().cast_signed()),
            "atttypmod" => int32("atttypmod", |pg_type| pg_type.modifier),
            "attndims" => int32("attndims", |pg_type| i32::from(pg_type.is_array)),
            "attlen" => {
                let before = array.as_primitive::<Int16Type>();
                let values =
                    found.iter().zip(before.values()).map(|(found, before)| found.map_or(*before, PgType::size));
                Ok(Arc::new(Int16Array::from_iter_values(values)) as ArrayRef)
            }
            _ => Ok(Arc::clone(array)),
        });
    let arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;
    Ok(RecordBatch::try_new(rows.schema(), arrays)?)
}

#[async_trait]
impl TableProvider for Attributes {
    fn schema(&self) -> SchemaRef {
        self.attributes.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let types = self.types().await;
        let mut names = HashMap::new();
        for rows in rows(&self.classes, state).await? {
            let (numbers, tables) = (column(&rows, "oid")?, column(&rows, "relname")?);
            let (numbers, tables) = (numbers.as_primitive::<Int32Type>(), tables.as_string::<i32>());
            let known = (0..rows.num_rows()).map(|row| (numbers.value(row), tables.value(row).to_owned()));
            names.extend(known);
        }
        let attributes = rows(&self.attributes, state).await?;
        let attributes = attributes.iter().map(|rows| typed(rows, &names, &types)).collect::<Result<Vec<_>>>()?;
        let table = MemTable::try_new(self.schema(), vec![attributes])?;
        table.scan(state, projection, filters, limit).await
    }
}

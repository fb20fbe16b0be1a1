//! `pg_class` with the columns that `datafusion-pg-catalog` leaves out, and look-ups of relations
//! by their `oid` for functions.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use datafusion::catalog::{MemTable, SchemaProvider, Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::RwLock;

use super::build::{column, rows};

/// Columns of lists that are always NULL here.
const LISTS: [&str; 2] = ["relacl", "reloptions"];

/// A relation, as `pg_class` listed it when it was last scanned.
#[derive(Clone, Debug)]
struct Relation {
    schema: String,
    name: String,
}

/// The relations by their `oid`, as the last scan of `pg_class` found them.
#[derive(Debug, Default)]
pub(super) struct Relations {
    by_number: RwLock<HashMap<i32, Relation>>,
}

impl Relations {
    /// Whether a relation can be named without its schema, which does not hold for those of
    /// `information_schema`.
    pub fn is_visible(&self, number: i32) -> bool {
        self.by_number.read().get(&number).is_none_or(|relation| relation.schema != "information_schema")
    }

    /// The name of a table or view of the session; `None` for other relations.
    pub fn name(&self, number: i32) -> Option<String> {
        let relations = self.by_number.read();
        relations.get(&number).filter(|relation| relation.schema == "public").map(|relation| relation.name.clone())
    }
}

/// `pg_class`, based on the table of `datafusion-pg-catalog`.
pub(super) struct Classes {
    classes: Arc<dyn TableProvider>,
    namespaces: Arc<dyn TableProvider>,
    relations: Arc<Relations>,
    schema: SchemaRef,
}

impl fmt::Debug for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Classes").finish_non_exhaustive()
    }
}

impl Classes {
    /// Creates the table from `pg_class` and `pg_namespace` of `inner`; `None` if one of them is
    /// missing. Its scans fill `relations`.
    pub async fn over(
        inner: &Arc<dyn SchemaProvider>,
        relations: &Arc<Relations>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let (classes, namespaces) = (inner.table("pg_class").await?, inner.table("pg_namespace").await?);
        let (Some(classes), Some(namespaces)) = (classes, namespaces) else { return Ok(None) };
        let list = |name: &&str| Arc::new(Field::new(*name, DataType::new_list(DataType::Utf8, true), true));
        let schema = classes.schema();
        let fields: Vec<_> = schema.fields().iter().cloned().chain(LISTS.iter().map(list)).collect();
        let schema = Arc::new(Schema::new(fields));
        Ok(Some(Arc::new(Self { classes, namespaces, relations: Arc::clone(relations), schema })))
    }

    /// The names of the schemas by their `oid`.
    async fn schemas(&self, state: &dyn Session) -> Result<HashMap<i32, String>> {
        let mut schemas = HashMap::new();
        for rows in rows(&self.namespaces, state).await? {
            let numbers = column(&rows, "oid")?.as_primitive::<Int32Type>();
            let names = column(&rows, "nspname")?.as_string::<i32>();
            schemas.extend((0..rows.num_rows()).map(|row| (numbers.value(row), names.value(row).to_owned())));
        }
        Ok(schemas)
    }
}

/// The relations in these rows of `pg_class`; `schemas` has the names of schemas by `oid`.
fn relations(rows: &RecordBatch, schemas: &HashMap<i32, String>) -> Result<Vec<(i32, Relation)>> {
    let numbers = column(rows, "oid")?.as_primitive::<Int32Type>();
    let names = column(rows, "relname")?.as_string::<i32>();
    let owners = column(rows, "relnamespace")?.as_primitive::<Int32Type>();
    let relation = |row: usize| {
        let schema = schemas.get(&owners.value(row)).cloned().unwrap_or_default();
        (numbers.value(row), Relation { schema, name: names.value(row).to_owned() })
    };
    Ok((0..rows.num_rows()).map(relation).collect())
}

#[async_trait]
impl TableProvider for Classes {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
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
        let schemas = self.schemas(state).await?;
        let mut known = HashMap::new();
        let mut batches = Vec::new();
        for rows in rows(&self.classes, state).await? {
            known.extend(relations(&rows, &schemas)?);
            let added = self.schema.fields().iter().skip(rows.num_columns());
            let nulls = added.map(|field| new_null_array(field.data_type(), rows.num_rows()));
            let columns: Vec<ArrayRef> = rows.columns().iter().cloned().chain(nulls).collect();
            batches.push(RecordBatch::try_new(self.schema(), columns)?);
        }
        *self.relations.by_number.write() = known;
        MemTable::try_new(self.schema(), vec![batches])?.scan(state, projection, filters, limit).await
    }
}

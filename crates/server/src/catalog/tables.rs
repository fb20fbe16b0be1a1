//! The session's tables as the catalogue shows them: names and columns.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::{SchemaProvider, Session, TableProvider};
use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::RwLock;
use pushdowndb_contract::Result;
use pushdowndb_engine::{Engine, TableInfo};

use crate::values::types::{PgType, Scalar};

/// The tables of a session.
pub(super) struct SessionTables {
    engine: Arc<Engine>,
    names: RwLock<Vec<TableInfo>>,
    /// The columns that were looked up, by table name and location; `None` if the look-up failed.
    columns: RwLock<HashMap<(String, String), Option<SchemaRef>>>,
    /// The views whose columns could be read at the last look-up.
    readable_views: RwLock<HashSet<String>>,
    /// The schema `pg_catalog`, whose tables can be named without it.
    system: OnceLock<Arc<dyn SchemaProvider>>,
}

impl fmt::Debug for SessionTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionTables").finish_non_exhaustive()
    }
}

impl SessionTables {
    /// Creates an empty list of the tables of `engine`; [`Self::refresh`] fills it.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self {
            engine,
            names: RwLock::default(),
            columns: RwLock::default(),
            readable_views: RwLock::default(),
            system: OnceLock::new(),
        }
    }

    /// Sets the schema that names are looked up in if they are not tables of the session.
    pub fn set_system(&self, system: Arc<dyn SchemaProvider>) {
        drop(self.system.set(system));
    }

    /// Reloads the list of tables from the engine.
    pub async fn refresh(&self) -> Result<()> {
        let tables = self.engine.tables().await?;
        let is_known = |name: &str, location: &str| {
            tables.iter().any(|table| table.name == name && table.location == location && !location.is_empty())
        };
        self.columns.write().retain(|(name, location), _| is_known(name, location));
        *self.names.write() = tables;
        Ok(())
    }

    /// The tables, sorted by name.
    pub fn all(&self) -> Vec<TableInfo> {
        self.names.read().clone()
    }

    /// The columns of a table, with types that PostgreSQL has. Returns `None` if they cannot be
    /// determined, for example because the user may not read the table.
    pub async fn columns(&self, table: &TableInfo) -> Option<SchemaRef> {
        let key = (table.name.clone(), table.location.clone());
        if let Some(known) = self.columns.read().get(&key) {
            return known.clone();
        }
        let name = format!("\"{}\"", table.name.replace('"', "\"\""));
        let found = match self.engine.describe(&name).await {
            Ok(schema) => Some(Arc::new(Schema::new(schema.fields().iter().map(|f| plain(f)).collect::<Vec<_>>()))),
            Err(error) => {
                tracing::debug!(table = table.name, %error, "no columns for the catalogue");
                None
            }
        };
        match &found {
            Some(_) if table.kind == "view" => drop(self.readable_views.write().insert(table.name.clone())),
            _ => drop(self.readable_views.write().remove(&table.name)),
        }
        self.columns.write().insert(key, found.clone());
        found
    }

    /// The query of a view, with a semicolon at its end. Returns `None` for other tables, and if
    /// the columns of the view could not be read.
    pub fn view_definition(&self, name: &str) -> Option<String> {
        let view = self.find(name).filter(|table| table.kind == "view")?;
        let is_readable = self.readable_views.read().contains(&view.name);
        view.query.filter(|_| is_readable).map(|query| format!("{query};"))
    }

    /// Whether a relation exists. `parts` is its name, or the names of its schema and of the
    /// relation.
    pub fn has_relation(&self, parts: &[String]) -> bool {
        let of_system = |name: &str| self.system.get().is_some_and(|system| system.table_exist(name));
        match parts {
            [name] => self.find(name).is_some() || of_system(name),
            [schema, name] if schema == "public" => self.find(name).is_some(),
            [schema, name] if schema == "pg_catalog" => of_system(name),
            // Names in other schemas are left to the planner.
            _ => true,
        }
    }

    fn find(&self, name: &str) -> Option<TableInfo> {
        self.names.read().iter().find(|table| table.name == name).cloned()
    }
}

/// Converts the type of a field to one that PostgreSQL has.
fn plain(field: &Field) -> Field {
    let pg_type = PgType::of(field.data_type());
    let scalar = match pg_type.scalar {
        Scalar::Bool => DataType::Boolean,
        Scalar::Bytea => DataType::Binary,
        Scalar::Int2 => DataType::Int16,
        Scalar::Int4 | Scalar::Oid(_) => DataType::Int32,
        Scalar::Int8 => DataType::Int64,
        Scalar::Char | Scalar::Text | Scalar::Json => DataType::Utf8,
        Scalar::Float4 => DataType::Float32,
        Scalar::Float8 => DataType::Float64,
        Scalar::Date => DataType::Date32,
        Scalar::Time => DataType::Time64(TimeUnit::Microsecond),
        Scalar::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        Scalar::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Scalar::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
        Scalar::Numeric => match field.data_type() {
            DataType::Decimal128(precision, scale) => DataType::Decimal128(*precision, *scale),
            _ => DataType::Decimal128(38, 0),
        },
    };
    let data_type = if pg_type.is_array { DataType::new_list(scalar, true) } else { scalar };
    Field::new(field.name(), data_type, field.is_nullable())
}

#[async_trait]
impl SchemaProvider for SessionTables {
    fn table_names(&self) -> Vec<String> {
        self.names.read().iter().map(|table| table.name.clone()).collect()
    }

    async fn table(&self, name: &str) -> DfResult<Option<Arc<dyn TableProvider>>> {
        let Some(table) = self.find(name) else {
            return match self.system.get().filter(|_| name.starts_with("pg_")) {
                Some(system) => system.table(name).await,
                None => Ok(None),
            };
        };
        // A table whose columns cannot be determined is listed without columns.
        let schema = self.columns(&table).await.unwrap_or_else(|| Arc::new(Schema::empty()));
        let table_type = if table.kind == "view" { TableType::View } else { TableType::Base };
        Ok(Some(Arc::new(NamedTable { schema, table_type })))
    }

    async fn table_type(&self, name: &str) -> DfResult<Option<TableType>> {
        let kind = |table: TableInfo| if table.kind == "view" { TableType::View } else { TableType::Base };
        Ok(self.find(name).map(kind))
    }

    fn table_exist(&self, name: &str) -> bool {
        let is_of_system = |system: &Arc<dyn SchemaProvider>| name.starts_with("pg_") && system.table_exist(name);
        self.find(name).is_some() || self.system.get().is_some_and(is_of_system)
    }
}

/// A table that has columns but cannot be scanned.
#[derive(Debug)]
struct NamedTable {
    schema: SchemaRef,
    table_type: TableType,
}

#[async_trait]
impl TableProvider for NamedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        self.table_type
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        Err(DataFusionError::NotImplemented(
            "a query of the catalogue (pg_catalog, information_schema, version() and the like) cannot read other tables"
                .to_owned(),
        ))
    }
}

//! A query as a table for DataFusion's Python package.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result as DfResult};
use datafusion::error::DataFusionError;
use datafusion::execution::{TaskContext, TaskContextProvider};
use datafusion::logical_expr::{Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use datafusion::prelude::SessionContext;
use datafusion::sql::unparser::Unparser;
use datafusion::sql::unparser::dialect::PostgreSqlDialect;
use datafusion_ffi::table_provider::FFI_TableProvider;
use futures::{TryStreamExt, stream};
use pushdowndb_contract::{Error, Result};
use pushdowndb_engine::{Engine, InputTable, Inputs, NestedQuery, QueryResult};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::errors::invalid;
use super::wait::{quietly, runtime, wait};

/// The name of the query in the SQL that is generated for scans.
const THIS: &str = "__pushdowndb_this";

/// Returns the rows of `query` as a table for DataFusion, in the capsule of an
/// [`FFI_TableProvider`].
pub fn capsule<'py>(py: Python<'py>, engine: &Arc<Engine>, query: Arc<NestedQuery>) -> PyResult<Bound<'py, PyCapsule>> {
    let planned = {
        let (engine, query) = (Arc::clone(engine), Arc::clone(&query));
        async move { engine.query_schema(&query.statement, &query.inputs).await }
    };
    let schema = wait(py, planned, &mut quietly)?.ok_or_else(|| invalid("the statement is no query"))?;
    let mut seen = HashSet::new();
    if let Some(twice) = schema.fields().iter().find(|field| !seen.insert(field.name())) {
        return Err(invalid(format!("the query has two columns {}; rename one of them", twice.name())));
    }
    let session = Arc::new(SessionContext::new());
    let tasks: Arc<dyn TaskContextProvider> = Arc::clone(&session) as _;
    let table = Arc::new(QueryTable { engine: Arc::clone(engine), query, schema, session });
    let handle = runtime()?.handle().clone();
    PyCapsule::new_with_value(
        py,
        FFI_TableProvider::new(table, true, Some(handle), &tasks, None),
        c"datafusion_table_provider",
    )
}

/// The rows of a query. Its engine plans and runs it for each scan, with the columns, the
/// conditions and the limit of the scan.
struct QueryTable {
    engine: Arc<Engine>,
    query: Arc<NestedQuery>,
    schema: SchemaRef,
    /// Decodes the expressions of scans. It is kept here since the FFI interface holds it weakly.
    #[expect(dead_code, reason = "kept alive")]
    session: Arc<SessionContext>,
}

impl fmt::Debug for QueryTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryTable").field("sql", &self.query.statement.text).finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for QueryTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    /// Filters are inexact: the scanning session evaluates them again, since names and types may
    /// have another meaning there.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match condition(filter) {
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => Arc::clone(&self.schema),
        };
        let rows: Arc<dyn PartitionStream> = Arc::new(Rows {
            engine: Arc::clone(&self.engine),
            query: Arc::clone(&self.query),
            sql: select(&schema, filters, limit),
            schema: Arc::clone(&schema),
        });
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![rows], None, None, false, limit)?))
    }
}

/// The rows of one scan.
struct Rows {
    engine: Arc<Engine>,
    query: Arc<NestedQuery>,
    sql: String,
    schema: SchemaRef,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("sql", &self.sql).finish_non_exhaustive()
    }
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (engine, query, sql) = (Arc::clone(&self.engine), Arc::clone(&self.query), self.sql.clone());
        let schema = Arc::clone(&self.schema);
        let started = async move { start(&engine, query, &sql).await };
        let rows = stream::once(started).try_flatten().map_err(|error| DataFusionError::External(Box::new(error)));
        let own = Arc::clone(&schema);
        // If no columns are requested, only the number of rows counts.
        let rows = rows.and_then(move |batch| {
            let columns = (0..own.fields().len()).collect::<Vec<_>>();
            let batch = batch.project(&columns).and_then(|batch| batch.with_schema(Arc::clone(&own)));
            std::future::ready(batch.map_err(DataFusionError::from))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}

/// Runs the statement `sql`, in which `query` is named [`THIS`].
async fn start(engine: &Engine, query: Arc<NestedQuery>, sql: &str) -> Result<QueryResult> {
    let mut statements = engine.parse(sql)?;
    let statement = statements.pop().ok_or_else(|| Error::internal("a statement of one query"))?;
    let mut inputs = Inputs::default();
    inputs.tables.insert(THIS.to_owned(), InputTable::Query(query));
    engine.run_with(&statement, &inputs, |_| ()).await
}

/// The SQL of a scan.
fn select(schema: &SchemaRef, filters: &[Expr], limit: Option<usize>) -> String {
    let quoted = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
    let columns: Vec<_> = schema.fields().iter().map(|field| quoted(field.name())).collect();
    let columns = if columns.is_empty() { "1".to_owned() } else { columns.join(", ") };
    let conditions: Vec<_> = filters.iter().filter_map(condition).map(|sql| format!("({sql})")).collect();
    let mut sql = format!("SELECT {columns} FROM {THIS}");
    if !conditions.is_empty() {
        sql += &format!(" WHERE {}", conditions.join(" AND "));
    }
    if let Some(limit) = limit {
        sql += &format!(" LIMIT {limit}");
    }
    sql
}

/// Converts a filter to SQL if it means the same in every dialect: comparisons of columns with
/// constants, and logical operators between them. Returns `None` for other filters.
fn condition(filter: &Expr) -> Option<String> {
    let mut is_plain = true;
    let visited = filter.apply(|part| {
        is_plain &= match part {
            Expr::Column(_) | Expr::Not(_) | Expr::IsNull(_) | Expr::IsNotNull(_) | Expr::Between(_) => true,
            Expr::Literal(value, _) => {
                let kind = value.data_type();
                let is_plain = kind.is_integer() || kind.is_string();
                !value.is_null() && (is_plain || matches!(kind, DataType::Boolean | DataType::Date32))
            }
            Expr::InList(list) => !list.list.is_empty(),
            Expr::BinaryExpr(binary) => matches!(
                binary.op,
                Operator::Eq
                    | Operator::NotEq
                    | Operator::Lt
                    | Operator::LtEq
                    | Operator::Gt
                    | Operator::GtEq
                    | Operator::And
                    | Operator::Or
            ),
            _ => false,
        };
        Ok(if is_plain { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    if visited.is_err() || !is_plain {
        return None;
    }
    let bare = |part: Expr| match part {
        Expr::Column(column) => Ok(Transformed::yes(Expr::Column(Column::from_name(column.name)))),
        part => Ok(Transformed::no(part)),
    };
    let bare = filter.clone().transform(bare).ok()?.data;
    Some(Unparser::new(&PostgreSqlDialect {}).expr_to_sql(&bare).ok()?.to_string())
}

//! A statement with its parameters and tables that has not run yet.

use std::sync::{Arc, OnceLock};

use arrow::datatypes::Schema;
use futures::FutureExt;
use parking_lot::Mutex;
use pushdowndb_contract::Result;
use pushdowndb_engine::{Engine, InputTable, Inputs, NestedQuery, QueryContext, Statement, sql_type};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::errors::{exception, invalid};
use super::inputs;
use super::provider;
use super::rows::{RawRows, RawTable, Rows};
use super::wait::{self, RawTask, enter, quietly, wait};

/// A statement with its inputs. It can run any number of times.
#[pyclass(frozen, module = "pushdowndb._pushdowndb")]
pub struct RawQuery {
    engine: Arc<Engine>,
    query: Mutex<Arc<NestedQuery>>,
    is_query: bool,
}

impl RawQuery {
    pub fn new(engine: Arc<Engine>, statement: Statement, inputs: Inputs) -> PyResult<Self> {
        let _runtime = enter();
        let is_query = engine.is_query(&statement, &inputs).map_err(|error| exception(&error))?;
        Ok(Self { engine, query: Mutex::new(Arc::new(NestedQuery { statement, inputs })), is_query })
    }

    fn query(&self) -> Arc<NestedQuery> {
        Arc::clone(&self.query.lock())
    }

    fn add(&self, name: &str, table: InputTable) {
        let mut query = self.query.lock();
        Arc::make_mut(&mut query).inputs.tables.insert(name.to_lowercase(), table);
    }

    /// Starts the statement. `watch` receives its context before anything is done.
    fn run(&self, watch: Arc<OnceLock<Arc<QueryContext>>>) -> impl Future<Output = Result<Arc<Rows>>> + Send + use<> {
        let (engine, query) = (Arc::clone(&self.engine), self.query());
        async move {
            let result = engine.run_with(&query.statement, &query.inputs, |context| drop(watch.set(context))).await?;
            Ok(Arc::new(Rows::new(result)))
        }
        .boxed()
    }
}

#[pymethods]
impl RawQuery {
    /// The text of the statement.
    #[getter]
    fn sql(&self) -> String {
        self.query().statement.text.clone()
    }

    /// Whether it is SELECT, VALUES, WITH or FROM, so that it can be a table of another statement.
    #[getter]
    fn is_query(&self) -> bool {
        self.is_query
    }

    /// The names of tables in the statement that the session does not know, as they are written.
    fn unknown_tables(&self) -> PyResult<Vec<String>> {
        let (_runtime, query) = (enter(), self.query());
        self.engine.unknown_tables(&query.statement, &query.inputs).map_err(|error| exception(&error))
    }

    /// Adds an object that exports Arrow as a table that only this statement can name.
    fn add_table(&self, py: Python<'_>, name: &str, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let table = inputs::table(py, object)?;
        self.add(name, InputTable::Provider(table));
        Ok(())
    }

    /// Adds the rows of another query of the session as a table that only this statement can name.
    fn add_query(&self, name: &str, query: &Bound<'_, Self>) -> PyResult<()> {
        let other = query.get();
        if !Arc::ptr_eq(&self.engine, &other.engine) {
            return Err(invalid(format!(
                "{name} is a relation of another connection; its collect() can be a table here"
            )));
        }
        if !other.is_query {
            return Err(invalid(format!("{name} is no query; its collect() can be a table")));
        }
        self.add(name, InputTable::Query(other.query()));
        Ok(())
    }

    /// Returns the rows of the query as a table for DataFusion's Python package.
    fn datafusion_table<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        provider::capsule(py, &self.engine, self.query())
    }

    /// The columns, each as name and SQL type. This plans the query.
    fn columns(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        let (engine, query) = (Arc::clone(&self.engine), self.query());
        let planned = async move { engine.query_schema(&query.statement, &query.inputs).await };
        let schema = wait(py, planned, &mut quietly)?.unwrap_or_else(|| Arc::new(Schema::empty()));
        Ok(schema.fields().iter().map(|field| (field.name().clone(), sql_type(field.data_type()))).collect())
    }

    /// Starts the statement and returns its rows, which are computed as they are read. `progress`
    /// is called meanwhile as `progress(done, total)`, with numbers of bytes.
    #[pyo3(signature = (progress=None))]
    fn start(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<RawRows> {
        let context = Arc::new(OnceLock::new());
        let planned = self.run(Arc::clone(&context));
        let mut tick = |_: Python<'_>| -> PyResult<()> {
            let (Some(progress), Some(context)) = (progress, context.get()) else { return Ok(()) };
            progress.call1(context.progress.bytes()).map(|_| ())
        };
        Ok(RawRows::new(wait(py, planned, &mut tick)?))
    }

    /// Runs the statement to its end on other threads, and then calls `done(table, error)`.
    fn collect_async(&self, done: Py<PyAny>) -> PyResult<RawTask> {
        let started = self.run(Arc::default());
        wait::start(
            async move {
                let rows = started.await?;
                let batches = rows.collect().await?;
                Ok(RawTable::new(rows, batches))
            },
            done,
        )
    }
}

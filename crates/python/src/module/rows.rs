//! The rows of a statement: while it runs, and once they are in memory.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::thread::ThreadId;

use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use futures::StreamExt;
use parking_lot::Mutex;
use pushdowndb_contract::Result;
use pushdowndb_cost::to_json;
use pushdowndb_engine::{Profile, QueryContext, QueryResult, Report, StatementKind, sql_type};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyTuple};
use pyo3_arrow::PyRecordBatchReader;

use super::errors::exception;
use super::values::{cells, tuples};
use super::wait::{enter, runtime, wait, wait_here};

/// The rows of a running statement, which have one reader at a time.
pub struct Rows {
    pub schema: SchemaRef,
    kind: StatementKind,
    context: Arc<QueryContext>,
    state: Mutex<State>,
    /// Held by the current reader.
    turn: tokio::sync::Mutex<()>,
}

enum State {
    Running(Box<QueryResult>),
    /// All rows were read, or reading was canceled.
    Ended(Box<(Report, Option<Profile>)>),
}

impl Rows {
    pub fn new(result: QueryResult) -> Self {
        Self {
            schema: Arc::clone(&result.schema),
            kind: result.kind,
            context: Arc::clone(result.context()),
            state: Mutex::new(State::Running(Box::new(result))),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// The next batch; `None` at the end.
    async fn next(&self) -> Result<Option<RecordBatch>> {
        let _turn = self.turn.lock().await;
        poll_fn(|cx| {
            let mut state = self.state.lock();
            let State::Running(result) = &mut *state else { return Poll::Ready(Ok(None)) };
            let next = ready!(result.poll_next_unpin(cx)).transpose();
            if !matches!(next, Ok(Some(_))) {
                end(&mut state);
            }
            Poll::Ready(next)
        })
        .await
    }

    /// All batches that are left.
    pub async fn collect(&self) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next().await? {
            batches.push(batch);
        }
        Ok(batches)
    }

    /// Cancels the statement.
    fn cancel(&self) {
        end(&mut self.state.lock());
    }

    fn report(&self) -> Report {
        match &*self.state.lock() {
            State::Running(result) => result.report(),
            State::Ended(ended) => ended.0.clone(),
        }
    }

    fn stats(&self) -> String {
        let Report { usage, bill } = self.report();
        to_json(&usage, &bill).to_string()
    }

    /// The profile page about the statement; `None` if it has no plan.
    fn profile(&self) -> Option<String> {
        let profile = match &*self.state.lock() {
            State::Running(result) => result.profile(),
            State::Ended(ended) => ended.1.clone(),
        };
        profile.map(|profile| pushdowndb::profile_page(&[profile]))
    }

    fn columns(&self) -> Vec<(String, String)> {
        self.schema.fields().iter().map(|field| (field.name().clone(), sql_type(field.data_type()))).collect()
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        end(self.state.get_mut());
    }
}

/// Keeps the report of a result and drops the result, whose plan holds memory.
fn end(state: &mut State) {
    if let State::Running(result) = state {
        let _runtime = enter();
        *state = State::Ended(Box::new((result.report(), result.profile())));
    }
}

/// The rows of a running statement. Each row is read once.
#[pyclass(frozen, module = "pushdowndb._pushdowndb")]
pub struct RawRows {
    rows: Arc<Rows>,
    /// Batches that were received but not read by the caller yet.
    ready: Mutex<VecDeque<RecordBatch>>,
}

impl RawRows {
    pub fn new(rows: Arc<Rows>) -> Self {
        Self { rows, ready: Mutex::default() }
    }

    fn next(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<Option<RecordBatch>> {
        if let Some(batch) = self.ready.lock().pop_front() {
            return Ok(Some(batch));
        }
        let done = wait_here(py, self.rows.next(), &mut |_| self.tell(progress));
        done.inspect_err(|_| self.rows.cancel())?.map_err(|error| exception(&error))
    }

    /// Reads the batches that were not received yet.
    fn rest(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<RecordBatch>> {
        let rows = Arc::clone(&self.rows);
        let read = wait(py, async move { rows.collect().await }, &mut |_| self.tell(progress));
        read.inspect_err(|_| self.rows.cancel())
    }

    fn tell(&self, progress: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        progress.map_or(Ok(()), |progress| progress.call1(self.rows.context.progress.bytes()).map(|_| ()))
    }
}

#[pymethods]
impl RawRows {
    /// The columns, each as name and SQL type.
    #[getter]
    fn columns(&self) -> Vec<(String, String)> {
        self.rows.columns()
    }

    /// Whether the statement has rows, unlike CREATE and SET.
    #[getter]
    fn has_rows(&self) -> bool {
        self.rows.kind == StatementKind::Rows && !self.rows.schema.fields().is_empty()
    }

    /// Returns the next `count` rows as tuples, or all that remain.
    #[pyo3(signature = (count=None, progress=None))]
    fn fetch<'py>(
        &self,
        py: Python<'py>,
        count: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let fetched = PyList::empty(py);
        while count.is_none_or(|count| fetched.len() < count) {
            let Some(batch) = self.next(py, progress)? else { break };
            let wanted = count.map_or(batch.num_rows(), |count| (count - fetched.len()).min(batch.num_rows()));
            if wanted < batch.num_rows() {
                self.ready.lock().push_front(batch.slice(wanted, batch.num_rows() - wanted));
            }
            for row in tuples(py, &batch.slice(0, wanted))? {
                fetched.append(row)?;
            }
        }
        Ok(fetched)
    }

    /// Runs the statement to its end and keeps its rows in memory until they are read.
    #[pyo3(signature = (progress=None))]
    fn load(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let batches = self.rest(py, progress)?;
        self.ready.lock().extend(batches);
        Ok(())
    }

    /// Reads all remaining rows into memory.
    #[pyo3(signature = (progress=None))]
    fn collect(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<RawTable> {
        let mut batches: Vec<RecordBatch> = self.ready.lock().drain(..).collect();
        batches.extend(self.rest(py, progress)?);
        Ok(RawTable::new(Arc::clone(&self.rows), batches))
    }

    /// Exports the remaining rows as an Arrow stream, computed as it is read.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let ready = std::mem::take(&mut *self.ready.lock());
        let reader = Reader { rows: Arc::clone(&self.rows), ready, thread: std::thread::current().id() };
        capsule(py, Box::new(reader), requested_schema)
    }

    /// The usage and cost so far, as JSON. They are final once all rows are read.
    fn stats(&self) -> String {
        self.rows.stats()
    }

    /// The profile page about the statement, as HTML. It is final once all rows are read.
    fn profile(&self) -> Option<String> {
        self.rows.profile()
    }

    /// Cancels the statement.
    fn cancel(&self) {
        self.rows.cancel();
    }
}

/// Rows in memory.
#[pyclass(frozen, module = "pushdowndb._pushdowndb")]
pub struct RawTable {
    rows: Arc<Rows>,
    batches: Vec<RecordBatch>,
}

impl RawTable {
    pub fn new(rows: Arc<Rows>, batches: Vec<RecordBatch>) -> Self {
        Self { rows, batches }
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.rows.schema
    }

    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }
}

#[pymethods]
impl RawTable {
    /// The columns, each as name and SQL type.
    #[getter]
    fn columns(&self) -> Vec<(String, String)> {
        self.rows.columns()
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Returns `count` rows from `start` on as tuples, or all of them.
    #[pyo3(signature = (start=0, count=None))]
    fn fetch<'py>(&self, py: Python<'py>, start: usize, count: Option<usize>) -> PyResult<Bound<'py, PyList>> {
        let fetched = PyList::empty(py);
        for part in parts(&self.batches, start, count.unwrap_or(usize::MAX)) {
            for row in tuples(py, &part)? {
                fetched.append(row)?;
            }
        }
        Ok(fetched)
    }

    /// The text of each cell of `count` rows from `start` on.
    fn cells<'py>(&self, py: Python<'py>, start: usize, count: usize) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let mut all = Vec::new();
        for part in parts(&self.batches, start, count) {
            all.extend(cells(py, &part)?);
        }
        Ok(all)
    }

    /// Exports the rows as an Arrow stream.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.rows.schema));
        capsule(py, Box::new(reader), requested_schema)
    }

    /// The usage and cost, as JSON.
    fn stats(&self) -> String {
        self.rows.stats()
    }

    /// The profile page about the statement, as HTML.
    fn profile(&self) -> Option<String> {
        self.rows.profile()
    }
}

/// Slices `count` rows from `start` on out of `batches`.
fn parts(batches: &[RecordBatch], mut start: usize, mut count: usize) -> Vec<RecordBatch> {
    let mut parts = Vec::new();
    for batch in batches {
        let from = start.min(batch.num_rows());
        let length = (batch.num_rows() - from).min(count);
        start -= from;
        count -= length;
        if length > 0 {
            parts.push(batch.slice(from, length));
        }
    }
    parts
}

fn capsule<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
    requested_schema: Option<Bound<'py, PyCapsule>>,
) -> PyResult<Bound<'py, PyAny>> {
    let reader = Bound::new(py, PyRecordBatchReader::new(reader))?;
    reader.call_method1("__arrow_c_stream__", (requested_schema,))
}

/// A stream reader that computes batches as they are read.
struct Reader {
    rows: Arc<Rows>,
    ready: VecDeque<RecordBatch>,
    /// The thread that exported the stream. Reads on this thread handle signals while they wait.
    /// Reads on other threads must not wait for the GIL, since a thread that waits for them may
    /// hold it.
    thread: ThreadId,
}

impl Reader {
    fn read(&mut self) -> Result<Option<RecordBatch>, String> {
        if std::thread::current().id() != self.thread {
            let runtime = runtime().map_err(|error| error.to_string())?;
            return runtime.block_on(self.rows.next()).map_err(|error| error.to_string());
        }
        let waited = Python::try_attach(|py| {
            let done = wait_here(py, self.rows.next(), &mut |_| Ok(()));
            done.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
        });
        waited.unwrap_or_else(|| Err("Python is shutting down".to_owned()))
    }
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(batch) = self.ready.pop_front() {
            return Some(Ok(batch));
        }
        let read = self.read();
        if read.is_err() {
            self.rows.cancel();
        }
        // The text becomes a C string, which cannot contain zero bytes.
        read.map_err(|error| ArrowError::ExternalError(error.replace('\0', "\\0").into())).transpose()
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.rows.schema)
    }
}

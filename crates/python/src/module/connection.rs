//! A session of the engine, as a Python class.

use std::path::PathBuf;
use std::sync::Arc;

use object_store::ObjectStoreExt;
use parking_lot::Mutex;
use pushdowndb_contract::{Error, ErrorKind};
use pushdowndb_engine::{AccessPolicy, ConnectionConfig, Engine, EngineConfig, Inputs, sql_type};
use pyo3::prelude::*;

use super::errors::{exception, invalid};
use super::inputs;
use super::parameters;
use super::query::RawQuery;
use super::wait::{quietly, runtime, wait};

/// A session of the engine.
#[pyclass(frozen, module = "pushdowndb._pushdowndb")]
pub struct RawConnection {
    /// `None` once the connection is closed.
    engine: Mutex<Option<Arc<Engine>>>,
}

impl RawConnection {
    fn engine(&self) -> PyResult<Arc<Engine>> {
        self.engine.lock().clone().ok_or_else(|| invalid("the connection is closed"))
    }
}

#[pymethods]
impl RawConnection {
    /// Opens a session.
    #[new]
    #[pyo3(signature = (*, endpoint=None, region=None, access_key_id=None, secret_access_key=None, session_token=None,
        profile=None, anonymous=false, requester_pays=false, insecure=false, settings=vec![], catalog=None, cache=None,
        allow_read=None, allow_write=None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        endpoint: Option<String>,
        region: Option<String>,
        access_key_id: Option<String>,
        secret_access_key: Option<String>,
        session_token: Option<String>,
        profile: Option<String>,
        anonymous: bool,
        requester_pays: bool,
        insecure: bool,
        settings: Vec<(String, String)>,
        catalog: Option<PathBuf>,
        cache: Option<PathBuf>,
        allow_read: Option<Vec<String>>,
        allow_write: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let access = policy(allow_read, allow_write)?;
        let connection = ConnectionConfig {
            endpoint,
            region,
            access_key_id,
            secret_access_key,
            session_token,
            profile,
            anonymous,
            requester_pays,
            insecure,
        };
        let config = EngineConfig { access, connection, settings, catalog, cache, cluster: None };
        let engine = wait(py, Engine::new(config), &mut quietly)?;
        Ok(Self { engine: Mutex::new(Some(Arc::new(engine))) })
    }

    /// Splits a script into statements.
    fn statements(&self, sql: &str) -> PyResult<Vec<String>> {
        let statements = self.engine()?.parse(sql).map_err(|error| exception(&error))?;
        Ok(statements.into_iter().map(|statement| statement.text).collect())
    }

    /// Returns the single statement `sql` with the values of its parameters. Tables can be added to
    /// it.
    #[pyo3(signature = (sql, parameters=None))]
    fn query(&self, sql: &str, parameters: Option<&Bound<'_, PyAny>>) -> PyResult<RawQuery> {
        let engine = self.engine()?;
        let mut statements = engine.parse(sql).map_err(|error| exception(&error))?;
        let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
            return Err(invalid("one statement runs at a time, and this text has none or several"));
        };
        let parameters = parameters::parameters(parameters)?;
        RawQuery::new(engine, statement, Inputs { parameters, ..Inputs::default() })
    }

    /// Registers an object that exports Arrow as a table of the session.
    fn register(&self, py: Python<'_>, name: &str, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let table = inputs::table(py, object)?;
        self.engine()?.register_table(name, table).map_err(|error| exception(&error))
    }

    /// Removes a registered table. Returns whether there was one.
    fn unregister(&self, name: &str) -> PyResult<bool> {
        self.engine()?.deregister_table(name).map_err(|error| exception(&error))
    }

    /// The tables that SQL can name, each as name, kind, format and location.
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<(String, String, String, String)>> {
        let engine = self.engine()?;
        let tables = wait(py, async move { engine.tables().await }, &mut quietly)?;
        Ok(tables.into_iter().map(|table| (table.name, table.kind, table.format, table.location)).collect())
    }

    /// The columns of a table, or of objects at an address, each as name, SQL type and whether it
    /// may be NULL.
    fn describe(&self, py: Python<'_>, table: String) -> PyResult<Vec<(String, String, bool)>> {
        let engine = self.engine()?;
        let schema = wait(py, async move { engine.describe(&table).await }, &mut quietly)?;
        let fields = schema.fields().iter();
        Ok(fields.map(|field| (field.name().clone(), sql_type(field.data_type()), field.is_nullable())).collect())
    }

    /// The settings `pushdown.*`, each as name, value and help.
    fn settings(&self) -> PyResult<Vec<(String, String, String)>> {
        let settings = self.engine()?.pushdown_settings().into_iter();
        Ok(settings.map(|setting| (setting.name, setting.value, setting.help)).collect())
    }

    /// Creates the bucket of an `s3://` address unless it exists.
    fn create_bucket(&self, py: Python<'_>, address: String) -> PyResult<()> {
        let engine = self.engine()?;
        wait(py, async move { engine.create_bucket(&address).await }, &mut quietly)
    }

    /// Writes an object or a file.
    fn put(&self, py: Python<'_>, address: String, data: Vec<u8>) -> PyResult<()> {
        let engine = self.engine()?;
        let write = async move {
            let (store, path) = engine.store(&address)?;
            let put = store.put(&path, data.into()).await;
            put.map(|_| ()).map_err(|error| Error::new(ErrorKind::Unavailable, format!("{address}: {error}")))
        };
        wait(py, write, &mut quietly)
    }

    /// Closes the session. Results in progress can still be read; failed uploads are cleaned up
    /// before this returns.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(engine) = self.engine.lock().take() else { return Ok(()) };
        runtime()?;
        wait(
            py,
            async move {
                engine.settle().await;
                Ok(())
            },
            &mut quietly,
        )
    }

    /// Whether the session is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.engine.lock().is_none()
    }
}

/// The access policy for SQL: everything, unless there are lists.
fn policy(read: Option<Vec<String>>, write: Option<Vec<String>>) -> PyResult<AccessPolicy> {
    if read.is_none() && write.is_none() {
        return Ok(AccessPolicy::Everything);
    }
    let mut policy = AccessPolicy::nothing();
    for location in read.into_iter().flatten() {
        policy = policy.and_read(&location).map_err(|error| exception(&error))?;
    }
    for location in write.into_iter().flatten() {
        policy = policy.and_write(&location).map_err(|error| exception(&error))?;
    }
    Ok(policy)
}

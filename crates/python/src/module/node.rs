//! A storage node in this process, for tests.

use std::path::PathBuf;

use parking_lot::Mutex;
use pushdowndb_contract::Error;
use pushdowndb_node::{Node, NodeConfig};
use pyo3::prelude::*;
use tempfile::TempDir;

use super::wait::{quietly, wait};

/// A node on a free port of this machine.
#[pyclass(frozen, module = "pushdowndb._pushdowndb")]
pub struct RawNode {
    node: Mutex<Option<Node>>,
    /// The temporary folder of the node, if no folder was given; it is deleted with the node.
    _folder: Option<TempDir>,
    #[pyo3(get)]
    endpoint: String,
    #[pyo3(get)]
    access_key_id: String,
    #[pyo3(get)]
    secret_access_key: String,
}

#[pymethods]
impl RawNode {
    /// Starts a node that stores its objects in `folder`, or in a temporary folder that is deleted
    /// with it.
    #[new]
    #[pyo3(signature = (folder=None))]
    fn new(py: Python<'_>, folder: Option<PathBuf>) -> PyResult<Self> {
        let (folder, temporary) = match folder {
            Some(folder) => (folder, None),
            None => {
                let temporary = tempfile::tempdir().map_err(PyErr::from)?;
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        let node = wait(py, pushdowndb_node::start(NodeConfig::store(folder)), &mut quietly)?;
        let keys = node.credentials().clone();
        Ok(Self {
            endpoint: node.endpoint(),
            access_key_id: keys.access_key_id,
            secret_access_key: keys.secret_access_key,
            node: Mutex::new(Some(node)),
            _folder: temporary,
        })
    }

    /// Stops the node once the requests in progress are answered.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let Some(node) = self.node.lock().take() else { return Ok(()) };
        wait(
            py,
            async move {
                node.shutdown().await;
                Ok::<_, Error>(())
            },
            &mut quietly,
        )
    }
}

impl Drop for RawNode {
    fn drop(&mut self) {
        if let Some(node) = self.node.get_mut().as_ref() {
            node.begin_shutdown();
        }
    }
}

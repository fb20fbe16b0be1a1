//! The module `pushdowndb._pushdowndb`.
//!
//! | module | what it has |
//! | --- | --- |
//! | `connection` | an engine, as a class |
//! | `query` | a statement with its inputs: what a lazy relation is made of |
//! | `provider` | a query as a table of the package `datafusion` |
//! | `rows` | the rows of a statement while it runs, and once they are in memory |
//! | `inputs` | tables of Python: anything that exports Arrow |
//! | `parameters` | Python's values as values of SQL |
//! | `values` | Arrow's values as values of Python |
//! | `wait` | waiting without the GIL, with signals; futures for asyncio |
//! | `errors` | the exceptions of errors |
//! | `node` | a storage node for tests |
//!
//! All work that takes time runs on one Tokio runtime, without the GIL. The Python half contains
//! everything that needs no Rust: relations, printing, DB-API, SQLAlchemy.

mod connection;
mod errors;
mod inputs;
mod node;
mod parameters;
mod provider;
mod query;
mod rows;
mod values;
mod wait;

use std::ffi::OsString;

use pyo3::prelude::*;

/// The allocator of the program `pushdowndb`, used for the same reason as there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The native half of the package `pushdowndb`.
#[pymodule]
fn _pushdowndb(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<connection::RawConnection>()?;
    module.add_class::<query::RawQuery>()?;
    module.add_class::<rows::RawRows>()?;
    module.add_class::<rows::RawTable>()?;
    module.add_class::<wait::RawTask>()?;
    module.add_class::<node::RawNode>()?;
    module.add_function(wrap_pyfunction!(main, module)?)
}

/// Runs the program `pushdowndb` with these arguments, the first of which is its name, and returns
/// its exit code.
#[pyfunction]
fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| pushdowndb::main(&arguments))
}

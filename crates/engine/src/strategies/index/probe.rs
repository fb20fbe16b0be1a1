//! Probes of indexes.

use object_store::ObjectMeta;
use pushdowndb_contract::Expr;

use crate::index::{Expected, TableIndex};

/// A search in one index.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub(crate) index: TableIndex,
    /// The predicate over the index's columns.
    pub(crate) predicate: Expr,
    pub(crate) targets: Vec<Target>,
    pub(crate) hits: f64,
    pub(crate) entries: f64,
}

/// The index of one object.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The object's position in the scan.
    pub(crate) object: usize,
    pub(crate) file: ObjectMeta,
    pub(crate) expected: Expected,
}

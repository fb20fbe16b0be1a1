//! The statements of SQL's PREPARE, by name. Statements that programs prepare are in `prepare`.

use std::collections::BTreeMap;

use parking_lot::RwLock;
use pushdowndb_contract::{Error, Result};

use crate::nearest::nearest;
use crate::sql::syntax::parameters::Prepared;

/// Prepared statements by name.
#[derive(Debug, Default)]
pub(super) struct PreparedStatements(RwLock<BTreeMap<String, Prepared>>);

impl PreparedStatements {
    /// Adds a statement under a new `name`.
    pub(super) fn put(&self, name: String, prepared: Prepared) -> Result<()> {
        let mut all = self.0.write();
        if all.contains_key(&name) {
            return Err(Error::invalid(format!("the prepared statement {name} exists already; DEALLOCATE {name}")));
        }
        all.insert(name, prepared);
        Ok(())
    }

    /// The statement of this name.
    pub(super) fn get(&self, name: &str) -> Result<Prepared> {
        let all = self.0.read();
        all.get(name).cloned().ok_or_else(|| unknown(name, all.keys().map(String::as_str)))
    }

    /// Removes the statement of this name, or all statements without a name.
    pub(super) fn remove(&self, name: Option<&str>) -> Result<()> {
        let mut all = self.0.write();
        match name {
            None => all.clear(),
            Some(name) if all.remove(name).is_none() => return Err(unknown(name, all.keys().map(String::as_str))),
            Some(_) => {}
        }
        Ok(())
    }
}

fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Error {
    let hint = nearest(name, known).map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
    Error::invalid(format!("there is no prepared statement {name}{hint}"))
}

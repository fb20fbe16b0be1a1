//! The options of COPY for a folder that holds objects.

use std::collections::HashMap;

use pushdowndb_contract::{Error, Result};

use crate::catalog::boolean;

/// What COPY does with a folder that holds objects of its format.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Existing {
    /// Refuses to write.
    #[default]
    Refuse,
    /// Keeps the objects.
    Append,
    /// Deletes the objects once the new ones are written.
    Overwrite,
}

impl Existing {
    /// Removes `append` and `overwrite` from the `options` of a COPY, and returns what they ask
    /// for.
    pub(crate) fn taken_from(options: &mut HashMap<String, String>) -> Result<Self> {
        let mut taken = |name: &str| match options.remove(&format!("format.{name}")) {
            Some(value) => boolean(&value).map_err(|error| error.context(format!("option '{name}'"))),
            None => Ok(false),
        };
        match (taken("append")?, taken("overwrite")?) {
            (false, false) => Ok(Self::Refuse),
            (true, false) => Ok(Self::Append),
            (false, true) => Ok(Self::Overwrite),
            (true, true) => Err(Error::invalid("COPY either appends or overwrites: say one of both")),
        }
    }
}

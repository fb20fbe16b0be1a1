//! JSON: one record per line, or values one after the other, with columns by name.

pub(crate) mod alike;
pub(crate) mod answer;
pub(crate) mod commas;
pub(crate) mod cut;
pub(crate) mod numbers;
pub(crate) mod path;
pub(crate) mod plain;
pub(crate) mod raw;
pub(crate) mod respell;
pub(crate) mod scan;
pub(crate) mod stages;
pub(crate) mod surplus;
pub(crate) mod typed;
pub(crate) mod value;
pub(crate) mod walk;

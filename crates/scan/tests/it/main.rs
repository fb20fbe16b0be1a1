//! Fragments over bytes, against Arrow's own readers and against each other.

mod aggregates;
mod compression;
mod csv_rules;
mod expressions;
mod hostile;
mod json;
mod parquet;
mod ranges;
mod support;

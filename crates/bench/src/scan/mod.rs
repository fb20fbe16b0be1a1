//! `scan`: how fast one core scans a local file in every format, beside other programs.
//!
//! ```text
//! definition   an experiment as data: contestants, queries, targets
//! data         the rows as files
//! run          measures cell after cell, in rounds
//! summary      medians, wrong answers, targets
//! record       the record as CSV and Markdown
//! ```

mod data;
mod definition;
mod record;
mod run;
mod summary;

pub use run::run;

/// The built-in definition.
const DEFINITION: &str = include_str!("../../../../experiments/scan.toml");

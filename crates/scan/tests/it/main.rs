//! Fragments over bytes, against Arrow's own readers and against each other.

mod aggregates;
mod compression;
mod csv_casts;
mod csv_conditions;
mod csv_marks;
mod csv_rules;
mod expressions;
mod groups;
mod hostile;
mod interrupt;
mod json;
mod json_paths;
mod matching;
mod memory;
mod parquet;
mod parquet_pruning;
mod parquet_types;
mod pieces;
mod positions;
mod ranges;
mod support;
mod top_k;
mod zones;

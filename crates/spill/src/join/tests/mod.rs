//! Tests: each join against a plain `HashJoinExec` without a limit.

mod behavior;
mod random;
mod run;
mod tables;

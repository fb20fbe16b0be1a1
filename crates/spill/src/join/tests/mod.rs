//! Tests that compare each join with a plain `HashJoinExec` without a memory limit.

mod behavior;
mod random;
mod run;
mod tables;

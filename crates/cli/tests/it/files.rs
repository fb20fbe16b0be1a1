//! Files read beside pyarrow, pandas and DuckDB: `conformance/files`.

use pushdowndb_testkit::python::run_script;
use pushdowndb_testkit::seed::{SEED, text_from};

/// Reads `PUSHDOWNDB_CASES` random files (1) of each format of seed `PUSHDOWNDB_SEED` (1), beside
/// hand-made ones.
#[test]
fn files_are_read_as_by_others() {
    let (seed, cases) = (text_from(SEED, "1"), text_from("PUSHDOWNDB_CASES", "1"));
    let binary = env!("CARGO_BIN_EXE_pushdowndb");
    run_script("conformance/files/run.py", ["--binary", binary, "--seed", &seed, "--cases", &cases]);
}

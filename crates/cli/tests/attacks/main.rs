//! Runs the attacks of `conformance/attacks` on this program, each on a node of its own while
//! another key continues to work.
//!
//! It is a target of its own, because test binaries run one after the other: the victim's limit of
//! two seconds would otherwise be measured beside tests that use every core.

use pushdowndb_testkit::python;

#[test]
fn a_node_withstands_every_attack() {
    if python::has("boto3") {
        let binary = ["--binary", env!("CARGO_BIN_EXE_pushdowndb")];
        python::run(python::script("conformance/attacks/run.py").args(binary));
    }
}

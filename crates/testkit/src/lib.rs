//! Parts of integration tests that several crates need.
//!
//! | module | what it has |
//! | --- | --- |
//! | [`batch`] | record batches as text |
//! | [`process`] | servers in processes of their own: start, wait until they serve, kill, measure |
//! | [`program`] | programs that run to their end, and their outcome |
//! | [`python`] | scripts of `conformance/` and `scripts/` |
//! | [`s3`] | clients of a bucket, and signed requests for plain sockets |
//! | [`seed`] | random seeds and counts from the environment |
//! | [`skip`] | notices that reach the terminal through the test harness |
//!
//! It depends on no other crate of the workspace, so that all of them can use it in their tests,
//! unit tests included. Functions panic on failures, as tests do.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod batch;
pub mod process;
pub mod program;
pub mod python;
pub mod s3;
pub mod seed;
pub mod skip;

use std::path::PathBuf;

/// Returns the root of the repository.
///
/// Tests run in the folder of their crate, which may have moved since they were compiled.
pub fn repository() -> PathBuf {
    std::fs::canonicalize("../..").expect("the root of the repository")
}

//! Fuzz targets for every parser of untrusted bytes.
//!
//! Each target runs on any bytes and panics on a fault: a panic in the code under test, or two
//! readings of the bytes that differ. `fuzz/run` lets a coverage-guided fuzzer generate the bytes;
//! the tests replay `fuzz/corpus/<target>`, which contains inputs that once failed.

mod choices;
mod csv;
mod expression;
mod fragment;
mod frames;
mod http;
mod json;
mod matcher;
mod parquet;
mod request;
mod route;
mod scans;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the target and of its corpus.
    pub name: &'static str,
    /// The function to run on each input.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 9] = [
    Target { name: "expression", run: expression::run },
    Target { name: "csv", run: csv::run },
    Target { name: "json", run: json::run },
    Target { name: "matcher", run: matcher::run },
    Target { name: "parquet", run: parquet::run },
    Target { name: "frames", run: frames::run },
    Target { name: "request", run: request::run },
    Target { name: "fragment", run: fragment::run },
    Target { name: "route", run: route::run },
];

/// The target of this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

//! Whatever reads bytes from outside, fed with any bytes.
//!
//! Each target takes bytes and panics if they show a fault: a panic in our code, or one reading of the bytes
//! that contradicts another. `fuzz/run` lets a coverage-guided fuzzer invent the bytes; the tests replay
//! `fuzz/corpus/<target>`, where inputs that once failed stay for good.

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

/// Something that takes bytes from outside.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is also that of its corpus.
    pub name: &'static str,
    /// Feeds it.
    pub run: fn(&[u8]),
}

/// All of them.
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

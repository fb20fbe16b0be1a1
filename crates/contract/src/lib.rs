//! The contract between the engine and storage.
//!
//! What crosses the wire is a closed, versioned language ([`Expr`], [`Fragment`]) instead of the
//! plans of a query engine, so a storage node can validate and bound it. For a foreign server,
//! [`classify`] decides from the endpoint's [`Capability`] which parts of the language the server
//! evaluates.
//!
//! The crate has no I/O and no runtime. Both sides of the network depend on it; neither depends on
//! the other.

// Bytes from outside must not make the process panic.
#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unreachable, clippy::unwrap_used))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bloom;
mod capability;
mod classify;
mod decimal;
mod error;
mod expr;
mod fingerprint;
mod fragment;
mod function;
pub mod index;
mod like;
pub mod limits;
mod timestamp;
pub mod token;
mod translation;
pub mod wire;

pub use bloom::{BloomFilter, Key, and_key};
pub use capability::{Capability, Dialect, Level, Profile};
pub use classify::{Exactness, classify, classify_aggregate, has_empty_and_null};
pub use error::{Error, ErrorKind, Result};
pub use expr::{ArithmeticOp, CompareOp, Expr, Literal};
pub use fingerprint::{Fingerprint, FingerprintBuilder};
pub use fragment::{
    AggregateCall, AggregateFunction, Compression, CsvOptions, DECLARED, EXACT, Format, Fragment, JsonOptions,
    JsonShape, JsonStep, MIXED, NamedExpr, NullRule, Output, Ragged, SortKey, Split, WideMarks,
};
pub use function::Function;
pub use like::{LikePart, like_parts, like_pattern, like_with_backslash};
pub use timestamp::{DatePart, Pattern, Timestamp, civil_from_days};
pub use translation::Translation;

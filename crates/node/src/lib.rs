//! Everything that clients can use up is bounded by [`Limits`].

// Panics are denied outside tests, so that no input can end the process.
#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unreachable, clippy::unwrap_used))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod admin;
mod admission;
mod config;
mod error;
mod fragment;
mod keys;
mod limits;
mod node;
mod process;
mod s3;
mod scans;
mod select;
mod server;
mod store;
mod telemetry;
mod transport;

pub use config::{Gateway, NodeConfig, Storage};
pub use keys::{Credentials, Grants, Key, Keyring, Right};
pub use limits::Limits;
pub use node::{Node, start};
pub use pushdowndb_tls::TlsFiles;
pub use store::{CheckProgress, CheckReport, check};
pub use telemetry::Counters;

//! The storage node: S3 with S3 Select, on local disks or in front of a folder or bucket.
//!
//! [`start`] returns a node that is bound and serving. Its modules, from the top:
//!
//! - `admin`: health, readiness and metrics;
//! - `server`: the listener, and the middleware around each request;
//! - `s3`: the S3 API, one file per group of operations;
//! - `select`, `fragment`: S3 Select and the fragment route, which run the `scan` crate;
//! - `scans`: permits, threads and caches of scans;
//! - `store`: where objects live, on local disks or behind a gateway;
//! - `transport`, `admission`, `keys`, `telemetry`: sockets and TLS, bounds, access keys, counters.
//!
//! Everything that a peer can use is bounded by [`Limits`].

// Input must not end the process.
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

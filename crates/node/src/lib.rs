//! The storage node: S3 with S3 Select on local disks or in front of a folder.
//!
//! [`start`] gives a node that is bound and serving. A connection comes in at the `server`, its requests are
//! admitted, recorded and answered by `answer`. Behind that lie three layers, each knowing only the one below:
//! the S3 edge (`s3`, one file per group of operations), S3 Select and the fragment route (`select` and `fragment`,
//! which run the `scan` crate over objects' bytes, on the threads of `scans`) and the store (`store`, where objects
//! live). Whatever a peer can fill is bounded by [`Limits`].

// Bytes from outside must not end the process.
#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unreachable, clippy::unwrap_used))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod admission;
mod answer;
mod config;
mod cores;
mod counters;
mod credentials;
mod error;
mod fragment;
mod health;
mod host;
mod keyring;
mod limits;
mod memory;
mod metrics;
mod node;
mod record;
mod s3;
mod scans;
mod select;
mod server;
mod silence;
mod socket;
mod stall;
mod store;
mod tls;
mod zones;

pub use config::{Backing, Gateway, NodeConfig, TlsFiles};
pub use counters::Counters;
pub use credentials::Credentials;
pub use keyring::{Grants, Key, Keyring, Right};
pub use limits::Limits;
pub use node::{Node, start};
pub use store::{CheckProgress, CheckReport, check};

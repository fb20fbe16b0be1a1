//! The storage node: S3 with S3 Select on local disks or in front of a folder.
//!
//! [`start`] gives a node that is bound and serving. Behind it lie three layers, each knowing only the one
//! below: the S3 edge (`s3`, one file per group of operations), S3 Select (`select`, which runs the `scan`
//! crate over an object's bytes) and the store (`store`, where objects live). Whatever a peer can fill is
//! bounded by [`Limits`].

#![warn(missing_docs)]

mod config;
mod counters;
mod credentials;
mod error;
mod limits;
mod node;
mod s3;
mod select;
mod server;
mod socket;
mod stall;
mod store;

pub use config::{Backing, NodeConfig};
pub use counters::Counters;
pub use credentials::Credentials;
pub use limits::Limits;
pub use node::{Node, start};

//! The HTTP client of all object stores: of the engine's tables and behind a gateway.
//!
//! The client of `object_store` follows redirects anywhere, with this machine's network access, and
//! passes on bodies of any length. This one follows no redirect, checks that an answer is the
//! requested part, and fails a body that is shorter or longer than promised. The checks are below
//! every reader, so that no reader can forget them.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod body;
mod client;
mod error;
mod expected;
pub mod reads;
mod trust;

pub use client::{Connector, Patience, Resolver};
/// The traits of resolvers.
pub use reqwest::dns;
pub use trust::{CA_BUNDLE, is_untrusted};

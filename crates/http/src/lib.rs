//! The HTTP client under every object store: those of the engine's tables, and the one behind a
//! gateway.
//!
//! The default client of `object_store` follows redirects to any address that this machine can
//! reach and passes on bodies of any length. This one follows no redirect, checks that a response
//! is the requested part, and fails a body that is shorter or longer than promised. The checks are
//! made below every reader, so that no reader can omit them.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod body;
mod client;
mod error;
mod expected;
pub mod reads;
mod trust;

pub use client::{Connector, Patience, Resolver};
/// The traits that a [`Resolver`] implements.
pub use reqwest::dns;
pub use trust::{CA_BUNDLE, is_untrusted};

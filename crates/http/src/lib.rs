//! The HTTP client under every object store: of the engine's tables and of what is behind a gateway.
//!
//! `object_store` brings a client of its own. That one follows redirects to wherever they lead, with the rights of
//! this machine's network, and hands on bodies of any length. This one follows no redirect, checks that an answer is
//! the part that was asked for, and fails a body that is shorter or longer than its head promised. Errors are made
//! here, below every reader, so that no reader can forget them.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod body;
mod client;
mod expected;
mod trust;

pub use client::{Connector, Patience, Resolver};
/// The traits of resolvers.
pub use reqwest::dns;
pub use trust::{CA_BUNDLE, is_untrusted};

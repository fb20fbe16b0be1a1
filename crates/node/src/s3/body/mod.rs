//! Bodies of requests: progress, signatures, checksums, bounds, and their way into the store.

pub(crate) mod checksums;
mod chunked;
pub(crate) mod document;
mod error;
pub(crate) mod payload;
pub(crate) mod trailer;
pub(crate) mod upload;
pub(crate) mod watched;

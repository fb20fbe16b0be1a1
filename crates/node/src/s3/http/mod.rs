//! HTTP around S3: hosts, forms, cross-origin rules, headers, documents.

pub(crate) mod cors;
pub(crate) mod document;
pub(crate) mod encryption;
pub(crate) mod form;
pub(crate) mod host;
pub(crate) mod lenient;

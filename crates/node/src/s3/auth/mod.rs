//! Authentication and authorization: which key sent a request, and what it may do.

pub(crate) mod chunk_chain;
pub(crate) mod form;
pub(crate) mod grant;
pub(crate) mod presigned;
pub(crate) mod scheme;
pub(crate) mod signer;
pub(crate) mod signing;
pub(crate) mod verify;
mod version_2;
pub(crate) mod version_4;

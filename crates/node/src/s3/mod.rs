//! The S3 edge: requests in, operations on the store, answers out.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`service`] | authenticates, authorizes and admits a request, and hands it to s3s |
//! | [`access`] | authorizes the operation that s3s found in it |
//! | [`op`] | the operations, one file per group |
//! | [`body`] | bodies: chunks, digests, documents, the way into the store |
//! | [`auth`] | signatures, presigned addresses, grants |
//! | [`http`], [`convert`] | hosts, forms, cross-origin rules; the shapes of S3 and of the store |

mod access;
mod auth;
mod body;
mod context;
mod convert;
mod http;
mod op;
mod service;

pub(crate) use context::{ErrorCode, RequestId};
pub(crate) use service::{Service, service};

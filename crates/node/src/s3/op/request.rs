//! Access to the extensions of a request, and the types of answers.

use http::Extensions;
use s3s::dto::{Initiator, Owner};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::admission::Requester;
use crate::s3::auth::grant::Authorized;
use crate::s3::auth::signer::Signer;
use crate::store::Grant;

/// The id and name of the owner of all buckets and objects.
pub(crate) const OWNER: &str = "pushdowndb";

pub(crate) fn owner() -> Owner {
    Owner { display_name: Some(OWNER.to_owned()), id: Some(OWNER.to_owned()) }
}

pub(crate) fn initiator() -> Initiator {
    Initiator { display_name: Some(OWNER.to_owned()), id: Some(OWNER.to_owned()) }
}

/// The permission from the authorization of the request's head.
pub(crate) fn grant_of<T>(req: &S3Request<T>) -> S3Result<Grant> {
    let given = req.extensions.get::<Authorized>();
    given.map(|given| given.grant.clone()).ok_or_else(|| s3_error!(InternalError, "a request without permission"))
}

/// The key that signed a request, and its share of the node.
pub(crate) fn requester_of(extensions: &Extensions) -> S3Result<Requester> {
    extensions.get().cloned().ok_or_else(|| s3_error!(InternalError, "a request without a signer"))
}

/// The key that signed a request.
pub(crate) fn signer<T>(req: &S3Request<T>) -> Option<&Signer> {
    req.extensions.get()
}

/// The answer of an operation: its output, or a response with headers that the output lacks.
pub(crate) trait Answer<T> {
    fn into_response(self) -> S3Response<T>;
}

impl<T> Answer<T> for T {
    fn into_response(self) -> S3Response<T> {
        S3Response::new(self)
    }
}

impl<T> Answer<T> for S3Response<T> {
    fn into_response(self) -> Self {
        self
    }
}

//! The fragment route: `POST /bucket?pushdowndb-fragment`, signed as S3 requests are and authorized
//! as a read of the bucket.

use std::sync::Arc;

use futures::StreamExt;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Method, Uri};
use pushdowndb_contract::limits::FRAGMENT_REQUEST_BYTES;
use pushdowndb_contract::wire::{QUERY, Request};
use s3s::dto::StreamingBlob;
use s3s::path::S3Path;
use s3s::{Body, HttpResponse, S3Result, s3_error};

use super::handler::S3Handler;
use crate::error::to_s3;
use crate::fragment::{self, Objects, RequestContext};
use crate::s3::auth::signer::{Signer, admit};
use crate::s3::body::document::read_document;
use crate::telemetry::{RequestRecord, Target};

/// The name of the route in logs and metrics, in place of an S3 operation.
const OPERATION: &str = "RunFragment";

/// Whether a request is one of the fragment route.
pub(crate) fn is_request(method: &Method, uri: &Uri) -> bool {
    let mut names = uri.query().unwrap_or_default().split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    method == Method::POST && names.any(|name| name == QUERY)
}

/// Answers a request that `signer` sent to `path`.
pub(crate) async fn answer(
    handler: &S3Handler,
    path: &S3Path,
    mut parts: Parts,
    mut body: Body,
    signer: Signer,
) -> S3Result<HttpResponse> {
    let S3Path::Bucket { bucket } = path else {
        return Err(s3_error!(InvalidRequest, "a fragment is sent to a bucket: POST /bucket?{}", QUERY));
    };
    let bucket = bucket.to_string();
    let record = parts.extensions.get::<Arc<RequestRecord>>().cloned();
    let record = record.ok_or_else(|| s3_error!(InternalError, "a request without a record"))?;
    record.identify(Target {
        operation: OPERATION.to_owned(),
        bucket: Some(bucket.clone()),
        key: None,
        access_key: Some(signer.access_key_id.clone()),
    });
    let grant = handler.authorize_read(Some(&signer), &bucket).await?;
    let requester = admit(&mut parts.extensions, &handler.keys, &signer).await?;
    handler.counting.request(OPERATION);
    // Reads the body before taking a permit, so that no permit is held while the body arrives.
    let (limits, memory) = (&handler.limits, handler.memory.bodies(&requester.key));
    let (body, held) = read_document(&mut body, &parts.headers, FRAGMENT_REQUEST_BYTES, limits, &memory).await?;
    let permit = handler.scans.permit(&requester, Some(Arc::clone(&record))).await.map_err(|_| {
        s3_error!(SlowDown, "all {} turns for scans and the places to wait for one are taken", handler.limits.selects)
    })?;
    let context = RequestContext {
        objects: Objects { store: Arc::clone(&handler.store), bucket, grant },
        requester,
        limits: handler.limits.clone(),
        counting: Arc::clone(&handler.counting),
        scans: Arc::clone(&handler.scans),
        record,
        permit,
    };
    // Decoding and planning run on the scan threads too, so that their time is charged to the
    // request.
    let (account, end) = (context.permit.account(), context.permit.cancel_on_drop());
    let started = account.spawn(async move { fragment::answer(Request::from_bytes(&body)?, context) });
    let started = started.await.map_err(|error| s3_error!(error, InternalError, "the work did not start"))?;
    let events = started.map_err(|error| to_s3(&error))?;
    // From here on, dropping the response cancels the scan.
    end.disarm();
    let events = events.map(move |event| {
        // The decoded body lives as long as the response.
        let _held = &held;
        Ok::<_, std::io::Error>(event)
    });
    let mut response = HttpResponse::new(Body::from(StreamingBlob::wrap(events)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/vnd.amazon.eventstream"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_the_route_are_told_from_s3() {
        let is = |method, text: &str| is_request(&method, &text.parse().unwrap());
        assert!(is(Method::POST, "/b?pushdowndb-fragment") && is(Method::POST, "/?x=1&pushdowndb-fragment="));
        assert!(!is(Method::GET, "/b?pushdowndb-fragment") && !is(Method::POST, "/b?x=pushdowndb-fragment"));
        assert!(!is(Method::POST, "/pushdowndb-fragment?delete"));
    }
}

//! The fragment route: `POST /bucket?pushdowndb-fragment`, signed as S3 is and authorised as a read of the bucket.

use std::sync::Arc;

use futures::StreamExt;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Uri};
use pushdown::limits::FRAGMENT_REQUEST_BYTES;
use pushdown::wire::{QUERY, Request};
use s3s::dto::StreamingBlob;
use s3s::{Body, S3Request, S3Response, S3Result, s3_error};

use crate::error::to_s3;
use crate::fragment::{self, Desk, Objects};
use crate::record::{RequestRecord, Target};
use crate::s3::host::Domains;
use crate::s3::verified::read_document;
use crate::s3::{Edge, admit, requester_of};

/// What the route is called where S3 operations have names.
const OPERATION: &str = "RunFragment";

pub(in crate::s3) fn is_request(method: &Method, uri: &Uri) -> bool {
    let mut names = uri.query().unwrap_or_default().split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    method == Method::POST && names.any(|name| name == QUERY)
}

pub(in crate::s3) async fn answer(
    edge: &Edge,
    domains: &Domains,
    mut request: S3Request<Body>,
) -> S3Result<S3Response<Body>> {
    let bucket = bucket_of(domains, &request)?;
    let record = request.extensions.get::<Arc<RequestRecord>>().cloned();
    let record = record.ok_or_else(|| s3_error!(InternalError, "a request without a record"))?;
    let signer = request.credentials.clone();
    record.identify(Target {
        operation: OPERATION.to_owned(),
        bucket: Some(bucket.clone()),
        key: None,
        access_key: signer.as_ref().map(|signer| signer.access_key.clone()),
    });
    let grant = edge.authorise_read(signer.as_ref(), &bucket).await?;
    if let Some(signer) = &signer {
        admit(&mut request.extensions, &edge.keys, signer).await?;
    }
    edge.counting.request(OPERATION);
    // A turn is taken when the work is there: it is not held for a body that does not come.
    let requester = requester_of(&request.extensions)?;
    let (limits, memory) = (&edge.limits, edge.memory.bodies(&requester.key));
    let (body, held) =
        read_document(&mut request.input, &request.headers, FRAGMENT_REQUEST_BYTES, limits, &memory).await?;
    let turn = edge.scans.turn(&requester, Some(Arc::clone(&record))).await.map_err(|_| {
        s3_error!(SlowDown, "all {} turns for scans and the places to wait for one are taken", edge.limits.selects)
    })?;
    let desk = Desk {
        objects: Objects { store: Arc::clone(&edge.store), bucket, grant },
        requester,
        limits: edge.limits.clone(),
        counting: Arc::clone(&edge.counting),
        scans: Arc::clone(&edge.scans),
        record,
        turn,
    };
    // Decoding and binding may take a while as well, and are booked.
    let (bill, end) = (desk.turn.bill(), desk.turn.end_on_drop());
    let started = bill.spawn(async move { fragment::answer(Request::from_bytes(&body)?, desk) });
    let started = started.await.map_err(|error| s3_error!(error, InternalError, "the work did not start"))?;
    let events = started.map_err(|error| to_s3(&error))?;
    // From here on the answer ends it.
    end.disarm();
    let events = events.map(move |event| {
        // What was made of the body lives as long as the answer.
        let _held = &held;
        Ok::<_, std::io::Error>(event)
    });
    let mut response = S3Response::new(Body::from(StreamingBlob::wrap(events)));
    response.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/vnd.amazon.eventstream"));
    Ok(response)
}

/// The bucket that the host or the path names.
fn bucket_of(domains: &Domains, request: &S3Request<Body>) -> S3Result<String> {
    match domains.bucket_of(&request.uri, &request.headers) {
        (Some(bucket), false) if s3s::path::check_bucket_name(&bucket) => Ok(bucket),
        _ => Err(s3_error!(InvalidRequest, "a fragment is sent to a bucket: POST /bucket?{}", QUERY)),
    }
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

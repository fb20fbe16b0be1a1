//! SelectObjectContent.

use std::sync::Arc;

use pushdowndb_select::{EXTENSIONS_HEADER, Extensions};
use s3s::dto::{ETagCondition, SelectObjectContentInput, SelectObjectContentOutput};
use s3s::{S3Request, S3Result, s3_error};

use super::handler::S3Handler;
use super::request::{grant_of, requester_of};
use crate::s3::convert::attributes::refuse;
use crate::s3::convert::conditions::Conditions;
use crate::select;
use crate::telemetry::RequestRecord;

pub(crate) async fn select_object_content(
    handler: &S3Handler,
    req: S3Request<SelectObjectContentInput>,
) -> S3Result<SelectObjectContentOutput> {
    let (grant, requester) = (grant_of(&req)?, requester_of(&req.extensions)?);
    let input = req.input;
    refuse(&[
        ("sse-customer-algorithm", input.sse_customer_algorithm.is_some()),
        ("sse-customer-key", input.sse_customer_key.is_some()),
    ])?;
    if req.headers.contains_key(http::header::RANGE) {
        return Err(s3_error!(UnsupportedRangeHeader, "Select takes a ScanRange in its request, not a Range header"));
    }
    let extensions = req.headers.get(EXTENSIONS_HEADER).and_then(|value| value.to_str().ok());
    let extensions = Extensions::from_header(extensions);
    // S3 has no If-Match for this operation, but engines that pin a version send it.
    let if_match = match req.headers.get(http::header::IF_MATCH) {
        None => None,
        Some(value) => Some(
            ETagCondition::parse_http_header(value.as_bytes())
                .map_err(|_| s3_error!(InvalidArgument, "the If-Match header is malformed"))?,
        ),
    };
    let record = req.extensions.get::<Arc<RequestRecord>>().cloned();
    let permit = handler.scans.permit(&requester, record).await.map_err(|_| {
        s3_error!(
            SlowDown,
            "all {} turns for S3 Select and the places to wait for one are taken",
            handler.limits.selects
        )
    })?;
    let object = handler.open(&grant, &input.bucket, &input.key).await?;
    Conditions { if_match, ..Conditions::default() }.check(&object.meta)?;
    let (limits, counting) = (handler.limits.clone(), Arc::clone(&handler.counting));
    let footer = handler.scans.footer(&object);
    // Planning reads and parses too, so it runs on the scan threads and is canceled if the client
    // disconnects.
    let (account, end) = (permit.account(), permit.cancel_on_drop());
    let memory = permit.memory().clone();
    let data = Arc::new(object.data.for_scan(account.meter().clone(), &memory));
    let object = select::SelectObject { data, footer, memory };
    let answer = account
        .spawn(async move { select::answer(input.request, extensions, object, &limits, counting, permit).await });
    let payload = answer.await.map_err(|error| s3_error!(error, InternalError, "the scan did not start"))??;
    // From here on, dropping the response cancels the scan.
    end.disarm();
    Ok(SelectObjectContentOutput { payload: Some(payload) })
}

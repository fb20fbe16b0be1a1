//! SelectObjectContent.

use std::sync::Arc;

use pushdowndb_select::{EXTENSIONS_HEADER, Extensions};
use s3s::dto::{ETagCondition, SelectObjectContentInput, SelectObjectContentOutput};
use s3s::{S3Request, S3Result, s3_error};

use crate::record::RequestRecord;
use crate::s3::attributes::refuse;
use crate::s3::conditions::Conditions;
use crate::s3::{Edge, grant_of, requester_of};
use crate::select;

pub(in crate::s3) async fn select_object_content(
    edge: &Edge,
    req: S3Request<SelectObjectContentInput>,
) -> S3Result<SelectObjectContentOutput> {
    let (grant, requester) = (grant_of(&req)?, requester_of(&req.extensions)?);
    let input = req.input;
    refuse!(input, sse_customer_algorithm, sse_customer_key);
    if req.headers.contains_key(http::header::RANGE) {
        return Err(s3_error!(UnsupportedRangeHeader, "Select takes a ScanRange in its request, not a Range header"));
    }
    let extensions = req.headers.get(EXTENSIONS_HEADER).and_then(|value| value.to_str().ok());
    let extensions = Extensions::from_header(extensions);
    // S3 has no If-Match here; engines that pin a version send it all the same.
    let if_match = match req.headers.get(http::header::IF_MATCH) {
        None => None,
        Some(value) => Some(
            ETagCondition::parse_http_header(value.as_bytes())
                .map_err(|_| s3_error!(InvalidArgument, "the If-Match header is malformed"))?,
        ),
    };
    let record = req.extensions.get::<Arc<RequestRecord>>().cloned();
    let turn = edge.scans.turn(&requester, record).await.map_err(|_| {
        s3_error!(SlowDown, "all {} turns for S3 Select and the places to wait for one are taken", edge.limits.selects)
    })?;
    let object = edge.open(&grant, &input.bucket, &input.key).await?;
    Conditions { if_match, ..Conditions::default() }.check(&object.meta)?;
    let (limits, counting) = (edge.limits.clone(), Arc::clone(&edge.counting));
    let footer = edge.scans.footer(&object);
    // Planning reads and parses as well; a client that goes away ends it.
    let (bill, end) = (turn.bill(), turn.end_on_drop());
    let memory = turn.memory().clone();
    let object = select::Selected { data: Arc::new(object.data.billed(bill.clone())), footer, memory };
    let answer =
        bill.spawn(async move { select::answer(input.request, extensions, object, &limits, counting, turn).await });
    let payload = answer.await.map_err(|error| s3_error!(error, InternalError, "the scan did not start"))??;
    // From here on the answer ends it.
    end.disarm();
    Ok(SelectObjectContentOutput { payload: Some(payload) })
}

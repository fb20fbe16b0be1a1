//! SelectObjectContent.

use std::sync::Arc;

use s3s::dto::{ETagCondition, SelectObjectContentInput, SelectObjectContentOutput};
use s3s::{S3Request, S3Result, s3_error};

use crate::s3::Edge;
use crate::s3::attributes::refuse;
use crate::s3::conditions::Conditions;
use crate::select;

pub(in crate::s3) async fn select_object_content(
    edge: &Edge,
    req: S3Request<SelectObjectContentInput>,
) -> S3Result<SelectObjectContentOutput> {
    let input = req.input;
    refuse!(input, sse_customer_algorithm, sse_customer_key);
    // S3 has no If-Match here; engines that pin a version send it all the same.
    let if_match = match req.headers.get(http::header::IF_MATCH) {
        None => None,
        Some(value) => Some(
            ETagCondition::parse_http_header(value.as_bytes())
                .map_err(|_| s3_error!(InvalidArgument, "the If-Match header is malformed"))?,
        ),
    };
    let turns = Arc::clone(&edge.selects);
    let turn = match tokio::time::timeout(edge.limits.select_wait, turns.acquire_owned()).await {
        Ok(Ok(turn)) => turn,
        _ => return Err(s3_error!(SlowDown, "all {} turns for S3 Select are taken; try again", edge.limits.selects)),
    };
    let object = edge.store.open(&input.bucket, &input.key).await?;
    Conditions { if_match, ..Conditions::default() }.check(&object.meta)?;
    let counting = Arc::clone(&edge.counting);
    let payload = select::answer(input.request, Arc::new(object.data), &edge.limits, counting, turn).await?;
    Ok(SelectObjectContentOutput { payload: Some(payload) })
}

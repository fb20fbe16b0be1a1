//! GetObject and HeadObject.

use std::ops::Range;

use http::header::CONTENT_RANGE;
use http::{HeaderMap, HeaderValue};
use s3s::dto::{
    ChecksumMode, GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput, PartNumber, StreamingBlob,
};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result, s3_error};

use crate::s3::Edge;
use crate::s3::attributes::{describe, put_checksum, refuse};
use crate::s3::conditions::Conditions;
use crate::store::ObjectMeta;

pub(in crate::s3) async fn get_object(edge: &Edge, req: S3Request<GetObjectInput>) -> S3Result<GetObjectOutput> {
    let input = req.input;
    refuse!(input, sse_customer_algorithm, sse_customer_key);
    no_version(input.version_id.as_deref())?;
    let object = edge.store.open(&input.bucket, &input.key).await?;
    let conditions = Conditions {
        if_match: input.if_match,
        if_none_match: input.if_none_match,
        if_modified_since: input.if_modified_since,
        if_unmodified_since: input.if_unmodified_since,
    };
    conditions.check(&object.meta)?;
    let part = part(&object.meta, input.range.as_ref(), input.part_number)?;
    let range = part.clone().unwrap_or(0..object.meta.size);

    let mut output = GetObjectOutput {
        content_length: i64::try_from(range.end - range.start).ok(),
        content_range: part.map(|part| content_range(&part, object.meta.size)),
        parts_count: input.part_number.map(|_| parts_count(&object.meta)),
        ..GetObjectOutput::default()
    };
    describe!(output, &object.meta);
    if output.content_range.is_none() && wants_checksum(input.checksum_mode.as_ref()) {
        put_checksum!(output, &object.meta.checksum);
    }
    output.body = Some(StreamingBlob::wrap(object.data.blocks(range)));
    Ok(output)
}

pub(in crate::s3) async fn head_object(edge: &Edge, req: S3Request<HeadObjectInput>) -> S3Result<HeadObjectOutput> {
    let input = req.input;
    refuse!(input, sse_customer_algorithm, sse_customer_key);
    no_version(input.version_id.as_deref())?;
    let meta = edge.store.head(&input.bucket, &input.key).await?;
    let conditions = Conditions {
        if_match: input.if_match,
        if_none_match: input.if_none_match,
        if_modified_since: input.if_modified_since,
        if_unmodified_since: input.if_unmodified_since,
    };
    conditions.check(&meta)?;
    let part = part(&meta, input.range.as_ref(), input.part_number)?;
    let range = part.clone().unwrap_or(0..meta.size);

    let mut output = HeadObjectOutput {
        content_length: i64::try_from(range.end - range.start).ok(),
        content_range: part.map(|part| content_range(&part, meta.size)),
        parts_count: input.part_number.map(|_| parts_count(&meta)),
        ..HeadObjectOutput::default()
    };
    describe!(output, &meta);
    if output.content_range.is_none() && wants_checksum(input.checksum_mode.as_ref()) {
        put_checksum!(output, &meta.checksum);
    }
    Ok(output)
}

/// Objects have one version, which S3 calls `null`.
pub(super) fn no_version(id: Option<&str>) -> S3Result<()> {
    match id {
        None | Some("null") => Ok(()),
        Some(_) => Err(s3_error!(NoSuchVersion, "objects have no versions here")),
    }
}

fn wants_checksum(mode: Option<&ChecksumMode>) -> bool {
    mode.is_some_and(|mode| mode.as_str() == ChecksumMode::ENABLED)
}

/// The part of the object that was asked for, if not all of it.
fn part(
    meta: &ObjectMeta,
    range: Option<&s3s::dto::Range>,
    number: Option<PartNumber>,
) -> S3Result<Option<Range<u64>>> {
    match (range, number) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(s3_error!(InvalidRequest, "Range and partNumber exclude each other")),
        (Some(range), None) => match range.check(meta.size) {
            Ok(range) if !range.is_empty() => Ok(Some(range)),
            _ => Err(out_of_range(meta.size)),
        },
        (None, Some(number)) => {
            let at = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
            let whole = std::slice::from_ref(&meta.size);
            let parts = if meta.parts.is_empty() { whole } else { &meta.parts };
            let at = at.filter(|at| *at < parts.len()).ok_or_else(|| s3_error!(InvalidPart, "no such part"))?;
            let start: u64 = parts.iter().take(at).sum();
            let size = parts.get(at).copied().unwrap_or(0);
            // An empty part has no range to name.
            Ok((size > 0).then(|| start..start + size))
        }
    }
}

fn parts_count(meta: &ObjectMeta) -> i32 {
    i32::try_from(meta.parts.len().max(1)).unwrap_or(i32::MAX)
}

fn content_range(range: &Range<u64>, size: u64) -> String {
    format!("bytes {}-{}/{size}", range.start, range.end.saturating_sub(1))
}

fn out_of_range(size: u64) -> S3Error {
    let message = format!("the range does not meet the object's {size} bytes");
    let mut error = S3Error::with_message(S3ErrorCode::InvalidRange, message);
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_str(&format!("bytes */{size}")) {
        headers.insert(CONTENT_RANGE, value);
    }
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    error.set_headers(headers);
    error
}

//! GetObject and HeadObject.

use std::ops::Range;

use futures::{StreamExt, stream};
use http::header::{CONTENT_RANGE, IF_RANGE};
use http::{HeaderMap, HeaderValue};
use s3s::dto::{
    ChecksumMode, GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput, PartNumber, StreamingBlob,
};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};

use super::handler::S3Handler;
use super::request::grant_of;
use crate::s3::auth::presigned::Overrides;
use crate::s3::body::checksums::put_typed_checksum;
use crate::s3::body::document::slow_down;
use crate::s3::convert::attributes::{ObjectHeaders as _, no_version, refuse};
use crate::s3::convert::conditions::{Conditions, is_state};
use crate::store::{Checksum, ObjectMeta, PartMeta, StoreError};

pub(crate) async fn get_object(
    handler: &S3Handler,
    req: S3Request<GetObjectInput>,
) -> S3Result<S3Response<GetObjectOutput>> {
    let Overrides(overrides) = req.extensions.get().cloned().unwrap_or_default();
    let grant = grant_of(&req)?;
    let (mut input, if_range) = (req.input, req.headers.get(IF_RANGE));
    refuse(&[
        ("sse-customer-algorithm", input.sse_customer_algorithm.is_some()),
        ("sse-customer-key", input.sse_customer_key.is_some()),
    ])?;
    no_version(input.version_id.as_deref())?;
    let object = handler.open(&grant, &input.bucket, &input.key).await?;
    let conditions = Conditions {
        if_match: input.if_match,
        if_none_match: input.if_none_match,
        if_modified_since: input.if_modified_since,
        if_unmodified_since: input.if_unmodified_since,
    };
    conditions.check(&object.meta)?;
    if if_range.is_some_and(|state| !is_state(state, &object.meta)) {
        input.range = None;
    }
    let slice = Slice::of(&object.meta, input.range.as_ref(), input.part_number)?;

    let mut output = GetObjectOutput {
        content_length: slice.length(),
        content_range: slice.content_range(),
        parts_count: slice.parts_count(),
        tag_count: i32::try_from(object.meta.tags.len()).ok().filter(|count| *count > 0),
        ..GetObjectOutput::default()
    };
    output.describe(&object.meta);
    let checksum = slice.checksum(input.checksum_mode.as_ref());
    put_typed_checksum(&mut output, checksum.as_ref());
    // Held until the last block has been sent.
    let held = handler.memory.transfer().await.map_err(slow_down)?;
    let mut blocks = Box::pin(object.data.blocks(slice.range));
    // Reads the first block before the response begins, so that damage in it causes an error
    // response instead of a truncated one.
    let first = blocks.next().await.transpose().map_err(StoreError::io("cannot read the object"))?;
    let body = stream::iter(first.map(Ok)).chain(blocks).inspect(move |_| {
        let _held = &held;
    });
    output.body = Some(StreamingBlob::wrap(body));
    Ok(S3Response::with_headers(output, overrides))
}

pub(crate) async fn head_object(
    handler: &S3Handler,
    req: S3Request<HeadObjectInput>,
) -> S3Result<S3Response<HeadObjectOutput>> {
    let Overrides(overrides) = req.extensions.get().cloned().unwrap_or_default();
    let input = req.input;
    refuse(&[
        ("sse-customer-algorithm", input.sse_customer_algorithm.is_some()),
        ("sse-customer-key", input.sse_customer_key.is_some()),
    ])?;
    no_version(input.version_id.as_deref())?;
    let meta = handler.store.head(&input.bucket, &input.key).await?;
    let conditions = Conditions {
        if_match: input.if_match,
        if_none_match: input.if_none_match,
        if_modified_since: input.if_modified_since,
        if_unmodified_since: input.if_unmodified_since,
    };
    conditions.check(&meta)?;
    let slice = Slice::of(&meta, input.range.as_ref(), input.part_number)?;

    let mut output = HeadObjectOutput {
        content_length: slice.length(),
        content_range: slice.content_range(),
        parts_count: slice.parts_count(),
        ..HeadObjectOutput::default()
    };
    output.describe(&meta);
    let checksum = slice.checksum(input.checksum_mode.as_ref());
    put_typed_checksum(&mut output, checksum.as_ref());
    let mut response = S3Response::with_headers(output, overrides);
    if !meta.tags.is_empty() {
        response.headers.insert("x-amz-tagging-count", HeaderValue::from(meta.tags.len()));
    }
    Ok(response)
}

/// The bytes of an object that a request asks for.
struct Slice<'a> {
    meta: &'a ObjectMeta,
    range: Range<u64>,
    /// Whether the response is partial (206).
    partial: bool,
    /// The part that was requested by number.
    part: Option<&'a PartMeta>,
    by_part: bool,
}

impl<'a> Slice<'a> {
    fn of(meta: &'a ObjectMeta, range: Option<&s3s::dto::Range>, number: Option<PartNumber>) -> S3Result<Self> {
        let whole = Self { meta, range: 0..meta.size, partial: false, part: None, by_part: false };
        match (range, number) {
            (None, None) => Ok(whole),
            (Some(_), Some(_)) => {
                Err(s3_error!(InvalidRequest, "Cannot specify both Range header and partNumber query parameter"))
            }
            // A suffix range of an empty object selects the whole object, which has no range to
            // report.
            (Some(s3s::dto::Range::Suffix { length: 1.. }), None) if meta.size == 0 => Ok(whole),
            (Some(range), None) => match range.check(meta.size) {
                Ok(range) if !range.is_empty() => Ok(Self { range, partial: true, ..whole }),
                _ => Err(out_of_range(meta.size)),
            },
            (None, Some(number)) => whole.part(number),
        }
    }

    fn part(self, number: PartNumber) -> S3Result<Self> {
        let missing = || s3_error!(InvalidPart, "The requested partnumber is not satisfiable");
        let number = u32::try_from(number).ok().filter(|number| *number > 0).ok_or_else(missing)?;
        if self.meta.parts.is_empty() {
            // An object from a single PUT counts as one part.
            return if number == 1 { Ok(Self { by_part: true, ..self }) } else { Err(missing()) };
        }
        let mut start = 0;
        for (place, part) in self.meta.parts.iter().enumerate() {
            // Format 1 of the store has no part numbers; they then count from 1.
            let its = if part.number == 0 { place as u32 + 1 } else { part.number };
            if its == number {
                let range = start..start + part.size;
                // An empty part has no range to report.
                return Ok(Self { partial: !range.is_empty(), range, part: Some(part), by_part: true, ..self });
            }
            start += part.size;
        }
        Err(missing())
    }

    fn length(&self) -> Option<i64> {
        i64::try_from(self.range.end - self.range.start).ok()
    }

    fn content_range(&self) -> Option<String> {
        self.partial.then(|| content_range(&self.range, self.meta.size))
    }

    fn parts_count(&self) -> Option<i32> {
        let parts = self.meta.parts.len();
        i32::try_from(parts).ok().filter(|_| self.by_part && parts > 0)
    }

    /// The stored checksum of exactly these bytes, if the request asks for it.
    fn checksum(&self, mode: Option<&ChecksumMode>) -> Option<Checksum> {
        let checksum = self.meta.checksum.as_ref()?;
        if mode.is_none_or(|mode| mode.as_str() != ChecksumMode::ENABLED) {
            return None;
        }
        match self.part {
            Some(part) => part.checksum.clone().map(|value| Checksum { value, algorithm: checksum.algorithm }),
            None => (!self.partial).then(|| checksum.clone()),
        }
    }
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

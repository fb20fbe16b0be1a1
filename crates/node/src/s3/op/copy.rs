//! CopyObject and UploadPartCopy: copies inside the store.
//!
//! A copy shares the bytes of its source; they are rewritten only to compute a checksum with
//! another algorithm. A source whose checksums were not verified recently is read first, so that
//! damage is not copied.

use futures::StreamExt;
use s3s::dto::*;
use s3s::{S3Request, S3Result, s3_error};

use super::acl::check_write;
use super::handler::S3Handler;
use super::multipart::part_number;
use super::request::{grant_of, requester_of, signer};
use crate::admission::WorkPermit;
use crate::s3::auth::signer::Signer;
use crate::s3::body::checksums::{algorithm, put_checksum, put_typed_checksum};
use crate::s3::convert::attributes::{etag, no_version, one_of, refuse, take_attributes, timestamp};
use crate::s3::convert::conditions::{Conditions, write_condition};
use crate::s3::convert::tags;
use crate::store::{Algorithm, Body, CopyRequest, Grant, ObjectMeta, PutOptions, StoreError, UploadKey};

pub(crate) async fn copy_object(handler: &S3Handler, req: S3Request<CopyObjectInput>) -> S3Result<CopyObjectOutput> {
    let (signer, grant) = (signer(&req).cloned(), grant_of(&req)?);
    let requester = requester_of(&req.extensions)?;
    let mut input = req.input;
    check_write(handler, &input).await?;
    refuse(&[
        ("copy-source-sse-customer-algorithm", input.copy_source_sse_customer_algorithm.is_some()),
        ("copy-source-sse-customer-key", input.copy_source_sse_customer_key.is_some()),
    ])?;
    let (from_bucket, from_key, may_read) = source(handler, signer.as_ref(), &input.copy_source).await?;
    let conditions = Conditions {
        if_match: input.copy_source_if_match.take(),
        if_none_match: input.copy_source_if_none_match.take(),
        if_modified_since: input.copy_source_if_modified_since.take(),
        if_unmodified_since: input.copy_source_if_unmodified_since.take(),
    };
    let directives = [("COPY", false), ("REPLACE", true)];
    let directive = input.metadata_directive.as_ref().map(MetadataDirective::as_str);
    let replace = one_of(directive, &directives, "x-amz-metadata-directive", false)?;
    let directive = input.tagging_directive.as_ref().map(TaggingDirective::as_str);
    let retag = one_of(directive, &directives, "x-amz-tagging-directive", false)?;
    let asked = input.checksum_algorithm.as_ref().map(|name| algorithm(name.as_str())).transpose()?;
    if !replace && !retag && asked.is_none() && from_bucket == input.bucket && from_key == input.key {
        return Err(s3_error!(
            InvalidRequest,
            "This copy request is illegal because it is trying to copy an object to itself without changing the \
             object's metadata, storage class, website redirect location or encryption attributes."
        ));
    }
    let tagged = input.tagging.take().filter(|_| retag);
    let tagged = tagged.as_deref().map(tags::from_header).transpose()?.unwrap_or_default();
    let attributes = take_attributes(&mut input, handler.limits.user_metadata_bytes)?;
    // s3s does not read these headers for copies.
    let condition = write_condition(header(&req.headers, "if-match")?, header(&req.headers, "if-none-match")?);
    let from = handler.store.head(&from_bucket, &from_key).await?;
    conditions.check_source(&from)?;
    let request = CopyRequest {
        from_bucket,
        from_key,
        from_etag: from.etag.clone(),
        source: may_read,
        bucket: input.bucket,
        key: input.key,
        attributes: replace.then_some(attributes),
        tags: retag.then_some(tagged),
        condition,
    };
    let has = |wanted| from.checksum.as_ref().is_some_and(|had| had.algorithm == wanted && !had.is_composite());
    let meta = match asked {
        Some(wanted) if !has(wanted) => {
            let _turn = turn(handler, &requester.key).await?;
            copy_bytes(handler, request, &from, wanted, grant).await?
        }
        _ => handler.store.copy(request, grant).await?,
    };
    let mut result = CopyObjectResult {
        e_tag: Some(etag(&meta.etag)),
        last_modified: Some(timestamp(meta.modified_ms)),
        ..CopyObjectResult::default()
    };
    put_typed_checksum(&mut result, meta.checksum.as_ref());
    Ok(CopyObjectOutput { copy_object_result: Some(result), ..CopyObjectOutput::default() })
}

/// Waits for a permit to read and hash the source, which occupies a core.
async fn turn(handler: &S3Handler, key: &str) -> S3Result<WorkPermit> {
    let turn = handler.copies.take(key, handler.limits.stall).await;
    turn.ok_or_else(|| s3_error!(SlowDown, "{} copies are being read; try again", handler.limits.copies))
}

/// Copies the source by reading and rewriting its bytes, and computes the checksum `wanted`.
async fn copy_bytes(
    handler: &S3Handler,
    request: CopyRequest,
    from: &ObjectMeta,
    wanted: Algorithm,
    grant: Grant,
) -> S3Result<ObjectMeta> {
    let object = handler.open(&request.source, &request.from_bucket, &request.from_key).await?;
    if object.meta.etag != request.from_etag {
        return Err(StoreError::Changed(request.from_key).into());
    }
    object.verify_etag().await?;
    let blocks = object.data.blocks(0..object.meta.size);
    let body: Body = Box::pin(blocks.map(|block| block.map_err(StoreError::io("cannot read the source"))));
    let staged = handler.store.stage(body, Some(wanted)).await?;
    let options = PutOptions {
        attributes: request.attributes.unwrap_or_else(|| from.attributes.clone()),
        checksum: staged.checksum.clone(),
        tags: request.tags.unwrap_or_else(|| from.tags.clone()),
        condition: request.condition,
    };
    Ok(handler.store.put(&request.bucket, &request.key, staged, options, grant).await?)
}

pub(crate) async fn upload_part_copy(
    handler: &S3Handler,
    req: S3Request<UploadPartCopyInput>,
) -> S3Result<UploadPartCopyOutput> {
    let (signer, grant) = (signer(&req).cloned(), grant_of(&req)?);
    let requester = requester_of(&req.extensions)?;
    let mut input = req.input;
    refuse(&[
        ("sse-customer-algorithm", input.sse_customer_algorithm.is_some()),
        ("copy-source-sse-customer-algorithm", input.copy_source_sse_customer_algorithm.is_some()),
    ])?;
    let number = part_number(handler, input.part_number)?;
    let (from_bucket, from_key, may_read) = source(handler, signer.as_ref(), &input.copy_source).await?;
    let upload = handler.store.upload(&input.bucket, &input.key, &input.upload_id).await?;
    let object = handler.open(&may_read, &from_bucket, &from_key).await?;
    let conditions = Conditions {
        if_match: input.copy_source_if_match.take(),
        if_none_match: input.copy_source_if_none_match.take(),
        if_modified_since: input.copy_source_if_modified_since.take(),
        if_unmodified_since: input.copy_source_if_unmodified_since.take(),
    };
    conditions.check_source(&object.meta)?;
    let range = match input.copy_source_range.as_deref() {
        None => 0..object.meta.size,
        Some(text) => range(text, object.meta.size)?,
    };
    object.verify_etag().await?;
    let body = object.data.blocks(range).map(|block| block.map_err(StoreError::io("cannot read the source")));
    let _turn = turn(handler, &requester.key).await?;
    let staged = handler.store.stage(Box::pin(body), upload.algorithm).await?;
    let at = UploadKey { bucket: input.bucket, key: input.key, id: input.upload_id };
    let part = handler.store.put_part(at, number, staged, grant).await?;
    let mut result = CopyPartResult {
        e_tag: Some(etag(&part.etag)),
        last_modified: Some(timestamp(part.modified_ms)),
        ..CopyPartResult::default()
    };
    put_checksum(&mut result, part.checksum.as_ref());
    Ok(UploadPartCopyOutput { copy_part_result: Some(result), ..UploadPartCopyOutput::default() })
}

/// The bucket and key that a copy reads, and the permission to read them.
async fn source(
    handler: &S3Handler,
    signer: Option<&Signer>,
    source: &CopySource,
) -> S3Result<(String, String, Grant)> {
    match source {
        CopySource::Bucket { bucket, key, version_id } => {
            no_version(version_id.as_deref())?;
            let grant = handler.authorize_read(signer, bucket).await?;
            Ok((bucket.to_string(), key.to_string(), grant))
        }
        _ => Err(s3_error!(NotImplemented, "copy sources are named as bucket/key, access points are not implemented")),
    }
}

fn header(headers: &http::HeaderMap, name: &str) -> S3Result<Option<ETagCondition>> {
    let Some(value) = headers.get(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    let condition = ETagCondition::parse_http_header(value.as_bytes());
    condition.map(Some).map_err(|_| s3_error!(InvalidArgument, "the header {} is malformed", name))
}

/// Parses the copy source range `text`. Both ends must be given and lie within the `size` of the
/// source.
fn range(text: &str, size: u64) -> S3Result<std::ops::Range<u64>> {
    let malformed = || {
        s3_error!(
            InvalidArgument,
            "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the \
             zero-based offsets of the first and last bytes to copy"
        )
    };
    let (first, last) = text.strip_prefix("bytes=").and_then(|range| range.split_once('-')).ok_or_else(malformed)?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u64>().ok().filter(|_| digits)
    };
    let (first, last) = number(first).zip(number(last)).ok_or_else(malformed)?;
    if first > last || last >= size {
        return Err(s3_error!(InvalidRange, "Range specified is not valid for source object of size: {}", size));
    }
    Ok(first..last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_copies_are_whole_and_inside() {
        assert_eq!(range("bytes=0-4", 5).unwrap(), 0..5);
        assert_eq!(range("bytes=4-4", 5).unwrap(), 4..5);
        for wrong in
            ["bytes=0-5", "bytes=3-2", "bytes=0-", "bytes=-3", "0-2", "bytes=a-b", "bytes=0-2,3-5", "bytes=+1-2"]
        {
            assert!(range(wrong, 5).is_err(), "{wrong}");
        }
        assert!(range("bytes=0-0", 0).is_err());
        assert!(range("bytes=0-18446744073709551615", 5).is_err());
    }
}

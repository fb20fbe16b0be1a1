//! Multipart uploads: create, upload and copy parts, complete, abort, list.

use futures::StreamExt;
use s3s::dto::*;
use s3s::{S3Request, S3Result, s3_error};

use super::owner;
use super::write::{only_private, only_standard, source};
use crate::s3::Edge;
use crate::s3::attributes::{algorithm, attributes_of, checksum_of, etag, put_checksum, refuse, timestamp};
use crate::s3::conditions::{Conditions, write_condition};
use crate::s3::keys::Encoding;
use crate::s3::upload::{Declared, receive};
use crate::store::{Algorithm, Checksum, Completion, PartRef, StoreError, UploadKey, UploadRecord, now_ms};

pub(in crate::s3) async fn create(
    edge: &Edge,
    req: S3Request<CreateMultipartUploadInput>,
) -> S3Result<CreateMultipartUploadOutput> {
    let mut input = req.input;
    refuse!(
        input,
        server_side_encryption,
        sse_customer_algorithm,
        ssekms_key_id,
        object_lock_mode,
        object_lock_legal_hold_status,
        object_lock_retain_until_date,
        tagging,
        website_redirect_location,
        grant_full_control,
        grant_read,
        grant_read_acp,
        grant_write_acp,
    );
    only_private(input.acl.as_ref())?;
    only_standard(input.storage_class.as_ref())?;
    let checksum = input.checksum_algorithm.as_ref().map(|name| algorithm(name.as_str())).transpose()?;
    let full_object = match input.checksum_type.as_ref().map(ChecksumType::as_str) {
        None => checksum == Some(Algorithm::Crc64nvme),
        Some(ChecksumType::FULL_OBJECT) => true,
        Some(ChecksumType::COMPOSITE) => false,
        Some(_) => return Err(s3_error!(InvalidArgument, "x-amz-checksum-type is COMPOSITE or FULL_OBJECT")),
    };
    if full_object && matches!(checksum, Some(Algorithm::Sha1 | Algorithm::Sha256)) {
        return Err(s3_error!(InvalidRequest, "only CRC checksums of parts make one of the full object"));
    }
    let attributes = attributes_of!(input, edge.limits)?;
    let upload = UploadRecord { started_ms: now_ms(), attributes, algorithm: checksum, full_object };
    let id = edge.store.create_upload(&input.bucket, &input.key, upload).await?;
    Ok(CreateMultipartUploadOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(id),
        checksum_algorithm: input.checksum_algorithm,
        checksum_type: input.checksum_type,
        ..CreateMultipartUploadOutput::default()
    })
}

pub(in crate::s3) async fn upload_part(edge: &Edge, req: S3Request<UploadPartInput>) -> S3Result<UploadPartOutput> {
    let mut input = req.input;
    refuse!(input, sse_customer_algorithm);
    let number = part_number(edge, input.part_number)?;
    let upload = edge.store.upload(&input.bucket, &input.key, &input.upload_id).await?;
    let named = input.checksum_algorithm.as_ref().map(ChecksumAlgorithm::as_str);
    let checksum = checksum_of!(input)?;
    let mut declared = Declared::new(input.content_md5.take(), checksum, named, &req.headers, req.trailing_headers)?;
    // The object's checksum is made from those of its parts, so each gets one even if the client sends none.
    declared.algorithm = declared.algorithm.or(upload.algorithm);
    let staged = receive(edge, input.body.take(), declared).await?;
    let at = UploadKey { bucket: input.bucket, key: input.key, id: input.upload_id };
    let part = edge.store.put_part(at, number, staged).await?;
    let mut output = UploadPartOutput { e_tag: Some(etag(&part.etag)), ..UploadPartOutput::default() };
    put_checksum!(output, &part.checksum);
    Ok(output)
}

pub(in crate::s3) async fn upload_part_copy(
    edge: &Edge,
    req: S3Request<UploadPartCopyInput>,
) -> S3Result<UploadPartCopyOutput> {
    let mut input = req.input;
    refuse!(input, sse_customer_algorithm, copy_source_sse_customer_algorithm);
    let number = part_number(edge, input.part_number)?;
    let (from_bucket, from_key) = source(&input.copy_source)?;
    let upload = edge.store.upload(&input.bucket, &input.key, &input.upload_id).await?;
    let object = edge.store.open(&from_bucket, &from_key).await?;
    let conditions = Conditions {
        if_match: input.copy_source_if_match.take(),
        if_none_match: input.copy_source_if_none_match.take(),
        if_modified_since: input.copy_source_if_modified_since.take(),
        if_unmodified_since: input.copy_source_if_unmodified_since.take(),
    };
    conditions.check_source(&object.meta)?;
    let range = match input.copy_source_range.as_deref() {
        None => 0..object.meta.size,
        Some(text) => Range::parse(text)
            .ok()
            .and_then(|range| range.check(object.meta.size).ok())
            .ok_or_else(|| s3_error!(InvalidRange, "x-amz-copy-source-range does not lie in the source"))?,
    };
    let body = object.data.blocks(range).map(|block| block.map_err(StoreError::io("cannot read the source")));
    let staged = edge.store.stage(Box::pin(body), upload.algorithm).await?;
    let at = UploadKey { bucket: input.bucket, key: input.key, id: input.upload_id };
    let part = edge.store.put_part(at, number, staged).await?;
    let mut result = CopyPartResult {
        e_tag: Some(etag(&part.etag)),
        last_modified: Some(timestamp(part.modified_ms)),
        ..CopyPartResult::default()
    };
    put_checksum!(result, &part.checksum);
    Ok(UploadPartCopyOutput { copy_part_result: Some(result), ..UploadPartCopyOutput::default() })
}

pub(in crate::s3) async fn complete(
    edge: &Edge,
    req: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<CompleteMultipartUploadOutput> {
    let mut input = req.input;
    let condition = write_condition(input.if_match.take(), input.if_none_match.take())?;
    let named = input.multipart_upload.and_then(|upload| upload.parts).unwrap_or_default();
    if named.len() > edge.limits.parts as usize {
        return Err(s3_error!(InvalidArgument, "an upload has at most {} parts", edge.limits.parts));
    }
    let mut parts = Vec::with_capacity(named.len());
    for mut part in named {
        let number = part_number(edge, part.part_number.unwrap_or(0))?;
        let checksum = checksum_of!(part)?.map(|checksum| checksum.value);
        parts.push(PartRef { number, etag: part.e_tag.map(ETag::into_value), checksum });
    }
    let count = parts.len();
    let checksum = checksum_of!(input)?.map(|checksum| with_count(checksum, input.checksum_type.as_ref(), count));
    let size = input.mpu_object_size.and_then(|size| u64::try_from(size).ok());
    let completion = Completion { parts, condition, checksum, size };
    let at = UploadKey { bucket: input.bucket.clone(), key: input.key.clone(), id: input.upload_id };
    let meta = edge.store.complete(at, completion).await?;
    let mut output = CompleteMultipartUploadOutput {
        location: Some(format!("/{}/{}", input.bucket, input.key)),
        bucket: Some(input.bucket),
        key: Some(input.key),
        e_tag: Some(etag(&meta.etag)),
        ..CompleteMultipartUploadOutput::default()
    };
    put_checksum!(output, &meta.checksum);
    Ok(output)
}

/// Clients write the checksum of an object made of parts with or without the number of parts.
fn with_count(mut checksum: Checksum, kind: Option<&ChecksumType>, count: usize) -> Checksum {
    let composite = kind.is_some_and(|kind| kind.as_str() == ChecksumType::COMPOSITE);
    if composite && !checksum.value.contains('-') {
        checksum.value = format!("{}-{count}", checksum.value);
    }
    checksum
}

pub(in crate::s3) async fn abort(
    edge: &Edge,
    req: S3Request<AbortMultipartUploadInput>,
) -> S3Result<AbortMultipartUploadOutput> {
    let input = req.input;
    refuse!(input, if_match_initiated_time);
    edge.store.abort(UploadKey { bucket: input.bucket, key: input.key, id: input.upload_id }).await?;
    Ok(AbortMultipartUploadOutput::default())
}

pub(in crate::s3) async fn list_parts(edge: &Edge, req: S3Request<ListPartsInput>) -> S3Result<ListPartsOutput> {
    let input = req.input;
    let limit = page(edge, input.max_parts)?;
    let after = u32::try_from(input.part_number_marker.unwrap_or(0))
        .map_err(|_| s3_error!(InvalidArgument, "part-number-marker must not be negative"))?;
    let at = UploadKey { bucket: input.bucket.clone(), key: input.key.clone(), id: input.upload_id.clone() };
    let (parts, more) = edge.store.parts(at, after, limit).await?;
    let last = parts.last().and_then(|(number, _)| i32::try_from(*number).ok());
    let parts = parts.into_iter().map(|(number, record)| {
        let mut part = Part {
            part_number: i32::try_from(number).ok(),
            e_tag: Some(etag(&record.etag)),
            last_modified: Some(timestamp(record.modified_ms)),
            size: i64::try_from(record.segment.size).ok(),
            ..Part::default()
        };
        put_checksum!(part, &record.checksum);
        part
    });
    Ok(ListPartsOutput {
        parts: Some(parts.collect()),
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(input.upload_id),
        max_parts: i32::try_from(limit).ok(),
        part_number_marker: input.part_number_marker,
        next_part_number_marker: last.filter(|_| more),
        is_truncated: Some(more),
        owner: Some(owner()),
        ..ListPartsOutput::default()
    })
}

pub(in crate::s3) async fn list_uploads(
    edge: &Edge,
    req: S3Request<ListMultipartUploadsInput>,
) -> S3Result<ListMultipartUploadsOutput> {
    let input = req.input;
    if input.delimiter.as_deref().is_some_and(|delimiter| !delimiter.is_empty()) {
        return Err(s3_error!(NotImplemented, "a delimiter in ListMultipartUploads is not implemented"));
    }
    let encoding = Encoding::new(input.encoding_type.as_ref())?;
    let limit = page(edge, input.max_uploads)?;
    let prefix = input.prefix.unwrap_or_default();
    let key_marker = input.key_marker.clone().filter(|key| !key.is_empty());
    let after = key_marker.map(|key| (key, input.upload_id_marker.clone().unwrap_or_default()));
    let found = edge.store.uploads(&input.bucket, &prefix, after, limit).await?;
    let next = found.uploads.last().filter(|_| found.more).map(|(key, id, _)| (key.clone(), id.clone()));
    let uploads = found.uploads.into_iter().map(|(key, id, upload)| MultipartUpload {
        key: Some(encoding.text(key)),
        upload_id: Some(id),
        initiated: Some(timestamp(upload.started_ms)),
        owner: Some(owner()),
        ..MultipartUpload::default()
    });
    Ok(ListMultipartUploadsOutput {
        uploads: Some(uploads.collect()),
        bucket: Some(input.bucket),
        prefix: Some(encoding.text(prefix)),
        key_marker: input.key_marker.map(|key| encoding.text(key)),
        upload_id_marker: input.upload_id_marker,
        max_uploads: i32::try_from(limit).ok(),
        is_truncated: Some(found.more),
        next_key_marker: next.as_ref().map(|(key, _)| encoding.text(key.clone())),
        next_upload_id_marker: next.map(|(_, id)| id),
        encoding_type: input.encoding_type,
        ..ListMultipartUploadsOutput::default()
    })
}

fn part_number(edge: &Edge, number: PartNumber) -> S3Result<u32> {
    let most = edge.limits.parts;
    match u32::try_from(number) {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(s3_error!(InvalidArgument, "part numbers go from 1 to {}", most)),
    }
}

fn page(edge: &Edge, asked: Option<i32>) -> S3Result<usize> {
    let most = edge.limits.page_entries;
    match asked.map(usize::try_from) {
        None => Ok(most),
        Some(Ok(asked)) => Ok(asked.clamp(1, most)),
        Some(Err(_)) => Err(s3_error!(InvalidArgument, "the size of a page must not be negative")),
    }
}

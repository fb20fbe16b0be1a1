//! Multipart uploads: create, upload a part, complete, abort.

use s3s::dto::*;
use s3s::{S3Request, S3Result, s3_error};

use super::acl::check_write;
use super::handler::S3Handler;
use super::request::grant_of;
use crate::s3::body::checksums::{algorithm, kind, put_checksum, put_typed_checksum, take_checksum};
use crate::s3::body::upload::{Declared, receive, require_length};
use crate::s3::convert::attributes::{etag, refuse, take_attributes};
use crate::s3::convert::conditions::write_condition;
use crate::s3::convert::tags;
use crate::store::{Algorithm, Checksum, Completion, PartRef, UploadKey, UploadRecord, now_ms};

pub(crate) async fn create(
    handler: &S3Handler,
    req: S3Request<CreateMultipartUploadInput>,
) -> S3Result<CreateMultipartUploadOutput> {
    let grant = grant_of(&req)?;
    let mut input = req.input;
    check_write(handler, &input).await?;
    let checksum = input.checksum_algorithm.as_ref().map(|name| algorithm(name.as_str())).transpose()?;
    let full_object = full_object(checksum, input.checksum_type.as_ref())?;
    let tagged = input.tagging.take();
    let upload = UploadRecord {
        started_ms: now_ms(),
        attributes: take_attributes(&mut input, handler.limits.user_metadata_bytes)?,
        algorithm: checksum,
        full_object,
        tags: tagged.as_deref().map(tags::from_header).transpose()?.unwrap_or_default(),
        initiator: None,
    };
    let id = handler.store.create_upload(&input.bucket, &input.key, upload, grant).await?;
    Ok(CreateMultipartUploadOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(id),
        checksum_algorithm: checksum.map(|checksum| ChecksumAlgorithm::from_static(checksum.name())),
        checksum_type: checksum.map(|_| kind_of(full_object)),
        ..CreateMultipartUploadOutput::default()
    })
}

/// Whether the object gets a checksum of all its bytes instead of one of the checksums of its
/// parts.
fn full_object(checksum: Option<Algorithm>, asked: Option<&ChecksumType>) -> S3Result<bool> {
    let Some(asked) = asked else { return Ok(checksum == Some(Algorithm::Crc64nvme)) };
    let Some(checksum) = checksum else {
        return Err(s3_error!(
            InvalidRequest,
            "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header."
        ));
    };
    let refused = || {
        s3_error!(
            InvalidRequest,
            "The {} checksum type cannot be used with the {} checksum algorithm.",
            asked.as_str(),
            checksum.name()
        )
    };
    match (asked.as_str(), checksum) {
        (ChecksumType::FULL_OBJECT, Algorithm::Sha1 | Algorithm::Sha256) => Err(refused()),
        (ChecksumType::COMPOSITE, Algorithm::Crc64nvme) => Err(refused()),
        (ChecksumType::FULL_OBJECT, _) => Ok(true),
        (ChecksumType::COMPOSITE, _) => Ok(false),
        _ => Err(s3_error!(InvalidRequest, "Value for x-amz-checksum-type header is invalid.")),
    }
}

pub(crate) fn kind_of(full_object: bool) -> ChecksumType {
    ChecksumType::from_static(if full_object { ChecksumType::FULL_OBJECT } else { ChecksumType::COMPOSITE })
}

pub(crate) async fn upload_part(handler: &S3Handler, req: S3Request<UploadPartInput>) -> S3Result<UploadPartOutput> {
    require_length(&req.headers)?;
    let (trailer, grant) = (req.extensions.get().cloned(), grant_of(&req)?);
    let mut input = req.input;
    refuse(&[("sse-customer-algorithm", input.sse_customer_algorithm.is_some())])?;
    let number = part_number(handler, input.part_number)?;
    let upload = handler.store.upload(&input.bucket, &input.key, &input.upload_id).await?;
    let named = input.checksum_algorithm.take();
    let named = named.as_ref().map(ChecksumAlgorithm::as_str);
    let checksum = take_checksum(&mut input)?;
    let mut declared = Declared::new(checksum, named, &req.headers, trailer)?;
    if let (Some(wanted), Some(given)) = (upload.algorithm, declared.algorithm)
        && wanted != given
    {
        return Err(s3_error!(
            InvalidRequest,
            "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum Type: {}",
            wanted.name().to_lowercase(),
            given.name().to_lowercase()
        ));
    }
    // The object's checksum is computed from those of its parts, so each part gets one.
    declared.algorithm = declared.algorithm.or(upload.algorithm);
    let staged = receive(&*handler.store, &handler.memory, input.body.take(), declared).await?;
    let at = UploadKey { bucket: input.bucket, key: input.key, id: input.upload_id };
    let part = handler.store.put_part(at, number, staged, grant).await?;
    let mut output = UploadPartOutput { e_tag: Some(etag(&part.etag)), ..UploadPartOutput::default() };
    put_checksum(&mut output, part.checksum.as_ref());
    Ok(output)
}

pub(crate) async fn complete(
    handler: &S3Handler,
    req: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<CompleteMultipartUploadOutput> {
    let grant = grant_of(&req)?;
    let mut input = req.input;
    let condition = write_condition(input.if_match.take(), input.if_none_match.take());
    let named = input.multipart_upload.take().and_then(|upload| upload.parts).unwrap_or_default();
    if named.is_empty() || named.len() > handler.limits.parts as usize {
        return Err(s3_error!(MalformedXML, "an upload is completed with 1 to {} parts", handler.limits.parts));
    }
    let mut parts = Vec::with_capacity(named.len());
    for mut part in named {
        let number = part_number(handler, part.part_number.unwrap_or(0))?;
        let checksum = take_checksum(&mut part)?;
        parts.push(PartRef { number, etag: part.e_tag.map(ETag::into_value), checksum });
    }
    let checksum = take_checksum(&mut input)?;
    check_kind(checksum.as_ref(), input.checksum_type.as_ref())?;
    let size = input.mpu_object_size.map(|size| u64::try_from(size).unwrap_or(u64::MAX));
    let completion = Completion { parts, condition, checksum, size };
    let at = UploadKey { bucket: input.bucket.clone(), key: input.key.clone(), id: input.upload_id };
    let meta = handler.store.complete(at, completion, grant).await?;
    let mut output = CompleteMultipartUploadOutput {
        location: Some(format!("/{}/{}", input.bucket, input.key)),
        bucket: Some(input.bucket),
        key: Some(input.key),
        e_tag: Some(etag(&meta.etag)),
        ..CompleteMultipartUploadOutput::default()
    };
    put_typed_checksum(&mut output, meta.checksum.as_ref());
    Ok(output)
}

/// Refuses a composite checksum if the request declares another type.
fn check_kind(checksum: Option<&Checksum>, asked: Option<&ChecksumType>) -> S3Result<()> {
    match (checksum, asked) {
        (Some(checksum), Some(asked)) if checksum.is_composite() && kind(checksum) != *asked => {
            Err(s3_error!(InvalidRequest, "the checksum is not of the type {}", asked.as_str()))
        }
        _ => Ok(()),
    }
}

pub(crate) async fn abort(
    handler: &S3Handler,
    req: S3Request<AbortMultipartUploadInput>,
) -> S3Result<AbortMultipartUploadOutput> {
    let grant = grant_of(&req)?;
    let input = req.input;
    refuse(&[("if-match-initiated-time", input.if_match_initiated_time.is_some())])?;
    let at = UploadKey { bucket: input.bucket, key: input.key, id: input.upload_id };
    handler.store.abort(at, grant).await?;
    Ok(AbortMultipartUploadOutput::default())
}

pub(crate) fn part_number(handler: &S3Handler, number: PartNumber) -> S3Result<u32> {
    let most = handler.limits.parts;
    match u32::try_from(number) {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(s3_error!(InvalidArgument, "Part number must be an integer between 1 and {}, inclusive", most)),
    }
}

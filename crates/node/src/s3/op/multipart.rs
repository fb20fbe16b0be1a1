//! Multipart uploads: create, upload parts, complete, abort. Copied parts are in [`super::copy`], lists in
//! [`super::uploads`].

use s3s::dto::*;
use s3s::{S3Request, S3Result, s3_error};

use crate::s3::attributes::{attributes_of, etag, refuse, refuse_of_writes};
use crate::s3::checksums::{algorithm, checksum_of, kind, put_checksum, put_typed_checksum};
use crate::s3::conditions::write_condition;
use crate::s3::upload::{Declared, receive, require_length, trailer};
use crate::s3::{Edge, grant_of, tags};
use crate::store::{Algorithm, Checksum, Completion, PartRef, UploadKey, UploadRecord, now_ms};

pub(in crate::s3) async fn create(
    edge: &Edge,
    req: S3Request<CreateMultipartUploadInput>,
) -> S3Result<CreateMultipartUploadOutput> {
    let grant = grant_of(&req)?;
    let mut input = req.input;
    refuse_of_writes!(edge, input);
    let checksum = input.checksum_algorithm.as_ref().map(|name| algorithm(name.as_str())).transpose()?;
    let full_object = full_object(checksum, input.checksum_type.as_ref())?;
    let tagged = input.tagging.take();
    let upload = UploadRecord {
        started_ms: now_ms(),
        attributes: attributes_of!(input, edge.limits)?,
        algorithm: checksum,
        full_object,
        tags: tagged.as_deref().map(tags::from_header).transpose()?.unwrap_or_default(),
        initiator: None,
    };
    let id = edge.store.create_upload(&input.bucket, &input.key, upload, grant).await?;
    Ok(CreateMultipartUploadOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(id),
        checksum_algorithm: checksum.map(|checksum| ChecksumAlgorithm::from_static(checksum.name())),
        checksum_type: checksum.map(|_| kind_of(full_object)),
        ..CreateMultipartUploadOutput::default()
    })
}

/// Whether the object gets a checksum of its bytes, or one of the checksums of its parts.
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

pub(super) fn kind_of(full_object: bool) -> ChecksumType {
    ChecksumType::from_static(if full_object { ChecksumType::FULL_OBJECT } else { ChecksumType::COMPOSITE })
}

pub(in crate::s3) async fn upload_part(edge: &Edge, req: S3Request<UploadPartInput>) -> S3Result<UploadPartOutput> {
    require_length(&req.headers)?;
    let (trailer, grant) = (trailer(&req), grant_of(&req)?);
    let mut input = req.input;
    refuse!(input, sse_customer_algorithm);
    let number = part_number(edge, input.part_number)?;
    let upload = edge.store.upload(&input.bucket, &input.key, &input.upload_id).await?;
    let named = input.checksum_algorithm.as_ref().map(ChecksumAlgorithm::as_str);
    let checksum = checksum_of!(input)?;
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
    // The object's checksum is made from those of its parts, so each gets one even if the client sends none.
    declared.algorithm = declared.algorithm.or(upload.algorithm);
    let staged = receive(edge, input.body.take(), declared).await?;
    let at = UploadKey { bucket: input.bucket, key: input.key, id: input.upload_id };
    let part = edge.store.put_part(at, number, staged, grant).await?;
    let mut output = UploadPartOutput { e_tag: Some(etag(&part.etag)), ..UploadPartOutput::default() };
    put_checksum!(output, &part.checksum);
    Ok(output)
}

pub(in crate::s3) async fn complete(
    edge: &Edge,
    req: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<CompleteMultipartUploadOutput> {
    let grant = grant_of(&req)?;
    let mut input = req.input;
    let condition = write_condition(input.if_match.take(), input.if_none_match.take());
    let named = input.multipart_upload.and_then(|upload| upload.parts).unwrap_or_default();
    if named.is_empty() || named.len() > edge.limits.parts as usize {
        return Err(s3_error!(MalformedXML, "an upload is completed with 1 to {} parts", edge.limits.parts));
    }
    let mut parts = Vec::with_capacity(named.len());
    for mut part in named {
        let number = part_number(edge, part.part_number.unwrap_or(0))?;
        parts.push(PartRef { number, etag: part.e_tag.map(ETag::into_value), checksum: checksum_of!(part)? });
    }
    let checksum = checksum_of!(input)?;
    check_kind(checksum.as_ref(), input.checksum_type.as_ref())?;
    let size = input.mpu_object_size.map(|size| u64::try_from(size).unwrap_or(u64::MAX));
    let completion = Completion { parts, condition, checksum, size };
    let at = UploadKey { bucket: input.bucket.clone(), key: input.key.clone(), id: input.upload_id };
    let meta = edge.store.complete(at, completion, grant).await?;
    let mut output = CompleteMultipartUploadOutput {
        location: Some(format!("/{}/{}", input.bucket, input.key)),
        bucket: Some(input.bucket),
        key: Some(input.key),
        e_tag: Some(etag(&meta.etag)),
        ..CompleteMultipartUploadOutput::default()
    };
    put_typed_checksum!(output, &meta.checksum);
    Ok(output)
}

/// A checksum that counts parts is not one of the full object.
fn check_kind(checksum: Option<&Checksum>, asked: Option<&ChecksumType>) -> S3Result<()> {
    match (checksum, asked) {
        (Some(checksum), Some(asked)) if checksum.is_composite() && kind(checksum) != *asked => {
            Err(s3_error!(InvalidRequest, "the checksum is not of the type {}", asked.as_str()))
        }
        _ => Ok(()),
    }
}

pub(in crate::s3) async fn abort(
    edge: &Edge,
    req: S3Request<AbortMultipartUploadInput>,
) -> S3Result<AbortMultipartUploadOutput> {
    let grant = grant_of(&req)?;
    let input = req.input;
    refuse!(input, if_match_initiated_time);
    let at = UploadKey { bucket: input.bucket, key: input.key, id: input.upload_id };
    edge.store.abort(at, grant).await?;
    Ok(AbortMultipartUploadOutput::default())
}

pub(super) fn part_number(edge: &Edge, number: PartNumber) -> S3Result<u32> {
    let most = edge.limits.parts;
    match u32::try_from(number) {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(s3_error!(InvalidArgument, "Part number must be an integer between 1 and {}, inclusive", most)),
    }
}

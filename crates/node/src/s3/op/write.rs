//! PutObject and CopyObject.

use s3s::dto::*;
use s3s::{S3Request, S3Result, s3_error};

use super::read::no_version;
use crate::s3::Edge;
use crate::s3::attributes::{attributes_of, checksum_of, etag, put_checksum, refuse, timestamp};
use crate::s3::conditions::{Conditions, write_condition};
use crate::s3::upload::{Declared, receive};
use crate::store::{CopyRequest, PutOptions};

pub(in crate::s3) async fn put_object(edge: &Edge, req: S3Request<PutObjectInput>) -> S3Result<PutObjectOutput> {
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
        write_offset_bytes,
        grant_full_control,
        grant_read,
        grant_read_acp,
        grant_write_acp,
    );
    only_private(input.acl.as_ref())?;
    only_standard(input.storage_class.as_ref())?;
    let attributes = attributes_of!(input, edge.limits)?;
    let condition = write_condition(input.if_match.take(), input.if_none_match.take())?;
    let named = input.checksum_algorithm.as_ref().map(ChecksumAlgorithm::as_str);
    let checksum = checksum_of!(input)?;
    let declared = Declared::new(input.content_md5.take(), checksum, named, &req.headers, req.trailing_headers)?;
    // Refused before the body is sent, where the client waits for that.
    edge.store.bucket(&input.bucket).await?;

    let staged = receive(edge, input.body.take(), declared).await?;
    let options = PutOptions { attributes, checksum: staged.checksum.clone(), condition };
    let meta = edge.store.put(&input.bucket, &input.key, staged, options).await?;
    let mut output = PutObjectOutput { e_tag: Some(etag(&meta.etag)), ..PutObjectOutput::default() };
    put_checksum!(output, &meta.checksum);
    Ok(output)
}

pub(in crate::s3) async fn copy_object(edge: &Edge, req: S3Request<CopyObjectInput>) -> S3Result<CopyObjectOutput> {
    let mut input = req.input;
    refuse!(
        input,
        server_side_encryption,
        sse_customer_algorithm,
        copy_source_sse_customer_algorithm,
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
    let (from_bucket, from_key) = source(&input.copy_source)?;
    let conditions = Conditions {
        if_match: input.copy_source_if_match.take(),
        if_none_match: input.copy_source_if_none_match.take(),
        if_modified_since: input.copy_source_if_modified_since.take(),
        if_unmodified_since: input.copy_source_if_unmodified_since.take(),
    };
    let replace = match input.metadata_directive.as_ref().map(MetadataDirective::as_str) {
        None | Some(MetadataDirective::COPY) => false,
        Some(MetadataDirective::REPLACE) => true,
        Some(_) => return Err(s3_error!(InvalidArgument, "x-amz-metadata-directive is COPY or REPLACE")),
    };
    if !replace && from_bucket == input.bucket && from_key == input.key {
        return Err(s3_error!(InvalidRequest, "an object is copied to itself only to replace its metadata"));
    }
    let attributes = attributes_of!(input, edge.limits)?;
    edge.store.bucket(&input.bucket).await?;
    let from = edge.store.head(&from_bucket, &from_key).await?;
    conditions.check_source(&from)?;
    let request = CopyRequest {
        from_bucket,
        from_key,
        from_etag: from.etag,
        bucket: input.bucket,
        key: input.key,
        attributes: replace.then_some(attributes),
    };
    let meta = edge.store.copy(request).await?;
    let result = CopyObjectResult {
        e_tag: Some(etag(&meta.etag)),
        last_modified: Some(timestamp(meta.modified_ms)),
        ..CopyObjectResult::default()
    };
    Ok(CopyObjectOutput { copy_object_result: Some(result), ..CopyObjectOutput::default() })
}

/// The bucket and key a copy reads.
pub(super) fn source(source: &CopySource) -> S3Result<(String, String)> {
    match source {
        CopySource::Bucket { bucket, key, version_id } => {
            no_version(version_id.as_deref())?;
            Ok((bucket.to_string(), key.to_string()))
        }
        _ => Err(s3_error!(NotImplemented, "copy sources are named as bucket/key, access points are not implemented")),
    }
}

pub(super) fn only_private(acl: Option<&ObjectCannedACL>) -> S3Result<()> {
    match acl.map(ObjectCannedACL::as_str) {
        None | Some(ObjectCannedACL::PRIVATE | ObjectCannedACL::BUCKET_OWNER_FULL_CONTROL) => Ok(()),
        Some(_) => Err(s3_error!(AccessControlListNotSupported, "access control lists are not implemented")),
    }
}

pub(super) fn only_standard(class: Option<&StorageClass>) -> S3Result<()> {
    match class.map(StorageClass::as_str) {
        None | Some(StorageClass::STANDARD) => Ok(()),
        Some(other) => Err(s3_error!(InvalidStorageClass, "there is no storage class {} here, only STANDARD", other)),
    }
}

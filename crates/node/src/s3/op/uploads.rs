//! ListParts and ListMultipartUploads.

use s3s::dto::*;
use s3s::{S3Request, S3Result, s3_error};

use super::handler::S3Handler;
use super::multipart::kind_of;
use super::request::{initiator, owner};
use crate::s3::body::checksums::put_checksum;
use crate::s3::convert::attributes::{etag, timestamp};
use crate::s3::convert::list_keys::Encoding;
use crate::store::{UploadKey, UploadQuery};

pub(crate) async fn list_parts(handler: &S3Handler, req: S3Request<ListPartsInput>) -> S3Result<ListPartsOutput> {
    let input = req.input;
    let limit = page(handler, input.max_parts)?;
    let after = u32::try_from(input.part_number_marker.unwrap_or(0))
        .map_err(|_| s3_error!(InvalidArgument, "part-number-marker must not be negative"))?;
    let upload = handler.store.upload(&input.bucket, &input.key, &input.upload_id).await?;
    let at = UploadKey { bucket: input.bucket.clone(), key: input.key.clone(), id: input.upload_id.clone() };
    let (parts, more) = handler.store.parts(at, after, limit).await?;
    let last = parts.last().and_then(|(number, _)| i32::try_from(*number).ok());
    let parts = parts.into_iter().map(|(number, record)| {
        let mut part = Part {
            part_number: i32::try_from(number).ok(),
            e_tag: Some(etag(&record.etag)),
            last_modified: Some(timestamp(record.modified_ms)),
            size: i64::try_from(record.segment.size).ok(),
            ..Part::default()
        };
        put_checksum(&mut part, record.checksum.as_ref());
        part
    });
    Ok(ListPartsOutput {
        parts: Some(parts.collect()),
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(input.upload_id),
        max_parts: i32::try_from(limit).ok(),
        part_number_marker: Some(input.part_number_marker.unwrap_or(0)),
        next_part_number_marker: last.filter(|_| more),
        is_truncated: Some(more),
        owner: Some(owner()),
        initiator: Some(initiator()),
        storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
        checksum_algorithm: upload.algorithm.map(|checksum| ChecksumAlgorithm::from_static(checksum.name())),
        checksum_type: upload.algorithm.map(|_| kind_of(upload.full_object)),
        ..ListPartsOutput::default()
    })
}

pub(crate) async fn list_uploads(
    handler: &S3Handler,
    req: S3Request<ListMultipartUploadsInput>,
) -> S3Result<ListMultipartUploadsOutput> {
    let input = req.input;
    let encoding = Encoding::new(input.encoding_type.as_ref())?;
    let limit = page(handler, input.max_uploads)?;
    let delimiter = input.delimiter.filter(|delimiter| !delimiter.is_empty());
    let key_marker = input.key_marker.clone().filter(|key| !key.is_empty());
    let query = UploadQuery {
        prefix: input.prefix.clone().unwrap_or_default(),
        delimiter: delimiter.clone().unwrap_or_default(),
        after: key_marker.map(|key| (key, input.upload_id_marker.clone().unwrap_or_default())),
        limit,
    };
    let found = handler.store.uploads(&input.bucket, query).await?;
    let uploads = found.uploads.into_iter().map(|(key, id, upload)| MultipartUpload {
        key: Some(encoding.text(key)),
        upload_id: Some(id),
        initiated: Some(timestamp(upload.started_ms)),
        owner: Some(owner()),
        initiator: Some(initiator()),
        storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
        checksum_algorithm: upload.algorithm.map(|checksum| ChecksumAlgorithm::from_static(checksum.name())),
        checksum_type: upload.algorithm.map(|_| kind_of(upload.full_object)),
    });
    let prefixes = found.prefixes.into_iter().map(|prefix| CommonPrefix { prefix: Some(encoding.text(prefix)) });
    Ok(ListMultipartUploadsOutput {
        uploads: Some(uploads.collect()),
        common_prefixes: Some(prefixes.collect()),
        bucket: Some(input.bucket),
        prefix: Some(encoding.text(input.prefix.unwrap_or_default())),
        delimiter: delimiter.map(|delimiter| encoding.text(delimiter)),
        key_marker: Some(encoding.text(input.key_marker.unwrap_or_default())),
        upload_id_marker: Some(input.upload_id_marker.unwrap_or_default()),
        max_uploads: i32::try_from(limit).ok(),
        is_truncated: Some(found.next.is_some()),
        next_key_marker: found.next.as_ref().map(|(key, _)| encoding.text(key.clone())),
        next_upload_id_marker: found.next.map(|(_, id)| id),
        encoding_type: input.encoding_type,
        ..ListMultipartUploadsOutput::default()
    })
}

fn page(handler: &S3Handler, asked: Option<i32>) -> S3Result<usize> {
    let most = handler.limits.page_entries;
    match asked.map(usize::try_from) {
        None => Ok(most),
        Some(Ok(asked)) => Ok(asked.clamp(1, most)),
        Some(Err(_)) => Err(s3_error!(InvalidArgument, "the size of a page must not be negative")),
    }
}

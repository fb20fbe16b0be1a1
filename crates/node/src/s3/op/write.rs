//! PutObject.

use s3s::dto::*;
use s3s::{S3Request, S3Result};

use super::acl::check_write;
use super::handler::S3Handler;
use super::request::grant_of;
use crate::s3::body::checksums::{put_typed_checksum, take_checksum};
use crate::s3::body::trailer::Trailer;
use crate::s3::body::upload::{Declared, receive, require_length};
use crate::s3::convert::attributes::{etag, refuse, take_attributes};
use crate::s3::convert::conditions::write_condition;
use crate::s3::convert::tags;
use crate::store::{Grant, PutOptions, Tag};

pub(crate) async fn put_object(handler: &S3Handler, req: S3Request<PutObjectInput>) -> S3Result<PutObjectOutput> {
    let tagged = req.input.tagging.as_deref().map(tags::from_header).transpose()?.unwrap_or_default();
    require_length(&req.headers)?;
    let (trailer, grant) = (req.extensions.get().cloned(), grant_of(&req)?);
    put(handler, req.input, tagged, &req.headers, trailer, grant).await
}

/// Stores an object from a PutObject request or an upload form.
pub(crate) async fn put(
    handler: &S3Handler,
    mut input: PutObjectInput,
    tags: Vec<Tag>,
    headers: &http::HeaderMap,
    trailer: Option<Trailer>,
    grant: Grant,
) -> S3Result<PutObjectOutput> {
    check_write(handler, &input).await?;
    refuse(&[("write-offset-bytes", input.write_offset_bytes.is_some())])?;
    let attributes = take_attributes(&mut input, handler.limits.user_metadata_bytes)?;
    let condition = write_condition(input.if_match.take(), input.if_none_match.take());
    let named = input.checksum_algorithm.take();
    let named = named.as_ref().map(ChecksumAlgorithm::as_str);
    let checksum = take_checksum(&mut input)?;
    let declared = Declared::new(checksum, named, headers, trailer)?;

    let staged = receive(&*handler.store, &handler.memory, input.body.take(), declared).await?;
    let options = PutOptions { attributes, checksum: staged.checksum.clone(), tags, condition };
    let meta = handler.store.put(&input.bucket, &input.key, staged, options, grant).await?;
    let mut output = PutObjectOutput { e_tag: Some(etag(&meta.etag)), ..PutObjectOutput::default() };
    put_typed_checksum(&mut output, meta.checksum.as_ref());
    Ok(output)
}

//! PutObject.

use s3s::dto::*;
use s3s::{S3Request, S3Result, TrailingHeaders};

use crate::s3::attributes::{attributes_of, etag, refuse, refuse_of_writes};
use crate::s3::checksums::{checksum_of, put_typed_checksum};
use crate::s3::conditions::write_condition;
use crate::s3::upload::{Declared, receive, require_length, trailer};
use crate::s3::{Edge, grant_of, tags};
use crate::store::{Grant, PutOptions, Tag};

pub(in crate::s3) async fn put_object(edge: &Edge, req: S3Request<PutObjectInput>) -> S3Result<PutObjectOutput> {
    let tagged = req.input.tagging.as_deref().map(tags::from_header).transpose()?.unwrap_or_default();
    require_length(&req.headers)?;
    let (trailer, grant) = (trailer(&req), grant_of(&req)?);
    put(edge, req.input, tagged, &req.headers, trailer, grant).await
}

/// Stores an object, however its bytes and what is said of them arrived.
pub(super) async fn put(
    edge: &Edge,
    mut input: PutObjectInput,
    tags: Vec<Tag>,
    headers: &http::HeaderMap,
    trailer: Option<TrailingHeaders>,
    grant: Grant,
) -> S3Result<PutObjectOutput> {
    refuse_of_writes!(edge, input);
    refuse!(input, write_offset_bytes);
    let attributes = attributes_of!(input, edge.limits)?;
    let condition = write_condition(input.if_match.take(), input.if_none_match.take());
    let named = input.checksum_algorithm.as_ref().map(ChecksumAlgorithm::as_str);
    let checksum = checksum_of!(input)?;
    let declared = Declared::new(checksum, named, headers, trailer)?;

    let staged = receive(edge, input.body.take(), declared).await?;
    let options = PutOptions { attributes, checksum: staged.checksum.clone(), tags, condition };
    let meta = edge.store.put(&input.bucket, &input.key, staged, options, grant).await?;
    let mut output = PutObjectOutput { e_tag: Some(etag(&meta.etag)), ..PutObjectOutput::default() };
    put_typed_checksum!(output, &meta.checksum);
    Ok(output)
}

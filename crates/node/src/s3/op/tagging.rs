//! GetObjectTagging, PutObjectTagging, DeleteObjectTagging.

use s3s::dto::*;
use s3s::{S3Request, S3Result};

use super::handler::S3Handler;
use super::request::grant_of;
use crate::s3::convert::attributes::no_version;
use crate::s3::convert::tags;

pub(crate) async fn get_object_tagging(
    handler: &S3Handler,
    req: S3Request<GetObjectTaggingInput>,
) -> S3Result<GetObjectTaggingOutput> {
    no_version(req.input.version_id.as_deref())?;
    let meta = handler.store.head(&req.input.bucket, &req.input.key).await?;
    Ok(GetObjectTaggingOutput { tag_set: tags::to_set(meta.tags), version_id: None })
}

pub(crate) async fn put_object_tagging(
    handler: &S3Handler,
    req: S3Request<PutObjectTaggingInput>,
) -> S3Result<PutObjectTaggingOutput> {
    no_version(req.input.version_id.as_deref())?;
    let grant = grant_of(&req)?;
    let given = tags::from_set(req.input.tagging.tag_set, tags::MAX_OBJECT_TAGS)?;
    handler.store.set_tags(&req.input.bucket, &req.input.key, given, grant).await?;
    Ok(PutObjectTaggingOutput::default())
}

pub(crate) async fn delete_object_tagging(
    handler: &S3Handler,
    req: S3Request<DeleteObjectTaggingInput>,
) -> S3Result<DeleteObjectTaggingOutput> {
    no_version(req.input.version_id.as_deref())?;
    handler.store.set_tags(&req.input.bucket, &req.input.key, Vec::new(), grant_of(&req)?).await?;
    Ok(DeleteObjectTaggingOutput::default())
}

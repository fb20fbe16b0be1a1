//! Settings of buckets: tags, cross-origin rules, object ownership, public access block.

use s3s::dto::*;
use s3s::{S3ErrorCode, S3Request, S3Result, s3_error};

use super::absent::missing;
use super::handler::S3Handler;
use super::request::grant_of;
use crate::s3::convert::tags;
use crate::s3::http::cors;
use crate::store::{BucketSettings, Grant, PublicAccessBlock as Block};

async fn read(handler: &S3Handler, bucket: &str) -> S3Result<BucketSettings> {
    Ok(handler.store.bucket(bucket).await?.settings)
}

async fn change(
    handler: &S3Handler,
    (bucket, grant): (&str, Grant),
    change: impl FnOnce(&mut BucketSettings) + Send + 'static,
) -> S3Result<()> {
    Ok(handler.store.change_bucket(bucket, Box::new(change), grant).await?)
}

pub(crate) async fn get_tagging(
    handler: &S3Handler,
    req: S3Request<GetBucketTaggingInput>,
) -> S3Result<GetBucketTaggingOutput> {
    let found = read(handler, &req.input.bucket).await?.tags;
    let found = found.ok_or_else(|| missing(S3ErrorCode::NoSuchTagSet, "TagSet"))?;
    Ok(GetBucketTaggingOutput { tag_set: tags::to_set(found) })
}

pub(crate) async fn put_tagging(
    handler: &S3Handler,
    req: S3Request<PutBucketTaggingInput>,
) -> S3Result<PutBucketTaggingOutput> {
    let grant = grant_of(&req)?;
    let given = tags::from_set(req.input.tagging.tag_set, tags::MAX_BUCKET_TAGS)?;
    change(handler, (&req.input.bucket, grant), |settings| settings.tags = Some(given)).await?;
    Ok(PutBucketTaggingOutput::default())
}

pub(crate) async fn delete_tagging(
    handler: &S3Handler,
    req: S3Request<DeleteBucketTaggingInput>,
) -> S3Result<DeleteBucketTaggingOutput> {
    let grant = grant_of(&req)?;
    change(handler, (&req.input.bucket, grant), |settings| settings.tags = None).await?;
    Ok(DeleteBucketTaggingOutput::default())
}

pub(crate) async fn get_cors(handler: &S3Handler, req: S3Request<GetBucketCorsInput>) -> S3Result<GetBucketCorsOutput> {
    let rules = read(handler, &req.input.bucket).await?.cors;
    let rules = rules.ok_or_else(|| missing(S3ErrorCode::NoSuchCORSConfiguration, "CORS configuration"))?;
    Ok(GetBucketCorsOutput { cors_rules: Some(cors::listed(rules)) })
}

pub(crate) async fn put_cors(handler: &S3Handler, req: S3Request<PutBucketCorsInput>) -> S3Result<PutBucketCorsOutput> {
    let grant = grant_of(&req)?;
    let rules = cors::checked(req.input.cors_configuration.cors_rules)?;
    change(handler, (&req.input.bucket, grant), |settings| settings.cors = Some(rules)).await?;
    Ok(PutBucketCorsOutput::default())
}

pub(crate) async fn delete_cors(
    handler: &S3Handler,
    req: S3Request<DeleteBucketCorsInput>,
) -> S3Result<DeleteBucketCorsOutput> {
    let grant = grant_of(&req)?;
    change(handler, (&req.input.bucket, grant), |settings| settings.cors = None).await?;
    Ok(DeleteBucketCorsOutput::default())
}

/// Checks the name of an object ownership setting. It has no effect: all objects belong to the
/// owner of the node.
pub(crate) fn ownership(given: &ObjectOwnership) -> S3Result<String> {
    match given.as_str() {
        name @ (ObjectOwnership::BUCKET_OWNER_ENFORCED
        | ObjectOwnership::BUCKET_OWNER_PREFERRED
        | ObjectOwnership::OBJECT_WRITER) => Ok(name.to_owned()),
        other => Err(s3_error!(InvalidArgument, "there is no object ownership '{}'", other)),
    }
}

pub(crate) async fn get_ownership(
    handler: &S3Handler,
    req: S3Request<GetBucketOwnershipControlsInput>,
) -> S3Result<GetBucketOwnershipControlsOutput> {
    let found = read(handler, &req.input.bucket).await?.ownership;
    let found =
        found.ok_or_else(|| missing(S3ErrorCode::OwnershipControlsNotFoundError, "bucket ownership controls"))?;
    let rules = vec![OwnershipControlsRule { object_ownership: ObjectOwnership::from(found) }];
    Ok(GetBucketOwnershipControlsOutput { ownership_controls: Some(OwnershipControls { rules }) })
}

pub(crate) async fn put_ownership(
    handler: &S3Handler,
    req: S3Request<PutBucketOwnershipControlsInput>,
) -> S3Result<PutBucketOwnershipControlsOutput> {
    let grant = grant_of(&req)?;
    let [rule] = req.input.ownership_controls.rules.as_slice() else {
        return Err(s3_error!(MalformedXML, "ownership controls have exactly one rule"));
    };
    let name = ownership(&rule.object_ownership)?;
    change(handler, (&req.input.bucket, grant), |settings| settings.ownership = Some(name)).await?;
    Ok(PutBucketOwnershipControlsOutput::default())
}

pub(crate) async fn delete_ownership(
    handler: &S3Handler,
    req: S3Request<DeleteBucketOwnershipControlsInput>,
) -> S3Result<DeleteBucketOwnershipControlsOutput> {
    let grant = grant_of(&req)?;
    change(handler, (&req.input.bucket, grant), |settings| settings.ownership = None).await?;
    Ok(DeleteBucketOwnershipControlsOutput::default())
}

pub(crate) async fn get_public_access_block(
    handler: &S3Handler,
    req: S3Request<GetPublicAccessBlockInput>,
) -> S3Result<GetPublicAccessBlockOutput> {
    let found = read(handler, &req.input.bucket).await?.public_access_block;
    let code = || S3ErrorCode::from_bytes(b"NoSuchPublicAccessBlockConfiguration").unwrap_or(S3ErrorCode::NoSuchKey);
    let found = found.ok_or_else(|| missing(code(), "public access block configuration"))?;
    let configuration = PublicAccessBlockConfiguration {
        block_public_acls: Some(found.block_public_acls),
        block_public_policy: Some(found.block_public_policy),
        ignore_public_acls: Some(found.ignore_public_acls),
        restrict_public_buckets: Some(found.restrict_public_buckets),
    };
    Ok(GetPublicAccessBlockOutput { public_access_block_configuration: Some(configuration) })
}

pub(crate) async fn put_public_access_block(
    handler: &S3Handler,
    req: S3Request<PutPublicAccessBlockInput>,
) -> S3Result<PutPublicAccessBlockOutput> {
    let grant = grant_of(&req)?;
    let given = req.input.public_access_block_configuration;
    let block = Block {
        block_public_acls: given.block_public_acls.unwrap_or(false),
        ignore_public_acls: given.ignore_public_acls.unwrap_or(false),
        block_public_policy: given.block_public_policy.unwrap_or(false),
        restrict_public_buckets: given.restrict_public_buckets.unwrap_or(false),
    };
    change(handler, (&req.input.bucket, grant), move |settings| settings.public_access_block = Some(block)).await?;
    Ok(PutPublicAccessBlockOutput::default())
}

pub(crate) async fn delete_public_access_block(
    handler: &S3Handler,
    req: S3Request<DeletePublicAccessBlockInput>,
) -> S3Result<DeletePublicAccessBlockOutput> {
    let grant = grant_of(&req)?;
    change(handler, (&req.input.bucket, grant), |settings| settings.public_access_block = None).await?;
    Ok(DeletePublicAccessBlockOutput::default())
}

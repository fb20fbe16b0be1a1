//! ListBuckets, CreateBucket, HeadBucket, DeleteBucket, GetBucketLocation, GetBucketVersioning.

use s3s::dto::*;
use s3s::{S3Request, S3Result, s3_error};

use super::owner;
use crate::s3::Edge;
use crate::s3::attributes::timestamp;

pub(in crate::s3) async fn list_buckets(edge: &Edge, req: S3Request<ListBucketsInput>) -> S3Result<ListBucketsOutput> {
    let input = req.input;
    let prefix = input.prefix.clone().unwrap_or_default();
    let after = input.continuation_token.unwrap_or_default();
    let limit = usize::try_from(input.max_buckets.unwrap_or(i32::MAX)).unwrap_or(0);
    let mut buckets = edge.store.buckets().await?;
    buckets.retain(|bucket| bucket.name.starts_with(&prefix) && bucket.name > after);
    let more = buckets.len() > limit;
    buckets.truncate(limit);
    Ok(ListBucketsOutput {
        continuation_token: buckets.last().filter(|_| more).map(|last| last.name.clone()),
        buckets: Some(
            buckets
                .into_iter()
                .map(|bucket| Bucket {
                    name: Some(bucket.name),
                    creation_date: Some(timestamp(bucket.created_ms)),
                    bucket_region: None,
                })
                .collect(),
        ),
        owner: Some(owner()),
        prefix: input.prefix,
    })
}

pub(in crate::s3) async fn create_bucket(
    edge: &Edge,
    req: S3Request<CreateBucketInput>,
) -> S3Result<CreateBucketOutput> {
    if req.input.object_lock_enabled_for_bucket == Some(true) {
        return Err(s3_error!(NotImplemented, "object lock is not implemented"));
    }
    edge.store.create_bucket(&req.input.bucket).await?;
    Ok(CreateBucketOutput { location: Some(format!("/{}", req.input.bucket)) })
}

pub(in crate::s3) async fn head_bucket(edge: &Edge, req: S3Request<HeadBucketInput>) -> S3Result<HeadBucketOutput> {
    edge.store.bucket(&req.input.bucket).await?;
    Ok(HeadBucketOutput { bucket_region: Some(edge.region.clone()), ..HeadBucketOutput::default() })
}

pub(in crate::s3) async fn delete_bucket(
    edge: &Edge,
    req: S3Request<DeleteBucketInput>,
) -> S3Result<DeleteBucketOutput> {
    edge.store.delete_bucket(&req.input.bucket).await?;
    Ok(DeleteBucketOutput {})
}

pub(in crate::s3) async fn get_bucket_location(
    edge: &Edge,
    req: S3Request<GetBucketLocationInput>,
) -> S3Result<GetBucketLocationOutput> {
    edge.store.bucket(&req.input.bucket).await?;
    // The oldest region is written as nothing.
    let named = (edge.region != "us-east-1").then(|| BucketLocationConstraint::from(edge.region.clone()));
    Ok(GetBucketLocationOutput { location_constraint: named })
}

/// Objects have no versions; clients ask before they rely on it.
pub(in crate::s3) async fn get_bucket_versioning(
    edge: &Edge,
    req: S3Request<GetBucketVersioningInput>,
) -> S3Result<GetBucketVersioningOutput> {
    edge.store.bucket(&req.input.bucket).await?;
    Ok(GetBucketVersioningOutput::default())
}

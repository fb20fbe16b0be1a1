//! ListBuckets, CreateBucket, HeadBucket, DeleteBucket, GetBucketLocation.

use s3s::dto::*;
use s3s::{S3Request, S3Result, s3_error};

use super::handler::S3Handler;
use super::request::{grant_of, owner, signer};
use super::{acl, settings};
use crate::keys::Right;
use crate::s3::convert::attributes::{refuse, timestamp};
use crate::store::{BucketMeta, BucketSettings, StoreError};

/// Maximum buckets of one page: 10,000, as in S3.
const PAGE: i32 = 10_000;

/// The oldest region of S3, where some responses differ.
const OLDEST_REGION: &str = "us-east-1";

/// Suffixes of names that S3 reserves: clients do not treat such a name as that of a bucket.
const RESERVED: [&str; 4] = ["-s3alias", "--ol-s3", ".mrap", "--x-s3"];

pub(crate) async fn list_buckets(handler: &S3Handler, req: S3Request<ListBucketsInput>) -> S3Result<ListBucketsOutput> {
    // A key sees the buckets that it may read.
    let keys = handler.keys.now();
    let key = signer(&req).and_then(|signer| keys.get(&signer.access_key_id));
    let input = req.input;
    let prefix = input.prefix.clone().unwrap_or_default();
    let after = input.continuation_token.unwrap_or_default();
    let limit = match input.max_buckets {
        None => PAGE as usize,
        Some(asked @ 1..=PAGE) => asked as usize,
        Some(_) => return Err(s3_error!(InvalidArgument, "max-buckets is between 1 and {}", PAGE)),
    };
    let seen = |bucket: &BucketMeta| {
        let id = key.map(|key| key.credentials.access_key_id.as_str());
        let made = bucket.settings.owner.as_deref() == id;
        key.is_some_and(|key| key.may(Right::Read, &bucket.name) || (key.has_own() && made))
    };
    let mut buckets = handler.store.buckets().await?;
    buckets.retain(|bucket| bucket.name.starts_with(&prefix) && bucket.name > after && seen(bucket));
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

pub(crate) async fn create_bucket(
    handler: &S3Handler,
    req: S3Request<CreateBucketInput>,
) -> S3Result<CreateBucketOutput> {
    let grant = grant_of(&req)?;
    let signer = signer(&req).map(|signer| signer.access_key_id.clone());
    let keys = handler.keys.now();
    let may_all = signer.as_deref().and_then(|id| keys.get(id)).is_some_and(|key| !key.has_own());
    let input = req.input;
    if input.object_lock_enabled_for_bucket == Some(true) {
        return Err(s3_error!(NotImplemented, "object lock is not implemented"));
    }
    refuse(&[
        ("grant-full-control", input.grant_full_control.is_some()),
        ("grant-read", input.grant_read.is_some()),
        ("grant-read-acp", input.grant_read_acp.is_some()),
        ("grant-write", input.grant_write.is_some()),
        ("grant-write-acp", input.grant_write_acp.is_some()),
    ])?;
    if !acl::is_private_bucket(input.acl.as_ref())? {
        return Err(acl::unsupported());
    }
    if RESERVED.iter().any(|ending| input.bucket.ends_with(ending)) {
        return Err(s3_error!(InvalidBucketName, "names that end so are reserved"));
    }
    let configuration = input.create_bucket_configuration.unwrap_or_default();
    let location = configuration.location_constraint.map(|location| location.as_str().to_owned());
    let wanted = BucketSettings {
        owner: signer.clone(),
        location: location.filter(|location| !location.is_empty()),
        ownership: input.object_ownership.as_ref().map(settings::ownership).transpose()?,
        ..BucketSettings::default()
    };
    let (ownership, output) =
        (wanted.ownership.clone(), CreateBucketOutput { location: Some(format!("/{}", input.bucket)) });
    match handler.store.create_bucket(&input.bucket, wanted, grant).await {
        Err(StoreError::BucketExists(name)) => {
            let settings = handler.store.bucket(&name).await?.settings;
            // Buckets without an owner (created by the CLI) belong to every unrestricted key.
            if settings.owner != signer && !(may_all && settings.owner.is_none()) {
                return Err(s3_error!(
                    BucketAlreadyExists,
                    "The requested bucket name is not available. Select a different name and try again."
                ));
            }
            // Creating one's own bucket again succeeds in the oldest region only, as in S3.
            let same = ownership.is_none() || ownership == settings.ownership;
            if handler.region == OLDEST_REGION && same {
                Ok(output)
            } else {
                Err(StoreError::BucketExists(name).into())
            }
        }
        made => Ok(made.map(|()| output)?),
    }
}

pub(crate) async fn head_bucket(handler: &S3Handler, req: S3Request<HeadBucketInput>) -> S3Result<HeadBucketOutput> {
    handler.store.bucket(&req.input.bucket).await?;
    Ok(HeadBucketOutput { bucket_region: Some(handler.region.clone()), ..HeadBucketOutput::default() })
}

pub(crate) async fn delete_bucket(
    handler: &S3Handler,
    req: S3Request<DeleteBucketInput>,
) -> S3Result<DeleteBucketOutput> {
    handler.store.delete_bucket(&req.input.bucket, grant_of(&req)?).await?;
    Ok(DeleteBucketOutput {})
}

pub(crate) async fn get_bucket_location(
    handler: &S3Handler,
    req: S3Request<GetBucketLocationInput>,
) -> S3Result<GetBucketLocationOutput> {
    let asked = handler.store.bucket(&req.input.bucket).await?.settings.location;
    // The oldest region is reported as an empty name.
    let named = asked.or_else(|| (handler.region != OLDEST_REGION).then(|| handler.region.clone()));
    Ok(GetBucketLocationOutput { location_constraint: named.map(BucketLocationConstraint::from) })
}

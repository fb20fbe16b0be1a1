//! Access control lists. Buckets and objects are private to the one owner: the list that says so
//! can be read and written back, and every other list is refused.

use s3s::dto::*;
use s3s::{S3Error, S3Request, S3Result, s3_error};

use super::handler::S3Handler;
use super::request::{OWNER, owner};
use crate::s3::convert::attributes::{WriteInput, no_version, only_standard, refuse};

pub(crate) async fn get_bucket_acl(
    handler: &S3Handler,
    req: S3Request<GetBucketAclInput>,
) -> S3Result<GetBucketAclOutput> {
    handler.store.bucket(&req.input.bucket).await?;
    Ok(GetBucketAclOutput { grants: Some(grants()), owner: Some(owner()) })
}

pub(crate) async fn get_object_acl(
    handler: &S3Handler,
    req: S3Request<GetObjectAclInput>,
) -> S3Result<GetObjectAclOutput> {
    no_version(req.input.version_id.as_deref())?;
    handler.store.head(&req.input.bucket, &req.input.key).await?;
    Ok(GetObjectAclOutput { grants: Some(grants()), owner: Some(owner()), ..GetObjectAclOutput::default() })
}

pub(crate) async fn put_bucket_acl(
    handler: &S3Handler,
    req: S3Request<PutBucketAclInput>,
) -> S3Result<PutBucketAclOutput> {
    let input = req.input;
    refuse(&[
        ("grant-full-control", input.grant_full_control.is_some()),
        ("grant-read", input.grant_read.is_some()),
        ("grant-read-acp", input.grant_read_acp.is_some()),
        ("grant-write", input.grant_write.is_some()),
        ("grant-write-acp", input.grant_write_acp.is_some()),
    ])?;
    handler.store.bucket(&input.bucket).await?;
    if !is_private_bucket(input.acl.as_ref())? || !is_owners_alone(input.access_control_policy)? {
        return Err(refused(handler, &input.bucket).await);
    }
    Ok(PutBucketAclOutput::default())
}

pub(crate) async fn put_object_acl(
    handler: &S3Handler,
    req: S3Request<PutObjectAclInput>,
) -> S3Result<PutObjectAclOutput> {
    let input = req.input;
    refuse(&[
        ("grant-full-control", input.grant_full_control.is_some()),
        ("grant-read", input.grant_read.is_some()),
        ("grant-read-acp", input.grant_read_acp.is_some()),
        ("grant-write", input.grant_write.is_some()),
        ("grant-write-acp", input.grant_write_acp.is_some()),
    ])?;
    no_version(input.version_id.as_deref())?;
    handler.store.head(&input.bucket, &input.key).await?;
    only_private(handler, &input.bucket, input.acl.as_ref()).await?;
    if !is_owners_alone(input.access_control_policy)? {
        return Err(refused(handler, &input.bucket).await);
    }
    Ok(PutObjectAclOutput::default())
}

/// Refuses a write with headers that the node does not support.
pub(crate) async fn check_write(handler: &S3Handler, input: &impl WriteInput) -> S3Result<()> {
    refuse(&input.unsupported())?;
    only_private(handler, input.bucket(), input.acl()).await?;
    only_standard(input.storage_class())
}

/// Refuses lists that open an object of `bucket` to others.
async fn only_private(handler: &S3Handler, bucket: &str, acl: Option<&ObjectCannedACL>) -> S3Result<()> {
    match acl.map(ObjectCannedACL::as_str) {
        None
        | Some(
            ObjectCannedACL::PRIVATE | ObjectCannedACL::BUCKET_OWNER_READ | ObjectCannedACL::BUCKET_OWNER_FULL_CONTROL,
        ) => Ok(()),
        Some(
            ObjectCannedACL::PUBLIC_READ
            | ObjectCannedACL::PUBLIC_READ_WRITE
            | ObjectCannedACL::AUTHENTICATED_READ
            | ObjectCannedACL::AWS_EXEC_READ,
        ) => Err(refused(handler, bucket).await),
        Some(other) => Err(unknown(other)),
    }
}

/// Whether a bucket's canned ACL gives access to the owner only.
pub(crate) fn is_private_bucket(acl: Option<&BucketCannedACL>) -> S3Result<bool> {
    match acl.map(BucketCannedACL::as_str) {
        None | Some(BucketCannedACL::PRIVATE) => Ok(true),
        Some(
            BucketCannedACL::PUBLIC_READ | BucketCannedACL::PUBLIC_READ_WRITE | BucketCannedACL::AUTHENTICATED_READ,
        ) => Ok(false),
        Some(other) => Err(unknown(other)),
    }
}

/// Whether `list` gives everything to the owner and nothing to others. The node has no other
/// grantees.
fn is_owners_alone(list: Option<AccessControlPolicy>) -> S3Result<bool> {
    let Some(list) = list else { return Ok(true) };
    let grants = list.grants.unwrap_or_default();
    let mut alone = !grants.is_empty();
    for grant in grants {
        let grantee = grant.grantee.as_ref();
        if grantee.is_some_and(|grantee| grantee.email_address.is_some()) {
            return Err(s3_error!(
                UnresolvableGrantByEmailAddress,
                "The email address you provided does not match any account on record."
            ));
        }
        let id = grantee.and_then(|grantee| grantee.id.as_deref());
        if id.is_some_and(|id| id != OWNER) {
            return Err(s3_error!(InvalidArgument, "Invalid id"));
        }
        let everything = grant.permission.as_ref().is_some_and(|p| p.as_str() == Permission::FULL_CONTROL);
        alone &= everything && id.is_some();
    }
    Ok(alone)
}

/// The error for an ACL that opens `bucket` or its objects to others; it depends on the settings of
/// the bucket.
async fn refused(handler: &S3Handler, bucket: &str) -> S3Error {
    let settings = match handler.store.bucket(bucket).await {
        Ok(bucket) => bucket.settings,
        Err(error) => return error.into(),
    };
    if settings.public_access_block.is_some_and(|block| block.block_public_acls) {
        return s3_error!(AccessDenied, "the bucket's public access block refuses public access control lists");
    }
    if settings.ownership.as_deref() == Some(ObjectOwnership::BUCKET_OWNER_ENFORCED) {
        return s3_error!(AccessControlListNotSupported, "The bucket does not allow ACLs");
    }
    unsupported()
}

pub(crate) fn unsupported() -> S3Error {
    s3_error!(
        NotImplemented,
        "access control lists are not implemented; everything is private to the keys of this node"
    )
}

fn unknown(name: &str) -> S3Error {
    s3_error!(InvalidArgument, "there is no canned access control list '{}'", name)
}

fn grants() -> Vec<Grant> {
    let grantee = Grantee {
        display_name: Some(OWNER.to_owned()),
        email_address: None,
        id: Some(OWNER.to_owned()),
        type_: Type::from_static(Type::CANONICAL_USER),
        uri: None,
    };
    vec![Grant { grantee: Some(grantee), permission: Some(Permission::from_static(Permission::FULL_CONTROL)) }]
}

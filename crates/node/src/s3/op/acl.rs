//! Access control lists, as far as there are any: everything is private to its one owner, and that can be
//! read and said again. Every other list is refused.

use s3s::dto::*;
use s3s::{S3Error, S3Request, S3Result, s3_error};

use super::{OWNER, owner};
use crate::s3::Edge;
use crate::s3::attributes::{no_version, refuse};

pub(in crate::s3) async fn get_bucket_acl(
    edge: &Edge,
    req: S3Request<GetBucketAclInput>,
) -> S3Result<GetBucketAclOutput> {
    edge.store.bucket(&req.input.bucket).await?;
    Ok(GetBucketAclOutput { grants: Some(grants()), owner: Some(owner()) })
}

pub(in crate::s3) async fn get_object_acl(
    edge: &Edge,
    req: S3Request<GetObjectAclInput>,
) -> S3Result<GetObjectAclOutput> {
    no_version(req.input.version_id.as_deref())?;
    edge.store.head(&req.input.bucket, &req.input.key).await?;
    Ok(GetObjectAclOutput { grants: Some(grants()), owner: Some(owner()), ..GetObjectAclOutput::default() })
}

pub(in crate::s3) async fn put_bucket_acl(
    edge: &Edge,
    req: S3Request<PutBucketAclInput>,
) -> S3Result<PutBucketAclOutput> {
    let input = req.input;
    refuse!(input, grant_full_control, grant_read, grant_read_acp, grant_write, grant_write_acp);
    edge.store.bucket(&input.bucket).await?;
    only_private_bucket(input.acl.as_ref())?;
    only_owner(input.access_control_policy)?;
    Ok(PutBucketAclOutput::default())
}

pub(in crate::s3) async fn put_object_acl(
    edge: &Edge,
    req: S3Request<PutObjectAclInput>,
) -> S3Result<PutObjectAclOutput> {
    let input = req.input;
    refuse!(input, grant_full_control, grant_read, grant_read_acp, grant_write, grant_write_acp);
    no_version(input.version_id.as_deref())?;
    edge.store.head(&input.bucket, &input.key).await?;
    only_private(input.acl.as_ref())?;
    only_owner(input.access_control_policy)?;
    Ok(PutObjectAclOutput::default())
}

pub(in crate::s3) fn only_private(acl: Option<&ObjectCannedACL>) -> S3Result<()> {
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
        ) => Err(unsupported()),
        Some(other) => Err(unknown(other)),
    }
}

pub(super) fn only_private_bucket(acl: Option<&BucketCannedACL>) -> S3Result<()> {
    match acl.map(BucketCannedACL::as_str) {
        None | Some(BucketCannedACL::PRIVATE) => Ok(()),
        Some(
            BucketCannedACL::PUBLIC_READ | BucketCannedACL::PUBLIC_READ_WRITE | BucketCannedACL::AUTHENTICATED_READ,
        ) => Err(unsupported()),
        Some(other) => Err(unknown(other)),
    }
}

/// A list may be written back as it was read.
fn only_owner(list: Option<AccessControlPolicy>) -> S3Result<()> {
    let is_owners = |grant: &Grant| {
        grant.permission.as_ref().is_some_and(|permission| permission.as_str() == Permission::FULL_CONTROL)
            && grant.grantee.as_ref().is_some_and(|grantee| grantee.id.as_deref() == Some(OWNER))
    };
    match list {
        Some(list) if !list.grants.iter().flatten().all(is_owners) => Err(unsupported()),
        _ => Ok(()),
    }
}

fn unsupported() -> S3Error {
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

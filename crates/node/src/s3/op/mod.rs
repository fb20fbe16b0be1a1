//! The S3 operations, one file per group, and the table of those that are implemented. s3s answers
//! the rest with NotImplemented.

mod absent;
mod acl;
mod bucket;
mod copy;
mod delete;
mod describe;
mod form;
pub(crate) mod fragment;
pub(crate) mod handler;
mod list;
mod multipart;
mod read;
pub(crate) mod request;
mod select;
mod settings;
mod tagging;
mod uploads;
mod write;

use async_trait::async_trait;
use s3s::dto::*;
use s3s::{S3, S3Request, S3Response, S3Result};

use handler::S3Handler;
use request::Answer;

/// Implements the methods of [`S3`] by calling the functions of this module.
macro_rules! operations {
    ($($name:ident($input:ty) -> $output:ty = $path:path;)*) => {
        /// The operations that are implemented, in snake case.
        pub(crate) const OPERATIONS: &[&str] = &[$(stringify!($name)),*];

        #[async_trait]
        impl S3 for S3Handler {
            $(async fn $name(&self, req: S3Request<$input>) -> S3Result<S3Response<$output>> {
                $path(self, req).await.map(Answer::into_response)
            })*
        }
    };
}

operations! {
    list_buckets(ListBucketsInput) -> ListBucketsOutput = bucket::list_buckets;
    create_bucket(CreateBucketInput) -> CreateBucketOutput = bucket::create_bucket;
    head_bucket(HeadBucketInput) -> HeadBucketOutput = bucket::head_bucket;
    delete_bucket(DeleteBucketInput) -> DeleteBucketOutput = bucket::delete_bucket;
    get_bucket_location(GetBucketLocationInput) -> GetBucketLocationOutput = bucket::get_bucket_location;

    get_bucket_tagging(GetBucketTaggingInput) -> GetBucketTaggingOutput = settings::get_tagging;
    put_bucket_tagging(PutBucketTaggingInput) -> PutBucketTaggingOutput = settings::put_tagging;
    delete_bucket_tagging(DeleteBucketTaggingInput) -> DeleteBucketTaggingOutput = settings::delete_tagging;
    get_bucket_cors(GetBucketCorsInput) -> GetBucketCorsOutput = settings::get_cors;
    put_bucket_cors(PutBucketCorsInput) -> PutBucketCorsOutput = settings::put_cors;
    delete_bucket_cors(DeleteBucketCorsInput) -> DeleteBucketCorsOutput = settings::delete_cors;
    get_bucket_ownership_controls(GetBucketOwnershipControlsInput) -> GetBucketOwnershipControlsOutput
        = settings::get_ownership;
    put_bucket_ownership_controls(PutBucketOwnershipControlsInput) -> PutBucketOwnershipControlsOutput
        = settings::put_ownership;
    delete_bucket_ownership_controls(DeleteBucketOwnershipControlsInput) -> DeleteBucketOwnershipControlsOutput
        = settings::delete_ownership;
    get_public_access_block(GetPublicAccessBlockInput) -> GetPublicAccessBlockOutput
        = settings::get_public_access_block;
    put_public_access_block(PutPublicAccessBlockInput) -> PutPublicAccessBlockOutput
        = settings::put_public_access_block;
    delete_public_access_block(DeletePublicAccessBlockInput) -> DeletePublicAccessBlockOutput
        = settings::delete_public_access_block;

    get_bucket_acl(GetBucketAclInput) -> GetBucketAclOutput = acl::get_bucket_acl;
    put_bucket_acl(PutBucketAclInput) -> PutBucketAclOutput = acl::put_bucket_acl;
    get_object_acl(GetObjectAclInput) -> GetObjectAclOutput = acl::get_object_acl;
    put_object_acl(PutObjectAclInput) -> PutObjectAclOutput = acl::put_object_acl;

    get_bucket_versioning(GetBucketVersioningInput) -> GetBucketVersioningOutput = absent::versioning;
    get_bucket_accelerate_configuration(GetBucketAccelerateConfigurationInput)
        -> GetBucketAccelerateConfigurationOutput = absent::accelerate;
    get_bucket_encryption(GetBucketEncryptionInput) -> GetBucketEncryptionOutput = absent::encryption;
    get_bucket_lifecycle_configuration(GetBucketLifecycleConfigurationInput)
        -> GetBucketLifecycleConfigurationOutput = absent::lifecycle;
    get_bucket_logging(GetBucketLoggingInput) -> GetBucketLoggingOutput = absent::logging;
    get_bucket_notification_configuration(GetBucketNotificationConfigurationInput)
        -> GetBucketNotificationConfigurationOutput = absent::notification;
    get_bucket_policy(GetBucketPolicyInput) -> GetBucketPolicyOutput = absent::policy;
    get_bucket_policy_status(GetBucketPolicyStatusInput) -> GetBucketPolicyStatusOutput = absent::policy_status;
    get_bucket_replication(GetBucketReplicationInput) -> GetBucketReplicationOutput = absent::replication;
    get_bucket_request_payment(GetBucketRequestPaymentInput) -> GetBucketRequestPaymentOutput
        = absent::request_payment;
    get_bucket_website(GetBucketWebsiteInput) -> GetBucketWebsiteOutput = absent::website;
    get_object_lock_configuration(GetObjectLockConfigurationInput) -> GetObjectLockConfigurationOutput
        = absent::object_lock;
    get_object_retention(GetObjectRetentionInput) -> GetObjectRetentionOutput = absent::retention;
    get_object_legal_hold(GetObjectLegalHoldInput) -> GetObjectLegalHoldOutput = absent::legal_hold;
    delete_bucket_encryption(DeleteBucketEncryptionInput) -> DeleteBucketEncryptionOutput
        = absent::delete_encryption;
    delete_bucket_lifecycle(DeleteBucketLifecycleInput) -> DeleteBucketLifecycleOutput = absent::delete_lifecycle;
    delete_bucket_policy(DeleteBucketPolicyInput) -> DeleteBucketPolicyOutput = absent::delete_policy;
    delete_bucket_replication(DeleteBucketReplicationInput) -> DeleteBucketReplicationOutput
        = absent::delete_replication;
    delete_bucket_website(DeleteBucketWebsiteInput) -> DeleteBucketWebsiteOutput = absent::delete_website;

    list_objects(ListObjectsInput) -> ListObjectsOutput = list::list_objects;
    list_objects_v2(ListObjectsV2Input) -> ListObjectsV2Output = list::list_objects_v2;
    list_object_versions(ListObjectVersionsInput) -> ListObjectVersionsOutput = list::list_object_versions;

    get_object(GetObjectInput) -> GetObjectOutput = read::get_object;
    head_object(HeadObjectInput) -> HeadObjectOutput = read::head_object;
    get_object_attributes(GetObjectAttributesInput) -> GetObjectAttributesOutput = describe::get_object_attributes;
    get_object_tagging(GetObjectTaggingInput) -> GetObjectTaggingOutput = tagging::get_object_tagging;
    put_object_tagging(PutObjectTaggingInput) -> PutObjectTaggingOutput = tagging::put_object_tagging;
    delete_object_tagging(DeleteObjectTaggingInput) -> DeleteObjectTaggingOutput = tagging::delete_object_tagging;
    put_object(PutObjectInput) -> PutObjectOutput = write::put_object;
    post_object(PostObjectInput) -> PostObjectOutput = form::post_object;
    copy_object(CopyObjectInput) -> CopyObjectOutput = copy::copy_object;
    delete_object(DeleteObjectInput) -> DeleteObjectOutput = delete::delete_object;
    delete_objects(DeleteObjectsInput) -> DeleteObjectsOutput = delete::delete_objects;

    create_multipart_upload(CreateMultipartUploadInput) -> CreateMultipartUploadOutput = multipart::create;
    upload_part(UploadPartInput) -> UploadPartOutput = multipart::upload_part;
    upload_part_copy(UploadPartCopyInput) -> UploadPartCopyOutput = copy::upload_part_copy;
    complete_multipart_upload(CompleteMultipartUploadInput) -> CompleteMultipartUploadOutput = multipart::complete;
    abort_multipart_upload(AbortMultipartUploadInput) -> AbortMultipartUploadOutput = multipart::abort;
    list_parts(ListPartsInput) -> ListPartsOutput = uploads::list_parts;
    list_multipart_uploads(ListMultipartUploadsInput) -> ListMultipartUploadsOutput = uploads::list_uploads;

    select_object_content(SelectObjectContentInput) -> SelectObjectContentOutput = select::select_object_content;
}

//! Settings that buckets never have. Reading one returns what S3 returns where it was never set.
//!
//! Clients read and delete them before anything else, and treat NotImplemented as a broken server.
//! Setting one is NotImplemented.

use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result, s3_error};

use super::handler::S3Handler;

/// Defines operations that check that the bucket exists and then give a fixed answer.
macro_rules! answers {
    ($($name:ident($input:ty) -> $output:ty = $answer:expr;)*) => {
        $(pub(crate) async fn $name(handler: &S3Handler, req: S3Request<$input>) -> S3Result<$output> {
            handler.store.bucket(&req.input.bucket).await?;
            $answer
        })*
    };
}

answers! {
    versioning(GetBucketVersioningInput) -> GetBucketVersioningOutput = Ok(GetBucketVersioningOutput::default());
    accelerate(GetBucketAccelerateConfigurationInput) -> GetBucketAccelerateConfigurationOutput
        = Ok(GetBucketAccelerateConfigurationOutput::default());
    logging(GetBucketLoggingInput) -> GetBucketLoggingOutput = Ok(GetBucketLoggingOutput::default());
    notification(GetBucketNotificationConfigurationInput) -> GetBucketNotificationConfigurationOutput
        = Ok(GetBucketNotificationConfigurationOutput::default());
    request_payment(GetBucketRequestPaymentInput) -> GetBucketRequestPaymentOutput
        = Ok(GetBucketRequestPaymentOutput { payer: Some(Payer::from_static(Payer::BUCKET_OWNER)) });
    encryption(GetBucketEncryptionInput) -> GetBucketEncryptionOutput
        = Err(missing(S3ErrorCode::ServerSideEncryptionConfigurationNotFoundError, "encryption configuration"));
    lifecycle(GetBucketLifecycleConfigurationInput) -> GetBucketLifecycleConfigurationOutput
        = Err(missing(S3ErrorCode::NoSuchLifecycleConfiguration, "lifecycle configuration"));
    policy(GetBucketPolicyInput) -> GetBucketPolicyOutput
        = Err(missing(S3ErrorCode::NoSuchBucketPolicy, "bucket policy"));
    policy_status(GetBucketPolicyStatusInput) -> GetBucketPolicyStatusOutput
        = Err(missing(S3ErrorCode::NoSuchBucketPolicy, "bucket policy"));
    replication(GetBucketReplicationInput) -> GetBucketReplicationOutput
        = Err(missing(S3ErrorCode::ReplicationConfigurationNotFoundError, "replication configuration"));
    website(GetBucketWebsiteInput) -> GetBucketWebsiteOutput
        = Err(missing(S3ErrorCode::NoSuchWebsiteConfiguration, "website configuration"));
    object_lock(GetObjectLockConfigurationInput) -> GetObjectLockConfigurationOutput
        = Err(missing(S3ErrorCode::ObjectLockConfigurationNotFoundError, "object lock configuration"));
    retention(GetObjectRetentionInput) -> GetObjectRetentionOutput = Err(not_locked());
    legal_hold(GetObjectLegalHoldInput) -> GetObjectLegalHoldOutput = Err(not_locked());

    delete_encryption(DeleteBucketEncryptionInput) -> DeleteBucketEncryptionOutput
        = Ok(DeleteBucketEncryptionOutput {});
    delete_lifecycle(DeleteBucketLifecycleInput) -> DeleteBucketLifecycleOutput = Ok(DeleteBucketLifecycleOutput {});
    delete_policy(DeleteBucketPolicyInput) -> DeleteBucketPolicyOutput = Ok(DeleteBucketPolicyOutput {});
    delete_replication(DeleteBucketReplicationInput) -> DeleteBucketReplicationOutput
        = Ok(DeleteBucketReplicationOutput {});
    delete_website(DeleteBucketWebsiteInput) -> DeleteBucketWebsiteOutput = Ok(DeleteBucketWebsiteOutput {});
}

fn not_locked() -> S3Error {
    s3_error!(InvalidRequest, "Bucket is missing Object Lock Configuration")
}

/// The error of a bucket without the setting `what`.
pub(crate) fn missing(code: S3ErrorCode, what: &str) -> S3Error {
    let mut error = S3Error::with_message(code, format!("The {what} does not exist"));
    error.set_status_code(http::StatusCode::NOT_FOUND);
    error
}

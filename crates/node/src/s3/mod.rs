//! The S3 edge: signatures, requests and responses, over a store.
//!
//! s3s parses requests, checks their signatures and writes the XML. What each operation means is under
//! [`op`], one file per group. Operations that are not listed below are answered with NotImplemented.

mod access;
mod attributes;
mod authentication;
mod buffered;
mod checksums;
mod chunk_signatures;
mod chunked;
mod conditions;
mod cors;
mod encryption;
mod form_head;
mod grant;
mod host;
mod keys;
mod op;
mod service;
mod signing;
mod tags;
mod upload;
mod verified;
mod version_2;
mod watched;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use http::Extensions;
use s3s::auth::Credentials as Signer;
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::dto::*;
use s3s::service::S3ServiceBuilder;
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};

use crate::admission::{Requester, Ticket, Turns};
use crate::counters::Counting;
use crate::keyring::{KeysInUse, Right};
use crate::memory::NodeMemory;
use crate::scans::Scans;
use crate::store::{Grant, Object, Store};
use crate::{Limits, NodeConfig};

pub(crate) use service::{RequestId, Service};

/// What every operation has at hand.
#[derive(Clone)]
pub(crate) struct Edge {
    pub store: Arc<dyn Store>,
    pub limits: Limits,
    pub region: String,
    pub keys: KeysInUse,
    pub domains: host::Domains,
    /// Copies that read their bytes.
    pub copies: Turns,
    pub counting: Arc<Counting>,
    /// Where S3 Select requests run.
    pub scans: Arc<Scans>,
    /// What requests draw their memory from.
    pub memory: Arc<NodeMemory>,
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Edge").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Edge {
    /// Authorises the signer to read a bucket that need not be the one the request is addressed to.
    async fn authorise_read(&self, signer: Option<&Signer>, bucket: &str) -> S3Result<Grant> {
        let asked = (Right::Read, bucket);
        let given = grant::authorise(&self.keys, &*self.store, &self.limits, signer, asked, false).await?;
        Ok(given.grant)
    }

    /// Opens an object of the bucket that `grant` is for.
    async fn open(&self, grant: &Grant, bucket: &str, key: &str) -> S3Result<Object> {
        let object = self.store.open(bucket, key).await?;
        // After it was opened: what is open now is in the bucket that was authorised.
        grant.confirm(&*self.store, bucket).await?;
        Ok(object)
    }
}

/// The S3 service over a store.
pub(crate) fn service(
    store: Arc<dyn Store>,
    keys: &KeysInUse,
    config: &NodeConfig,
    counting: Arc<Counting>,
    scans: Arc<Scans>,
    memory: Arc<NodeMemory>,
) -> Service {
    let limits = config.limits.clone();
    let mut settings = S3Config::default();
    settings.xml_max_body_size = limits.request_body_bytes;
    // s3s holds the file of an upload form in memory.
    settings.post_object_max_file_size = limits.form_bytes as u64;
    settings.form_max_field_size = 64 << 10;
    settings.form_max_fields_size = 256 << 10;
    settings.form_max_parts = 100;
    settings.presigned_url_max_skew_time_secs = u32::try_from(limits.clock_skew.as_secs()).unwrap_or(u32::MAX);
    let domains = host::Domains::new(&config.domains);
    let edge = Edge {
        store: Arc::clone(&store),
        limits: limits.clone(),
        region: config.region.clone(),
        keys: keys.clone(),
        domains: domains.clone(),
        copies: Turns::new(limits.copies, limits.key_share(limits.copies).min(limits.copies.saturating_sub(1)).max(1)),
        counting: Arc::clone(&counting),
        scans,
        memory,
    };
    // How long a form may be used is for its policy to say, and not for the time it was signed at.
    let mut of_forms = settings.clone();
    of_forms.presigned_url_max_skew_time_secs = authentication::PRESIGNED_SECONDS as u32;

    let builder = |settings: S3Config, only_forms: bool| {
        let mut builder = S3ServiceBuilder::new(edge.clone());
        builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(settings))));
        builder.set_host(domains.clone());
        builder.set_access(access::Access {
            keys: keys.clone(),
            store: Arc::clone(&store),
            counting: Arc::clone(&counting),
            limits: limits.clone(),
            only_forms,
        });
        builder
    };
    let (mut outer, mut inner) = (builder(settings.clone(), false), builder(settings, false));
    let mut of_forms = builder(of_forms, true);
    inner.set_auth(verified::Nobody);
    outer.set_auth(access::Keys(keys.clone()));
    of_forms.set_auth(access::Keys(keys.clone()));
    outer.set_route(verified::Verified::new(inner.build(), edge.clone(), domains.clone()));
    Service::new(outer.build(), of_forms.build(), edge, config.signature_version_2)
}

/// Ends the time within which it must be known who sent a request.
fn authenticated(extensions: &Extensions) {
    if let Some(ticket) = extensions.get::<Arc<Ticket>>() {
        ticket.authenticate();
    }
}

/// Takes a place among the requests under way for one whose signer is known, and says in its extensions whose it is.
async fn admit(extensions: &mut Extensions, keys: &KeysInUse, signer: &Signer) -> S3Result<()> {
    let share = keys.now().get(&signer.access_key).map(|key| key.share).unwrap_or_default();
    let requester = Requester { key: signer.access_key.clone(), requests: share.requests, scans: share.scans };
    if let Some(ticket) = extensions.get::<Arc<Ticket>>().cloned() {
        ticket.admit(&requester).await.map_err(|busy| s3_error!(SlowDown, "{}", busy.message()))?;
    }
    extensions.insert(requester);
    Ok(())
}

/// The permission that a request was given by its head.
fn grant_of<T>(req: &S3Request<T>) -> S3Result<Grant> {
    let given = req.extensions.get::<grant::Authorised>();
    given.map(|given| given.grant.clone()).ok_or_else(|| s3_error!(InternalError, "a request without permission"))
}

/// The key that signed a request, and its share of the node.
fn requester_of(extensions: &Extensions) -> S3Result<Requester> {
    extensions.get().cloned().ok_or_else(|| s3_error!(InternalError, "a request without a signer"))
}

/// Who signed a request, as the outer or the inner service knows it.
fn signer<T>(req: &S3Request<T>) -> Option<&Signer> {
    req.credentials.as_ref().or_else(|| req.extensions.get())
}

/// Connects the operations of the S3 trait to the functions that carry them out.
macro_rules! operations {
    ($($name:ident($input:ty) -> $output:ty = $path:path;)*) => {
        /// The operations there are, as Rust writes them.
        const OPERATIONS: &[&str] = &[$(stringify!($name)),*];

        #[async_trait]
        impl S3 for Edge {
            $(async fn $name(&self, req: S3Request<$input>) -> S3Result<S3Response<$output>> {
                $path(self, req).await.map(Answer::into_response)
            })*
        }
    };
}

/// What an operation gives back: its output, or a response with headers that the output lacks.
trait Answer<T> {
    fn into_response(self) -> S3Response<T>;
}

impl<T> Answer<T> for T {
    fn into_response(self) -> S3Response<T> {
        S3Response::new(self)
    }
}

impl<T> Answer<T> for S3Response<T> {
    fn into_response(self) -> Self {
        self
    }
}

operations! {
    list_buckets(ListBucketsInput) -> ListBucketsOutput = op::bucket::list_buckets;
    create_bucket(CreateBucketInput) -> CreateBucketOutput = op::bucket::create_bucket;
    head_bucket(HeadBucketInput) -> HeadBucketOutput = op::bucket::head_bucket;
    delete_bucket(DeleteBucketInput) -> DeleteBucketOutput = op::bucket::delete_bucket;
    get_bucket_location(GetBucketLocationInput) -> GetBucketLocationOutput = op::bucket::get_bucket_location;

    get_bucket_tagging(GetBucketTaggingInput) -> GetBucketTaggingOutput = op::settings::get_tagging;
    put_bucket_tagging(PutBucketTaggingInput) -> PutBucketTaggingOutput = op::settings::put_tagging;
    delete_bucket_tagging(DeleteBucketTaggingInput) -> DeleteBucketTaggingOutput = op::settings::delete_tagging;
    get_bucket_cors(GetBucketCorsInput) -> GetBucketCorsOutput = op::settings::get_cors;
    put_bucket_cors(PutBucketCorsInput) -> PutBucketCorsOutput = op::settings::put_cors;
    delete_bucket_cors(DeleteBucketCorsInput) -> DeleteBucketCorsOutput = op::settings::delete_cors;
    get_bucket_ownership_controls(GetBucketOwnershipControlsInput) -> GetBucketOwnershipControlsOutput
        = op::settings::get_ownership;
    put_bucket_ownership_controls(PutBucketOwnershipControlsInput) -> PutBucketOwnershipControlsOutput
        = op::settings::put_ownership;
    delete_bucket_ownership_controls(DeleteBucketOwnershipControlsInput) -> DeleteBucketOwnershipControlsOutput
        = op::settings::delete_ownership;
    get_public_access_block(GetPublicAccessBlockInput) -> GetPublicAccessBlockOutput
        = op::settings::get_public_access_block;
    put_public_access_block(PutPublicAccessBlockInput) -> PutPublicAccessBlockOutput
        = op::settings::put_public_access_block;
    delete_public_access_block(DeletePublicAccessBlockInput) -> DeletePublicAccessBlockOutput
        = op::settings::delete_public_access_block;

    get_bucket_acl(GetBucketAclInput) -> GetBucketAclOutput = op::acl::get_bucket_acl;
    put_bucket_acl(PutBucketAclInput) -> PutBucketAclOutput = op::acl::put_bucket_acl;
    get_object_acl(GetObjectAclInput) -> GetObjectAclOutput = op::acl::get_object_acl;
    put_object_acl(PutObjectAclInput) -> PutObjectAclOutput = op::acl::put_object_acl;

    get_bucket_versioning(GetBucketVersioningInput) -> GetBucketVersioningOutput = op::absent::versioning;
    get_bucket_accelerate_configuration(GetBucketAccelerateConfigurationInput)
        -> GetBucketAccelerateConfigurationOutput = op::absent::accelerate;
    get_bucket_encryption(GetBucketEncryptionInput) -> GetBucketEncryptionOutput = op::absent::encryption;
    get_bucket_lifecycle_configuration(GetBucketLifecycleConfigurationInput)
        -> GetBucketLifecycleConfigurationOutput = op::absent::lifecycle;
    get_bucket_logging(GetBucketLoggingInput) -> GetBucketLoggingOutput = op::absent::logging;
    get_bucket_notification_configuration(GetBucketNotificationConfigurationInput)
        -> GetBucketNotificationConfigurationOutput = op::absent::notification;
    get_bucket_policy(GetBucketPolicyInput) -> GetBucketPolicyOutput = op::absent::policy;
    get_bucket_policy_status(GetBucketPolicyStatusInput) -> GetBucketPolicyStatusOutput = op::absent::policy_status;
    get_bucket_replication(GetBucketReplicationInput) -> GetBucketReplicationOutput = op::absent::replication;
    get_bucket_request_payment(GetBucketRequestPaymentInput) -> GetBucketRequestPaymentOutput
        = op::absent::request_payment;
    get_bucket_website(GetBucketWebsiteInput) -> GetBucketWebsiteOutput = op::absent::website;
    get_object_lock_configuration(GetObjectLockConfigurationInput) -> GetObjectLockConfigurationOutput
        = op::absent::object_lock;
    get_object_retention(GetObjectRetentionInput) -> GetObjectRetentionOutput = op::absent::retention;
    get_object_legal_hold(GetObjectLegalHoldInput) -> GetObjectLegalHoldOutput = op::absent::legal_hold;
    delete_bucket_encryption(DeleteBucketEncryptionInput) -> DeleteBucketEncryptionOutput
        = op::absent::delete_encryption;
    delete_bucket_lifecycle(DeleteBucketLifecycleInput) -> DeleteBucketLifecycleOutput = op::absent::delete_lifecycle;
    delete_bucket_policy(DeleteBucketPolicyInput) -> DeleteBucketPolicyOutput = op::absent::delete_policy;
    delete_bucket_replication(DeleteBucketReplicationInput) -> DeleteBucketReplicationOutput
        = op::absent::delete_replication;
    delete_bucket_website(DeleteBucketWebsiteInput) -> DeleteBucketWebsiteOutput = op::absent::delete_website;

    list_objects(ListObjectsInput) -> ListObjectsOutput = op::list::list_objects;
    list_objects_v2(ListObjectsV2Input) -> ListObjectsV2Output = op::list::list_objects_v2;
    list_object_versions(ListObjectVersionsInput) -> ListObjectVersionsOutput = op::list::list_object_versions;

    get_object(GetObjectInput) -> GetObjectOutput = op::read::get_object;
    head_object(HeadObjectInput) -> HeadObjectOutput = op::read::head_object;
    get_object_attributes(GetObjectAttributesInput) -> GetObjectAttributesOutput = op::describe::get_object_attributes;
    get_object_tagging(GetObjectTaggingInput) -> GetObjectTaggingOutput = op::tagging::get_object_tagging;
    put_object_tagging(PutObjectTaggingInput) -> PutObjectTaggingOutput = op::tagging::put_object_tagging;
    delete_object_tagging(DeleteObjectTaggingInput) -> DeleteObjectTaggingOutput = op::tagging::delete_object_tagging;
    put_object(PutObjectInput) -> PutObjectOutput = op::write::put_object;
    post_object(PostObjectInput) -> PostObjectOutput = op::form::post_object;
    copy_object(CopyObjectInput) -> CopyObjectOutput = op::copy::copy_object;
    delete_object(DeleteObjectInput) -> DeleteObjectOutput = op::delete::delete_object;
    delete_objects(DeleteObjectsInput) -> DeleteObjectsOutput = op::delete::delete_objects;

    create_multipart_upload(CreateMultipartUploadInput) -> CreateMultipartUploadOutput = op::multipart::create;
    upload_part(UploadPartInput) -> UploadPartOutput = op::multipart::upload_part;
    upload_part_copy(UploadPartCopyInput) -> UploadPartCopyOutput = op::copy::upload_part_copy;
    complete_multipart_upload(CompleteMultipartUploadInput) -> CompleteMultipartUploadOutput = op::multipart::complete;
    abort_multipart_upload(AbortMultipartUploadInput) -> AbortMultipartUploadOutput = op::multipart::abort;
    list_parts(ListPartsInput) -> ListPartsOutput = op::uploads::list_parts;
    list_multipart_uploads(ListMultipartUploadsInput) -> ListMultipartUploadsOutput = op::uploads::list_uploads;

    select_object_content(SelectObjectContentInput) -> SelectObjectContentOutput = op::select::select_object_content;
}

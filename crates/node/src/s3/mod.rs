//! The S3 edge: signatures, requests and responses, over a store.
//!
//! s3s parses requests, checks their signatures and writes the XML. What each operation means is under
//! [`op`], one file per group. Operations that are not listed below are answered with NotImplemented.

mod access;
mod attributes;
mod conditions;
mod keys;
mod op;
mod upload;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::dto::*;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};
use tokio::sync::Semaphore;

use crate::counters::Counting;
use crate::store::Store;
use crate::{Credentials, Limits, NodeConfig};

/// What every operation has at hand.
pub(crate) struct Edge {
    pub store: Arc<dyn Store>,
    pub limits: Limits,
    pub region: String,
    pub counting: Arc<Counting>,
    /// The turns of S3 Select requests.
    pub selects: Arc<Semaphore>,
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Edge").field("store", &self.store).finish_non_exhaustive()
    }
}

/// The S3 service over a store.
pub(crate) fn service(
    store: Arc<dyn Store>,
    credentials: &Credentials,
    config: &NodeConfig,
    counting: Arc<Counting>,
) -> S3Service {
    let limits = config.limits.clone();
    let mut settings = S3Config::default();
    settings.xml_max_body_size = limits.request_body_bytes;
    // Uploads by HTML form are refused; until then s3s holds their fields in memory.
    settings.post_object_max_file_size = limits.request_body_bytes as u64;
    settings.form_max_field_size = 64 << 10;
    settings.form_max_fields_size = 256 << 10;
    settings.form_max_parts = 100;
    let selects = Arc::new(Semaphore::new(limits.selects));
    let edge = Edge { store, limits, region: config.region.clone(), counting: Arc::clone(&counting), selects };
    let mut builder = S3ServiceBuilder::new(edge);
    builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(settings))));
    builder.set_auth(access::Keys::new(credentials));
    builder.set_access(access::Access::new(counting));
    builder.build()
}

/// Connects the operations of the S3 trait to the functions that carry them out.
macro_rules! operations {
    ($($name:ident($input:ty) -> $output:ty = $path:path;)*) => {
        #[async_trait]
        impl S3 for Edge {
            $(async fn $name(&self, req: S3Request<$input>) -> S3Result<S3Response<$output>> {
                $path(self, req).await.map(S3Response::new)
            })*

            async fn post_object(&self, _: S3Request<PostObjectInput>) -> S3Result<S3Response<PostObjectOutput>> {
                Err(s3_error!(NotImplemented, "uploads by HTML form are not implemented; use PutObject"))
            }
        }
    };
}

operations! {
    list_buckets(ListBucketsInput) -> ListBucketsOutput = op::bucket::list_buckets;
    create_bucket(CreateBucketInput) -> CreateBucketOutput = op::bucket::create_bucket;
    head_bucket(HeadBucketInput) -> HeadBucketOutput = op::bucket::head_bucket;
    delete_bucket(DeleteBucketInput) -> DeleteBucketOutput = op::bucket::delete_bucket;
    get_bucket_location(GetBucketLocationInput) -> GetBucketLocationOutput = op::bucket::get_bucket_location;
    get_bucket_versioning(GetBucketVersioningInput) -> GetBucketVersioningOutput = op::bucket::get_bucket_versioning;
    list_objects(ListObjectsInput) -> ListObjectsOutput = op::list::list_objects;
    list_objects_v2(ListObjectsV2Input) -> ListObjectsV2Output = op::list::list_objects_v2;
    get_object(GetObjectInput) -> GetObjectOutput = op::read::get_object;
    head_object(HeadObjectInput) -> HeadObjectOutput = op::read::head_object;
    put_object(PutObjectInput) -> PutObjectOutput = op::write::put_object;
    copy_object(CopyObjectInput) -> CopyObjectOutput = op::write::copy_object;
    delete_object(DeleteObjectInput) -> DeleteObjectOutput = op::delete::delete_object;
    delete_objects(DeleteObjectsInput) -> DeleteObjectsOutput = op::delete::delete_objects;
    create_multipart_upload(CreateMultipartUploadInput) -> CreateMultipartUploadOutput = op::multipart::create;
    upload_part(UploadPartInput) -> UploadPartOutput = op::multipart::upload_part;
    upload_part_copy(UploadPartCopyInput) -> UploadPartCopyOutput = op::multipart::upload_part_copy;
    complete_multipart_upload(CompleteMultipartUploadInput) -> CompleteMultipartUploadOutput = op::multipart::complete;
    abort_multipart_upload(AbortMultipartUploadInput) -> AbortMultipartUploadOutput = op::multipart::abort;
    list_parts(ListPartsInput) -> ListPartsOutput = op::multipart::list_parts;
    list_multipart_uploads(ListMultipartUploadsInput) -> ListMultipartUploadsOutput = op::multipart::list_uploads;
    select_object_content(SelectObjectContentInput) -> SelectObjectContentOutput = op::select::select_object_content;
}

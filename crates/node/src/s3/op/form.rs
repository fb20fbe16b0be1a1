//! PostObject: uploads by HTML form, whose signature and policy were checked before.

use http::HeaderMap;
use http::header::{ETAG, LOCATION};
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::handler::S3Handler;
use super::request::grant_of;
use super::write::put;
use crate::s3::convert::tags;
use crate::s3::http::form::FormTagging;

pub(crate) async fn post_object(
    handler: &S3Handler,
    req: S3Request<PostObjectInput>,
) -> S3Result<S3Response<PostObjectOutput>> {
    let grant = grant_of(&req)?;
    let (form, extensions) = (req.input, req.extensions);
    if form.key.is_empty() || form.key.len() > 1024 {
        return Err(s3_error!(InvalidArgument, "the field 'key' has 1 to 1024 bytes"));
    }
    let tagged = match extensions.get::<FormTagging>() {
        Some(FormTagging(document)) => tags::from_document(document)?,
        None => form.tagging.as_deref().map(tags::from_header).transpose()?.unwrap_or_default(),
    };
    let (bucket, key, redirect) = (form.bucket.clone(), form.key.clone(), form.success_action_redirect.clone());
    let input = PutObjectInput {
        acl: form.acl,
        body: form.body,
        bucket: form.bucket,
        cache_control: form.cache_control,
        checksum_algorithm: form.checksum_algorithm,
        checksum_crc32: form.checksum_crc32,
        checksum_crc32c: form.checksum_crc32c,
        checksum_crc64nvme: form.checksum_crc64nvme,
        checksum_sha1: form.checksum_sha1,
        checksum_sha256: form.checksum_sha256,
        content_disposition: form.content_disposition,
        content_encoding: form.content_encoding,
        content_language: form.content_language,
        content_type: form.content_type,
        expires: form.expires,
        key: form.key,
        metadata: form.metadata,
        server_side_encryption: form.server_side_encryption,
        sse_customer_algorithm: form.sse_customer_algorithm,
        storage_class: form.storage_class,
        website_redirect_location: form.website_redirect_location,
        ..PutObjectInput::default()
    };
    // The headers of the request describe the form, not the file in it.
    let output = put(handler, input, tagged, &HeaderMap::new(), None, grant).await?;
    let location = format!("/{bucket}/{key}");
    let stored = output.e_tag.as_ref().map(ETag::value).unwrap_or_default().to_owned();
    let mut response = S3Response::new(PostObjectOutput { e_tag: output.e_tag, ..PostObjectOutput::default() });
    // s3s writes neither header where it answers without a body.
    let location =
        url::Url::parse("http://node").and_then(|base| base.join(&location)).map(|url| url.path().to_owned());
    for (name, value) in [(ETAG, format!("\"{stored}\"")), (LOCATION, location.unwrap_or_default())] {
        if let Ok(value) = value.parse() {
            response.headers.insert(name, value);
        }
    }
    if let Some(mut url) = redirect.as_deref().and_then(|url| url::Url::parse(url).ok()) {
        // An ETag includes its quotes.
        url.query_pairs_mut()
            .append_pair("bucket", &bucket)
            .append_pair("key", &key)
            .append_pair("etag", &format!("\"{stored}\""));
        if let Ok(url) = url.as_str().parse() {
            response.headers.insert(LOCATION, url);
        }
    }
    Ok(response)
}

//! Writing to S3: the destination of generated data, and buckets to hold it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use object_store::ClientOptions;
use object_store::aws::AmazonS3Builder;
use object_store::client::{HttpConnector, HttpRequestBody, ReqwestConnector};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::signer::Signer;
use pushdown::{Error, ErrorKind};
use pushdowndb_engine::Engine;
use pushdowndb_tpchgen::Destination;

use crate::args::ConnectionArgs;

/// Opens a folder, made if missing, or `s3://bucket/prefix`.
pub fn destination(place: &str, engine: &Engine) -> Result<Destination> {
    if !place.starts_with("s3://") {
        if place.contains("://") && !place.starts_with("file://") {
            return Err(Error::unsupported(format!("{place}: a folder or s3://bucket/prefix")).into());
        }
        return folder(place.strip_prefix("file://").unwrap_or(place));
    }
    let url = place.trim_end_matches('/').to_owned();
    let (store, prefix) = engine.store(&format!("{url}/"))?;
    Ok(Destination { store, prefix, url })
}

/// The bucket of an `s3://` address.
pub fn bucket(place: &str) -> Option<&str> {
    place.strip_prefix("s3://")?.split('/').next().filter(|bucket| !bucket.is_empty())
}

fn folder(place: &str) -> Result<Destination> {
    let absolute = std::path::absolute(place).with_context(|| place.to_owned())?;
    std::fs::create_dir_all(&absolute).with_context(|| format!("making the folder {}", absolute.display()))?;
    let store = LocalFileSystem::new_with_prefix(&absolute).with_context(|| place.to_owned())?;
    Ok(Destination { store: Arc::new(store), prefix: Path::default(), url: absolute.display().to_string() })
}

/// Makes a bucket unless it is ours already. object_store knows no buckets, so this is a signed PUT of our own.
pub async fn make_bucket(bucket: &str, connection: &ConnectionArgs) -> Result<()> {
    let what = || format!("making the bucket {bucket}");
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_allow_http(true);
    if let Some(endpoint) = &connection.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    if let Some(region) = &connection.region {
        builder = builder.with_region(region);
    }
    if let (Some(id), Some(secret)) = (&connection.access_key_id, &connection.secret_access_key) {
        builder = builder.with_access_key_id(id).with_secret_access_key(secret);
    }
    if let Some(token) = &connection.session_token {
        builder = builder.with_token(token);
    }
    let signer = builder.build().with_context(what)?;
    let signed = signer.signed_url(http::Method::PUT, &Path::default(), Duration::from_secs(60)).await;
    let url = signed.with_context(what)?;
    let client = ReqwestConnector::default().connect(&ClientOptions::new().with_allow_http(true)).with_context(what)?;
    let request = http::Request::put(url.as_str()).body(HttpRequestBody::empty()).with_context(what)?;
    let response = client.execute(request).await.map_err(|e| {
        Error::new(ErrorKind::Unavailable, format!("{}: the endpoint did not answer", what())).with_source(e)
    })?;
    let status = response.status();
    let body = response.into_body().bytes().await.unwrap_or_default();
    let body = String::from_utf8_lossy(&body);
    if status.is_success() || body.contains("BucketAlreadyOwnedByYou") {
        return Ok(());
    }
    let kind = match status.as_u16() {
        401 | 403 => ErrorKind::Denied,
        409 => ErrorKind::Conflict,
        400 => ErrorKind::Invalid,
        404 => ErrorKind::NotFound,
        405 | 501 => ErrorKind::Unsupported,
        503 => ErrorKind::Throttled,
        _ => ErrorKind::Unavailable,
    };
    let code = body.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>")).map_or("", |(code, _)| code);
    Err(Error::new(kind, format!("{}: {status} {code}", what())).into())
}

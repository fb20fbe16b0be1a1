//! ListObjects, ListObjectsV2 and ListObjectVersions, where every object has one version.

use s3s::dto::*;
use s3s::{S3Request, S3Result, s3_error};

use super::handler::S3Handler;
use super::request::owner;
use crate::s3::body::checksums::kind;
use crate::s3::convert::attributes::{etag, timestamp};
use crate::s3::convert::list_keys::{self as keys, Encoding};
use crate::store::{ListPage, ListQuery, Listed, Start};

pub(crate) async fn list_objects_v2(
    handler: &S3Handler,
    req: S3Request<ListObjectsV2Input>,
) -> S3Result<ListObjectsV2Output> {
    let input = req.input;
    let encoding = Encoding::new(input.encoding_type.as_ref())?;
    // A continuation token takes precedence over start-after.
    let start = match (&input.continuation_token, &input.start_after) {
        (Some(token), _) if !token.is_empty() => keys::start(token)?,
        (_, Some(after)) if !after.is_empty() => Start::AfterKey(after.clone().into_bytes()),
        _ => Start::Beginning,
    };
    let limit = limit(handler, input.max_keys)?;
    let query = query(&input.prefix, &input.delimiter, start, limit);
    let page = handler.store.list(&input.bucket, query).await?;
    let next = page.next.as_ref().map(keys::token);
    let owned = input.fetch_owner == Some(true);
    let count = page.entries.len();
    let (contents, common_prefixes) = lines(page, encoding, owned);
    Ok(ListObjectsV2Output {
        name: Some(input.bucket),
        prefix: Some(encoding.text(input.prefix.unwrap_or_default())),
        delimiter: delimiter(input.delimiter, encoding),
        max_keys: i32::try_from(limit).ok(),
        key_count: i32::try_from(count).ok(),
        is_truncated: Some(next.is_some()),
        continuation_token: input.continuation_token,
        next_continuation_token: next,
        start_after: input.start_after.map(|after| encoding.text(after)),
        encoding_type: input.encoding_type,
        contents: Some(contents),
        common_prefixes: Some(common_prefixes),
        ..ListObjectsV2Output::default()
    })
}

pub(crate) async fn list_objects(handler: &S3Handler, req: S3Request<ListObjectsInput>) -> S3Result<ListObjectsOutput> {
    let input = req.input;
    let encoding = Encoding::new(input.encoding_type.as_ref())?;
    let prefix = input.prefix.as_deref().unwrap_or_default();
    let start = match input.marker.as_deref() {
        None | Some("") => Start::Beginning,
        Some(marker) => after_marker(marker, prefix, input.delimiter.as_deref().unwrap_or_default()),
    };
    let limit = limit(handler, input.max_keys)?;
    let query = query(&input.prefix, &input.delimiter, start, limit);
    let page = handler.store.list(&input.bucket, query.clone()).await?;
    let truncated = page.next.is_some();
    // Without a delimiter S3 omits NextMarker: the next page starts after the last key.
    let next = page.next.as_ref().filter(|_| !query.delimiter.is_empty()).map(|next| next_marker(next, encoding));
    let (contents, common_prefixes) = lines(page, encoding, true);
    Ok(ListObjectsOutput {
        name: Some(input.bucket),
        prefix: Some(encoding.text(input.prefix.unwrap_or_default())),
        marker: Some(encoding.text(input.marker.unwrap_or_default())),
        delimiter: delimiter(input.delimiter, encoding),
        max_keys: i32::try_from(limit).ok(),
        is_truncated: Some(truncated),
        next_marker: next,
        encoding_type: input.encoding_type,
        contents: Some(contents),
        common_prefixes: Some(common_prefixes),
        ..ListObjectsOutput::default()
    })
}

pub(crate) async fn list_object_versions(
    handler: &S3Handler,
    req: S3Request<ListObjectVersionsInput>,
) -> S3Result<ListObjectVersionsOutput> {
    let input = req.input;
    let encoding = Encoding::new(input.encoding_type.as_ref())?;
    if input.version_id_marker.is_some() && input.key_marker.as_deref().unwrap_or_default().is_empty() {
        return Err(s3_error!(InvalidArgument, "A version-id marker cannot be specified without a key marker."));
    }
    let prefix = input.prefix.as_deref().unwrap_or_default();
    let start = match input.key_marker.as_deref() {
        None | Some("") => Start::Beginning,
        Some(marker) => after_marker(marker, prefix, input.delimiter.as_deref().unwrap_or_default()),
    };
    let limit = limit(handler, input.max_keys)?;
    let page = handler.store.list(&input.bucket, query(&input.prefix, &input.delimiter, start, limit)).await?;
    let next = page.next.as_ref().map(|next| next_marker(next, encoding));
    let (contents, common_prefixes) = lines(page, encoding, true);
    let versions = contents.into_iter().map(|object| ObjectVersion {
        key: object.key,
        e_tag: object.e_tag,
        last_modified: object.last_modified,
        size: object.size,
        checksum_algorithm: object.checksum_algorithm,
        checksum_type: object.checksum_type,
        storage_class: Some(ObjectVersionStorageClass::from_static(ObjectVersionStorageClass::STANDARD)),
        owner: object.owner,
        is_latest: Some(true),
        version_id: Some("null".to_owned()),
        restore_status: None,
    });
    Ok(ListObjectVersionsOutput {
        name: Some(input.bucket),
        prefix: Some(encoding.text(input.prefix.unwrap_or_default())),
        key_marker: Some(encoding.text(input.key_marker.unwrap_or_default())),
        version_id_marker: Some(input.version_id_marker.unwrap_or_default()),
        delimiter: delimiter(input.delimiter, encoding),
        max_keys: i32::try_from(limit).ok(),
        is_truncated: Some(next.is_some()),
        next_version_id_marker: next.as_ref().map(|_| "null".to_owned()),
        next_key_marker: next,
        encoding_type: input.encoding_type,
        versions: Some(versions.collect()),
        common_prefixes: Some(common_prefixes),
        ..ListObjectVersionsOutput::default()
    })
}

fn next_marker(next: &Start, encoding: Encoding) -> String {
    match next {
        Start::AfterKey(key) | Start::AfterPrefix(key) => encoding.bytes(key),
        Start::Beginning => String::new(),
    }
}

/// Converts a delimiter for the response; an empty one counts as absent.
fn delimiter(given: Option<String>, encoding: Encoding) -> Option<String> {
    given.filter(|delimiter| !delimiter.is_empty()).map(|delimiter| encoding.text(delimiter))
}

/// Parses a marker. If it is a common prefix, as NextMarker can be, the listing continues after
/// everything below that prefix.
fn after_marker(marker: &str, prefix: &str, delimiter: &str) -> Start {
    let below = marker.strip_prefix(prefix).filter(|_| !delimiter.is_empty());
    let is_common = below.and_then(|below| below.find(delimiter).map(|at| at + delimiter.len() == below.len()));
    if is_common == Some(true) {
        Start::AfterPrefix(marker.as_bytes().to_vec())
    } else {
        Start::AfterKey(marker.as_bytes().to_vec())
    }
}

fn limit(handler: &S3Handler, asked: Option<i32>) -> S3Result<usize> {
    let most = handler.limits.page_entries;
    let Some(asked) = asked else { return Ok(most) };
    let asked = usize::try_from(asked).map_err(|_| s3_error!(InvalidArgument, "max-keys must not be negative"))?;
    Ok(asked.min(most))
}

fn query(prefix: &Option<String>, delimiter: &Option<String>, start: Start, limit: usize) -> ListQuery {
    let bytes = |text: &Option<String>| text.clone().unwrap_or_default().into_bytes();
    ListQuery { prefix: bytes(prefix), delimiter: bytes(delimiter), start, limit }
}

fn lines(page: ListPage, encoding: Encoding, owned: bool) -> (Vec<Object>, Vec<CommonPrefix>) {
    let (mut contents, mut prefixes) = (Vec::new(), Vec::new());
    for entry in page.entries {
        match entry {
            Listed::Object(key, meta) => contents.push(Object {
                key: Some(encoding.bytes(&key)),
                e_tag: Some(etag(&meta.etag)),
                last_modified: Some(timestamp(meta.modified_ms)),
                size: i64::try_from(meta.size).ok(),
                storage_class: Some(ObjectStorageClass::from_static(ObjectStorageClass::STANDARD)),
                owner: owned.then(owner),
                checksum_type: meta.checksum.as_ref().map(kind),
                checksum_algorithm: meta
                    .checksum
                    .as_ref()
                    .map(|checksum| vec![ChecksumAlgorithm::from_static(checksum.algorithm.name())]),
                ..Object::default()
            }),
            Listed::Prefix(prefix) => prefixes.push(CommonPrefix { prefix: Some(encoding.bytes(&prefix)) }),
        }
    }
    (contents, prefixes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers() {
        assert_eq!(after_marker("a/", "", "/"), Start::AfterPrefix(b"a/".to_vec()));
        assert_eq!(after_marker("a/b", "", "/"), Start::AfterKey(b"a/b".to_vec()));
        assert_eq!(after_marker("a/b/", "a/", "/"), Start::AfterPrefix(b"a/b/".to_vec()));
        assert_eq!(after_marker("a/", "", ""), Start::AfterKey(b"a/".to_vec()));
    }
}

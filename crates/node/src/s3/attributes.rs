//! Between S3's shapes and the store's: stored headers, ETags, times.

use s3s::dto::{ETag, Metadata, StorageClass, Timestamp, TimestampFormat};
use s3s::{S3Result, s3_error};

use crate::store::{Attributes, ObjectMeta, system_time};

/// The requests that store headers with an object.
macro_rules! attributes_of {
    ($input:expr, $limits:expr) => {
        $crate::s3::attributes::checked(
            $crate::store::Attributes {
                content_type: $input.content_type.take(),
                content_encoding: $crate::s3::attributes::stored_encoding($input.content_encoding.take()),
                content_disposition: $input.content_disposition.take(),
                content_language: $input.content_language.take(),
                cache_control: $input.cache_control.take(),
                expires: $crate::s3::attributes::expires_text($input.expires.take())?,
                user: $input.metadata.take().unwrap_or_default().into_iter().collect(),
            },
            $limits.user_metadata_bytes,
        )
    };
}
/// Refuses requests that ask for what this node would have to ignore.
macro_rules! refuse {
    ($input:expr, $($field:ident),+ $(,)?) => {
        $(if $input.$field.is_some() {
            return Err(s3s::s3_error!(NotImplemented, "{} is not implemented", stringify!($field).replace('_', "-")));
        })+
    };
}
/// Fills the headers that every answer about an object carries.
macro_rules! describe {
    ($output:ident, $meta:expr) => {
        let meta = $meta;
        $output.accept_ranges = Some("bytes".to_owned());
        $output.e_tag = Some($crate::s3::attributes::etag(&meta.etag));
        $output.last_modified = Some($crate::s3::attributes::timestamp(meta.modified_ms));
        $output.content_type =
            Some(meta.attributes.content_type.clone().unwrap_or_else(|| "binary/octet-stream".to_owned()));
        $output.content_encoding = meta.attributes.content_encoding.clone();
        $output.content_disposition = meta.attributes.content_disposition.clone();
        $output.content_language = meta.attributes.content_language.clone();
        $output.cache_control = meta.attributes.cache_control.clone();
        $output.expires = $crate::s3::attributes::expires(&meta.attributes);
        $output.metadata = $crate::s3::attributes::user(&meta.attributes);
    };
}
/// Refuses the headers of writes that this node would have to ignore: one list for every kind of write.
macro_rules! refuse_of_writes {
    ($edge:expr, $input:expr) => {
        $crate::s3::attributes::refuse!(
            $input,
            server_side_encryption,
            sse_customer_algorithm,
            sse_customer_key,
            ssekms_key_id,
            object_lock_mode,
            object_lock_legal_hold_status,
            object_lock_retain_until_date,
            website_redirect_location,
            grant_full_control,
            grant_read,
            grant_read_acp,
            grant_write_acp,
        );
        $crate::s3::op::acl::only_private($edge, &$input.bucket, $input.acl.as_ref()).await?;
        $crate::s3::attributes::only_standard($input.storage_class.as_ref())?;
    };
}
pub(crate) use {attributes_of, describe, refuse, refuse_of_writes};

pub(super) fn checked(attributes: Attributes, limit: usize) -> S3Result<Attributes> {
    let size: usize = attributes.user.iter().map(|(name, value)| name.len() + value.len()).sum();
    if size > limit {
        return Err(s3_error!(MetadataTooLarge, "user metadata has {} bytes, at most {} are allowed", size, limit));
    }
    Ok(attributes)
}

/// `aws-chunked` describes the transfer, not the object.
pub(super) fn stored_encoding(encoding: Option<String>) -> Option<String> {
    let encoding = encoding?;
    let (chunked, kept): (Vec<&str>, Vec<&str>) =
        encoding.split(',').map(str::trim).filter(|e| !e.is_empty()).partition(|e| *e == "aws-chunked");
    match (kept.is_empty(), chunked.is_empty()) {
        (true, _) => None,
        // As it was written.
        (false, true) => Some(encoding),
        (false, false) => Some(kept.join(", ")),
    }
}

pub(super) fn expires_text(expires: Option<Timestamp>) -> S3Result<Option<String>> {
    let Some(expires) = expires else { return Ok(None) };
    let mut text = Vec::new();
    expires
        .format(TimestampFormat::DateTime, &mut text)
        .map_err(|_| s3_error!(InvalidArgument, "the Expires header holds a time out of range"))?;
    Ok(String::from_utf8(text).ok())
}

pub(super) fn expires(attributes: &Attributes) -> Option<Timestamp> {
    attributes.expires.as_deref().and_then(|text| Timestamp::parse(TimestampFormat::DateTime, text).ok())
}

pub(super) fn user(attributes: &Attributes) -> Option<Metadata> {
    let user = &attributes.user;
    (!user.is_empty()).then(|| user.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
}

pub(super) fn etag(text: &str) -> ETag {
    ETag::Strong(text.to_owned())
}

pub(super) fn timestamp(ms: u64) -> Timestamp {
    Timestamp::from(system_time(ms))
}

/// The time of an object as headers carry it: whole seconds.
pub(super) fn modified_seconds(meta: &ObjectMeta) -> Timestamp {
    Timestamp::from(system_time(meta.modified_ms / 1000 * 1000))
}

pub(super) fn only_standard(class: Option<&StorageClass>) -> S3Result<()> {
    match class.map(StorageClass::as_str) {
        // The second promises less than there is.
        None | Some(StorageClass::STANDARD | StorageClass::REDUCED_REDUNDANCY) => Ok(()),
        Some(other) => Err(s3_error!(InvalidStorageClass, "there is no storage class {} here, only STANDARD", other)),
    }
}

/// Objects have one version, which S3 calls `null`.
pub(super) fn no_version(id: Option<&str>) -> S3Result<()> {
    match id {
        None | Some("null") => Ok(()),
        Some(_) => Err(s3_error!(NoSuchVersion, "objects have no versions here")),
    }
}

/// Reads a name that must be one of a few, in a header or an element.
pub(super) fn one_of<T: Copy>(given: Option<&str>, names: &[(&str, T)], what: &str, unset: T) -> S3Result<T> {
    let Some(given) = given else { return Ok(unset) };
    let found = names.iter().find(|(name, _)| *name == given).map(|(_, value)| *value);
    found.ok_or_else(|| s3_error!(InvalidArgument, "{} can not be '{}'", what, given))
}

//! Between S3's shapes and the store's: stored headers, ETags, times, checksums.

use s3s::dto::{ETag, Metadata, Timestamp, TimestampFormat};
use s3s::{S3Result, s3_error};

use crate::store::{Algorithm, Attributes, Checksum, ObjectMeta, system_time};

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
/// Fills the checksum fields of an answer.
macro_rules! put_checksum {
    ($output:ident, $checksum:expr) => {
        if let Some(checksum) = $checksum {
            let value = Some(checksum.value.clone());
            match checksum.algorithm {
                $crate::store::Algorithm::Crc32 => $output.checksum_crc32 = value,
                $crate::store::Algorithm::Crc32c => $output.checksum_crc32c = value,
                $crate::store::Algorithm::Crc64nvme => $output.checksum_crc64nvme = value,
                $crate::store::Algorithm::Sha1 => $output.checksum_sha1 = value,
                $crate::store::Algorithm::Sha256 => $output.checksum_sha256 = value,
            }
        }
    };
}
/// The checksum fields of a request, of which at most one may be set.
macro_rules! checksum_of {
    ($input:expr) => {
        $crate::s3::attributes::one_checksum([
            ($crate::store::Algorithm::Crc32, $input.checksum_crc32.take()),
            ($crate::store::Algorithm::Crc32c, $input.checksum_crc32c.take()),
            ($crate::store::Algorithm::Crc64nvme, $input.checksum_crc64nvme.take()),
            ($crate::store::Algorithm::Sha1, $input.checksum_sha1.take()),
            ($crate::store::Algorithm::Sha256, $input.checksum_sha256.take()),
        ])
    };
}
pub(crate) use {attributes_of, checksum_of, describe, put_checksum, refuse};

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
    let kept: Vec<&str> = encoding.split(',').map(str::trim).filter(|e| !e.is_empty() && *e != "aws-chunked").collect();
    (!kept.is_empty()).then(|| kept.join(","))
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

pub(super) fn one_checksum(given: [(Algorithm, Option<String>); 5]) -> S3Result<Option<Checksum>> {
    let mut given = given.into_iter().filter_map(|(algorithm, value)| Some(Checksum { algorithm, value: value? }));
    let first = given.next();
    if given.next().is_some() {
        return Err(s3_error!(InvalidRequest, "only one checksum may be sent"));
    }
    Ok(first)
}

pub(super) fn algorithm(name: &str) -> S3Result<Algorithm> {
    match name.to_ascii_uppercase().as_str() {
        "CRC32" => Ok(Algorithm::Crc32),
        "CRC32C" => Ok(Algorithm::Crc32c),
        "CRC64NVME" => Ok(Algorithm::Crc64nvme),
        "SHA1" => Ok(Algorithm::Sha1),
        "SHA256" => Ok(Algorithm::Sha256),
        other => Err(s3_error!(NotImplemented, "the checksum algorithm {} is not implemented", other)),
    }
}

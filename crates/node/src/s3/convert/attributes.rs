//! Headers stored with objects, ETags and times.

use s3s::dto::{self, ETag, Metadata, ObjectCannedACL, StorageClass, Timestamp, TimestampFormat};
use s3s::{S3Result, s3_error};

use crate::store::{Attributes, ObjectMeta, system_time};

/// The inputs that create an object, by the fields that they share.
pub(crate) trait WriteInput {
    /// Takes the headers that are stored with the object.
    fn take_attributes(&mut self) -> S3Result<Attributes>;
    /// Headers that the node does not support, each with whether it is present.
    fn unsupported(&self) -> [(&'static str, bool); 12];
    fn bucket(&self) -> &str;
    fn acl(&self) -> Option<&ObjectCannedACL>;
    fn storage_class(&self) -> Option<&StorageClass>;
}

macro_rules! write_inputs {
    ($($input:ty),*) => {
        $(impl WriteInput for $input {
            fn take_attributes(&mut self) -> S3Result<Attributes> {
                Ok(Attributes {
                    content_type: self.content_type.take(),
                    content_encoding: stored_encoding(self.content_encoding.take()),
                    content_disposition: self.content_disposition.take(),
                    content_language: self.content_language.take(),
                    cache_control: self.cache_control.take(),
                    expires: expires_text(self.expires.take())?,
                    user: self.metadata.take().unwrap_or_default().into_iter().collect(),
                })
            }

            fn unsupported(&self) -> [(&'static str, bool); 12] {
                [
                    ("server-side-encryption", self.server_side_encryption.is_some()),
                    ("sse-customer-algorithm", self.sse_customer_algorithm.is_some()),
                    ("sse-customer-key", self.sse_customer_key.is_some()),
                    ("ssekms-key-id", self.ssekms_key_id.is_some()),
                    ("object-lock-mode", self.object_lock_mode.is_some()),
                    ("object-lock-legal-hold-status", self.object_lock_legal_hold_status.is_some()),
                    ("object-lock-retain-until-date", self.object_lock_retain_until_date.is_some()),
                    ("website-redirect-location", self.website_redirect_location.is_some()),
                    ("grant-full-control", self.grant_full_control.is_some()),
                    ("grant-read", self.grant_read.is_some()),
                    ("grant-read-acp", self.grant_read_acp.is_some()),
                    ("grant-write-acp", self.grant_write_acp.is_some()),
                ]
            }

            fn bucket(&self) -> &str {
                &self.bucket
            }

            fn acl(&self) -> Option<&ObjectCannedACL> {
                self.acl.as_ref()
            }

            fn storage_class(&self) -> Option<&StorageClass> {
                self.storage_class.as_ref()
            }
        })*
    };
}
write_inputs!(dto::PutObjectInput, dto::CopyObjectInput, dto::CreateMultipartUploadInput);

/// Takes the headers that are stored with an object. More than `max_user_bytes` of user metadata is
/// an error.
pub(crate) fn take_attributes(input: &mut impl WriteInput, max_user_bytes: usize) -> S3Result<Attributes> {
    let attributes = input.take_attributes()?;
    let size: usize = attributes.user.iter().map(|(name, value)| name.len() + value.len()).sum();
    if size > max_user_bytes {
        return Err(s3_error!(
            MetadataTooLarge,
            "user metadata has {} bytes, at most {} are allowed",
            size,
            max_user_bytes
        ));
    }
    Ok(attributes)
}

/// Refuses the request if one of these unsupported headers is present (`true`).
pub(crate) fn refuse(headers: &[(&str, bool)]) -> S3Result<()> {
    match headers.iter().find(|(_, is_there)| *is_there) {
        Some((name, _)) => Err(s3_error!(NotImplemented, "{} is not implemented", name)),
        None => Ok(()),
    }
}

/// The outputs that describe an object.
pub(crate) trait ObjectHeaders {
    /// Fills the headers that every answer about an object carries.
    fn describe(&mut self, meta: &ObjectMeta);
}

macro_rules! object_headers {
    ($($output:ty),*) => {
        $(impl ObjectHeaders for $output {
            fn describe(&mut self, meta: &ObjectMeta) {
                let attributes = meta.attributes.clone();
                self.accept_ranges = Some("bytes".to_owned());
                self.e_tag = Some(etag(&meta.etag));
                self.last_modified = Some(timestamp(meta.modified_ms));
                self.expires = expires(&attributes);
                self.metadata = user(&attributes);
                self.content_type = attributes.content_type.or_else(|| Some("binary/octet-stream".to_owned()));
                self.content_encoding = attributes.content_encoding;
                self.content_disposition = attributes.content_disposition;
                self.content_language = attributes.content_language;
                self.cache_control = attributes.cache_control;
            }
        })*
    };
}
object_headers!(dto::GetObjectOutput, dto::HeadObjectOutput);

/// The content encoding without `aws-chunked`, which describes the transfer and not the object.
fn stored_encoding(encoding: Option<String>) -> Option<String> {
    let encoding = encoding?;
    let (chunked, kept): (Vec<&str>, Vec<&str>) =
        encoding.split(',').map(str::trim).filter(|e| !e.is_empty()).partition(|e| *e == "aws-chunked");
    match (kept.is_empty(), chunked.is_empty()) {
        (true, _) => None,
        // Kept as it was sent, including spaces.
        (false, true) => Some(encoding),
        (false, false) => Some(kept.join(", ")),
    }
}

fn expires_text(expires: Option<Timestamp>) -> S3Result<Option<String>> {
    let Some(expires) = expires else { return Ok(None) };
    let mut text = Vec::new();
    expires
        .format(TimestampFormat::DateTime, &mut text)
        .map_err(|_| s3_error!(InvalidArgument, "the Expires header holds a time out of range"))?;
    Ok(String::from_utf8(text).ok())
}

fn expires(attributes: &Attributes) -> Option<Timestamp> {
    attributes.expires.as_deref().and_then(|text| Timestamp::parse(TimestampFormat::DateTime, text).ok())
}

fn user(attributes: &Attributes) -> Option<Metadata> {
    let user = &attributes.user;
    (!user.is_empty()).then(|| user.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
}

pub(crate) fn etag(text: &str) -> ETag {
    ETag::Strong(text.to_owned())
}

pub(crate) fn timestamp(ms: u64) -> Timestamp {
    Timestamp::from(system_time(ms))
}

/// Whole seconds since 1970.
pub(crate) fn epoch_seconds(time: &Timestamp) -> Option<i64> {
    let mut text = Vec::new();
    time.format(TimestampFormat::EpochSeconds, &mut text).ok()?;
    String::from_utf8(text).ok()?.split('.').next()?.parse().ok()
}

/// The time of an object in whole seconds, as headers carry it.
pub(crate) fn modified_seconds(meta: &ObjectMeta) -> Timestamp {
    Timestamp::from(system_time(meta.modified_ms / 1000 * 1000))
}

/// Refuses storage classes that the node does not have.
pub(crate) fn only_standard(class: Option<&StorageClass>) -> S3Result<()> {
    match class.map(StorageClass::as_str) {
        // The node keeps more than reduced redundancy promises.
        None | Some(StorageClass::STANDARD | StorageClass::REDUCED_REDUNDANCY) => Ok(()),
        Some(other) => Err(s3_error!(InvalidStorageClass, "there is no storage class {} here, only STANDARD", other)),
    }
}

/// Refuses version ids other than `null`, which is how S3 names the version of an object in a
/// bucket without versioning.
pub(crate) fn no_version(id: Option<&str>) -> S3Result<()> {
    match id {
        None | Some("null") => Ok(()),
        Some(_) => Err(s3_error!(NoSuchVersion, "objects have no versions here")),
    }
}

/// Looks `given` up in `names`; `None` is `unset`. Error messages call the header or element
/// `what`.
pub(crate) fn one_of<T: Copy>(given: Option<&str>, names: &[(&str, T)], what: &str, unset: T) -> S3Result<T> {
    let Some(given) = given else { return Ok(unset) };
    let found = names.iter().find(|(name, _)| *name == given).map(|(_, value)| *value);
    found.ok_or_else(|| s3_error!(InvalidArgument, "{} can not be '{}'", what, given))
}

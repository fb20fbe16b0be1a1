//! Metadata of buckets and objects.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A checksum that a client may send with an upload and ask for with a download.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Algorithm {
    Crc32,
    Crc32c,
    Crc64nvme,
    Sha1,
    Sha256,
}

impl Algorithm {
    /// The name in requests and responses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "CRC32",
            Self::Crc32c => "CRC32C",
            Self::Crc64nvme => "CRC64NVME",
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
        }
    }

    /// The size of a value, in bytes.
    pub fn size(self) -> usize {
        match self {
            Self::Crc32 | Self::Crc32c => 4,
            Self::Crc64nvme => 8,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }
}

/// A checksum in the form of headers: base64, followed by `-n` if it was computed from n parts.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Checksum {
    pub algorithm: Algorithm,
    pub value: String,
}

impl Checksum {
    /// Whether it was computed from the checksums of parts.
    pub fn is_composite(&self) -> bool {
        // The base64 alphabet has no dash.
        self.value.contains('-')
    }

    /// Whether this value, sent by a client, equals the computed one, `made`; the client may leave
    /// out the number of parts.
    pub fn matches(&self, made: &Self) -> bool {
        let short = made.value.split('-').next();
        self.algorithm == made.algorithm && (self.value == made.value || Some(self.value.as_str()) == short)
    }
}

/// Headers and user metadata of an object.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct Attributes {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_encoding: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_disposition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_language: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<String>,
    /// The time in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub user: BTreeMap<String, String>,
}

/// A tag of an object or bucket.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Tag {
    pub key: String,
    pub value: String,
}

/// A part of an object uploaded in parts.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(from = "PartForm")]
pub(crate) struct PartMeta {
    /// The part number; 0 for objects of format 1.
    pub number: u32,
    pub size: u64,
    /// The checksum of the part, computed with the object's algorithm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
}

/// A part as stored by each format of the index.
#[derive(Deserialize)]
#[serde(untagged)]
enum PartForm {
    /// Format 1.
    Size(u64),
    Part {
        number: u32,
        size: u64,
        #[serde(default)]
        checksum: Option<String>,
    },
}

impl From<PartForm> for PartMeta {
    fn from(form: PartForm) -> Self {
        match form {
            PartForm::Size(size) => Self { number: 0, size, checksum: None },
            PartForm::Part { number, size, checksum } => Self { number, size, checksum },
        }
    }
}

/// The metadata of an object.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct ObjectMeta {
    pub size: u64,
    /// The ETag without quotes.
    pub etag: String,
    /// The modification time in milliseconds since 1970.
    pub modified_ms: u64,
    #[serde(default)]
    pub attributes: Attributes,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<Checksum>,
    /// The parts in order; empty for a single PUT.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartMeta>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
}

/// A bucket.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct BucketMeta {
    pub name: String,
    pub created_ms: u64,
    #[serde(default)]
    pub settings: BucketSettings,
}

/// The settings of a bucket.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct BucketSettings {
    /// The access key that created the bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The location constraint that the bucket was created with. It has no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<Tag>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cors: Option<Vec<CorsRule>>,
    /// The object ownership setting. It has no effect: there are no access control lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ownership: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_access_block: Option<PublicAccessBlock>,
}

/// A CORS rule.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct CorsRule {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub origins: Vec<String>,
    pub methods: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expose: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age_seconds: Option<i32>,
}

/// The public access block setting. It has no effect: nothing is ever public.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct PublicAccessBlock {
    pub block_public_acls: bool,
    pub ignore_public_acls: bool,
    pub block_public_policy: bool,
    pub restrict_public_buckets: bool,
}

/// The current time, in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Converts milliseconds since 1970.
pub(crate) fn system_time(ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_format_1_are_read() {
        let old: Vec<PartMeta> = serde_json::from_str("[5,7]").unwrap();
        assert_eq!(old.iter().map(|part| part.size).collect::<Vec<_>>(), [5, 7]);
        let part = PartMeta { number: 3, size: 9, checksum: Some("x".into()) };
        let text = serde_json::to_string(&part).unwrap();
        assert_eq!(serde_json::from_str::<PartMeta>(&text).unwrap(), part);
    }
}

//! What is kept of buckets and objects besides the bytes.

use std::collections::BTreeMap;

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
    /// Its name in requests and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "CRC32",
            Self::Crc32c => "CRC32C",
            Self::Crc64nvme => "CRC64NVME",
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
        }
    }

    /// How many bytes its values have.
    pub fn size(self) -> usize {
        match self {
            Self::Crc32 | Self::Crc32c => 4,
            Self::Crc64nvme => 8,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }
}

/// A checksum as it is written in headers: base64, and `-n` after it when it was made from n parts.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Checksum {
    pub algorithm: Algorithm,
    pub value: String,
}

impl Checksum {
    /// Whether it was made from the checksums of parts instead of the bytes.
    pub fn is_composite(&self) -> bool {
        // The alphabet of base64 in headers has no dash.
        self.value.contains('-')
    }

    /// Whether a client that says this means `made`: the number of parts may be left out.
    pub fn matches(&self, made: &Self) -> bool {
        let short = made.value.split('-').next();
        self.algorithm == made.algorithm && (self.value == made.value || Some(self.value.as_str()) == short)
    }
}

/// The headers and metadata that a client stores with an object and gets back.
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
    /// In RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub user: BTreeMap<String, String>,
}

/// A label on an object or a bucket.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Tag {
    pub key: String,
    pub value: String,
}

/// A part of an object that was uploaded in parts.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(from = "PartForm")]
pub(crate) struct PartMeta {
    /// The number it was uploaded under; 0 where format 1 kept none.
    pub number: u32,
    pub size: u64,
    /// Of the object's algorithm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
}

/// A part as the formats of the index write it.
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

/// What is known of an object without reading it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct ObjectMeta {
    pub size: u64,
    /// Without the quotes.
    pub etag: String,
    /// Milliseconds since 1970.
    pub modified_ms: u64,
    #[serde(default)]
    pub attributes: Attributes,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<Checksum>,
    /// The parts it was uploaded in, in order; empty for a single PUT.
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

/// What can be set on a bucket.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct BucketSettings {
    /// The access key that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The location constraint it was made with, which is remembered and has no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<Tag>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cors: Option<Vec<CorsRule>>,
    /// Who owns uploaded objects; there are no access control lists, so it has no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ownership: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_access_block: Option<PublicAccessBlock>,
}

/// Which web pages a browser lets read a bucket.
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

/// Refusals of public access. Nothing is ever public here, so they are kept and change nothing.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct PublicAccessBlock {
    pub block_public_acls: bool,
    pub ignore_public_acls: bool,
    pub block_public_policy: bool,
    pub restrict_public_buckets: bool,
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

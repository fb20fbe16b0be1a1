//! Multipart uploads as a store takes them: records, parts, listings.

use serde::{Deserialize, Serialize};

use super::disk::data_files::Segment;
use super::{Algorithm, Attributes, Checksum, Condition, Tag};

/// Identifies an upload.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct UploadKey {
    pub bucket: String,
    pub key: String,
    pub id: String,
}

/// An upload in progress.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct UploadRecord {
    pub started_ms: u64,
    pub attributes: Attributes,
    /// The checksum algorithm of its parts.
    pub algorithm: Option<Algorithm>,
    /// Whether the checksum of the object covers its bytes, not the checksums of its parts.
    pub full_object: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// The key that is charged for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initiator: Option<String>,
}

/// A received part.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct PartRecord {
    pub segment: Segment,
    /// The MD5 in hexadecimal.
    pub etag: String,
    pub modified_ms: u64,
    pub checksum: Option<Checksum>,
    /// The key that is charged for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
}

/// Which uploads to list.
#[derive(Clone, Debug, Default)]
pub(crate) struct UploadQuery {
    pub prefix: String,
    /// Rolls up keys that contain it after the prefix; empty is none.
    pub delimiter: String,
    /// Starts after this key and, of its uploads, after this id; an empty id is after all of them.
    pub after: Option<(String, String)>,
    pub limit: usize,
}

/// A page of uploads in progress.
#[derive(Clone, Debug, Default)]
pub(crate) struct UploadPage {
    /// Key, upload id, upload.
    pub uploads: Vec<(String, String, UploadRecord)>,
    pub prefixes: Vec<String>,
    /// The key and id after which the next page starts, if there is one.
    pub next: Option<(String, String)>,
}

/// A part as named by the client on completion.
#[derive(Clone, Debug)]
pub(crate) struct PartRef {
    pub number: u32,
    pub etag: Option<String>,
    /// Its checksum, if the client repeats it.
    pub checksum: Option<Checksum>,
}

/// The parameters of a completion.
#[derive(Clone, Debug)]
pub(crate) struct Completion {
    /// The parts in the order of the client.
    pub parts: Vec<PartRef>,
    pub condition: Condition,
    /// The checksum of the whole object, if the client sent it.
    pub checksum: Option<Checksum>,
    /// The size of the object, if the client sent it.
    pub size: Option<u64>,
}

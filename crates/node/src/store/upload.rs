//! The types for multipart uploads in a store: records, parts, listings.

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
    /// The checksum algorithm of the parts.
    pub algorithm: Option<Algorithm>,
    /// Whether the checksum of the object covers its bytes instead of the checksums of its parts.
    pub full_object: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// The access key that is charged for the upload.
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
    /// The access key that is charged for the part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
}

/// Which uploads to list.
#[derive(Clone, Debug, Default)]
pub(crate) struct UploadQuery {
    pub prefix: String,
    /// Groups keys that contain it after the prefix under a common prefix; empty disables grouping.
    pub delimiter: String,
    /// The listing starts after this key and upload id. An empty id means after all uploads of the
    /// key.
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
    /// The checksum of the part, if the client repeats it.
    pub checksum: Option<Checksum>,
}

/// The parameters of a completion.
#[derive(Clone, Debug)]
pub(crate) struct Completion {
    /// The parts in the order given by the client.
    pub parts: Vec<PartRef>,
    pub condition: Condition,
    /// The checksum of the whole object, if the client sent it.
    pub checksum: Option<Checksum>,
    /// The size of the object, if the client sent it.
    pub size: Option<u64>,
}

//! The S3 operations, one file per group.

pub(super) mod bucket;
pub(super) mod delete;
pub(super) mod list;
pub(super) mod multipart;
pub(super) mod read;
pub(super) mod select;
pub(super) mod write;

use s3s::dto::Owner;

/// There is one user, who owns everything.
fn owner() -> Owner {
    Owner { display_name: Some("pushdowndb".to_owned()), id: Some("pushdowndb".to_owned()) }
}

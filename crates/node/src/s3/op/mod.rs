//! The S3 operations, one file per group.

pub(super) mod absent;
pub(super) mod acl;
pub(super) mod bucket;
pub(super) mod copy;
pub(super) mod delete;
pub(super) mod describe;
pub(super) mod form;
pub(super) mod fragment;
pub(super) mod list;
pub(super) mod multipart;
pub(super) mod read;
pub(super) mod select;
pub(super) mod settings;
pub(super) mod tagging;
pub(super) mod uploads;
pub(super) mod write;

use s3s::dto::{Initiator, Owner};

/// What the one user is called, who owns everything.
pub(super) const OWNER: &str = "pushdowndb";

fn owner() -> Owner {
    Owner { display_name: Some(OWNER.to_owned()), id: Some(OWNER.to_owned()) }
}

fn initiator() -> Initiator {
    Initiator { display_name: Some(OWNER.to_owned()), id: Some(OWNER.to_owned()) }
}

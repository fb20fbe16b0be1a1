//! Storage of objects behind one trait: [`LocalStore`] in a layout of its own, [`GatewayStore`] in
//! front of a folder or bucket that exists already.
//!
//! A store deals with buckets, keys and bytes, not with HTTP. Every write is atomic: until the call
//! returns a reader sees the old object, afterwards, and after any crash, the new one. An opened
//! object stays readable, whatever happens to its key.

mod api;
mod condition;
mod disk;
mod error;
mod fault;
mod gateway;
mod grant;
mod hex;
mod index;
mod listing;
mod local;
mod meta;
mod object;
#[cfg(test)]
mod simulation;
mod upload;

pub(crate) use api::{CopyRequest, Object, PutOptions, SettingsChange, Store};
pub(crate) use condition::{Condition, Match};
pub(crate) use disk::stage::{Body, Hasher, Staged};
pub(crate) use error::{Result, StoreError};
pub(crate) use gateway::GatewayStore;
pub(crate) use grant::{Account, Authority, Grant, Quota};
pub(crate) use listing::{ListPage, ListQuery, Listed, Start};
pub(crate) use local::LocalStore;
pub use local::check::{CheckProgress, CheckReport, check};
pub(crate) use meta::{
    Algorithm, Attributes, BucketMeta, BucketSettings, Checksum, CorsRule, ObjectMeta, PartMeta, PublicAccessBlock,
    Tag, now_ms, system_time,
};
pub(crate) use object::RemoteObject;
pub(crate) use object::data::ObjectData;
pub(crate) use upload::{Completion, PartRecord, PartRef, UploadKey, UploadPage, UploadQuery, UploadRecord};

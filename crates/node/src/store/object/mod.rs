//! Reading the bytes of an opened object.

pub(crate) mod data;
pub(crate) mod file_version;
pub(crate) mod verified_read;
pub(crate) mod verifier;

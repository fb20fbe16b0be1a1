//! A served folder: files by key.

use std::fs::File;
use std::io;
use std::thread::sleep;

use parking_lot::Mutex;

use super::beneath::{HIDDEN_PREFIX, OpenFolder, Root, is_not_found};
use crate::Limits;
use crate::store::object::data::ReadContext;
use crate::store::object::file_version::FileVersion;
use crate::store::{ObjectMeta, Result, StoreError};

/// Maximum attempts to read a version of a recently changed file from which a later change would
/// differ.
const MAX_VERSION_READS: usize = 4;

#[derive(Debug)]
pub(super) struct ServedFolder {
    pub root: Root,
    pub bucket: String,
    pub limits: Limits,
    pub reading: ReadContext,
    /// Held while a condition is checked and the file is put in place, so that one of two writers
    /// loses.
    pub write_lock: Mutex<()>,
}

/// The location of a key: the path of its folder, empty for the root, and its name there.
#[derive(Clone, Copy, Debug)]
pub(super) struct FilePath<'a> {
    pub folder: &'a str,
    pub name: &'a str,
}

impl<'a> FilePath<'a> {
    /// The location of `key`; `None` if it cannot be served.
    pub fn of(key: &'a str) -> Option<Self> {
        let hidden = |name: &str| name.is_empty() || name == "." || name == ".." || name.starts_with(HIDDEN_PREFIX);
        if key.contains('\0') || key.split('/').any(hidden) {
            return None;
        }
        let (folder, name) = key.rsplit_once('/').unwrap_or(("", key));
        Some(Self { folder, name })
    }
}

impl ServedFolder {
    /// Opens the folder at `path`; `None` if it does not exist.
    pub fn folder(&self, path: &str) -> Result<Option<OpenFolder>> {
        match self.root.folder(path) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if is_not_found(error) => {
                // If the served folder itself is gone, returns an error instead of reporting keys
                // as missing.
                self.root.top().map_err(|error| folder_missing(error.into()))?;
                Ok(None)
            }
            Err(error) => Err(StoreError::io(format!("cannot open the folder '{path}'"))(error.into())),
        }
    }

    pub fn file(&self, key: &str) -> Result<(File, FileVersion)> {
        let missing = || StoreError::NoSuchKey(key.to_owned());
        let io = || StoreError::io(format!("cannot open '{key}'"));
        let place = FilePath::of(key).ok_or_else(missing)?;
        let folder = self.folder(place.folder)?.ok_or_else(missing)?;
        let file = match self.root.file(place.folder, &folder, place.name) {
            Ok(file) => file.ok_or_else(missing)?,
            Err(error) if is_not_found(error) => return Err(missing()),
            Err(error) => return Err(io()(error.into())),
        };
        let mut version = FileVersion::of(&file).map_err(io())?;
        for _ in 0..MAX_VERSION_READS {
            let Some(left) = version.until_changes_show() else { break };
            sleep(left);
            version = FileVersion::of(&file).map_err(io())?;
        }
        Ok((file, version))
    }
}

pub(super) fn folder_missing(error: io::Error) -> StoreError {
    StoreError::io("the served folder is gone")(error)
}

pub(super) fn meta(version: &FileVersion) -> ObjectMeta {
    ObjectMeta {
        size: version.size,
        etag: version.etag(),
        modified_ms: u64::try_from(version.modified_ns / 1_000_000).unwrap_or(0),
        ..ObjectMeta::default()
    }
}

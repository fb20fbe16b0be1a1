//! A walk over a served folder in the order of the keys.

use super::beneath::{HIDDEN_PREFIX, OpenFolder, is_not_found};
use super::served::{ServedFolder, meta};
use crate::store::listing::Cursor;
use crate::store::object::file_version::FileVersion;
use crate::store::{ObjectMeta, Result, StoreError};

/// A cursor over the files below the root in the order of their keys.
///
/// A folder is sorted by its name with a slash appended, since that is how the keys below it sort
/// among its siblings.
pub(super) struct Walk<'a> {
    shared: &'a ServedFolder,
    levels: Vec<Level>,
}

struct Level {
    /// The key prefix of this folder: empty, or with a slash at the end.
    prefix: String,
    /// The names in order; those of folders end with a slash.
    names: Vec<String>,
    at: usize,
    /// Open while its files are listed, closed while a subfolder is: there may be more levels than
    /// descriptors.
    folder: Option<OpenFolder>,
}

impl<'a> Walk<'a> {
    /// Starts before the first key.
    pub fn new(shared: &'a ServedFolder) -> Self {
        Self { shared, levels: Vec::new() }
    }

    fn level(&self, prefix: String) -> Result<Level> {
        let folder = self.shared.folder(&prefix)?;
        let mut level = Level { prefix, names: Vec::new(), at: 0, folder: None };
        // The folder was removed since its parent was read, or replaced by a link.
        let Some(folder) = folder else { return Ok(level) };
        let io = |error: rustix::io::Errno| StoreError::Io {
            context: format!("cannot list the folder '{}'", level.prefix),
            source: error.into(),
        };
        let limit = self.shared.limits.directory_entries;
        for entry in folder.names().map_err(io)? {
            let (name, is_folder) = entry.map_err(io)?;
            let Ok(mut name) = name.into_string() else { continue };
            if name.starts_with(HIDDEN_PREFIX) {
                continue;
            }
            if is_folder {
                name.push('/');
            }
            if level.names.len() == limit {
                return Err(StoreError::TooMany { what: "entries in one folder", limit });
            }
            level.names.push(name);
        }
        level.names.sort_unstable();
        level.folder = Some(folder);
        Ok(level)
    }
}

impl Cursor for Walk<'_> {
    fn seek(&mut self, at: &[u8]) -> Result<()> {
        self.levels.clear();
        let mut prefix = String::new();
        loop {
            let mut level = self.level(prefix)?;
            // `rest` is the part of `at` below this folder, whose own prefix is a prefix of `at`.
            // All of its names are compared with `rest`.
            let rest = at.get(level.prefix.len()..).unwrap_or_default();
            level.at = level.names.partition_point(|name| name.as_bytes() < rest);
            // Only the name just before can be a folder that leads to `at`: it sorts before its
            // contents.
            let on_the_way = level.at.checked_sub(1).and_then(|before| level.names.get(before));
            let below = on_the_way.filter(|name| name.ends_with('/') && rest.starts_with(name.as_bytes()));
            let below = below.map(|name| format!("{}{name}", level.prefix));
            if below.is_some() {
                level.folder = None;
            }
            self.levels.push(level);
            match below {
                Some(next) => prefix = next,
                None => return Ok(()),
            }
        }
    }

    fn next(&mut self) -> Result<Option<(Vec<u8>, ObjectMeta)>> {
        while let Some(level) = self.levels.last_mut() {
            let Some(name) = level.names.get(level.at) else {
                self.levels.pop();
                continue;
            };
            level.at += 1;
            if name.ends_with('/') {
                let key = format!("{}{name}", level.prefix);
                level.folder = None;
                let below = self.level(key)?;
                self.levels.push(below);
                continue;
            }
            if level.folder.is_none() {
                level.folder = self.shared.folder(&level.prefix)?;
            }
            let Some(folder) = &level.folder else { continue };
            // Links to the outside, pipes, sockets and vanished files are not objects.
            match self.shared.root.entry(&level.prefix, folder, name) {
                Ok(seen) => {
                    if let Some(file) = seen.file() {
                        let key = format!("{}{name}", level.prefix);
                        return Ok(Some((key.into_bytes(), meta(&FileVersion::from(&file)))));
                    }
                }
                Err(error) if is_not_found(error) => {}
                Err(error) => {
                    let context = format!("cannot look at '{}{name}'", level.prefix);
                    return Err(StoreError::Io { context, source: error.into() });
                }
            }
        }
        Ok(None)
    }
}

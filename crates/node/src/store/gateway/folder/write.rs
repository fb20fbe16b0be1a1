//! Writes files to a served folder: to a draft beside the target, synced, then renamed.
//!
//! All steps use names in one open folder ([`super::beneath`]), so no key leaves the root, whatever
//! is moved meanwhile. A link at the target is replaced, not followed.

use std::fs::File;
use std::io::{self, Write};
use std::pin::Pin;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use rustix::io::Errno;
use tokio::runtime::Handle;
use uuid::Uuid;

use super::beneath::{EntryKind, HIDDEN_PREFIX, OpenFolder, is_not_found};
use super::served::{FilePath, ServedFolder, meta};
use crate::store::object::file_version::FileVersion;
use crate::store::{Condition, Match, Result, StoreError};

type Blocks = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

impl ServedFolder {
    /// The location of `key`, if it can be written.
    pub fn writable<'a>(&self, key: &'a str) -> Result<FilePath<'a>> {
        let refused = || {
            StoreError::Unsupported(format!(
                "a folder takes no key with empty, '.' or '..' segments, outer slashes, NUL, names longer than 255 \
                 bytes or beginning with {HIDDEN_PREFIX}"
            ))
        };
        let place = FilePath::of(key).ok_or_else(refused)?;
        if key.split('/').any(|name| name.len() > 255) { Err(refused()) } else { Ok(place) }
    }

    /// Writes a file and puts it in place. Returns its ETag.
    pub fn write(&self, key: &str, blocks: Blocks, condition: &Condition, runtime: &Handle) -> Result<String> {
        let place = self.writable(key)?;
        let folder = self.root.create_folder(place.folder).map_err(|error| match error {
            Errno::NOTDIR | Errno::LOOP => {
                let message = "a name on the way is that of a file or a link, which holds no objects";
                StoreError::InvalidRequest(message.to_owned())
            }
            error => StoreError::io(format!("cannot use the folder of '{key}'"))(error.into()),
        })?;
        let cannot = |what: &str| {
            let context = format!("cannot {what} the file of '{key}'");
            move |error: Errno| StoreError::io(context)(error.into())
        };
        let draft = format!("{HIDDEN_PREFIX}-{}", Uuid::new_v4().simple());
        let draft = Draft { folder: &folder, name: &draft };
        let file = draft.write(blocks, runtime).map_err(StoreError::io(format!("cannot write the file of '{key}'")))?;

        let _alone = self.write_lock.lock();
        let present = match self.root.entry(place.folder, &folder, place.name) {
            Ok(EntryKind::Folder) => return Err(StoreError::InvalidRequest(format!("'{key}' is a folder"))),
            Ok(EntryKind::Other) => {
                let message = format!("'{key}' is a pipe, a socket or a device, which is not replaced");
                return Err(StoreError::InvalidRequest(message));
            }
            Ok(seen) => seen.file().map(|seen| meta(&FileVersion::from(&seen))),
            Err(error) if is_not_found(error) => None,
            Err(error) => return Err(cannot("look at")(error)),
        };
        condition.check(key, present.as_ref())?;
        if condition.if_none_match == Some(Match::Any) {
            // Other programs write here too: only the file system can tell which writer is first.
            match folder.link_as(draft.name, place.name) {
                Err(Errno::EXIST) => return Err(StoreError::Precondition("If-None-Match")),
                linked => linked.map_err(cannot("place"))?,
            }
            // Removed before the ETag is computed, since each link changes the status of the file.
            folder.remove(draft.name).map_err(cannot("place"))?;
        } else {
            folder.rename(draft.name, place.name).map_err(cannot("place"))?;
        }
        folder.sync().map_err(cannot("sync"))?;
        // Taken from the open file, since the name may have been replaced already.
        let version = FileVersion::of(&file).map_err(StoreError::io(format!("cannot look at the file of '{key}'")))?;
        Ok(version.etag())
    }

    /// Removes the file of a key. Folders and special files stay.
    pub fn remove(&self, key: &str, condition: &Condition) -> Result<()> {
        let Some(place) = FilePath::of(key) else { return Ok(()) };
        let cannot = |error: Errno| StoreError::io(format!("cannot remove the file of '{key}'"))(error.into());
        let Some(folder) = self.folder(place.folder)? else { return Ok(()) };
        let _alone = self.write_lock.lock();
        let present = match self.root.entry(place.folder, &folder, place.name) {
            Ok(EntryKind::Folder | EntryKind::Other) => return Ok(()),
            Ok(seen) => seen.file().map(|seen| meta(&FileVersion::from(&seen))),
            Err(error) if is_not_found(error) => return Ok(()),
            Err(error) => return Err(cannot(error)),
        };
        condition.check_removal(key, present.as_ref())?;
        match folder.remove(place.name) {
            // The file was removed, or replaced by a folder.
            Err(Errno::NOENT | Errno::ISDIR) => Ok(()),
            removed => removed.and_then(|()| folder.sync()).map_err(cannot),
        }
    }
}

/// A file being written, removed on drop unless it was renamed.
struct Draft<'a> {
    folder: &'a OpenFolder,
    name: &'a str,
}

impl Draft<'_> {
    fn write(&self, mut blocks: Blocks, runtime: &Handle) -> io::Result<File> {
        let mut file = self.folder.create(self.name)?;
        while let Some(block) = runtime.block_on(blocks.next()) {
            file.write_all(&block?)?;
        }
        file.sync_all()?;
        Ok(file)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        // This fails if the draft was renamed, as intended.
        let _ = self.folder.remove(self.name);
    }
}

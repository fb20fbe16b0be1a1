//! Putting files into a served folder: written beside their place, synced, and renamed into it.
//!
//! No key leaves the folder: every folder on the way is looked at and made, if it is missing, one by one, and
//! none may be a link. A link in the place of the file is replaced, not followed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::PoisonError;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use tokio::runtime::Handle;
use uuid::Uuid;

use super::folder::{PRIVATE, Shared, meta};
use crate::store::{Condition, Match, Result, StoreError};

type Blocks = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

impl Shared {
    /// Where the file of a key goes.
    pub fn writable(&self, key: &str) -> Result<PathBuf> {
        let refused = || {
            StoreError::Unsupported(format!(
                "a folder takes no key with empty, '.' or '..' segments, outer slashes, NUL, names longer than 255 \
                 bytes or beginning with {PRIVATE}"
            ))
        };
        let path = self.path(key).ok_or_else(refused)?;
        if key.split('/').any(|name| name.len() > 255) { Err(refused()) } else { Ok(path) }
    }

    /// Writes a file and puts it in its place; gives its ETag.
    pub fn place(&self, key: &str, blocks: Blocks, condition: &Condition, runtime: &Handle) -> Result<String> {
        let path = self.writable(key)?;
        let folder = self.folder_of(&path)?;
        let draft = Draft(folder.join(format!("{PRIVATE}-{}", Uuid::new_v4().simple())));
        let cannot = |what: &str| StoreError::io(format!("cannot {what} the file of '{key}'"));
        let file = draft.write(blocks, runtime).map_err(cannot("write"))?;

        let _alone = self.placing.lock().unwrap_or_else(PoisonError::into_inner);
        let present = match fs::symlink_metadata(&path) {
            Ok(there) if there.is_dir() => return Err(StoreError::InvalidRequest(format!("'{key}' is a folder"))),
            Ok(_) => fs::metadata(&path).ok().map(|there| meta(&there)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(cannot("look at")(error)),
        };
        condition.check(key, present.as_ref())?;
        if condition.if_none_match == Some(Match::Any) {
            // Others write here too: only the file system knows who is first.
            match fs::hard_link(&draft.0, &path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    return Err(StoreError::Precondition("If-None-Match"));
                }
                linked => linked.map_err(cannot("place"))?,
            }
        } else {
            fs::rename(&draft.0, &path).map_err(cannot("place"))?;
        }
        File::open(&folder).and_then(|folder| folder.sync_all()).map_err(cannot("sync"))?;
        // Of the open file: another one may have taken the place already.
        Ok(meta(&file.metadata().map_err(cannot("look at"))?).etag)
    }

    /// Removes the file of a key.
    pub fn remove(&self, key: &str, condition: &Condition) -> Result<()> {
        let Some(path) = self.path(key) else { return Ok(()) };
        let cannot = || StoreError::io(format!("cannot remove the file of '{key}'"));
        let Some(folder) = path.parent() else { return Ok(()) };
        // What is reached through a link is not ours to remove.
        if folder.canonicalize().ok().as_deref() != Some(folder) {
            return Ok(());
        }
        let _alone = self.placing.lock().unwrap_or_else(PoisonError::into_inner);
        let present = match fs::symlink_metadata(&path) {
            Ok(there) if there.is_dir() => return Ok(()),
            Ok(_) => fs::metadata(&path).ok().map(|there| meta(&there)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
            Err(error) => return Err(cannot()(error)),
        };
        condition.check_removal(key, present.as_ref())?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(cannot()(error)),
            _ => File::open(folder).and_then(|folder| folder.sync_all()).map_err(cannot()),
        }
    }

    /// The folder of a file, made where it is missing.
    fn folder_of(&self, path: &Path) -> Result<PathBuf> {
        let below = path.strip_prefix(&self.root).ok().and_then(Path::parent).unwrap_or(Path::new(""));
        let mut folder = self.root.clone();
        for name in below.components() {
            folder.push(name);
            let looked = match fs::symlink_metadata(&folder) {
                Err(error) if error.kind() == ErrorKind::NotFound => match fs::create_dir(&folder) {
                    Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
                    // Whoever made it: its name is to be there after a crash, as is what will be in it.
                    _ => sync_parent(&folder).and_then(|()| fs::symlink_metadata(&folder)),
                },
                looked => looked,
            };
            if !looked.map_err(StoreError::io(format!("cannot use the folder {}", folder.display())))?.is_dir() {
                let message = "a name on the way is that of a file or a link, which holds no objects";
                return Err(StoreError::InvalidRequest(message.to_owned()));
            }
        }
        Ok(folder)
    }
}

fn sync_parent(folder: &Path) -> std::io::Result<()> {
    folder.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

/// A file that is being written; removed if it does not find its place.
struct Draft(PathBuf);

impl Draft {
    fn write(&self, mut blocks: Blocks, runtime: &Handle) -> io::Result<File> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(&self.0)?;
        while let Some(block) = runtime.block_on(blocks.next()) {
            file.write_all(&block?)?;
        }
        file.sync_all()?;
        Ok(file)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Gone where it was renamed; a second name where it was linked.
        drop(fs::remove_file(&self.0));
    }
}

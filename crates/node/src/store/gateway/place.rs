//! Putting files into a served folder: written beside their place, synced, and renamed into it.
//!
//! All of it happens by names in one open folder ([`super::beneath`]), so no key leaves the root, whatever is moved
//! meanwhile. A link in the place of the file is replaced, not followed.

use std::fs::File;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::PoisonError;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use rustix::io::Errno;
use tokio::runtime::Handle;
use uuid::Uuid;

use super::beneath::{OpenFolder, Seen, is_absence};
use super::folder::{PRIVATE, Place, Shared, meta};
use crate::store::witness::Witness;
use crate::store::{Condition, Match, Result, StoreError};

type Blocks = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

impl Shared {
    /// Where the file of a key goes.
    pub fn writable<'a>(&self, key: &'a str) -> Result<Place<'a>> {
        let refused = || {
            StoreError::Unsupported(format!(
                "a folder takes no key with empty, '.' or '..' segments, outer slashes, NUL, names longer than 255 \
                 bytes or beginning with {PRIVATE}"
            ))
        };
        let place = Place::of(key).ok_or_else(refused)?;
        if key.split('/').any(|name| name.len() > 255) { Err(refused()) } else { Ok(place) }
    }

    /// Writes a file and puts it in its place; gives its ETag.
    pub fn place(&self, key: &str, blocks: Blocks, condition: &Condition, runtime: &Handle) -> Result<String> {
        let place = self.writable(key)?;
        let folder = self.root.folder_made(place.folder).map_err(|error| match error {
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
        let draft = format!("{PRIVATE}-{}", Uuid::new_v4().simple());
        let draft = Draft { folder: &folder, name: &draft };
        let file = draft.write(blocks, runtime).map_err(StoreError::io(format!("cannot write the file of '{key}'")))?;

        let _alone = self.placing.lock().unwrap_or_else(PoisonError::into_inner);
        let present = match self.root.look(place.folder, &folder, place.name) {
            Ok(Seen::Folder) => return Err(StoreError::InvalidRequest(format!("'{key}' is a folder"))),
            Ok(Seen::Other) => {
                let message = format!("'{key}' is a pipe, a socket or a device, which is not replaced");
                return Err(StoreError::InvalidRequest(message));
            }
            Ok(seen) => seen.file().map(|seen| meta(&Witness::from(&seen))),
            Err(error) if is_absence(error) => None,
            Err(error) => return Err(cannot("look at")(error)),
        };
        condition.check(key, present.as_ref())?;
        if condition.if_none_match == Some(Match::Any) {
            // Others write here too: only the file system knows who is first.
            match folder.link_as(draft.name, place.name) {
                Err(Errno::EXIST) => return Err(StoreError::Precondition("If-None-Match")),
                linked => linked.map_err(cannot("place"))?,
            }
            // Before the ETag is made: the file changes with each of its names.
            folder.remove(draft.name).map_err(cannot("place"))?;
        } else {
            folder.rename(draft.name, place.name).map_err(cannot("place"))?;
        }
        folder.sync().map_err(cannot("sync"))?;
        // Of the open file: another one may have taken the place already.
        let witness = Witness::of(&file).map_err(StoreError::io(format!("cannot look at the file of '{key}'")))?;
        Ok(witness.etag())
    }

    /// Removes the file of a key. What is no object stays.
    pub fn remove(&self, key: &str, condition: &Condition) -> Result<()> {
        let Some(place) = Place::of(key) else { return Ok(()) };
        let cannot = |error: Errno| StoreError::io(format!("cannot remove the file of '{key}'"))(error.into());
        let Some(folder) = self.folder(place.folder)? else { return Ok(()) };
        let _alone = self.placing.lock().unwrap_or_else(PoisonError::into_inner);
        let present = match self.root.look(place.folder, &folder, place.name) {
            Ok(Seen::Folder | Seen::Other) => return Ok(()),
            Ok(seen) => seen.file().map(|seen| meta(&Witness::from(&seen))),
            Err(error) if is_absence(error) => return Ok(()),
            Err(error) => return Err(cannot(error)),
        };
        condition.check_removal(key, present.as_ref())?;
        match folder.remove(place.name) {
            // A folder took its place.
            Err(Errno::NOENT | Errno::ISDIR) => Ok(()),
            removed => removed.and_then(|()| folder.sync()).map_err(cannot),
        }
    }
}

/// A file that is being written; removed if it does not find its place.
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
        // Gone where it found its place.
        let _ = self.folder.remove(self.name);
    }
}

//! Removes unreferenced data files: leftovers of a crash between writing bytes and their commit, or
//! between a commit and the removal of replaced files.
//!
//! A small store is swept while it opens. A large one opens at once and is swept in the background,
//! so that start-up time does not grow with it; neither does memory, since ids are compared in
//! passes. A file is removed if it existed before the sweep, no record refers to it, and it was not
//! placed since the start: [`DataFiles`] records the ids that it places until the sweep has ended.

use std::collections::HashSet;
use std::fs;
use std::ops::RangeInclusive;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Instant;

use uuid::Uuid;

use crate::store::disk::data_files::DataFiles;
use crate::store::index::Index;
use crate::store::{Result, StoreError};

/// Maximum objects of a store that is swept while it opens, well below a second.
const MAX_OBJECTS_SWEPT_AT_OPEN: u64 = 20_000;

/// Maximum ids that are compared in one pass, which takes at most 64 MiB of memory.
const IDS_PER_PASS: u64 = 2_000_000;

/// Sweeps now or, if there are many objects, on a background thread that ends with the store.
pub(super) fn start(index: &Arc<Index>, files: &Arc<DataFiles>, objects: u64) -> Result<()> {
    let (index, files) = (Arc::downgrade(index), Arc::clone(files));
    if objects <= MAX_OBJECTS_SWEPT_AT_OPEN {
        return sweep(&index, &files, objects);
    }
    let sweeper = move || {
        if let Err(error) = sweep(&index, &files, objects) {
            tracing::warn!(%error, "cannot look for leftovers; the next start tries again");
        }
    };
    let spawned = thread::Builder::new().name("pushdowndb-sweep".to_owned()).spawn(sweeper);
    spawned.map(drop).map_err(StoreError::io("cannot start the sweep"))
}

fn sweep(index: &Weak<Index>, files: &Arc<DataFiles>, objects: u64) -> Result<()> {
    let began = Instant::now();
    let mut removed = 0;
    for folders in passes(objects) {
        // If this is the last reference, the store is being closed.
        let Some(held) = index.upgrade() else { return Ok(()) };
        let mut live = HashSet::new();
        held.visit_files(|id| {
            if folders.contains(&first_byte(id)) {
                live.insert(id);
            }
            Arc::strong_count(&held) > 1 || objects <= MAX_OBJECTS_SWEPT_AT_OPEN
        })?;
        drop(held);
        for folder in folders {
            // Holds the index while files are removed, so that the store cannot be opened again
            // before that has ended.
            let Some(held) = index.upgrade() else { return Ok(()) };
            if Arc::strong_count(&held) == 1 {
                return Ok(());
            }
            removed += sweep_folder(files, folder, &live)?;
        }
    }
    files.stop_tracking();
    tracing::info!(removed, seconds = began.elapsed().as_secs_f64(), "leftovers removed");
    Ok(())
}

/// Divides the 256 folders into passes with a bounded number of ids.
fn passes(objects: u64) -> Vec<RangeInclusive<u8>> {
    let passes = (objects / IDS_PER_PASS + 1).next_power_of_two().min(256);
    let folders = 256 / passes;
    // The casts are lossless, since there are 256 folders.
    (0..passes).map(|pass| (pass * folders) as u8..=((pass + 1) * folders - 1) as u8).collect()
}

fn first_byte(id: Uuid) -> u8 {
    let [first, ..] = id.into_bytes();
    first
}

fn sweep_folder(files: &Arc<DataFiles>, folder: u8, live: &HashSet<Uuid>) -> Result<usize> {
    let path = files.folder(folder);
    let mut leftovers = Vec::new();
    for entry in fs::read_dir(&path).map_err(StoreError::io("cannot look for leftovers"))? {
        let entry = entry.map_err(StoreError::io("cannot look for leftovers"))?;
        let id = entry.file_name().to_str().and_then(|name| Uuid::parse_str(name).ok());
        // Files whose names are not ids are not removed.
        leftovers.extend(id.filter(|id| !live.contains(id)));
    }
    leftovers.retain(|id| !files.was_placed(*id));
    files.remove_ids(&leftovers);
    Ok(leftovers.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_cover_every_folder_once() {
        for objects in [0, IDS_PER_PASS, 10 * IDS_PER_PASS, u64::MAX] {
            let all: Vec<u8> = passes(objects).into_iter().flatten().collect();
            assert_eq!(all, (0..=255).collect::<Vec<u8>>(), "{objects}");
        }
        assert_eq!(passes(5).len(), 1);
        assert_eq!(passes(1_000_000_000).len(), 256);
    }
}

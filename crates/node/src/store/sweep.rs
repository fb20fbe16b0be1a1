//! Removing data files that nothing names: what a crash left between writing bytes and committing them, or
//! between a commit and the removal of what it replaced.
//!
//! A small store is swept while it opens. A large one opens at once and is swept behind its back, so that the
//! time to start does not grow with it; memory does not either, since ids are compared in passes. A file is
//! removed if it was there before the sweep, no record names it, and it was not placed since the start:
//! [`Files`] remembers what it places as long as a sweep needs to know.

use std::collections::HashSet;
use std::fs;
use std::ops::RangeInclusive;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Instant;

use uuid::Uuid;

use super::files::Files;
use super::index::Index;
use super::{Result, StoreError};

/// Up to so many objects a store is swept while it opens: well below a second.
const SWEPT_AT_ONCE: u64 = 20_000;

/// How many ids are compared in one pass: 64 MiB of memory or less.
const IDS_PER_PASS: u64 = 2_000_000;

/// Sweeps now or, if there is much to look at, on a thread of its own that ends with the store.
pub(super) fn start(index: &Arc<Index>, files: &Arc<Files>, objects: u64) -> Result<()> {
    let (index, files) = (Arc::downgrade(index), Arc::clone(files));
    if objects <= SWEPT_AT_ONCE {
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

fn sweep(index: &Weak<Index>, files: &Arc<Files>, objects: u64) -> Result<()> {
    let began = Instant::now();
    let mut removed = 0;
    for folders in passes(objects) {
        // Nobody else holds the index: the store is being closed.
        let Some(held) = index.upgrade() else { return Ok(()) };
        let mut live = HashSet::new();
        held.visit_files(|id| {
            if folders.contains(&first_byte(id)) {
                live.insert(id);
            }
            Arc::strong_count(&held) > 1 || objects <= SWEPT_AT_ONCE
        })?;
        drop(held);
        for folder in folders {
            // Held while files are removed: nobody opens the store again before that is over.
            let Some(held) = index.upgrade() else { return Ok(()) };
            if Arc::strong_count(&held) == 1 {
                return Ok(());
            }
            removed += sweep_folder(files, folder, &live)?;
        }
    }
    files.forget_placed();
    tracing::info!(removed, seconds = began.elapsed().as_secs_f64(), "leftovers removed");
    Ok(())
}

/// The 256 folders, in as many passes as keep the ids of one in bounds.
fn passes(objects: u64) -> Vec<RangeInclusive<u8>> {
    let passes = (objects / IDS_PER_PASS + 1).next_power_of_two().min(256);
    let folders = 256 / passes;
    // Both fit: there are 256 folders.
    (0..passes).map(|pass| (pass * folders) as u8..=((pass + 1) * folders - 1) as u8).collect()
}

fn first_byte(id: Uuid) -> u8 {
    let [first, ..] = id.into_bytes();
    first
}

fn sweep_folder(files: &Arc<Files>, folder: u8, live: &HashSet<Uuid>) -> Result<usize> {
    let path = files.folder(folder);
    let mut leftovers = Vec::new();
    for entry in fs::read_dir(&path).map_err(StoreError::io("cannot look for leftovers"))? {
        let entry = entry.map_err(StoreError::io("cannot look for leftovers"))?;
        let id = entry.file_name().to_str().and_then(|name| Uuid::parse_str(name).ok());
        // What is not called like a data file is not ours to remove.
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

//! Simulated disks for tests: one that is recorded and loses power, one that fails and fills up.

mod client;
mod failing_disk;
mod image;
mod power_loss;
mod recorder;
mod rot;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use pushdowndb_testkit::seed::seed;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::LocalStore;
use super::disk::{Change, Disk};
use crate::Limits;
use image::Tree;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A folder in memory if possible: durability is simulated.
fn folder() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

/// Limits with small blocks and parts, and no background work.
fn limits() -> Limits {
    Limits { block_bytes: 1000, checksum_block_bytes: 500, part_min_bytes: 1, scrub_bytes: 0, ..Limits::default() }
}

/// Opens the store below `root`.
fn open(root: &Path, disk: Arc<dyn Disk>) -> pushdowndb_contract::Result<LocalStore> {
    LocalStore::open_on(disk, &root.join("store"), limits())
}

/// The names below a folder, and whether each is a folder.
type Names = BTreeMap<PathBuf, bool>;

fn names(root: &Path) -> Names {
    let mut names = Names::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let is_folder = entry.file_type().unwrap().is_dir();
            names.insert(entry.path().strip_prefix(root).unwrap().to_owned(), is_folder);
            if is_folder {
                folders.push(entry.path());
            }
        }
    }
    names
}

/// The contents below `root`.
fn read(root: &Path) -> Tree {
    let bytes = |path: &Path, is_folder: bool| (!is_folder).then(|| fs::read(root.join(path)).unwrap());
    names(root).into_iter().map(|(path, is_folder)| (path.clone(), bytes(&path, is_folder))).collect()
}

/// Replaces `names` below `root` by `tree`; matching folders are kept.
fn write_over(names: &Names, tree: &Tree, root: &Path) {
    for (path, is_folder) in names.iter().rev() {
        match (is_folder, tree.get(path)) {
            (true, Some(None)) => {}
            (true, _) => fs::remove_dir(root.join(path)).unwrap(),
            (false, _) => fs::remove_file(root.join(path)).unwrap(),
        }
    }
    for (path, bytes) in tree {
        match bytes {
            None if names.get(path) == Some(&true) => {}
            None => fs::create_dir(root.join(path)).unwrap(),
            Some(bytes) => fs::write(root.join(path), bytes).unwrap(),
        }
    }
}

/// Writes `tree` to an empty `root`.
fn write(tree: &Tree, root: &Path) {
    write_over(&Names::new(), tree, root);
}

/// Checks that the open store below `root` holds `data_files` data files and soon no leftovers.
/// Returns all names.
fn no_leftovers(root: &Path, data_files: usize) -> Result<Names, String> {
    let patience = Instant::now();
    loop {
        let names = names(root);
        match leftovers(&names, data_files) {
            Some(_) if patience.elapsed() < Duration::from_secs(10) => thread::sleep(Duration::from_millis(1)),
            Some(problem) => return Err(problem),
            None => return Ok(names),
        }
    }
}

fn leftovers(names: &Names, data_files: usize) -> Option<String> {
    let data = Path::new("store/data");
    let known = ["store", "store/VERSION", "store/index.redb", "store/data", "store/tmp"];
    let (data, rest): (Vec<_>, Vec<_>) = names
        .iter()
        .filter(|(path, _)| !known.iter().any(|known| Path::new(known) == *path))
        .partition(|(path, _)| path.starts_with(data));
    let data = data.iter().filter(|(_, is_folder)| !**is_folder).count();
    if !rest.is_empty() {
        return Some(format!("left behind: {rest:?}"));
    }
    (data != data_files).then(|| format!("{data} data files, where {data_files} are named"))
}

/// The disks of this machine, without syncs.
#[derive(Debug)]
struct Unsynced;

impl Disk for Unsynced {
    fn apply(&self, change: Change<'_>) -> io::Result<()> {
        match change {
            Change::Sync(_) | Change::SyncFolder(_) => Ok(()),
            change => change.apply(),
        }
    }
}

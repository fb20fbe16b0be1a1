//! The contents of a disk, and what survives a power loss.
//!
//! A file keeps what was written before its last sync, a folder the names at its last sync. Of
//! later changes any combination may be lost: names without bytes, bytes without names, single
//! sectors of a write. Real file systems lose less.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::Rng;
use rand::rngs::StdRng;

use super::recorder::Step;

/// Files with their bytes, and folders; parents come before children.
pub(super) type Tree = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// The unit in which a disk writes.
const SECTOR: usize = 512;

/// How much unsynced data survives.
#[derive(Debug)]
pub(super) enum Crash {
    /// Nothing.
    Nothing,
    /// Everything: only the process died.
    Everything,
    /// Names in folders, but no bytes.
    Names,
    /// Bytes, but no names.
    Bytes,
    /// A random part.
    Chance(Box<StdRng>),
}

impl Crash {
    fn keeps_name(&mut self) -> bool {
        match self {
            Self::Everything | Self::Names => true,
            Self::Nothing | Self::Bytes => false,
            Self::Chance(random) => random.random(),
        }
    }

    fn keeps_bytes(&mut self) -> bool {
        match self {
            Self::Everything | Self::Bytes => true,
            Self::Nothing | Self::Names => false,
            Self::Chance(random) => random.random(),
        }
    }

    /// The sectors that arrived of a torn write; `None` if it was not torn.
    fn tears(&mut self, sectors: usize) -> Option<Vec<bool>> {
        let Self::Chance(random) = self else { return None };
        random.random_bool(0.3).then(|| (0..sectors).map(|_| random.random()).collect())
    }
}

/// The disk below a root folder.
#[derive(Debug)]
pub(super) struct Image {
    nodes: Vec<Node>,
}

#[derive(Debug)]
enum Node {
    Folder {
        now: BTreeMap<OsString, usize>,
        durable: BTreeMap<OsString, usize>,
        unsynced: Vec<(OsString, Option<usize>)>,
    },
    File {
        durable: Vec<u8>,
        unsynced: Vec<Unsynced>,
    },
}

#[derive(Debug)]
enum Unsynced {
    Write { at: u64, bytes: Arc<[u8]> },
    Resize(u64),
}

impl Node {
    fn folder() -> Self {
        Self::Folder { now: BTreeMap::new(), durable: BTreeMap::new(), unsynced: Vec::new() }
    }
}

impl Unsynced {
    fn apply(&self, to: &mut Vec<u8>, torn: Option<&[bool]>) {
        match self {
            Self::Resize(size) => to.resize(*size as usize, 0),
            Self::Write { at, bytes } => {
                let at = *at as usize;
                for (sector, chunk) in bytes.chunks(SECTOR).enumerate() {
                    if torn.is_none_or(|arrived| arrived[sector]) {
                        let start = at + sector * SECTOR;
                        to.resize(to.len().max(start + chunk.len()), 0);
                        to[start..start + chunk.len()].copy_from_slice(chunk);
                    }
                }
            }
        }
    }
}

impl Image {
    /// A disk on which all of `tree` is durable.
    pub fn new(tree: &Tree) -> Self {
        let mut image = Self { nodes: vec![Node::folder()] };
        for (path, bytes) in tree {
            image.add(
                path,
                bytes
                    .as_ref()
                    .map_or_else(Node::folder, |bytes| Node::File { durable: bytes.clone(), unsynced: vec![] }),
            );
        }
        for node in &mut image.nodes {
            if let Node::Folder { now, durable, unsynced } = node {
                durable.clone_from(now);
                unsynced.clear();
            }
        }
        image
    }

    pub fn apply(&mut self, step: &Step) {
        match step {
            Step::MakeFolder(path) => self.add(path, Node::folder()),
            Step::Create(path) => self.add(path, Node::File { durable: Vec::new(), unsynced: Vec::new() }),
            Step::Write { path, at, bytes } => self.change(path, Unsynced::Write { at: *at, bytes: Arc::clone(bytes) }),
            Step::Resize { path, size } => self.change(path, Unsynced::Resize(*size)),
            Step::Rename { from, to } => {
                let node = self.find(from);
                self.name(to, Some(node));
                self.name(from, None);
            }
            Step::Link { from, to } => {
                let node = self.find(from);
                self.name(to, Some(node));
            }
            Step::Remove(path) => self.name(path, None),
            Step::Sync(path) => {
                let node = self.find(path);
                let Node::File { durable, unsynced } = &mut self.nodes[node] else { panic!("{path:?} is no file") };
                unsynced.drain(..).for_each(|change| change.apply(durable, None));
            }
            Step::SyncFolder(path) => {
                let node = self.find(path);
                let Node::Folder { now, durable, unsynced } = &mut self.nodes[node] else {
                    panic!("{path:?} is no folder")
                };
                durable.clone_from(now);
                unsynced.clear();
            }
            Step::Note(_) => {}
        }
    }

    /// The contents after a crash.
    pub fn after(&self, crash: &mut Crash) -> Tree {
        let mut tree = Tree::new();
        // A file with two names has the same bytes under both.
        let mut contents: HashMap<usize, Vec<u8>> = HashMap::new();
        let mut folders = vec![(PathBuf::new(), 0)];
        while let Some((path, folder)) = folders.pop() {
            let Node::Folder { durable, unsynced, .. } = &self.nodes[folder] else { continue };
            let mut names = durable.clone();
            for (name, node) in unsynced.iter().filter(|_| crash.keeps_name()) {
                match node {
                    Some(node) => drop(names.insert(name.clone(), *node)),
                    None => drop(names.remove(name)),
                }
            }
            for (name, node) in names {
                let path = path.join(name);
                let bytes = match &self.nodes[node] {
                    Node::Folder { .. } => None,
                    Node::File { durable, unsynced } => {
                        Some(contents.entry(node).or_insert_with(|| survivors(durable, unsynced, crash)).clone())
                    }
                };
                if bytes.is_none() {
                    folders.push((path.clone(), node));
                }
                tree.insert(path, bytes);
            }
        }
        tree
    }

    fn find(&self, path: &Path) -> usize {
        path.iter().fold(0, |folder, name| {
            let Node::Folder { now, .. } = &self.nodes[folder] else { panic!("{path:?} lies in no folder") };
            *now.get(name).unwrap_or_else(|| panic!("{path:?} does not exist"))
        })
    }

    fn add(&mut self, path: &Path, node: Node) {
        self.nodes.push(node);
        self.name(path, Some(self.nodes.len() - 1));
    }

    fn name(&mut self, path: &Path, node: Option<usize>) {
        let folder = self.find(path.parent().unwrap_or(Path::new("")));
        let name = path.file_name().unwrap_or(OsStr::new("")).to_owned();
        let Node::Folder { now, unsynced, .. } = &mut self.nodes[folder] else { panic!("{path:?} lies in no folder") };
        match node {
            Some(node) => drop(now.insert(name.clone(), node)),
            None => drop(now.remove(&name)),
        }
        unsynced.push((name, node));
    }

    fn change(&mut self, path: &Path, change: Unsynced) {
        let node = self.find(path);
        let Node::File { unsynced, .. } = &mut self.nodes[node] else { panic!("{path:?} is no file") };
        unsynced.push(change);
    }
}

fn survivors(durable: &[u8], unsynced: &[Unsynced], crash: &mut Crash) -> Vec<u8> {
    let mut bytes = durable.to_vec();
    for change in unsynced {
        if crash.keeps_bytes() {
            let sectors = match change {
                Unsynced::Write { bytes, .. } => bytes.len().div_ceil(SECTOR),
                Unsynced::Resize(_) => 0,
            };
            change.apply(&mut bytes, crash.tears(sectors).as_deref());
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps() -> [Step; 5] {
        let path = |path: &str| PathBuf::from(path);
        let write = |at, text: &[u8]| Step::Write { path: path("f"), at, bytes: text.into() };
        [Step::Create(path("f")), write(0, b"ab"), Step::Sync(path("f")), write(1, b"cd"), Step::SyncFolder(path(""))]
    }

    fn left(count: usize, mut crash: Crash) -> Option<String> {
        let mut image = Image::new(&Tree::new());
        steps()[..count].iter().for_each(|step| image.apply(step));
        let bytes = image.after(&mut crash).remove(Path::new("f"))?;
        Some(String::from_utf8(bytes.expect("a file")).unwrap())
    }

    #[test]
    fn only_what_was_synced_is_certain() {
        assert_eq!(left(4, Crash::Nothing), None);
        assert_eq!(left(4, Crash::Bytes), None);
        assert_eq!(left(2, Crash::Names).as_deref(), Some(""));
        assert_eq!(left(4, Crash::Names).as_deref(), Some("ab"));
        assert_eq!(left(4, Crash::Everything).as_deref(), Some("acd"));
        assert_eq!(left(5, Crash::Nothing).as_deref(), Some("ab"));
        assert_eq!(left(5, Crash::Bytes).as_deref(), Some("acd"));
    }
}

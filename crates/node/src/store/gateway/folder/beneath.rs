//! Race-free access to names below a folder.
//!
//! A path can change its meaning between two system calls. So no path is first checked and then
//! used: a folder is opened, and its entries are examined, opened, created, renamed and removed by
//! name relative to that descriptor. Links to folders are not followed. `openat2` opens a path in
//! one step; if the kernel lacks it or a filter blocks it, folders are opened one by one, which is
//! as safe and takes a call for each.
//!
//! Only regular files are objects. Other files are not opened: a pipe would block, and opening a
//! device can have effects. A file may be replaced by a pipe or device at the last moment, so files
//! are opened non-blocking, and closed again if they are not regular.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, fsync, mkdirat, openat, readlinkat, statat};
use rustix::io::Errno;

/// The prefix of names that are not served.
pub(super) const HIDDEN_PREFIX: &str = ".pushdowndb";

/// Maximum links that one name may lead through, as in the kernel.
const MAX_LINKS: usize = 40;

/// Attempts to open a path that is being moved.
const MAX_OPEN_ATTEMPTS: usize = 16;

/// Flags to look up names in a folder, which needs no permission to list it.
const FOLDER_FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

const FILE_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// A served folder.
#[derive(Debug)]
pub(super) struct Root {
    /// The path as resolved by the system.
    path: PathBuf,
    /// The path as configured; absolute links may use this form.
    given: PathBuf,
    /// Set once `openat2` was refused.
    step_by_step: AtomicBool,
}

/// An open folder below the root.
#[derive(Debug)]
pub(super) struct OpenFolder {
    folder: OwnedFd,
}

/// The kind of a directory entry.
#[derive(Clone, Copy, Debug)]
pub(super) enum EntryKind {
    File(Stat),
    /// A link, with the status of the file inside the root that it leads to, if any.
    Link(Option<Stat>),
    Folder,
    /// A pipe, a socket or a device.
    Other,
}

impl EntryKind {
    /// The status of the file that reading this entry returns.
    pub fn file(self) -> Option<Stat> {
        match self {
            Self::File(stat) => Some(stat),
            Self::Link(target) => target,
            Self::Folder | Self::Other => None,
        }
    }
}

/// Whether an error means that the name does not exist, or that a link or file is in its path.
pub(super) fn is_not_found(error: Errno) -> bool {
    matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG | Errno::XDEV)
}

impl Root {
    pub fn new(dir: &Path) -> io::Result<Self> {
        let root = Self {
            path: dir.canonicalize()?,
            given: std::path::absolute(dir)?,
            step_by_step: AtomicBool::new(!cfg!(target_os = "linux")),
        };
        // Checks that it can be opened and listed.
        drop(root.top()?.names()?);
        Ok(root)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the served folder. This is done for each access, so that file systems mounted later
    /// are served.
    pub fn top(&self) -> Result<OpenFolder, Errno> {
        Ok(OpenFolder { folder: openat(CWD, self.path.as_path(), FOLDER_FLAGS, Mode::empty())? })
    }

    /// Opens the folder at a path without links.
    pub fn folder(&self, path: &str) -> Result<OpenFolder, Errno> {
        let top = self.top()?;
        let path = path.trim_end_matches('/');
        if path.is_empty() {
            return Ok(top);
        }
        if !self.step_by_step.load(Relaxed) {
            match top.folder_at_once(path) {
                // `openat2` is not implemented, or blocked.
                Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => self.step_by_step.store(true, Relaxed),
                // The path was moved during every attempt.
                Err(Errno::AGAIN) => {}
                opened => return opened,
            }
        }
        path.split('/').try_fold(top, |folder, name| folder.folder(name))
    }

    /// Opens the folder at a path without links; creates missing ones, durably.
    pub fn create_folder(&self, path: &str) -> Result<OpenFolder, Errno> {
        match self.folder(path) {
            Err(Errno::NOENT) => {}
            found => return found,
        }
        let mut folder = self.top()?;
        for name in path.trim_end_matches('/').split('/') {
            folder = match folder.folder(name) {
                Err(Errno::NOENT) => {
                    match mkdirat(&folder.folder, name, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error),
                    }
                    // Synced whichever call created the folder: its name must survive a crash, as its
                    // contents will.
                    folder.sync()?;
                    folder.folder(name)?
                }
                found => found?,
            };
        }
        Ok(folder)
    }

    /// Returns the kind of `name` in the folder at `path`. A missing name is an error.
    pub fn entry(&self, path: &str, folder: &OpenFolder, name: &str) -> Result<EntryKind, Errno> {
        let stat = folder.stat(name.as_ref())?;
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => EntryKind::File(stat),
            FileType::Directory => EntryKind::Folder,
            FileType::Symlink => {
                // A broken link leads to no file.
                let target = self.follow(path, folder, name).ok().flatten();
                EntryKind::Link(target.and_then(|(folder, name)| folder.stat(&name).ok()).filter(is_file))
            }
            _ => EntryKind::Other,
        })
    }

    /// Opens the file `name` in the folder at `path`, or the file inside the root that this link
    /// leads to.
    pub fn file(&self, path: &str, folder: &OpenFolder, name: &str) -> Result<Option<File>, Errno> {
        let stat = folder.stat(name.as_ref())?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => folder.file(name.as_ref()),
            FileType::Symlink => match self.follow(path, folder, name)? {
                Some((folder, name)) => folder.file(&name),
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// Resolves a link to a served file inside the root: the folder that holds it and its name
    /// there.
    ///
    /// The path is walked one name at a time from the root; `..` returns to the folder opened
    /// before, so concurrent moves cannot lead outside.
    fn follow(&self, path: &str, folder: &OpenFolder, name: &str) -> Result<Option<(OpenFolder, OsString)>, Errno> {
        let mut folders = vec![self.top()?];
        let mut ahead: VecDeque<OsString> = path.split('/').map(OsString::from).collect();
        let mut links = 0;
        let mut target = Some(folder.link(name.as_ref())?);
        loop {
            if let Some(target) = target.take() {
                links += 1;
                let target = Path::new(&target);
                let below = if target.is_absolute() {
                    folders.truncate(1);
                    if links == 1 {
                        ahead.clear();
                    }
                    target.strip_prefix(&self.path).or_else(|_| target.strip_prefix(&self.given)).ok()
                } else {
                    Some(target)
                };
                let Some(below) = below.filter(|_| links <= MAX_LINKS) else { return Ok(None) };
                if links == 1 {
                    // The target is relative to the folder of the link, to which the names in
                    // `ahead` lead.
                    ahead.extend(below.components().map(|part| part.as_os_str().to_owned()));
                } else {
                    for part in below.components().rev() {
                        ahead.push_front(part.as_os_str().to_owned());
                    }
                }
            }
            let Some(next) = ahead.pop_front() else { return Ok(None) };
            match Path::new(&next).components().next() {
                None | Some(Component::CurDir) => continue,
                Some(Component::ParentDir) => {
                    folders.pop();
                    if folders.is_empty() {
                        return Ok(None);
                    }
                    continue;
                }
                Some(Component::Normal(_)) if !next.as_bytes().starts_with(HIDDEN_PREFIX.as_bytes()) => {}
                Some(_) => return Ok(None),
            }
            let Some(folder) = folders.last() else { return Ok(None) };
            match FileType::from_raw_mode(folder.stat(&next)?.st_mode) {
                FileType::Symlink => target = Some(folder.link(&next)?),
                FileType::Directory => {
                    let folder = folder.folder(&next)?;
                    folders.push(folder);
                }
                FileType::RegularFile if ahead.is_empty() => return Ok(folders.pop().map(|folder| (folder, next))),
                _ => return Ok(None),
            }
        }
    }
}

fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

impl OpenFolder {
    #[cfg(target_os = "linux")]
    fn folder_at_once(&self, path: &str) -> Result<Self, Errno> {
        use rustix::fs::{ResolveFlags, openat2};
        const BENEATH: ResolveFlags =
            ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);
        for _ in 0..MAX_OPEN_ATTEMPTS {
            match openat2(&self.folder, path, FOLDER_FLAGS, Mode::empty(), BENEATH) {
                Err(Errno::AGAIN) => {}
                opened => return opened.map(|folder| Self { folder }),
            }
        }
        Err(Errno::AGAIN)
    }

    #[cfg(not(target_os = "linux"))]
    fn folder_at_once(&self, _: &str) -> Result<Self, Errno> {
        Err(Errno::NOSYS)
    }

    /// Opens a subfolder.
    fn folder(&self, name: impl AsRef<OsStr>) -> Result<Self, Errno> {
        Ok(Self { folder: openat(&self.folder, name.as_ref(), FOLDER_FLAGS, Mode::empty())? })
    }

    /// Returns the status of `name`, without following links.
    pub fn stat(&self, name: &OsStr) -> Result<Stat, Errno> {
        statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn link(&self, name: &OsStr) -> Result<OsString, Errno> {
        Ok(OsString::from_vec(readlinkat(&self.folder, name, Vec::new())?.into_bytes()))
    }

    /// Opens a file; `None` if it is not a regular file any more.
    fn file(&self, name: &OsStr) -> Result<Option<File>, Errno> {
        match openat(&self.folder, name, FILE_FLAGS, Mode::empty()) {
            Ok(file) => Ok(is_file(&fstat(&file)?).then(|| File::from(file))),
            // A link or a socket.
            Err(Errno::LOOP | Errno::NXIO | Errno::NODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates a file; fails if it exists.
    pub fn create(&self, name: &str) -> Result<File, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.folder, name, flags, Mode::from_raw_mode(0o666))?))
    }

    /// Renames a file, replacing the target.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        rustix::fs::renameat(&self.folder, from, &self.folder, to)
    }

    /// Adds a name to a file; fails if it exists.
    pub fn link_as(&self, from: &str, to: &str) -> Result<(), Errno> {
        rustix::fs::linkat(&self.folder, from, &self.folder, to, AtFlags::empty())
    }

    /// Removes a name that is no folder.
    pub fn remove(&self, name: &str) -> Result<(), Errno> {
        rustix::fs::unlinkat(&self.folder, name, AtFlags::empty())
    }

    /// Makes the names in it durable.
    pub fn sync(&self) -> Result<(), Errno> {
        fsync(self.opened()?)
    }

    /// Reopens the folder for listing and syncing, which needs permission to read it.
    fn opened(&self) -> Result<OwnedFd, Errno> {
        openat(&self.folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    }

    /// The names in it, unordered, and whether each is a folder.
    pub fn names(&self) -> Result<impl Iterator<Item = Result<(OsString, bool), Errno>> + '_, Errno> {
        let entries = Dir::new(self.opened()?)?;
        let names = entries.filter_map(move |entry| {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error)),
            };
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            if name == "." || name == ".." {
                return None;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match self.stat(&name) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    // The entry was removed meanwhile.
                    Err(Errno::NOENT) => return None,
                    Err(error) => return Some(Err(error)),
                },
                known => known,
            };
            Some(Ok((name, kind == FileType::Directory)))
        });
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use rustix::fs::mknodat;

    use super::*;

    /// A folder to serve, beside one that must not be reached.
    fn world() -> (tempfile::TempDir, PathBuf) {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("served");
        fs::create_dir_all(dir.join("a/deep")).unwrap();
        fs::create_dir_all(outer.path().join("outside")).unwrap();
        fs::write(outer.path().join("outside/secret"), "secret").unwrap();
        fs::write(dir.join("a/deep/file"), "inside").unwrap();
        fs::write(dir.join(".pushdowndb-draft"), "private").unwrap();
        (outer, dir)
    }

    /// A root that opens paths at once, and one that opens them step by step.
    fn roots(dir: &Path) -> [Root; 2] {
        let (at_once, step_by_step) = (Root::new(dir).unwrap(), Root::new(dir).unwrap());
        step_by_step.step_by_step.store(true, Relaxed);
        [at_once, step_by_step]
    }

    fn read(root: &Root, key: &str) -> Option<String> {
        let (path, name) = key.rsplit_once('/').unwrap_or(("", key));
        let folder = root.folder(path).ok()?;
        let looked = root.entry(path, &folder, name).ok().and_then(EntryKind::file);
        let mut file = root.file(path, &folder, name).ok().flatten();
        assert_eq!(looked.is_some(), file.is_some(), "{key}");
        let mut text = String::new();
        file.as_mut()?.read_to_string(&mut text).unwrap();
        Some(text)
    }

    #[test]
    fn links_are_followed_to_files_inside_and_nowhere_else() {
        let (outer, dir) = world();
        let links = [
            ("near", "a/deep/file", true),
            ("a/up", "../a/./deep/../deep/file", true),
            ("twice", "near", true),
            ("whole", dir.join("a/deep/file").to_str().unwrap(), true),
            ("through", "folder-link/file", true),
            ("folder-link", "a/deep", false),
            ("leak", "../outside/secret", false),
            ("a/leak", "../../outside/secret", false),
            ("absolute", outer.path().join("outside/secret").to_str().unwrap(), false),
            ("back-in", "../served/a/deep/file", false),
            ("private", ".pushdowndb-draft", false),
            ("self", "self", false),
            ("dangling", "nothing", false),
            ("proc", "/proc/self/root/etc/passwd", false),
            ("up", "..", false),
        ]
        .map(|(name, target, is_served)| (name, target.to_owned(), is_served));
        for (name, target, _) in &links {
            symlink(target, dir.join(name)).unwrap();
        }
        symlink(outer.path().join("outside"), dir.join("out")).unwrap();
        for root in roots(&dir) {
            for (name, target, is_served) in &links {
                let expected = is_served.then(|| "inside".to_owned());
                assert_eq!(read(&root, name), expected, "{name} -> {target}");
            }
            assert_eq!(read(&root, "a/deep/file").as_deref(), Some("inside"));
            for key in ["out/secret", "folder-link/file", "up/outside/secret"] {
                assert_eq!(read(&root, key), None, "{key}");
            }
            assert!(root.create_folder("out/new").is_err() && root.create_folder("near/new").is_err());
        }
        assert_eq!(fs::read_dir(outer.path().join("outside")).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_becomes_a_link_between_two_steps_leads_nowhere() {
        let (outer, dir) = world();
        for root in roots(&dir) {
            let folder = root.folder("a/deep").unwrap();
            fs::rename(dir.join("a/deep"), dir.join("a/aside")).unwrap();
            symlink(outer.path().join("outside"), dir.join("a/deep")).unwrap();
            // The open folder is the one that was examined, under whatever name.
            drop(folder.create("written").unwrap());
            folder.rename("written", "placed").unwrap();
            assert!(root.entry("a/deep", &folder, "secret").is_err());
            assert!(folder.remove("secret").is_err());
            assert!(dir.join("a/aside/placed").exists());
            assert!(root.folder("a/deep").is_err() && root.create_folder("a/deep/new").is_err());
            fs::remove_file(dir.join("a/aside/placed")).unwrap();
            fs::remove_file(dir.join("a/deep")).unwrap();
            fs::rename(dir.join("a/aside"), dir.join("a/deep")).unwrap();
        }
        assert_eq!(fs::read_to_string(outer.path().join("outside/secret")).unwrap(), "secret");
        assert_eq!(fs::read_dir(outer.path().join("outside")).unwrap().count(), 1);
    }

    #[test]
    fn pipes_and_sockets_are_not_opened() {
        let (_outer, dir) = world();
        mknodat(CWD, dir.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.join("socket")).unwrap();
        symlink("pipe", dir.join("to-pipe")).unwrap();
        for root in roots(&dir) {
            for name in ["pipe", "socket", "to-pipe", "a"] {
                assert_eq!(read(&root, name), None, "{name}");
            }
            // Also not between the check and opening.
            let top = root.top().unwrap();
            assert!(top.file("pipe".as_ref()).unwrap().is_none());
            assert!(top.file("socket".as_ref()).unwrap().is_none());
            assert!(top.file("to-pipe".as_ref()).unwrap().is_none());
            assert!(top.file("a".as_ref()).unwrap().is_none());
        }
    }

    #[test]
    fn missing_folders_are_made() {
        let (_outer, dir) = world();
        for (root, name) in roots(&dir).into_iter().zip(["x", "y"]) {
            root.create_folder(&format!("a/{name}/z/")).unwrap();
            assert!(dir.join("a").join(name).join("z").is_dir());
            assert_eq!(root.folder("a/missing").unwrap_err(), Errno::NOENT);
            assert!(is_not_found(root.folder("a/deep/file").unwrap_err()));
        }
    }
}

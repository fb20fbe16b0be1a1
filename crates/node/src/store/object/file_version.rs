//! A version of a file that others may change.
//!
//! Size and modification time can be those of an earlier version (`cp -p`, `rsync --inplace -t`,
//! `touch -r`). The change time of the inode cannot: only the kernel sets it, on every write and
//! every change of the modification time. It is as coarse as the clock of the file system, so two
//! writes within one tick look alike. As in Git's index, a file changed just now is therefore not
//! trusted: a later write in the same tick would go unnoticed.

use std::fs::File;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Stat, fstat};

/// If a file has been unchanged for this long, its next change results in another change time: the
/// clocks of file systems tick every few milliseconds, those of old and network file systems every
/// second or two.
const MAX_CLOCK_TICK: Duration = Duration::from_secs(3);

/// Maximum tick of a local file system, at a hundred ticks per second.
const MAX_LOCAL_CLOCK_TICK: Duration = Duration::from_millis(20);

/// The status of a file when it was opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct FileVersion {
    device: u64,
    inode: u64,
    pub size: u64,
    pub modified_ns: i128,
    changed_ns: i128,
    /// Whether it still has a name.
    is_named: bool,
}

impl FileVersion {
    /// The version of an open file.
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self::from(&fstat(file)?))
    }

    /// Whether the file still has the same bytes; `now` is the current version of the same open
    /// file.
    pub fn still_holds(&self, now: &Self) -> bool {
        // Losing the last name also alters the change time, but after that the file cannot be
        // opened for writing any more.
        let unnamed = self.is_named && !now.is_named;
        *now == *self || unnamed && Self { is_named: true, changed_ns: self.changed_ns, ..*now } == *self
    }

    /// Whether every later change results in another version.
    pub fn is_stable(&self, now: SystemTime) -> bool {
        let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let latest = self.changed_ns.max(self.modified_ns);
        // A time in the future comes from a clock that differs from this machine's, so it is not
        // trusted.
        i128::try_from(since_1970.saturating_sub(MAX_CLOCK_TICK).as_nanos()).is_ok_and(|before| latest < before)
    }

    /// The time until the next change would be detected on a local disk; `None` if it would be
    /// detected already.
    pub fn until_changes_show(&self) -> Option<Duration> {
        let now = i128::try_from(SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()?;
        let since = u64::try_from(now - self.changed_ns).ok().map(Duration::from_nanos)?;
        MAX_LOCAL_CLOCK_TICK.checked_sub(since).filter(|left| !left.is_zero())
    }

    /// The ETag; its dashes show that it is no digest.
    pub fn etag(&self) -> String {
        let Self { device, inode, size, modified_ns, changed_ns, .. } = self;
        format!("{device:x}-{inode:x}-{size:x}-{modified_ns:x}-{changed_ns:x}")
    }
}

impl From<&Stat> for FileVersion {
    fn from(stat: &Stat) -> Self {
        let time = |seconds: i64, ns: u32| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified_ns: time(stat.st_mtime, u32::try_from(stat.st_mtime_nsec).unwrap_or(0)),
            changed_ns: time(stat.st_ctime, u32::try_from(stat.st_ctime_nsec).unwrap_or(0)),
            is_named: stat.st_nlink > 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_change_that_sets_the_time_back_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "one").unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let before = FileVersion::of(&file).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        assert!(before.still_holds(&FileVersion::of(&file).unwrap()));
        std::thread::sleep(Duration::from_millis(20));
        fs::write(&path, "two").unwrap();
        file.set_modified(modified).unwrap();
        let after = FileVersion::of(&file).unwrap();
        assert_eq!((before.size, before.modified_ns, before.inode), (after.size, after.modified_ns, after.inode));
        assert!(!before.still_holds(&after));
        assert_ne!(before.etag(), after.etag());
    }

    #[test]
    fn a_file_that_is_replaced_or_removed_stays_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "one").unwrap();
        let file = File::open(&path).unwrap();
        let before = FileVersion::of(&file).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        fs::remove_file(&path).unwrap();
        assert!(before.still_holds(&FileVersion::of(&file).unwrap()));
    }

    #[test]
    fn what_was_changed_just_now_may_change_again_unseen() {
        let at = |seconds: u64| UNIX_EPOCH + Duration::from_secs(seconds);
        let ns = |seconds: i128| seconds * 1_000_000_000;
        let version = |modified: i128, changed: i128| FileVersion {
            device: 1,
            inode: 1,
            size: 1,
            modified_ns: ns(modified),
            changed_ns: ns(changed),
            is_named: true,
        };
        assert!(version(10, 100).is_stable(at(104)));
        assert!(!version(10, 100).is_stable(at(102)));
        assert!(!version(10, 100).is_stable(at(50)), "a time to come");
        assert!(!version(200, 100).is_stable(at(150)), "a time to come");
    }
}

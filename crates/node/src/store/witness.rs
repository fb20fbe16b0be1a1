//! What tells a version of a file of others from the next: whatever a writer can set back is not enough.
//!
//! Size and modification time can both be those of the version before (`cp -p`, `rsync --inplace -t`, `touch -r`).
//! The time of the last change of the inode cannot: the kernel alone sets it, with every write and every new
//! modification time. It is as coarse as the clock of the file system, so two writes within one tick look alike. As
//! Git does with its index, nothing is learned of a file that was changed just now, by which a later write in the
//! same tick could be taken for it.

use std::fs::File;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Stat, fstat};

/// A file that was not changed for so long gets another time with its next change: clocks of file systems tick every
/// few milliseconds, those of old ones and of networks every second or two.
const TICK: Duration = Duration::from_secs(3);

/// The clock of a file system of this machine has moved on after so long, at a hundred ticks a second.
const LOCAL_TICK: Duration = Duration::from_millis(20);

/// What a file looked like when it was opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Witness {
    device: u64,
    inode: u64,
    pub size: u64,
    pub modified_ns: i128,
    changed_ns: i128,
    /// Whether it still has a name.
    is_named: bool,
}

impl Witness {
    /// Of an open file.
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self::from(&fstat(file)?))
    }

    /// Whether a look at the same open file, later on, shows the same bytes.
    pub fn still_holds(&self, now: &Self) -> bool {
        // A file that lost its last name changes its time by that alone, and can no longer be opened to be written to.
        let unnamed = self.is_named && !now.is_named;
        *now == *self || unnamed && Self { is_named: true, changed_ns: self.changed_ns, ..*now } == *self
    }

    /// Whether every later change gives it another witness.
    pub fn is_settled(&self, now: SystemTime) -> bool {
        let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let latest = self.changed_ns.max(self.modified_ns);
        // A time that is still to come is no time of a clock that ticks with ours.
        i128::try_from(since_1970.saturating_sub(TICK).as_nanos()).is_ok_and(|before| latest < before)
    }

    /// How long it takes until a further change would show, on a disk of this machine; nothing if it would already.
    pub fn until_changes_show(&self) -> Option<Duration> {
        let now = i128::try_from(SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()?;
        let since = u64::try_from(now - self.changed_ns).ok().map(Duration::from_nanos)?;
        LOCAL_TICK.checked_sub(since).filter(|left| !left.is_zero())
    }

    /// Its ETag, which says by its dashes that it is no digest.
    pub fn etag(&self) -> String {
        let Self { device, inode, size, modified_ns, changed_ns, .. } = self;
        format!("{device:x}-{inode:x}-{size:x}-{modified_ns:x}-{changed_ns:x}")
    }
}

impl From<&Stat> for Witness {
    fn from(seen: &Stat) -> Self {
        let time = |seconds: i64, ns: u32| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Self {
            device: seen.st_dev,
            inode: seen.st_ino,
            size: u64::try_from(seen.st_size).unwrap_or(0),
            modified_ns: time(seen.st_mtime, u32::try_from(seen.st_mtime_nsec).unwrap_or(0)),
            changed_ns: time(seen.st_ctime, u32::try_from(seen.st_ctime_nsec).unwrap_or(0)),
            is_named: seen.st_nlink > 0,
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
        let before = Witness::of(&file).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        assert!(before.still_holds(&Witness::of(&file).unwrap()));
        std::thread::sleep(Duration::from_millis(20));
        fs::write(&path, "two").unwrap();
        file.set_modified(modified).unwrap();
        let after = Witness::of(&file).unwrap();
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
        let before = Witness::of(&file).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        fs::remove_file(&path).unwrap();
        assert!(before.still_holds(&Witness::of(&file).unwrap()));
    }

    #[test]
    fn what_was_changed_just_now_may_change_again_unseen() {
        let at = |seconds: u64| UNIX_EPOCH + Duration::from_secs(seconds);
        let ns = |seconds: i128| seconds * 1_000_000_000;
        let witness = |modified: i128, changed: i128| Witness {
            device: 1,
            inode: 1,
            size: 1,
            modified_ns: ns(modified),
            changed_ns: ns(changed),
            is_named: true,
        };
        assert!(witness(10, 100).is_settled(at(104)));
        assert!(!witness(10, 100).is_settled(at(102)));
        assert!(!witness(10, 100).is_settled(at(50)), "a time to come");
        assert!(!witness(200, 100).is_settled(at(150)), "a time to come");
    }
}

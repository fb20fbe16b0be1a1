//! Shares of a core: control groups with a quota of CPU time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// The period for which the CPU time of a group is limited, in microseconds.
const PERIOD_US: u64 = 20_000;

/// The folders of control groups in version 1 and in version 2.
const FIRST: &str = "/sys/fs/cgroup/cpu";
const SECOND: &str = "/sys/fs/cgroup";

/// A control group with a share of a core. Removed on drop, after its processes have ended.
#[derive(Debug)]
pub struct Share {
    folder: PathBuf,
}

impl Share {
    /// Creates the group `name`, whose processes may use `cores` cores together.
    pub fn new(name: &str, cores: f64) -> Result<Self> {
        let is_first =
            Path::new(FIRST).join("cpu.cfs_quota_us").exists() || Path::new(FIRST).join("cgroup.procs").exists();
        let folder = Path::new(if is_first { FIRST } else { SECOND }).join(format!("{name}-{}", std::process::id()));
        let why =
            || format!("{}: bounding CPU needs root and control groups; --no-shares does without", folder.display());
        fs::create_dir(&folder).with_context(why)?;
        let share = Self { folder };
        let quota = (cores * PERIOD_US as f64) as u64;
        let write = |file: &str, text: String| {
            let file = share.folder.join(file);
            fs::write(&file, text).with_context(|| file.display().to_string())
        };
        if is_first {
            write("cpu.cfs_period_us", PERIOD_US.to_string())?;
            write("cpu.cfs_quota_us", quota.to_string())?;
        } else {
            write("cpu.max", format!("{quota} {PERIOD_US}"))?;
        }
        Ok(share)
    }

    /// A command that runs `program` in the group.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.folder.join("cgroup.procs")).arg(program);
        command
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // A group can be removed once the last of its processes has ended. Nothing can be done
        // about one that cannot be removed.
        for _ in 0..50 {
            if fs::remove_dir(&self.folder).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

//! Processes pinned to cores, with their CPU time and peak memory.

use std::ffi::OsStr;
use std::io::Write;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use serde::de::DeserializeOwned;

use super::task::Work;

/// Writes `work` to the stdin of a process and reads its result from its stdout.
pub fn ask<T: DeserializeOwned>(mut command: Command, work: &Work) -> Result<T> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("starting a contestant")?;
    let mut stdin = child.stdin.take().context("a process without stdin")?;
    // A process that fails at once may not read all the input; its error is reported below.
    let written = stdin.write_all(&serde_json::to_vec(work)?);
    drop(stdin);
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("{}", why_failed(&output));
    }
    written?;
    serde_json::from_slice(&output.stdout).context("what the contestant said")
}

/// Describes a failed process by its exit status and stderr; empty if it was killed.
pub fn why_failed(output: &Output) -> String {
    format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())
}

/// A command that runs on the first `cores` cores of the machine.
pub fn pinned(program: impl AsRef<OsStr>, cores: usize) -> Command {
    let mut command = Command::new("taskset");
    command.arg("-c").arg(if cores == 1 { "0".to_owned() } else { format!("0-{}", cores - 1) }).arg(program);
    command
}

/// CPU seconds of this process.
pub fn own_cpu() -> Result<f64> {
    read(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU seconds of all child processes that have ended.
pub fn cpu_of_ended() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("asking for the CPU time of processes that ended")?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

fn read(clock: ClockId) -> Result<f64> {
    let time = clock_gettime(clock).context("reading a clock of CPU time")?;
    Ok(Duration::from(time).as_secs_f64())
}

/// The peak memory of a process (`VmHWM`); `process` is an id or `self`.
pub fn peak_bytes(process: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Whether a process, in any network namespace, listens on a port.
pub fn listens(process: u32, port: u16) -> bool {
    let table = std::fs::read_to_string(format!("/proc/{process}/net/tcp")).unwrap_or_default();
    let suffix = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next(), words.nth(1));
        local.is_some_and(|local| local.ends_with(&suffix)) && state == Some("0A")
    })
}

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub struct Running(Child);

impl Running {
    /// Starts it.
    pub fn spawn(command: &mut Command) -> Result<Self> {
        Ok(Self(command.spawn().with_context(|| format!("starting {:?}", command.get_program()))?))
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// CPU seconds that it has used so far.
    pub fn cpu(&self) -> Result<f64> {
        let pid = Pid::from_raw(i32::try_from(self.0.id())?);
        read(clock_getcpuclockid(pid).context("asking for the CPU time of a server")?)
    }

    /// Its peak memory so far.
    pub fn peak_bytes(&self) -> Option<u64> {
        peak_bytes(&self.0.id().to_string())
    }

    /// True if it has exited.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that it has exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

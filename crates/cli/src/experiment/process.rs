//! Processes: pinned to cores, and asked what CPU time and memory they took.

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

/// Tells a process what to do on its stdin and reads what it says on its stdout.
pub fn ask<T: DeserializeOwned>(mut command: Command, work: &Work) -> Result<T> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("starting a contestant")?;
    let mut stdin = child.stdin.take().context("a process without stdin")?;
    // One that fails at once does not read all of it, and says why.
    let written = stdin.write_all(&serde_json::to_vec(work)?);
    drop(stdin);
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("{}", why_failed(&output));
    }
    written?;
    serde_json::from_slice(&output.stdout).context("what the contestant said")
}

/// How a process ended that failed, and what it said. One that was killed says nothing.
pub fn why_failed(output: &Output) -> String {
    format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())
}

/// A command that runs on so many cores, the first of the machine.
pub fn pinned(program: impl AsRef<OsStr>, cores: usize) -> Command {
    let mut command = Command::new("taskset");
    command.arg("-c").arg(if cores == 1 { "0".to_owned() } else { format!("0-{}", cores - 1) }).arg(program);
    command
}

/// CPU seconds of this process.
pub fn own_cpu() -> Result<f64> {
    read(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU seconds of all processes that were started here and have ended.
pub fn cpu_of_ended() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("asking for the CPU time of processes that ended")?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

fn read(clock: ClockId) -> Result<f64> {
    let time = clock_gettime(clock).context("reading a clock of CPU time")?;
    Ok(Duration::from(time).as_secs_f64())
}

/// The most memory a process ever held, its `VmHWM`; `process` is an id or `self`.
pub fn peak_bytes(process: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// A process that ends with its owner.
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

    /// CPU seconds it has taken so far.
    pub fn cpu(&self) -> Result<f64> {
        let pid = Pid::from_raw(i32::try_from(self.0.id())?);
        read(clock_getcpuclockid(pid).context("asking for the CPU time of a server")?)
    }

    /// The most memory it has held so far.
    pub fn peak_bytes(&self) -> Option<u64> {
        peak_bytes(&self.0.id().to_string())
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already; either way there is nothing left to do about it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

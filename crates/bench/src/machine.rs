//! The measuring machine: its hardware, programs and page cache.

use std::fmt;
use std::fs::{self, File};
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

/// A machine.
#[derive(Clone, Debug)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    /// The speed-up of two cores over one.
    pub two_cores: f64,
    pub memory_gb: f64,
    pub kernel: String,
}

impl Machine {
    /// Describes this machine.
    pub fn here() -> Self {
        let field = |file: &str, name: &str| {
            let text = fs::read_to_string(file).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(name)).map(str::to_owned);
            line.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned())).unwrap_or_default()
        };
        let kilobytes = field("/proc/meminfo", "MemTotal").split_whitespace().next().and_then(|text| text.parse().ok());
        Self {
            cpu: Some(field("/proc/cpuinfo", "model name"))
                .filter(|model| !model.is_empty())
                .unwrap_or("unknown".into()),
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            two_cores: two_cores(),
            memory_gb: kilobytes.unwrap_or(0.0) * 1024.0 / 1e9,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        }
    }

    /// Returns the processor's name in a form for file names.
    pub fn slug(&self) -> String {
        let words = self.cpu.to_lowercase();
        let words: Vec<&str> =
            words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
        words.join("-")
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, cores, two_cores, memory_gb, kernel } = self;
        let relation = format_args!("of which two count {two_cores:.2} times as fast as one");
        write!(f, "{cpu} ({cores} cores, {relation}, {memory_gb:.0} GB, Linux {kernel})")
    }
}

/// Measures the speed-up of two cores over one with counting loops. It is below two if cores share
/// units, or if a host shares them with others. Returns the best of a few attempts.
fn two_cores() -> f64 {
    let once = || {
        let (alone, both) = (seconds_of(1), seconds_of(2));
        2.0 * alone / both
    };
    (0..3).map(|_| once()).fold(0.0, f64::max)
}

/// The seconds that a number of `threads` take to count concurrently.
fn seconds_of(threads: usize) -> f64 {
    let count = || {
        let mut state = 1_u64;
        for step in 0..100_000_000_u64 {
            state = black_box(state.wrapping_mul(31).wrapping_add(step));
        }
    };
    let since = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(count);
        }
    });
    since.elapsed().as_secs_f64()
}

/// The first line that a shell command prints; `None` if it fails or prints nothing.
pub fn first_line(command: &str) -> Option<String> {
    let output = Command::new("sh").arg("-c").arg(command).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// Reads all files below a folder into the page cache.
pub fn warm(path: &Path) -> Result<()> {
    if path.is_file() {
        io::copy(&mut File::open(path)?, &mut io::sink())?;
        return Ok(());
    }
    for entry in fs::read_dir(path).with_context(|| path.display().to_string())? {
        warm(&entry?.path())?;
    }
    Ok(())
}

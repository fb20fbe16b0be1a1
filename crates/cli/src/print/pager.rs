//! A pager: a program such as `less` that shows a result page by page.

use std::io::{self, BufWriter, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result};

/// A running pager. Dropping this value waits for its end.
pub struct Pager {
    /// `None` once the pager has received everything.
    input: Option<BufWriter<ChildStdin>>,
    program: Child,
}

impl Pager {
    /// Starts `command` with the system's shell.
    pub fn start(command: &str) -> Result<Self> {
        let started = Command::new("sh").args(["-c", command]).stdin(Stdio::piped()).spawn();
        let mut program = started.with_context(|| format!("starting the pager {command}"))?;
        let input = program.stdin.take().map(|input| BufWriter::with_capacity(64 * 1024, input));
        Ok(Self { input, program })
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.input.as_mut().map_or(Err(io::ErrorKind::BrokenPipe.into()), |input| input.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.input.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        // Closing its input tells the pager that there is no more. An error means that the pager
        // has ended already.
        drop(self.input.take());
        let _ = self.program.wait();
    }
}

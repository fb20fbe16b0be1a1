//! The output: stdout, a pager, or a file that appears once it is complete.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use parking_lot::{Mutex, MutexGuard};
use pushdowndb_contract::{Error, ErrorKind};
use tempfile::NamedTempFile;

use super::pager::Pager;
use crate::interrupt::Interrupts;

/// A handle on the output. Clones write to the same output.
#[derive(Clone)]
pub struct Output(Arc<Mutex<Inner>>);

struct Inner {
    to: Place,
    /// Whether the reader has closed the output.
    closed: bool,
    /// Writing fails once one of these signals has arrived.
    interrupts: Option<Interrupts>,
}

enum Place {
    Stdout(BufWriter<Stdout>),
    /// A program that shows the output page by page.
    Pager(Pager),
    /// A device or pipe, written in place.
    Special(BufWriter<File>),
    /// A regular file, which has a temporary name until it is complete.
    File {
        draft: BufWriter<NamedTempFile>,
        path: PathBuf,
    },
    /// A finished file.
    Done,
}

impl Output {
    /// Standard output.
    pub fn stdout() -> Self {
        Self::of(Place::Stdout(stdout()))
    }

    /// A pager, run as the shell command `command`. It ends with this output.
    pub fn pager(command: &str) -> Result<Self> {
        Ok(Self::of(Place::Pager(Pager::start(command)?)))
    }

    /// A file at `path`, or the device or pipe there.
    pub fn file(path: &Path) -> Result<Self> {
        let what = || format!("writing results to {}", path.display());
        if path.to_str().is_some_and(|path| path.contains("://")) {
            let message = format!("{}: results go to local files; COPY (…) TO '{0}' writes to storage", path.display());
            return Err(Error::invalid(message).into());
        }
        if path.is_dir() {
            return Err(Error::invalid(format!("{}: is a folder; name a file", path.display())).into());
        }
        // A device, a pipe or /dev/stdout is written in place, since a rename would replace it.
        if path.exists() && !path.is_file() {
            let file = File::options().write(true).open(path).map_err(kinded).with_context(what)?;
            return Ok(Self::of(Place::Special(BufWriter::new(file))));
        }
        // A link is followed, so that the file behind it is replaced.
        let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let draft =
            tempfile::Builder::new().prefix(".pushdowndb-").tempfile_in(folder).map_err(kinded).with_context(what)?;
        Ok(Self::of(Place::File { draft: BufWriter::with_capacity(256 * 1024, draft), path: path.to_owned() }))
    }

    fn of(to: Place) -> Self {
        Self(Arc::new(Mutex::new(Inner { to, closed: false, interrupts: None })))
    }

    /// Makes writing fail once a signal has arrived.
    pub fn stop_at(&self, interrupts: &Interrupts) {
        self.lock().interrupts = Some(interrupts.clone());
    }

    /// Drops output that is buffered for stdout.
    pub fn discard(&self) {
        let mut inner = self.lock();
        if let Place::Stdout(out) = &mut inner.to {
            // The writer is taken apart, since dropping it would write the buffer.
            drop(std::mem::replace(out, stdout()).into_parts());
        }
    }

    /// True for a pager.
    pub fn is_pager(&self) -> bool {
        matches!(self.lock().to, Place::Pager(_))
    }

    /// Whether the output goes directly to a terminal.
    pub fn is_terminal(&self) -> bool {
        matches!(self.lock().to, Place::Stdout(_)) && io::stdout().is_terminal()
    }

    /// Ends the output. A file gets its final name now, with the permissions of a new file.
    pub fn finish(&self) -> Result<()> {
        let mut inner = self.lock();
        inner.flush_place()?;
        match std::mem::replace(&mut inner.to, Place::Done) {
            Place::File { draft, path } => {
                let draft = draft.into_inner().map_err(io::IntoInnerError::into_error)?;
                set_permissions(&draft, &path);
                draft
                    .persist(&path)
                    .map_err(|e| kinded(e.error))
                    .with_context(|| format!("writing {}", path.display()))?;
            }
            // Waits until the reader has left.
            Place::Pager(pager) => drop(pager),
            other => inner.to = other,
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }

    /// Replaces an error of a format's writer with the one that [`is_closed`] recognizes, if the
    /// reader has closed the output.
    pub fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        if self.lock().closed { anyhow::Error::new(Closed) } else { error }
    }
}

/// Buffers stdout; on a terminal in small pieces, so that Ctrl-C stops it at once.
fn stdout() -> BufWriter<Stdout> {
    let bytes = if io::stdout().is_terminal() { 4 * 1024 } else { 64 * 1024 };
    BufWriter::with_capacity(bytes, io::stdout())
}

/// Sets the permissions that `>` would give the file, since drafts are private to their owner.
fn set_permissions(draft: &NamedTempFile, path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = match path.metadata() {
        Ok(old) => old.permissions().mode(),
        Err(_) => 0o666 & !umask(),
    };
    let _ = draft.as_file().set_permissions(std::fs::Permissions::from_mode(mode));
}

fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
}

fn kinded(error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied => ErrorKind::Denied,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, error.to_string())
}

impl Inner {
    fn flush_place(&mut self) -> io::Result<()> {
        let done = match &mut self.to {
            Place::Stdout(out) => out.flush(),
            Place::Pager(pager) => pager.flush(),
            Place::Special(out) => out.flush(),
            Place::File { draft, .. } => draft.flush(),
            Place::Done => Ok(()),
        };
        self.note(done)
    }

    fn note<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        if done.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::BrokenPipe) {
            self.closed = true;
        }
        done
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut inner = self.lock();
        if inner.interrupts.as_ref().is_some_and(Interrupts::is_pending) {
            return Err(io::Error::other("interrupted"));
        }
        let done = match &mut inner.to {
            Place::Stdout(out) => out.write(bytes),
            Place::Pager(pager) => pager.write(bytes),
            Place::Special(out) => out.write(bytes),
            Place::File { draft, .. } => draft.write(bytes),
            Place::Done => Err(io::Error::other("the output is finished")),
        };
        inner.note(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lock().flush_place()
    }
}

/// Prints a line to stdout. Unlike `println!` it does not panic if stdout is closed.
pub fn print_line(text: impl std::fmt::Display) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).context("writing to stdout")
}

/// The error that the reader of the output has closed it.
#[derive(Debug)]
struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the output was closed")
    }
}

impl std::error::Error for Closed {}

/// Whether an error means that the reader has closed the output.
pub fn is_closed(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.is::<Closed>() || cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_when_it_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.csv");
        std::fs::write(&path, "old").unwrap();
        let mut output = Output::file(&path).unwrap();
        output.clone().write_all(b"new").unwrap();
        output.flush().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        output.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        drop(Output::file(&path).unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "an abandoned draft is removed");
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error = Output::file(Path::new("/no/such/folder/x.csv")).err().unwrap();
        assert_eq!(crate::exit_code::kind(&error), Some(ErrorKind::NotFound));
    }
}

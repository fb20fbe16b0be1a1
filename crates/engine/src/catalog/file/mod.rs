//! The catalog file: tables and views made once for all sessions of a user.
//!
//! It is a plain SQL file, `catalog.sql` in the user's data folder, with one CREATE EXTERNAL TABLE,
//! CREATE VIEW or CREATE TABLE statement per table. Users may read and edit it; it runs at the next
//! start. Comments and other text between statements stay. The first line names the version of the
//! format. The rows of tables in memory are in files beside it ([`super::kept_rows`]).
//!
//! Concurrent sessions do not lose each other's tables: every change re-reads the file under an
//! exclusive lock on a file beside it, and replaces it atomically. A file that does not parse is
//! never overwritten. Statements may hold credentials in their OPTIONS, so only its owner can read
//! it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind as Io, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pushdowndb_contract::{Error, ErrorKind, Result};

use super::TableLocation;
use crate::access::Access;
use entry::{Entry, plain};

mod addresses;
mod entry;

pub use entry::TableKind;

/// The first words of the file, which its version follows. A version above [`VERSION`] is refused.
const TITLE: &str = "-- PushdownDB catalog, version ";

/// The first words of files that PushdownDB wrote before version 0.2.
const OLD_TITLE: &str = "-- PushdownDB catalogue, version ";

/// The newest version of the format, for files with a view or a table in memory.
const VERSION: u32 = 2;

/// The version of files that have external tables only.
const FIRST_VERSION: u32 = 1;

/// Timeout for the lock while another session changes the file, which takes milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// A table of the catalog file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeclaredTable {
    /// The name: lower-case unless it was quoted, without the default catalog and schema.
    pub name: String,
    /// The statement that declares the table.
    pub statement: String,
    /// What the statement makes.
    pub kind: TableKind,
}

/// The catalog file.
#[derive(Clone, Debug)]
pub struct CatalogFile {
    path: PathBuf,
}

impl CatalogFile {
    /// Returns the catalog file at `path`, which need not exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        // The path is resolved so that a link stays a link when the file behind it is replaced.
        Self { path: fs::canonicalize(&path).unwrap_or(path) }
    }

    /// Returns the tables in the order of the file, or an empty list if there is no file.
    pub fn load(&self) -> Result<Vec<DeclaredTable>> {
        let text = self.read()?;
        let remembered = |(entry, range): (Entry, Range<usize>)| DeclaredTable {
            name: entry.name,
            statement: text.get(range).unwrap_or_default().to_owned(),
            kind: entry.kind,
        };
        Ok(self.entries(&text)?.into_iter().map(remembered).collect())
    }

    /// Adds the table that this statement makes, or replaces the one of the same name, and returns
    /// it. Relative locations are made absolute, since the next session may start in another folder.
    pub fn put(&self, statement: &str) -> Result<DeclaredTable> {
        let statement = statement.trim().trim_end_matches(';').trim_end();
        let entry = Entry::parse(statement)?;
        let statement = match entry.kind {
            TableKind::External => with_absolute_locations(statement, &entry)?,
            TableKind::View => addresses::absolute(statement)?,
            TableKind::Memory => statement.to_owned(),
        };
        self.change(|text, entries| {
            let same = entries.iter().find(|(known, _)| known.name == entry.name);
            match same {
                Some((_, range)) => text.replace_range(range.clone(), &statement),
                None => append(text, &statement),
            }
            if entry.kind != TableKind::External {
                set_version(text);
            }
            true
        })?;
        Ok(DeclaredTable { name: entry.name, statement, kind: entry.kind })
    }

    /// Returns the folder that holds the rows of tables in memory.
    pub(crate) fn rows_folder(&self) -> PathBuf {
        self.path.with_extension("tables")
    }

    /// Removes a table; `false` if the file did not have it.
    pub fn remove(&self, name: &str) -> Result<bool> {
        let name = plain(name);
        self.change(|text, entries| {
            let Some((_, range)) = entries.iter().find(|(known, _)| known.name == name) else { return false };
            let after = text.get(range.end..).unwrap_or_default();
            let line_end = after.len() - after.trim_start_matches([';', ' ', '\t', '\r']).len();
            let blank = after.get(line_end..).unwrap_or_default();
            let end = range.end + line_end + usize::from(blank.starts_with('\n'));
            text.replace_range(range.start..end, "");
            true
        })
    }

    fn read(&self) -> Result<String> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == Io::NotFound => Ok(String::new()),
            Err(error) if error.kind() == Io::InvalidData => Err(self.corrupt("it is not UTF-8 text")),
            Err(error) => Err(self.failed("cannot be read", error)),
        }
    }

    /// Parses the statements of `text`. Each comes with its byte range.
    fn entries(&self, text: &str) -> Result<Vec<(Entry, Range<usize>)>> {
        if let Some(version) = text.strip_prefix(TITLE).or_else(|| text.strip_prefix(OLD_TITLE)) {
            let digits = version.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
            if digits.parse::<u32>().is_ok_and(|version| version > VERSION) {
                let message = format!("it has version {digits}, this program knows {VERSION}: use a newer pushdowndb");
                return Err(Error::unsupported(message).context(self.path.display()));
            }
        }
        let entry = |range: Range<usize>| {
            let entry = Entry::parse(text.get(range.clone()).unwrap_or_default()).map_err(|error| {
                let line = 1 + text.get(..range.start).unwrap_or_default().matches('\n').count();
                self.corrupt(&format!("line {line}: {error}"))
            })?;
            Ok((entry, range))
        };
        statements(text).ranges.into_iter().map(entry).collect()
    }

    /// Re-reads, edits and replaces the file under the lock; `edit` returns whether it changed the
    /// text.
    fn change(&self, edit: impl FnOnce(&mut String, &[(Entry, Range<usize>)]) -> bool) -> Result<bool> {
        let folder = self.folder();
        fs::create_dir_all(folder).map_err(|error| self.failed("its folder cannot be made", error))?;
        let _lock = self.lock()?;
        let mut text = self.read()?;
        let entries = self.entries(&text)?;
        if text.trim().is_empty() {
            text = format!(
                "{TITLE}{FIRST_VERSION}\n-- Tables that the shell knows, one statement each. Edit it as you like; DROP TABLE \
                 removes one.\n"
            );
        }
        let is_changed = edit(&mut text, &entries);
        if is_changed {
            self.replace(&text).map_err(|error| self.failed("cannot be written", error))?;
        }
        Ok(is_changed)
    }

    fn lock(&self) -> Result<File> {
        let path = self.path.with_extension("sql.lock");
        let file = private(OpenOptions::new().create(true).truncate(false).write(true)).open(&path);
        let file = file.map_err(|error| self.failed("its lock cannot be opened", error))?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if start.elapsed() < LOCK_TIMEOUT => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(TryLockError::WouldBlock) => {
                    let message = format!("another shell holds the lock {}; end it and try again", path.display());
                    return Err(Error::new(ErrorKind::Conflict, message).context(self.path.display()));
                }
                Err(TryLockError::Error(error)) => return Err(self.failed("cannot be locked", error)),
            }
        }
    }

    /// Replaces the file atomically, even if the machine crashes meanwhile.
    fn replace(&self, text: &str) -> io::Result<()> {
        let new = self.path.with_extension("sql.new");
        let mut file = private(OpenOptions::new().create(true).truncate(true).write(true)).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        if cfg!(unix) { File::open(self.folder())?.sync_all() } else { Ok(()) }
    }

    fn folder(&self) -> &Path {
        self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    fn corrupt(&self, what: &str) -> Error {
        let path = self.path.display();
        let message =
            format!("the catalog {path} cannot be used: {what}; mend that file, or move it away to start afresh");
        Error::new(ErrorKind::Corrupt, message)
    }

    fn failed(&self, what: &str, error: io::Error) -> Error {
        let kind = if error.kind() == Io::PermissionDenied { ErrorKind::Denied } else { ErrorKind::Unavailable };
        Error::new(kind, format!("the catalog {}: {what}", self.path.display())).with_source(error)
    }
}

/// Sets the version to [`VERSION`], if the first line has one.
fn set_version(text: &mut String) {
    let title = [TITLE, OLD_TITLE].into_iter().find(|title| text.starts_with(title));
    let Some(title) = title else { return };
    let digits = text.get(title.len()..).unwrap_or_default();
    let end = title.len() + digits.bytes().take_while(u8::is_ascii_digit).count();
    text.replace_range(..end, &format!("{TITLE}{VERSION}"));
}

fn with_absolute_locations(statement: &str, entry: &Entry) -> Result<String> {
    let mut text = statement.to_owned();
    let mut expected = Vec::with_capacity(entry.locations.len());
    let quoted = |location: &str| format!("'{}'", location.replace('\'', "''"));
    for location in &entry.locations {
        let is_relative = !location.contains("://") && !Path::new(location).is_absolute();
        // The statement ran already, so the policy permits its location.
        let absolute = match is_relative {
            true => TableLocation::parse(location, &Access::everything())?.to_string(),
            false => location.clone(),
        };
        if is_relative {
            let after = text.to_ascii_lowercase().find("location").unwrap_or_default();
            let literal = quoted(location);
            let found = text.get(after..).and_then(|rest| rest.find(&literal)).map(|at| after + at);
            if let Some(at) = found {
                text.replace_range(at..at + literal.len(), &quoted(&absolute));
            }
        }
        expected.push(absolute);
    }
    if Entry::parse(&text)?.locations == expected {
        Ok(text)
    } else {
        Err(Error::invalid(
            "the relative location cannot be made absolute; write it as an absolute path or a file:// URL",
        ))
    }
}

/// Appends a statement after an empty line, and adds the semicolon that the statement before may
/// lack.
fn append(text: &mut String, statement: &str) {
    let found = statements(text);
    if let (Some(last), true) = (found.ranges.last(), found.is_open) {
        text.insert(last.end, ';');
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&format!("\n{statement};\n"));
}

struct Found {
    /// The byte range of each statement, without comments before it and without its semicolon.
    ranges: Vec<Range<usize>>,
    /// Whether the last statement has no semicolon.
    is_open: bool,
}

/// Finds the statements; semicolons in quotes and comments do not end them.
fn statements(text: &str) -> Found {
    let bytes = text.as_bytes();
    let starts = |at: usize, with: &[u8]| bytes.get(at..).is_some_and(|rest| rest.starts_with(with));
    // Returns the offset after the next `end`, or the end of the text.
    let past = |at: usize, end: &str| {
        text.get(at..).and_then(|rest| rest.find(end)).map_or(bytes.len(), |found| at + found + end.len())
    };
    let (mut ranges, mut start, mut end, mut at) = (Vec::new(), None, 0, 0);
    while let Some(&byte) = bytes.get(at) {
        if starts(at, b"--") {
            at = past(at, "\n");
        } else if starts(at, b"/*") {
            at = past(at + 2, "*/");
        } else if byte == b';' {
            ranges.extend(start.take().map(|start| start..end));
            at += 1;
        } else if byte.is_ascii_whitespace() {
            at += 1;
        } else {
            start.get_or_insert(at);
            // A doubled quote ends one string and begins the next, which gives the same end.
            at = match byte {
                b'\'' => past(at + 1, "'"),
                b'"' => past(at + 1, "\""),
                _ => at + 1,
            };
            end = at;
        }
    }
    let is_open = start.is_some();
    ranges.extend(start.map(|start| start..end));
    Found { ranges, is_open }
}

/// Makes a new file readable by its owner only.
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

#[cfg(test)]
mod tests;

//! The standard input as a table: read once, into a temporary file that lives as long as the
//! session.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::sync::Arc;

use pushdowndb_contract::{Error, ErrorKind, Result};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::endpoints::Backends;

/// Maximum bytes that are copied from it.
const MAX_BYTES: u64 = 64 * 1024 * 1024 * 1024;

/// The copy of the process's standard input.
#[derive(Debug, Default)]
pub(crate) struct StandardInput(OnceCell<Spooled>);

#[derive(Debug)]
struct Spooled {
    /// Deletes the file when it is dropped.
    _folder: TempDir,
    path: String,
}

/// Returns the location to read instead of `location`: a copy of the standard input for
/// `/dev/stdin`, else `location` itself.
///
/// # Errors
///
/// Returns an error if the standard input is a terminal, or if a policy limits what SQL may read.
pub(crate) async fn replaced(backends: &Backends, location: &str) -> Result<String> {
    if location != "/dev/stdin" {
        return Ok(location.to_owned());
    }
    if !backends.access().is_everything() {
        return Err(Error::new(ErrorKind::Denied, "/dev/stdin: SQL under an access policy may not read it"));
    }
    let input: Arc<StandardInput> = backends.extension();
    let copied = input.0.get_or_try_init(|| async {
        let copied = tokio::task::spawn_blocking(copy).await;
        copied.map_err(|error| Error::internal("copying the standard input ended early").with_source(error))?
    });
    copied.await.map(|copy| copy.path.clone())
}

fn copy() -> Result<Spooled> {
    let failed =
        |error: io::Error| Error::new(ErrorKind::Unavailable, "/dev/stdin: cannot be copied").with_source(error);
    let mut input = io::stdin().lock();
    if input.is_terminal() {
        return Err(Error::invalid("/dev/stdin: is a terminal; pipe a file into it"));
    }
    let mut start = [0; 4];
    let mut read = 0;
    while let Some(room) = start.get_mut(read..).filter(|room| !room.is_empty()) {
        match input.read(room).map_err(failed)? {
            0 => break,
            bytes => read += bytes,
        }
    }
    let start = start.get(..read).unwrap_or_default();
    let folder = tempfile::tempdir().map_err(failed)?;
    let path = folder.path().join(name_of(start));
    let mut file = File::create(&path).map_err(failed)?;
    file.write_all(start).map_err(failed)?;
    let copied = io::copy(&mut input.take(MAX_BYTES), &mut file).map_err(failed)?;
    if copied >= MAX_BYTES {
        return Err(Error::new(ErrorKind::Limit, format!("/dev/stdin: has more than {MAX_BYTES} bytes")));
    }
    let path = path.to_str().ok_or_else(|| Error::invalid("the folder of temporary files is not UTF-8"))?.to_owned();
    Ok(Spooled { _folder: folder, path })
}

/// Returns a file name with the extension of the format that the first bytes show.
fn name_of(start: &[u8]) -> &'static str {
    match start {
        [0x1F, 0x8B, ..] => "stdin.txt.gz",
        [0x28, 0xB5, 0x2F, 0xFD] => "stdin.txt.zst",
        [b'B', b'Z', b'h', ..] => "stdin.txt.bz2",
        b"PAR1" => "stdin.parquet",
        _ => "stdin.txt",
    }
}

//! Files that several sessions read and write.

pub(crate) mod stamped;

use std::error::Error;
use std::fs::{self, File};
use std::path::Path;

/// Writes a file atomically: readers see the old content or the new one.
pub(crate) fn put_in_place(
    file: &Path,
    write: impl FnOnce(File) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let new = file.with_extension(format!("{}.new", std::process::id()));
    write(File::create(&new)?)?;
    Ok(fs::rename(&new, file)?)
}

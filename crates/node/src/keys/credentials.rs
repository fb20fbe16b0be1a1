//! The key pair of a node, generated once and stored beside the objects.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use pushdowndb_contract::{Error, Result};
use rand::Rng;
use serde::{Deserialize, Serialize};

/// An access key and its secret.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
pub struct Credentials {
    /// Names the key; sent with every request.
    pub access_key_id: String,
    /// Signs requests; never sent and never logged.
    pub secret_access_key: String,
}

/// The file that the pair is stored in.
#[derive(Deserialize, Serialize)]
struct Kept {
    #[serde(flatten)]
    pair: Credentials,
    /// Detects a damaged file; files of earlier versions, or written by hand, have none.
    #[serde(default)]
    checksum: Option<u32>,
}

impl Kept {
    fn checksum_of(pair: &Credentials) -> u32 {
        let text = format!("{}\n{}", pair.access_key_id, pair.secret_access_key);
        crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, text.as_bytes()) as u32
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("access_key_id", &self.access_key_id).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Generates a pair from the operating system's randomness, in the format of AWS.
    pub fn generate() -> Self {
        const KEY: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
        const SECRET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        let mut rng = rand::rng();
        let mut draw = |alphabet: &[u8], length: usize| -> String {
            (0..length)
                .map(|_| alphabet.get(rng.random_range(0..alphabet.len())).copied().map_or('A', char::from))
                .collect()
        };
        Self { access_key_id: format!("PDDB{}", draw(KEY, 16)), secret_access_key: draw(SECRET, 40) }
    }

    /// Reads the pair in `file`; generates and stores one if the file does not exist.
    pub(crate) fn load_or_create(file: &Path) -> Result<Self> {
        let context = |error: std::io::Error| {
            Error::invalid(format!("cannot use the credentials file {}", file.display())).with_source(error)
        };
        match fs::read(file) {
            Ok(bytes) => {
                let kept: Kept = serde_json::from_slice(&bytes).map_err(|error| {
                    Error::invalid(format!("{} is not a credentials file; remove it to get new keys", file.display()))
                        .with_source(error)
                })?;
                if kept.checksum.is_some_and(|sum| sum != Kept::checksum_of(&kept.pair)) {
                    return Err(Error::invalid(format!(
                        "{} is damaged, or was edited without taking its checksum out; remove it to get new keys",
                        file.display()
                    )));
                }
                Ok(kept.pair)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let fresh = Self::generate();
                fresh.save(file).map_err(context)?;
                Ok(fresh)
            }
            Err(error) => Err(context(error)),
        }
    }

    /// Writes a draft and renames it, so that a crash leaves no partial file; only the owner may
    /// read it.
    fn save(&self, file: &Path) -> std::io::Result<()> {
        let draft = file.with_extension("new");
        // A draft left by a crash may have other permissions.
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        let kept = Kept { pair: self.clone(), checksum: Some(Kept::checksum_of(self)) };
        out.write_all(serde_json::to_string_pretty(&kept).map_err(std::io::Error::other)?.as_bytes())?;
        out.sync_all()?;
        fs::rename(&draft, file)?;
        // Otherwise a power loss soon after the first start could lose the pair.
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::File::open(folder)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn kept_for_the_owner_alone_and_reused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("credentials.json");
        let first = Credentials::load_or_create(&file).unwrap();
        assert_eq!(first, Credentials::load_or_create(&file).unwrap());
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!((first.access_key_id.len(), first.secret_access_key.len()), (20, 40));
        assert!(!format!("{first:?}").contains(&first.secret_access_key));
        let bytes = fs::read(&file).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut wrong = bytes.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            fs::write(&file, wrong).unwrap();
            assert!(Credentials::load_or_create(&file).map_or(true, |found| found == first), "bit {bit}");
        }
        fs::write(&file, serde_json::to_string(&first).unwrap()).unwrap();
        assert_eq!(first, Credentials::load_or_create(&file).unwrap(), "an earlier version's");
        fs::write(&file, "{}").unwrap();
        assert!(Credentials::load_or_create(&file).unwrap_err().to_string().contains("remove it"));
    }
}

//! Certificate authorities that are trusted in addition to those of the system.

use std::error::Error as StdError;
use std::path::Path;

use reqwest::Certificate;

use crate::error::refused;

/// The environment variable that names a file of additional authorities, as for AWS's tools.
pub const CA_BUNDLE: &str = "AWS_CA_BUNDLE";

/// Reads the authorities from the file that [`CA_BUNDLE`] names; returns none if it is not set.
pub(crate) fn authorities() -> object_store::Result<Vec<Certificate>> {
    let Some(bundle) = std::env::var_os(CA_BUNDLE).filter(|path| !path.is_empty()) else { return Ok(Vec::new()) };
    let context =
        |what: &dyn std::fmt::Display| refused(format!("{CA_BUNDLE}={}: {what}", Path::new(&bundle).display()));
    let pem = std::fs::read(&bundle).map_err(|error| context(&error))?;
    let authorities = Certificate::from_pem_bundle(&pem).map_err(|error| context(&innermost(&error)))?;
    if authorities.is_empty() { Err(context(&"it holds no certificate in PEM")) } else { Ok(authorities) }
}

/// Returns whether `message`, the text of an error, is about a rejected certificate.
pub fn is_untrusted(message: &str) -> bool {
    message.contains("invalid peer certificate")
}

/// Returns the root cause of an error.
pub(crate) fn innermost<'a>(error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause
}

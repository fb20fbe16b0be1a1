//! Hexadecimal, as in ETags.

use super::{Result, StoreError};

/// Encodes `bytes` in lower case.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

pub(crate) fn unhex(text: &str) -> Result<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.ok_or_else(|| StoreError::Corrupt("a part's ETag in the index is no MD5".to_owned()))?;
    Ok(digits.chunks(2).map(|pair| pair.iter().fold(0, |all, digit| all << 4 | digit)).collect())
}

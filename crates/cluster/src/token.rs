//! The secret by which workers authenticate callers.

use std::fmt;
use std::path::Path;

use http::HeaderValue;
use pushdowndb_contract::{Error, Result};
use ring::{hmac, rand};

/// Minimum bytes of a token.
const MIN_BYTES: usize = 16;

/// A secret that workers and their coordinators share.
#[derive(Clone)]
pub struct Token {
    /// The value of the header `authorization`.
    header: HeaderValue,
    key: hmac::Key,
    tag: hmac::Tag,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secret is left out.
        f.debug_struct("Token").finish_non_exhaustive()
    }
}

impl Token {
    /// Creates a token from at least 16 printable ASCII characters without blanks.
    ///
    /// # Errors
    ///
    /// The text is too short, or has other characters.
    pub fn new(secret: &str) -> Result<Self> {
        if secret.len() < MIN_BYTES || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::invalid(format!(
                "the token of workers must have at least {MIN_BYTES} characters, printable ones of ASCII without blanks"
            )));
        }
        let mut header = HeaderValue::from_str(&format!("Bearer {secret}"))
            .map_err(|error| Error::internal("a token that is no header").with_source(error))?;
        header.set_sensitive(true);
        // Tokens are compared by their HMAC tags under a random key of this process, in constant
        // time: the time reveals neither which bytes agree nor how many.
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &rand::SystemRandom::new())
            .map_err(|_| Error::internal("the system has no random numbers"))?;
        let tag = hmac::sign(&key, header.as_bytes());
        Ok(Self { header, key, tag })
    }

    /// Reads a token from a file. A line break at its end is ignored. Blocks.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or does not contain a token.
    pub fn from_file(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::invalid(format!("the token of workers: {}: {error}", path.display())))?;
        Self::new(text.trim_end_matches(['\r', '\n'])).map_err(|error| error.context(path.display()))
    }

    /// The value of the `authorization` header for requests.
    pub(crate) fn header(&self) -> &HeaderValue {
        &self.header
    }

    /// Compares `presented` with the value of the header, in constant time.
    pub(crate) fn is(&self, presented: &[u8]) -> bool {
        hmac::verify(&self.key, presented, self.tag.as_ref()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_is_the_token() {
        let token = Token::new("0123456789abcdef").unwrap();
        assert!(token.is(b"Bearer 0123456789abcdef"));
        for other in ["", "Bearer ", "0123456789abcdef", "Bearer 0123456789abcdeg", "bearer 0123456789abcdef"] {
            assert!(!token.is(other.as_bytes()), "{other}");
        }
        assert!(!format!("{token:?}").contains("0123"));
        for wrong in ["", "short", "0123456789 abcdef", "0123456789abcdef\n"] {
            assert!(Token::new(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_file_holds_a_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        assert!(Token::from_file(&path).unwrap().is(b"Bearer 0123456789abcdef"));
        std::fs::write(&path, "0123").unwrap();
        let error = Token::from_file(&path).unwrap_err().to_string();
        assert!(error.contains("16") && error.contains("token"), "{error}");
        assert!(Token::from_file(&folder.path().join("none")).is_err());
    }
}

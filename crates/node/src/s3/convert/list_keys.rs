//! Keys in listings: URL encoding, and continuation tokens.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use s3s::dto::EncodingType;
use s3s::{S3Result, s3_error};

use crate::store::Start;

/// The encoding of keys that the client asked for.
#[derive(Clone, Copy)]
pub(crate) struct Encoding {
    url: bool,
}

impl Encoding {
    pub fn new(asked: Option<&EncodingType>) -> S3Result<Self> {
        match asked.map(EncodingType::as_str) {
            None => Ok(Self { url: false }),
            Some(EncodingType::URL) => Ok(Self { url: true }),
            Some(other) => Err(s3_error!(InvalidArgument, "unknown encoding-type '{}'; only url is known", other)),
        }
    }

    pub fn bytes(self, key: &[u8]) -> String {
        let text = String::from_utf8_lossy(key);
        if self.url { percent(text.as_bytes()) } else { text.into_owned() }
    }

    pub fn text(self, key: String) -> String {
        if self.url { percent(key.as_bytes()) } else { key }
    }
}

fn percent(key: &[u8]) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(key.len());
    for &byte in key {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => out.push(byte.into()),
            // Writing to a string does not fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

/// The continuation token of a page that starts at `start`.
pub(crate) fn token(start: &Start) -> String {
    let (kind, key) = match start {
        Start::Beginning => (b'b', &[][..]),
        Start::AfterKey(key) => (b'k', key.as_slice()),
        Start::AfterPrefix(prefix) => (b'p', prefix.as_slice()),
    };
    BASE64_URL_SAFE_NO_PAD.encode([&[kind], key].concat())
}

/// The start of the page that `token` names.
pub(crate) fn start(token: &str) -> S3Result<Start> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).unwrap_or_default();
    match bytes.split_first() {
        Some((b'b', _)) => Ok(Start::Beginning),
        Some((b'k', key)) => Ok(Start::AfterKey(key.to_vec())),
        Some((b'p', prefix)) => Ok(Start::AfterPrefix(prefix.to_vec())),
        _ => Err(s3_error!(InvalidArgument, "the continuation token is not one of this node")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_return_and_garbage_is_refused() {
        for place in [Start::Beginning, Start::AfterKey(b"a/b".to_vec()), Start::AfterPrefix(vec![0xFF, 0])] {
            assert_eq!(start(&token(&place)).unwrap(), place);
        }
        for garbage in ["", "!", "eA", "a b"] {
            assert!(start(garbage).is_err(), "{garbage}");
        }
    }

    #[test]
    fn keys_are_encoded_for_every_decoder() {
        assert_eq!(percent("a b+c/ü\u{1}".as_bytes()), "a%20b%2Bc/%C3%BC%01");
    }
}

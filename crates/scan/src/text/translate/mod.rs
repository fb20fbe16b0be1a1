//! Translation of text whose encoding or values differ from those that the scan reads.
//!
//! ```text
//! bytes of the object, decompressed
//!   decode    another encoding -> UTF-8, and lines before the header left out
//!   rewrite   delimiters of several characters -> one byte      (crate::text::rewrite)
//!   fields    markers of NULL, numbers, dates and timestamps -> as SQL spells them; records
//!             that do not fit the columns are left out            (crate::text::csv::translate)
//! text that the scan reads
//! ```
//!
//! Each stage consumes and returns pieces of text, so it holds at most one record in addition. The
//! object is read from its start, and offsets in errors are those of the translated text.

pub(crate) mod decode;
pub(crate) mod sample;
pub(crate) mod spelling;

use bytes::Bytes;
use pushdowndb_contract::{Result, Translation};

use crate::text::stage::Stage;
use decode::Decoding;

/// Checks that the encoding with this label is known.
///
/// # Errors
///
/// Returns an error if it is unknown.
pub fn check_encoding(label: &str) -> Result<()> {
    decode::encoding_of(label).map(|_| ())
}

/// The first stage: decodes bytes to UTF-8, and drops the lines to skip.
pub(crate) struct Start {
    decoding: Option<Decoding>,
    skip: u64,
    /// True before the first byte, where there may be a byte order mark.
    at_start: bool,
    terminator: u8,
}

impl Start {
    /// Creates the first stage of `translation`, for text whose lines end with `terminator`.
    pub(crate) fn new(translation: &Translation, terminator: u8, location: &str) -> Result<Self> {
        let decoding = translation.encoding.as_deref().map(|label| Decoding::new(label, location)).transpose()?;
        Ok(Self { decoding, skip: translation.skip, at_start: true, terminator })
    }

    /// Drops the rest of the lines to skip.
    fn without_lines(&mut self, mut text: Bytes) -> Bytes {
        while self.skip > 0 {
            let Some(end) = memchr::memchr(self.terminator, &text) else { return Bytes::new() };
            text = text.slice(end + 1..);
            self.skip -= 1;
        }
        text
    }
}

impl Stage for Start {
    fn feed(&mut self, piece: &[u8]) -> Result<Bytes> {
        let is_first = std::mem::take(&mut self.at_start);
        let piece = match is_first && self.decoding.is_none() {
            true => piece.strip_prefix(crate::text::BYTE_ORDER_MARK).unwrap_or(piece),
            false => piece,
        };
        let text = match &mut self.decoding {
            Some(decoding) => decoding.feed(piece, false)?,
            None => Bytes::copy_from_slice(piece),
        };
        Ok(self.without_lines(text))
    }

    fn finish(&mut self) -> Result<Bytes> {
        let text = match &mut self.decoding {
            Some(decoding) => decoding.feed(&[], true)?,
            None => Bytes::new(),
        };
        Ok(self.without_lines(text))
    }
}

/// Translates all of a text, or, if it is not `whole`, as much of it as is complete.
pub(crate) fn run(stage: &mut dyn Stage, text: &[u8], whole: bool) -> Result<Bytes> {
    let mut out = Vec::from(stage.feed(text)?);
    if whole {
        out.extend_from_slice(&stage.finish()?);
    }
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(translation: &Translation, text: &[u8], piece: usize) -> Result<String> {
        let mut start = Start::new(translation, b'\n', "k")?;
        let mut out = Vec::new();
        for piece in text.chunks(piece) {
            out.extend_from_slice(&start.feed(piece)?);
        }
        out.extend_from_slice(&start.finish()?);
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn encodings_become_utf8_however_the_text_is_cut() {
        let utf16 = |text: &str, little: bool| -> Vec<u8> {
            let unit = |unit: u16| if little { unit.to_le_bytes() } else { unit.to_be_bytes() };
            text.encode_utf16().flat_map(unit).collect()
        };
        let text = "a;é;€;𝄞\n";
        for (label, bytes) in [
            ("utf-16", utf16(&format!("\u{feff}{text}"), true)),
            ("UTF-16", utf16(&format!("\u{feff}{text}"), false)),
            ("utf-16le", utf16(text, true)),
            ("utf-16be", utf16(text, false)),
            ("utf-8", text.as_bytes().to_vec()),
        ] {
            let translation = Translation { encoding: Some(label.to_owned()), ..Translation::default() };
            for piece in [1, 2, 3, 100] {
                assert_eq!(started(&translation, &bytes, piece).unwrap(), text, "{label}");
            }
        }
        let latin = Translation { encoding: Some("latin-1".to_owned()), ..Translation::default() };
        assert_eq!(started(&latin, b"Orl\xe9ans \x80", 3).unwrap(), "Orléans €");
        let broken = Translation { encoding: Some("utf-16le".to_owned()), ..Translation::default() };
        let error = started(&broken, &[0x61, 0, 0, 0xd8, 0x61, 0], 100).unwrap_err().to_string();
        assert!(error.contains("is not UTF-16LE"), "{error}");
        let unknown = Translation { encoding: Some("latin-one".to_owned()), ..Translation::default() };
        assert!(started(&unknown, b"", 1).unwrap_err().to_string().contains("latin-one"));
    }

    #[test]
    fn lines_before_the_header_are_left_out() {
        let skip = |skip| Translation { skip, ..Translation::default() };
        for piece in [1, 4, 100] {
            assert_eq!(started(&skip(2), b"\xef\xbb\xbfone\ntwo\nid\n1\n", piece.max(3)).unwrap(), "id\n1\n");
            assert_eq!(started(&skip(9), b"one\ntwo", piece).unwrap(), "");
        }
    }
}

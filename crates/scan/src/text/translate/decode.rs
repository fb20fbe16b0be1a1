//! Decoding of text in another encoding to UTF-8, piece by piece.

use bytes::Bytes;
use encoding_rs::{Decoder, DecoderResult, Encoding};
use pushdowndb_contract::{Error, Result};

/// Returns the encoding with this label: a label of the WHATWG's Encoding Standard, or one that
/// differs from it only in hyphens and underscores (`latin-1`, `utf16`).
pub(crate) fn encoding_of(label: &str) -> Result<&'static Encoding> {
    let plain = label.trim().to_ascii_lowercase();
    let bare: String = plain.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).collect();
    let usual = match bare.as_str() {
        "utf16" | "utf16le" => "utf-16le",
        "utf16be" => "utf-16be",
        "utf8" => "utf-8",
        "latin1" | "iso88591" => "latin1",
        "cp1252" | "windows1252" => "windows-1252",
        _ => plain.as_str(),
    };
    let known = Encoding::for_label(usual.as_bytes()).or_else(|| Encoding::for_label(bare.as_bytes()));
    known.ok_or_else(|| {
        Error::unsupported(format!(
            "the encoding '{label}' is not known; known are utf-8, utf-16, latin1, windows-1252 and the other labels of the \
             WHATWG's Encoding Standard"
        ))
    })
}

/// A decoder of one text.
pub(crate) struct Decoding {
    decoder: Decoder,
    location: String,
    /// The number of bytes read so far.
    offset: u64,
}

impl Decoding {
    /// Creates a decoder for the text at `location`. It removes a byte order mark, which also
    /// decides the byte order of UTF-16.
    pub(crate) fn new(label: &str, location: &str) -> Result<Self> {
        let encoding = encoding_of(label)?;
        let is_utf16 = encoding == encoding_rs::UTF_16LE || encoding == encoding_rs::UTF_16BE;
        let decoder = if is_utf16 { encoding.new_decoder() } else { encoding.new_decoder_with_bom_removal() };
        Ok(Self { decoder, location: location.to_owned(), offset: 0 })
    }

    /// Decodes the next piece. `last` says whether it is the last one.
    ///
    /// # Errors
    ///
    /// Returns an error for bytes that are invalid in the encoding.
    pub(crate) fn feed(&mut self, mut piece: &[u8], last: bool) -> Result<Bytes> {
        let mut text = String::new();
        loop {
            let room = self.decoder.max_utf8_buffer_length_without_replacement(piece.len());
            text.reserve(room.unwrap_or(piece.len().saturating_mul(3)).max(16));
            let (result, read) = self.decoder.decode_to_string_without_replacement(piece, &mut text, last);
            piece = piece.get(read..).unwrap_or_default();
            self.offset += read as u64;
            match result {
                DecoderResult::InputEmpty => return Ok(text.into_bytes().into()),
                DecoderResult::OutputFull => {}
                DecoderResult::Malformed(..) => {
                    let (location, at, name) = (&self.location, self.offset, self.decoder.encoding().name());
                    let message = format!("{location}: the text before byte {at} is not {name}; check 'encoding'");
                    return Err(Error::invalid(message).with_code("InvalidTextEncoding"));
                }
            }
        }
    }
}

//! Scanning of text: reading a byte range as a stream, the buffer and read loop of all formats, and
//! the formats.

pub(crate) mod buffer;
pub(crate) mod csv;
pub(crate) mod errors;
pub(crate) mod json;
pub(crate) mod predicate;
pub(crate) mod rewrite;
pub(crate) mod scan;
pub(crate) mod source;
pub(crate) mod splitter;
pub(crate) mod stage;
pub(crate) mod translate;
pub(crate) mod zstd_window;

/// The byte order mark, which may precede UTF-8 text and does not belong to it.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

//! What text formats share: where fields lie, what values they spell, which records a byte range holds.

pub(crate) mod columns;
pub(crate) mod compare;
pub(crate) mod fields;
pub(crate) mod like;
mod parts;
pub(crate) mod records;
pub(crate) mod source;
pub(crate) mod values;
mod zstd_window;

/// What may stand at the beginning of text in UTF-8, and is no part of it.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

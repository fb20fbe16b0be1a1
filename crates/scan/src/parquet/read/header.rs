//! Page headers.

use ::parquet::basic::Encoding;
use ::parquet::errors::{ParquetError, Result};

use crate::parquet::meta::thrift::{Compact, FALSE, I16, I64, STRUCT, TRUE};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PageHeader {
    pub(crate) kind: PageKind,
    /// The length of the header itself, in bytes.
    pub(crate) bytes: usize,
    /// The stored bytes of the page after the header.
    pub(crate) stored: usize,
    /// The bytes of the decompressed page.
    pub(crate) uncompressed: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PageKind {
    Dictionary {
        values: u32,
        encoding: Encoding,
        sorted: bool,
    },
    Data {
        /// The number of values, including NULLs.
        values: u32,
        encoding: Encoding,
        definition: Encoding,
        repetition: Encoding,
    },
    /// A data page of version 2, whose levels come first and are not compressed.
    DataV2 {
        /// The number of values, including NULLs.
        values: u32,
        nulls: u32,
        rows: u32,
        encoding: Encoding,
        definition_bytes: u32,
        repetition_bytes: u32,
        compressed: bool,
    },
    /// A page without values.
    Other,
}

impl PageHeader {
    /// Parses the header at the start of `bytes`.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        Raw::read(bytes)
            .and_then(|raw| raw.header())
            .ok_or_else(|| ParquetError::General("a broken page header".into()))
    }
}

/// A PageHeader message as it is stored.
#[derive(Default)]
struct Raw {
    bytes: usize,
    kind: Option<i64>,
    uncompressed: Option<i64>,
    stored: Option<i64>,
    /// The numbers in the nested header, by field number.
    own: [Option<i64>; 9],
}

/// For each page type, its code and the field number of its nested header.
const DATA: (i64, i64) = (0, 5);
const DICTIONARY: (i64, i64) = (2, 7);
const DATA_V2: (i64, i64) = (3, 8);

impl Raw {
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut message = Compact(bytes);
        let mut raw = Self::default();
        let mut id = 0;
        loop {
            match message.field(&mut id)? {
                0 => break,
                I16..=I64 if id == 1 => raw.kind = message.zigzag(),
                I16..=I64 if id == 2 => raw.uncompressed = message.zigzag(),
                I16..=I64 if id == 3 => raw.stored = message.zigzag(),
                STRUCT
                    if [DATA, DICTIONARY, DATA_V2].iter().any(|(kind, own)| *own == id && raw.kind == Some(*kind)) =>
                {
                    raw.own = numbers(&mut message)?;
                }
                kind => message.skip(kind)?,
            }
        }
        raw.bytes = bytes.len() - message.0.len();
        Some(raw)
    }

    fn header(&self) -> Option<PageHeader> {
        let own = |field: usize| self.own.get(field).copied().flatten();
        let number = |field: usize| u32::try_from(own(field)?).ok();
        let encoding = |field: usize| encoding(own(field)?);
        let kind = match self.kind? {
            kind if kind == DATA.0 => PageKind::Data {
                values: number(1)?,
                encoding: encoding(2)?,
                definition: encoding(3)?,
                repetition: encoding(4)?,
            },
            kind if kind == DICTIONARY.0 => {
                PageKind::Dictionary { values: number(1)?, encoding: encoding(2)?, sorted: own(3) == Some(1) }
            }
            kind if kind == DATA_V2.0 => PageKind::DataV2 {
                values: number(1)?,
                nulls: number(2)?,
                rows: number(3)?,
                encoding: encoding(4)?,
                definition_bytes: number(5)?,
                repetition_bytes: number(6)?,
                compressed: own(7) != Some(0),
            },
            _ => PageKind::Other,
        };
        let length = |bytes: Option<i64>| usize::try_from(i32::try_from(bytes?).ok()?).ok();
        Some(PageHeader {
            kind,
            bytes: self.bytes,
            stored: length(self.stored)?,
            uncompressed: length(self.uncompressed)?,
        })
    }
}

/// Reads the numbers and Booleans of a struct, by field number.
fn numbers(message: &mut Compact<'_>) -> Option<[Option<i64>; 9]> {
    let mut all = [None; 9];
    let mut id = 0;
    loop {
        let value = match message.field(&mut id)? {
            0 => return Some(all),
            TRUE => Some(1),
            FALSE => Some(0),
            I16..=I64 => Some(message.zigzag()?),
            kind => {
                message.skip(kind)?;
                None
            }
        };
        if let Some(slot) = usize::try_from(id).ok().and_then(|id| all.get_mut(id)) {
            *slot = value;
        }
    }
}

fn encoding(number: i64) -> Option<Encoding> {
    #[expect(deprecated, reason = "old files have levels packed so")]
    let packed = Encoding::BIT_PACKED;
    Some(match number {
        0 => Encoding::PLAIN,
        2 => Encoding::PLAIN_DICTIONARY,
        3 => Encoding::RLE,
        4 => packed,
        5 => Encoding::DELTA_BINARY_PACKED,
        6 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
        7 => Encoding::DELTA_BYTE_ARRAY,
        8 => Encoding::RLE_DICTIONARY,
        9 => Encoding::BYTE_STREAM_SPLIT,
        _ => return None,
    })
}

pub(crate) fn is_dictionary(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read() {
        // Type 0, 10 bytes from 7, a version 1 header: 3 values, PLAIN, RLE, RLE.
        let bytes = [0x15, 0x00, 0x15, 0x14, 0x15, 0x0e, 0x2c, 0x15, 0x06, 0x15, 0x00, 0x15, 0x06, 0x15, 0x06, 0, 0, 9];
        let header = PageHeader::parse(&bytes).unwrap();
        let (definition, repetition) = (Encoding::RLE, Encoding::RLE);
        let kind = PageKind::Data { values: 3, encoding: Encoding::PLAIN, definition, repetition };
        assert_eq!(header, PageHeader { kind, bytes: 17, stored: 7, uncompressed: 10 });
        for end in 0..17 {
            assert!(PageHeader::parse(&bytes[..end]).is_err());
        }
    }

    #[test]
    fn no_page_has_less_than_nothing() {
        assert!(PageHeader::parse(&[0x15, 0x02, 0x15, 0x01, 0x15, 0x0e, 0]).is_err());
        assert_eq!(PageHeader::parse(&[0x15, 0x02, 0x15, 0x02, 0x15, 0x0e, 0]).unwrap().kind, PageKind::Other);
    }
}

//! A reader of Thrift's compact protocol, in which Parquet metadata is encoded. It has what is
//! needed to check claims before the library reads the metadata. It allocates nothing, and its
//! recursion is bounded.

/// The rest of a message. Methods return `None` if the bytes end too early.
pub(crate) struct Compact<'a>(pub(crate) &'a [u8]);

/// The wire types. A Boolean field has no bytes: its type is its value.
pub(crate) const TRUE: u8 = 1;
pub(crate) const FALSE: u8 = 2;
const BYTE: u8 = 3;
pub(crate) const I16: u8 = 4;
pub(crate) const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
pub(crate) const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
pub(crate) const STRUCT: u8 = 12;

/// The maximum nesting of skipped structs, as in the library.
const MAX_SKIPPED_LEVELS: usize = 64;

impl Compact<'_> {
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// Reads a signed number.
    pub(crate) fn zigzag(&mut self) -> Option<i64> {
        let zigzag = self.varint()?;
        Some(((zigzag >> 1) as i64) ^ -((zigzag & 1) as i64))
    }

    /// Reads the header of the next field. Returns its type, 0 at the end of the struct, and stores
    /// its number in `id`.
    pub(crate) fn field(&mut self, id: &mut i64) -> Option<u8> {
        let header = self.byte()?;
        if header == 0 {
            return Some(0);
        }
        *id = match header >> 4 {
            0 => self.zigzag()?,
            delta => id.wrapping_add(i64::from(delta)),
        };
        Some(header & 0xf)
    }

    /// Reads the header of a list. Returns its length and the type of its elements.
    pub(crate) fn list(&mut self) -> Option<(u64, u8)> {
        let header = self.byte()?;
        let count = if header >> 4 == 15 { self.varint()? } else { u64::from(header >> 4) };
        Some((count, header & 0xf))
    }

    /// Skips a value of this type.
    pub(crate) fn skip(&mut self, kind: u8) -> Option<()> {
        self.skip_within(kind, MAX_SKIPPED_LEVELS)
    }

    fn skip_within(&mut self, kind: u8, levels: usize) -> Option<()> {
        let levels = levels.checked_sub(1)?;
        match kind {
            TRUE | FALSE => {}
            BYTE => _ = self.byte()?,
            I16..=I64 => _ = self.varint()?,
            DOUBLE => self.0 = self.0.get(8..)?,
            BINARY => {
                let length = usize::try_from(self.varint()?).ok()?;
                self.0 = self.0.get(length..)?;
            }
            LIST | SET => {
                let (count, element) = self.list()?;
                for _ in 0..count {
                    self.skip_element(element, levels)?;
                }
            }
            MAP => {
                let count = self.varint()?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                for _ in 0..count {
                    self.skip_element(kinds >> 4, levels)?;
                    self.skip_element(kinds & 0xf, levels)?;
                }
            }
            STRUCT => {
                let mut id = 0;
                loop {
                    match self.field(&mut id)? {
                        0 => break,
                        kind => self.skip_within(kind, levels)?,
                    }
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// Skips one element of a list or map. Every element takes at least one byte, so that a false
    /// length ends with the bytes.
    fn skip_element(&mut self, kind: u8, levels: usize) -> Option<()> {
        match kind {
            // A Boolean field has its value in its type, but a Boolean element takes one byte.
            TRUE | FALSE => self.byte().map(drop),
            kind => self.skip_within(kind, levels),
        }
    }
}

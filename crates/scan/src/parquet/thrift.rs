//! What a Parquet file says of itself is in Thrift's compact protocol. This reads just that much of it as is needed
//! to look at claims before the library believes them: without recursion that a file decides, without allocating.

/// What is left of a message in Thrift's compact protocol. Every method gives `None` where the bytes end early.
pub(super) struct Compact<'a>(pub(super) &'a [u8]);

/// Wire types that matter here. The type of a Boolean field is its value.
pub(super) const TRUE: u8 = 1;
pub(super) const FALSE: u8 = 2;
const BYTE: u8 = 3;
pub(super) const I16: u8 = 4;
pub(super) const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
pub(super) const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
pub(super) const STRUCT: u8 = 12;

/// Structs inside structs that are skipped, as many as the library does.
const SKIPPED_LEVELS: usize = 64;

impl Compact<'_> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn varint(&mut self) -> Option<u64> {
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

    /// A signed number.
    pub(super) fn zigzag(&mut self) -> Option<i64> {
        let zigzag = self.varint()?;
        Some(((zigzag >> 1) as i64) ^ -((zigzag & 1) as i64))
    }

    /// The type of the next field, 0 at the end of the struct; its number goes into `id`.
    pub(super) fn field(&mut self, id: &mut i64) -> Option<u8> {
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

    /// The length and the element type of a list.
    pub(super) fn list(&mut self) -> Option<(u64, u8)> {
        let header = self.byte()?;
        let count = if header >> 4 == 15 { self.varint()? } else { u64::from(header >> 4) };
        Some((count, header & 0xf))
    }

    /// Passes over a value of this type.
    pub(super) fn skip(&mut self, kind: u8) -> Option<()> {
        self.skip_within(kind, SKIPPED_LEVELS)
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

    /// Every element takes a byte at least, so that a length that is made up ends with the bytes.
    fn skip_element(&mut self, kind: u8, levels: usize) -> Option<()> {
        match kind {
            // The type of a field says its truth value, that of a list or map does not.
            TRUE | FALSE => self.byte().map(drop),
            kind => self.skip_within(kind, levels),
        }
    }
}

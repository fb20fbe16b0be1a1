//! How deep the columns of a Parquet file are nested, found out before the library looks.
//!
//! The library builds its schema by recursion, a level for a level. A footer of some megabytes can claim millions of
//! levels, and a stack that overflows takes the whole process with it. So the list of columns is counted through
//! first, which takes no recursion: each says how many of the next ones are inside it. What cannot be read here is
//! left for the library to refuse.

/// The deepest nesting that is read. Lists take three levels, maps four.
pub(crate) const LEVELS: usize = 200;

/// Whether the file that ends in `tail` nests its columns deeper than [`LEVELS`].
pub(crate) fn is_too_deep(tail: &[u8]) -> bool {
    let depth = || {
        let (rest, _) = tail.split_last_chunk::<4>()?;
        let (rest, length) = rest.split_last_chunk::<4>()?;
        let start = rest.len().checked_sub(u32::from_le_bytes(*length) as usize)?;
        Compact(rest.get(start..)?).depth()
    };
    depth().is_some_and(|depth| depth > LEVELS)
}

/// What is left of a message in Thrift's compact protocol.
struct Compact<'a>(&'a [u8]);

/// Wire types that matter here.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// Structs inside structs that are skipped.
const SKIPPED_LEVELS: usize = 16;

impl Compact<'_> {
    /// The deepest column of a FileMetaData, whose second field is the list of columns.
    fn depth(&mut self) -> Option<usize> {
        let mut id = 0;
        loop {
            match self.field(&mut id)? {
                LIST if id == 2 => break,
                kind => self.skip(kind, SKIPPED_LEVELS)?,
            }
        }
        let (count, STRUCT) = self.list()? else { return None };
        // How many columns are still to come inside each open one.
        let mut open: Vec<u64> = Vec::new();
        let mut deepest = 0;
        for _ in 0..count {
            let children = self.children()?;
            if let Some(left) = open.last_mut() {
                *left = left.saturating_sub(1);
            }
            if children > 0 {
                open.push(children);
                deepest = deepest.max(open.len());
                if deepest > LEVELS {
                    break;
                }
            }
            while open.last() == Some(&0) {
                open.pop();
            }
        }
        Some(deepest)
    }

    /// The fifth field of a SchemaElement: how many columns are inside it.
    fn children(&mut self) -> Option<u64> {
        let (mut id, mut children) = (0, 0);
        loop {
            match self.field(&mut id)? {
                0 => return Some(children),
                I16..=I64 if id == 5 => {
                    let zigzag = self.varint()?;
                    children = if zigzag & 1 == 0 { zigzag >> 1 } else { 0 };
                }
                kind => self.skip(kind, SKIPPED_LEVELS)?,
            }
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn varint(&mut self) -> Option<u64> {
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

    /// The type of the next field, 0 at the end of the struct; its number goes into `id`.
    fn field(&mut self, id: &mut i64) -> Option<u8> {
        let header = self.byte()?;
        if header == 0 {
            return Some(0);
        }
        *id = match header >> 4 {
            0 => {
                let zigzag = self.varint()?;
                ((zigzag >> 1) as i64) ^ -((zigzag & 1) as i64)
            }
            delta => id.wrapping_add(i64::from(delta)),
        };
        Some(header & 0xf)
    }

    /// The length and the element type of a list.
    fn list(&mut self) -> Option<(u64, u8)> {
        let header = self.byte()?;
        let count = if header >> 4 == 15 { self.varint()? } else { u64::from(header >> 4) };
        Some((count, header & 0xf))
    }

    fn skip(&mut self, kind: u8, levels: usize) -> Option<()> {
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
                        kind => self.skip(kind, levels)?,
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
            kind => self.skip(kind, levels),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ::parquet::arrow::ArrowWriter;
    use arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::Field;

    use super::*;

    /// A footer with one column inside the other, `levels` deep.
    fn chain(levels: usize) -> Vec<u8> {
        let mut footer = vec![0x15, 0x02, 0x19, 0xfc];
        let mut count = levels + 1;
        while count >= 0x80 {
            footer.push((count & 0x7f) as u8 | 0x80);
            count >>= 7;
        }
        footer.push(count as u8);
        for _ in 0..levels {
            // Name "a", one child.
            footer.extend([0x48, 0x01, b'a', 0x15, 0x02, 0x00]);
        }
        footer.extend([0x15, 0x02, 0x38, 0x01, b'b', 0x00]);
        let length = footer.len() as u32;
        footer.extend(length.to_le_bytes());
        footer.extend(b"PAR1");
        footer
    }

    #[test]
    fn levels_are_counted() {
        assert!(!is_too_deep(&chain(LEVELS)));
        assert!(is_too_deep(&chain(LEVELS + 1)));
        assert!(is_too_deep(&chain(1_000_000)));
        assert!(!is_too_deep(b"PAR1"));
        assert!(!is_too_deep(&[0xff; 64]));
        // A map of 2^63 pairs of truth values, in no bytes.
        let map = [0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x11];
        assert!(!is_too_deep(&[map.as_slice(), &11u32.to_le_bytes(), b"PAR1"].concat()));
    }

    #[test]
    fn real_footers_are_read() {
        let mut column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        for _ in 0..5 {
            let item = Arc::new(Field::new("item", column.data_type().clone(), true));
            column = Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([1, 1, 1]), column, None));
        }
        let batch =
            RecordBatch::try_from_iter([("l", column), ("i", Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef)]);
        let batch = batch.unwrap();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        let file = writer.into_inner().unwrap();
        let length = u32::from_le_bytes(*file[..file.len() - 4].last_chunk::<4>().unwrap()) as usize;
        let footer = &file[file.len() - 8 - length..file.len() - 8];
        // The root, and two levels for each list.
        assert_eq!(Compact(footer).depth(), Some(11));
    }
}

//! Reading the footer of a Parquet file, after checking its claims.
//!
//! The library builds the schema by recursion, and allocates memory for as many columns and row
//! groups as are claimed. A footer of some megabytes can claim millions of nested levels, and one
//! of some bytes billions of row groups; the stack overflow or failed allocation would abort the
//! process. Both are therefore counted first, without recursion or allocation.

use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::metadata::RowGroupMetaData;
use pushdowndb_contract::{Error, ErrorKind, Result};

use crate::io::reader::ObjectReader;
use crate::parquet::meta::thrift::{Compact, I16, I64, LIST, STRUCT};
use crate::runtime::memory::MemoryBudget;

/// The maximum nesting of groups in the schema of a file, including the root. A list takes two
/// levels.
const MAX_LEVELS: usize = 200;

/// The maximum number of columns, of row groups, and of column chunks. The library allocates some
/// hundred bytes for each of them.
const MAX_ELEMENTS: u64 = 1 << 20;

/// The number of bytes at the end of a file that are read first. Most footers fit into them.
const TAIL_BYTES: u64 = 64 * 1024;

/// The name of the footer in errors about memory.
pub(crate) const WHAT: &str = "the footer of a Parquet object";

/// The bytes in memory per byte of a footer. A number has one or two bytes in the file, and eight
/// in memory.
const EXPANSION: usize = 8;

/// Reads the footer of a Parquet object. Returns an error if it has more than `footer_bytes` bytes.
pub async fn parquet_metadata(reader: &dyn ObjectReader, footer_bytes: u64) -> Result<ParquetMetaData> {
    parquet_metadata_within(reader, footer_bytes, &MemoryBudget::unbounded()).await
}

/// Like [`parquet_metadata`], and reserves the footer's memory in `memory` while it is read.
pub(crate) async fn parquet_metadata_within(
    reader: &dyn ObjectReader,
    footer_bytes: u64,
    memory: &MemoryBudget,
) -> Result<ParquetMetaData> {
    let reserved = memory.empty();
    let (location, size) = (reader.location(), reader.size());
    let corrupt = |message: String| Error::new(ErrorKind::Corrupt, format!("{location}: {message}"));
    if size == 0 {
        return Err(corrupt("is empty, so it is no Parquet file".into()));
    }
    let mut tail = TAIL_BYTES.min(size);
    loop {
        let room = usize::try_from(tail).unwrap_or(usize::MAX).saturating_mul(EXPANSION);
        reserved.resize(room).map_err(|shortage| shortage.error(WHAT, "ParquetParsingError"))?;
        let bytes = reader.read_ranges(vec![size - tail..size]).await?.into_iter().next().unwrap_or_default();
        match footer(&bytes).map(|footer| Compact(footer).claims()) {
            Some(Some(Claims { depth, .. })) if depth > MAX_LEVELS => {
                let message = format!("{location}: its columns are nested deeper than {MAX_LEVELS} levels");
                return Err(Error::new(ErrorKind::Limit, message).with_code("UnsupportedParquetType"));
            }
            Some(Some(Claims { possible: false, .. })) => {
                let message = format!("{location}: its footer claims more columns or row groups than are read");
                return Err(Error::new(ErrorKind::Limit, message).with_code("ParquetParsingError"));
            }
            Some(None) => return Err(corrupt("is no complete Parquet file: its footer cannot be read".into())),
            Some(Some(_)) | None => {}
        }
        let mut parser = ParquetMetaDataReader::new();
        match parser.try_parse_sized(&bytes, size).and_then(|()| parser.finish()) {
            Ok(metadata) => return Ok(metadata),
            Err(ParquetError::NeedMoreData(needed)) if tail < needed as u64 && needed as u64 <= size => {
                if needed as u64 > footer_bytes {
                    let message = format!("{location}: its footer has {needed} bytes, at most {footer_bytes} are read");
                    return Err(Error::new(ErrorKind::Limit, message).with_code("ParquetParsingError"));
                }
                tail = needed as u64;
            }
            Err(error) => {
                let why = if bytes.ends_with(b"PAR1") { "its footer cannot be read" } else { "it does not end as one" };
                return Err(corrupt(format!("is no complete Parquet file: {why}")).with_source(error));
            }
        }
    }
}

/// Returns the footer of the file that ends with `tail`; `None` if `tail` does not include all of
/// it.
fn footer(tail: &[u8]) -> Option<&[u8]> {
    let rest = tail.strip_suffix(b"PAR1")?;
    let (rest, length) = rest.split_last_chunk::<4>()?;
    let start = rest.len().checked_sub(u32::from_le_bytes(*length) as usize)?;
    rest.get(start..)
}

#[derive(Debug, PartialEq)]
struct Claims {
    /// The nesting of the deepest column.
    depth: usize,
    /// False if the claimed columns and row groups cannot exist: each takes at least one byte, and
    /// there may be at most [`MAX_ELEMENTS`].
    possible: bool,
}

impl Compact<'_> {
    /// Reads the claims of a FileMetaData message. Its second field is the list of columns, and its
    /// fourth the list of row groups.
    fn claims(&mut self) -> Option<Claims> {
        let mut claims = Claims { depth: 0, possible: true };
        let mut id = 0;
        loop {
            match self.field(&mut id)? {
                0 => return Some(claims),
                LIST if id == 2 => match self.columns()? {
                    Claims { depth, possible: true } if depth <= MAX_LEVELS => claims.depth = claims.depth.max(depth),
                    refused => return Some(refused),
                },
                LIST if id == 4 && !self.row_groups()? => return Some(Claims { possible: false, ..claims }),
                LIST if id == 4 => {}
                kind => self.skip(kind)?,
            }
        }
    }

    /// Skips a list of RowGroup messages, whose first field is the list of their column chunks.
    /// Returns whether the lists can be as long as they claim.
    fn row_groups(&mut self) -> Option<bool> {
        let (groups, STRUCT) = self.list()? else { return None };
        if !self.can_hold(groups) {
            return Some(false);
        }
        let mut all = 0;
        for _ in 0..groups {
            let mut id = 0;
            loop {
                match self.field(&mut id)? {
                    0 => break,
                    LIST if id == 1 => {
                        let (chunks, _) = Compact(self.0).list()?;
                        all += chunks;
                        if !self.can_hold(chunks) || all > MAX_ELEMENTS {
                            return Some(false);
                        }
                        self.skip(LIST)?;
                    }
                    kind => self.skip(kind)?,
                }
            }
        }
        Some(true)
    }

    fn can_hold(&self, elements: u64) -> bool {
        elements <= MAX_ELEMENTS.min(self.0.len() as u64)
    }

    /// Reads the claims of a list of columns. Each column states how many of the following ones are
    /// nested in it.
    fn columns(&mut self) -> Option<Claims> {
        let (count, STRUCT) = self.list()? else { return None };
        let mut claims = Claims { depth: 0, possible: self.can_hold(count) };
        // For each open column, the number of nested columns that are still to come.
        let mut open: Vec<u64> = Vec::new();
        for column in 0..if claims.possible { count } else { 0 } {
            let children = self.children()?;
            claims.possible &= children <= count - column;
            if let Some(left) = open.last_mut() {
                *left = left.saturating_sub(1);
            }
            if children > 0 {
                open.push(children);
                claims.depth = claims.depth.max(open.len());
            }
            if claims.depth > MAX_LEVELS || !claims.possible {
                break;
            }
            while open.last() == Some(&0) {
                open.pop();
            }
        }
        Some(claims)
    }

    /// Returns the fifth field of a SchemaElement message: the number of columns nested in it.
    fn children(&mut self) -> Option<u64> {
        let (mut id, mut children) = (0, 0);
        loop {
            match self.field(&mut id)? {
                0 => return Some(children),
                I16..=I64 if id == 5 => children = u64::try_from(self.zigzag()?).unwrap_or(0),
                kind => self.skip(kind)?,
            }
        }
    }
}

/// Returns the offset of a row group in the file: the first byte of its first column chunk.
pub(crate) fn first_byte(group: &RowGroupMetaData) -> Option<u64> {
    let column = group.columns().first()?;
    let first = column.dictionary_page_offset().filter(|at| *at > 0).unwrap_or_else(|| column.data_page_offset());
    u64::try_from(first.min(column.data_page_offset())).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ::parquet::arrow::ArrowWriter;
    use arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::Field;

    use super::*;

    /// Returns a footer in which each column contains the next one, `levels` deep.
    fn chain(levels: usize) -> Vec<u8> {
        let mut footer = vec![0x15, 0x02, 0x19, 0xfc];
        let mut count = levels + 1;
        while count >= 0x80 {
            footer.push((count & 0x7f) as u8 | 0x80);
            count >>= 7;
        }
        footer.push(count as u8);
        for _ in 0..levels {
            // The name "a", one child.
            footer.extend([0x48, 0x01, b'a', 0x15, 0x02, 0x00]);
        }
        footer.extend([0x15, 0x02, 0x38, 0x01, b'b', 0x00, 0x00]);
        let length = footer.len() as u32;
        footer.extend(length.to_le_bytes());
        footer.extend(b"PAR1");
        footer
    }

    fn claims(tail: &[u8]) -> Option<Claims> {
        Compact(footer(tail)?).claims()
    }

    fn too_deep(tail: &[u8]) -> bool {
        claims(tail).is_some_and(|claims| claims.depth > MAX_LEVELS)
    }

    #[test]
    fn what_cannot_be_there_is_refused() {
        let ended = |message: &[u8]| [message, &(message.len() as u32).to_le_bytes(), b"PAR1"].concat();
        // 2^31 - 1 row groups in a few bytes.
        let groups = ended(&[0x49, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0x00, 0x00]);
        assert_eq!(claims(&groups), Some(Claims { depth: 0, possible: false }));
        // One column that claims to contain 2^30 others.
        let columns = ended(&[0x29, 0x1c, 0x48, 0x01, b'a', 0x15, 0x80, 0x80, 0x80, 0x80, 0x08, 0x00, 0x00]);
        assert_eq!(claims(&columns), Some(Claims { depth: 1, possible: false }));
    }

    #[test]
    fn levels_are_counted() {
        assert!(!too_deep(&chain(MAX_LEVELS)));
        assert!(too_deep(&chain(MAX_LEVELS + 1)));
        assert!(too_deep(&chain(1_000_000)));
        assert!(!too_deep(b"PAR1"));
        assert!(!too_deep(&[0xff; 64]));
        // A map of 2^63 pairs of truth values, which take no bytes.
        let map = [0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x11];
        assert!(!too_deep(&[map.as_slice(), &11u32.to_le_bytes(), b"PAR1"].concat()));
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
        // The root has one level, and each list has two.
        assert_eq!(claims(&file), Some(Claims { depth: 11, possible: true }));
    }
}

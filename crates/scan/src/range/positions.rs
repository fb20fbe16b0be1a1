//! Positions of records, and reading the records at given positions.
//!
//! An index is built from positions ([`ScanRange::WithPositions`](crate::ScanRange::WithPositions))
//! and looked up by reading parts of the object
//! ([`ScanRange::Records`](crate::ScanRange::Records)).
//!
//! A position is two numbers. For text, they are the first and the last byte of a record,
//! inclusive, without its line end (PushdownDB, Section IV-A). For Parquet, both are the row
//! number, counted from 0.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use pushdowndb_contract::{Error, Result};

use crate::io::reader::ObjectReader;

/// The names of the two columns of a position.
pub const POSITION_COLUMNS: [&str; 2] = ["first", "last"];

/// The maximum size of the parts that are fetched together, unless a single part is larger.
const MAX_FETCH_BYTES: u64 = 4 * 1024 * 1024;

/// Maximum number of parts that are fetched together.
const MAX_FETCH_PARTS: usize = 256;

/// Positions of the rows of a batch.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    first: Vec<i64>,
    last: Vec<i64>,
}

impl Positions {
    /// Adds a record with these bytes, or the row with the number `place.start`.
    pub(crate) fn push(&mut self, place: Range<u64>) {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.first.push(number(place.start));
        self.last.push(number(place.end.saturating_sub(1).max(place.start)));
    }

    /// Returns the two columns of positions, and clears them.
    pub(crate) fn take(&mut self) -> [ArrayRef; 2] {
        [&mut self.first, &mut self.last].map(|all| Arc::new(Int64Array::from(std::mem::take(all))) as ArrayRef)
    }
}

/// Returns `schema` with the two columns of a position appended.
pub fn with_positions(schema: &SchemaRef) -> SchemaRef {
    let position = POSITION_COLUMNS.map(|name| Arc::new(Field::new(name, DataType::Int64, false)));
    Arc::new(Schema::new(schema.fields().iter().cloned().chain(position).collect::<Vec<_>>()))
}

/// Merges parts that touch or overlap.
pub(crate) fn joined(parts: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted: Vec<Range<u64>> = parts.iter().filter(|part| !part.is_empty()).cloned().collect();
    sorted.sort_unstable_by_key(|part| (part.start, part.end));
    let mut all: Vec<Range<u64>> = Vec::with_capacity(sorted.len());
    for part in sorted {
        match all.last_mut() {
            Some(last) if part.start <= last.end => last.end = last.end.max(part.end),
            _ => all.push(part),
        }
    }
    all
}

/// Reads the parts of a text object, a few at a time.
#[derive(Debug)]
pub(crate) struct Parts {
    reader: Arc<dyn ObjectReader>,
    waiting: VecDeque<Range<u64>>,
    fetched: VecDeque<(u64, Bytes)>,
}

impl Parts {
    pub(crate) fn new(reader: Arc<dyn ObjectReader>, parts: &[Range<u64>]) -> Self {
        Self {
            reader,
            waiting: parts.iter().filter(|part| !part.is_empty()).cloned().collect(),
            fetched: VecDeque::new(),
        }
    }

    /// Returns the next part with its offset.
    pub(crate) async fn next(&mut self) -> Result<Option<(u64, Bytes)>> {
        if self.fetched.is_empty() {
            let mut bytes = 0;
            let mut together = Vec::new();
            while let Some(part) =
                self.waiting.pop_front_if(|_| bytes < MAX_FETCH_BYTES && together.len() < MAX_FETCH_PARTS)
            {
                bytes += part.end - part.start;
                together.push(part);
            }
            let size = self.reader.size();
            if let Some(bad) = together.iter().find(|part| part.end > size) {
                let location = self.reader.location();
                return Err(Error::invalid(format!("{location}: bytes {bad:?} lie outside its {size} bytes")));
            }
            if !together.is_empty() {
                let pieces = self.reader.read_ranges(together.clone()).await?;
                self.fetched = together.into_iter().map(|part| part.start).zip(pieces).collect();
            }
        }
        Ok(self.fetched.pop_front())
    }
}

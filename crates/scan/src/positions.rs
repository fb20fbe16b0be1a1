//! Where records lie in their object, and reading the records at known places.
//!
//! An index is built from positions and looked up through parts: [`crate::Extent::Positions`] says where each record lies,
//! [`crate::Extent::Parts`] reads the records of some parts of the object and nothing else of it.
//!
//! A position is two numbers: of text the first and the last byte of a record, both included, without its line end
//! (PushdownDB, Section IV-A); of Parquet the number of the row from 0, twice.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use pushdown::{Error, Result};

use crate::ObjectReader;

/// The names of the two columns of a position.
pub const POSITION_COLUMNS: [&str; 2] = ["first", "last"];

/// Parts are fetched together until they have so many bytes, and at least one at a time.
const FETCH_BYTES: u64 = 4 * 1024 * 1024;

/// The most parts that are fetched together.
const FETCH_PARTS: usize = 256;

/// Positions on their way to a batch.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    first: Vec<i64>,
    last: Vec<i64>,
}

impl Positions {
    /// A record of these bytes, or a row of this number if the range is of one.
    pub(crate) fn push(&mut self, place: Range<u64>) {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.first.push(number(place.start));
        self.last.push(number(place.end.saturating_sub(1).max(place.start)));
    }

    /// The two columns, leaving none behind.
    pub(crate) fn take(&mut self) -> [ArrayRef; 2] {
        [&mut self.first, &mut self.last].map(|all| Arc::new(Int64Array::from(std::mem::take(all))) as ArrayRef)
    }
}

/// The schema with the two columns of a position at its end.
pub fn with_positions(schema: &SchemaRef) -> SchemaRef {
    let position = POSITION_COLUMNS.map(|name| Arc::new(Field::new(name, DataType::Int64, false)));
    Arc::new(Schema::new(schema.fields().iter().cloned().chain(position).collect::<Vec<_>>()))
}

/// Ascending parts of which none touch.
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

/// Parts of a text object, fetched some at a time.
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

    /// The next part and where it begins.
    pub(crate) async fn next(&mut self) -> Result<Option<(u64, Bytes)>> {
        if self.fetched.is_empty() {
            let mut bytes = 0;
            let mut together = Vec::new();
            while let Some(part) = self.waiting.pop_front_if(|_| bytes < FETCH_BYTES && together.len() < FETCH_PARTS) {
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

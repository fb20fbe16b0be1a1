//! An object that is already in memory, for tests and small results.

use std::ops::Range;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, stream};
use pushdown::{Error, Result};

use crate::ObjectReader;

/// An object that is already in memory.
#[derive(Clone, Debug)]
pub struct InMemory {
    location: String,
    bytes: Bytes,
    piece_bytes: usize,
}

impl InMemory {
    /// These bytes, called `location` in messages.
    pub fn new(location: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        Self { location: location.into(), bytes: bytes.into(), piece_bytes: 64 * 1024 }
    }

    /// Hands out streams in pieces of this many bytes.
    #[must_use]
    pub fn with_piece_bytes(self, piece_bytes: usize) -> Self {
        Self { piece_bytes: piece_bytes.max(1), ..self }
    }

    fn slice(&self, range: &Range<u64>) -> Result<Bytes> {
        let bounds = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        match bounds.filter(|(start, end)| start <= end && *end <= self.bytes.len()) {
            Some((start, end)) => Ok(self.bytes.slice(start..end)),
            None => Err(Error::internal(format!("{}: bytes {range:?} are not in the object", self.location))),
        }
    }
}

impl ObjectReader for InMemory {
    fn location(&self) -> &str {
        &self.location
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn stream(&self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        let piece_bytes = self.piece_bytes;
        let mut rest = match self.slice(&range) {
            Ok(bytes) => bytes,
            Err(error) => return stream::once(async { Err(error) }).boxed(),
        };
        stream::iter(std::iter::from_fn(move || {
            (!rest.is_empty()).then(|| Ok(rest.split_to(piece_bytes.min(rest.len()))))
        }))
        .boxed()
    }

    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, Result<Vec<Bytes>>> {
        let all: Result<Vec<_>> = ranges.iter().map(|range| self.slice(range)).collect();
        async { all }.boxed()
    }
}

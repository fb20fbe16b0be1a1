//! Objects in memory, for tests and small results.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, stream};
use pushdowndb_contract::{Error, Result};

use crate::io::reader::{ObjectReader, ReadAtHand};

/// An object in memory.
#[derive(Clone, Debug)]
pub struct InMemory {
    location: String,
    bytes: Bytes,
    piece_bytes: usize,
    at_hand: bool,
}

impl InMemory {
    /// Wraps `bytes`. Errors refer to them as `location`.
    pub fn new(location: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        Self { location: location.into(), bytes: bytes.into(), piece_bytes: 64 * 1024, at_hand: false }
    }

    /// Makes streams return pieces of `piece_bytes`.
    #[must_use]
    pub fn with_piece_bytes(self, piece_bytes: usize) -> Self {
        Self { piece_bytes: piece_bytes.max(1), ..self }
    }

    /// Allows piecewise reads without waiting, as for a cached file.
    #[must_use]
    pub fn like_a_cached_file(self) -> Self {
        Self { at_hand: true, ..self }
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

    fn at_hand(&self, _: &[Range<u64>]) -> Option<ReadAtHand> {
        let object = self.clone();
        let read = move |at: u64, bytes: &mut [u8]| {
            let found = object.slice(&(at..at.saturating_add(bytes.len() as u64)))?;
            bytes.copy_from_slice(&found);
            Ok(())
        };
        self.at_hand.then(|| Arc::new(read) as ReadAtHand)
    }
}

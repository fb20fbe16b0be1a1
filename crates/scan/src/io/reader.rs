//! The trait that objects are read through.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use pushdowndb_contract::Result;

/// Fills a buffer with the bytes at an offset of an object, see [`ObjectReader::at_hand`].
pub type ReadAtHand = Arc<dyn Fn(u64, &mut [u8]) -> Result<()> + Send + Sync>;

/// One version of an object: every read sees the version that was opened, or fails.
pub trait ObjectReader: fmt::Debug + Send + Sync + 'static {
    /// The object's address, for messages.
    fn location(&self) -> &str;

    /// Size in bytes.
    fn size(&self) -> u64;

    /// Returns the bytes of `range`, which lies within the object, in order and in pieces as they
    /// arrive.
    fn stream(&self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>>;

    /// Returns the bytes of several ranges, in the order of `ranges`.
    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, Result<Vec<Bytes>>>;

    /// Bytes that take no longer to read along than another request would take.
    fn bytes_per_request(&self) -> u64 {
        0
    }

    /// Returns a function that reads these ranges piece by piece without waiting, if they are known
    /// to be cached. It is used instead of `read_ranges` for the bytes that are needed, and waits
    /// if a byte is not cached after all.
    fn at_hand(&self, ranges: &[Range<u64>]) -> Option<ReadAtHand> {
        let _ = ranges;
        None
    }
}

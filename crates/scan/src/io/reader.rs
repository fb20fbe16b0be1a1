//! The trait through which objects are read.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use pushdowndb_contract::Result;

/// A function that fills a buffer with the bytes at an offset of an object, see
/// [`ObjectReader::at_hand`].
pub type ReadAtHand = Arc<dyn Fn(u64, &mut [u8]) -> Result<()> + Send + Sync>;

/// One version of an object. Every read returns bytes of the version that was opened, or fails.
pub trait ObjectReader: fmt::Debug + Send + Sync + 'static {
    /// Returns the object's address, for errors.
    fn location(&self) -> &str;

    /// Returns the size in bytes.
    fn size(&self) -> u64;

    /// Streams the bytes of `range` in order, in pieces as they arrive. Expects `range` to lie
    /// within the object.
    fn stream(&self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>>;

    /// Returns the bytes of several ranges, in the order of `ranges`.
    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, Result<Vec<Bytes>>>;

    /// Returns how many unneeded bytes may be read in the time that an additional request would
    /// take.
    fn bytes_per_request(&self) -> u64 {
        0
    }

    /// Returns a function that reads these ranges piece by piece without waiting; `None` unless
    /// they are known to be cached. It is used instead of `read_ranges`, for only the bytes that
    /// are needed. If a byte is not cached after all, the function waits.
    fn at_hand(&self, ranges: &[Range<u64>]) -> Option<ReadAtHand> {
        let _ = ranges;
        None
    }
}

//! Where the bytes of an object come from.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use pushdown::Result;

/// Fills a buffer with what lies at a place of an object that is at hand ([`ObjectReader::at_hand`]).
pub type ReadAtHand = Arc<dyn Fn(u64, &mut [u8]) -> Result<()> + Send + Sync>;

/// One object, as it was when it was opened: every read sees the same version or fails.
pub trait ObjectReader: fmt::Debug + Send + Sync + 'static {
    /// The object's address, for messages.
    fn location(&self) -> &str;

    /// Its size in bytes.
    fn size(&self) -> u64;

    /// The bytes of `range` in order, in pieces as they arrive. The range lies within the object.
    fn stream(&self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>>;

    /// Several ranges at once, in the order asked for.
    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, Result<Vec<Bytes>>>;

    /// How to read these ranges bit by bit, if that need not be waited for, as far as is known: whoever reads so does it in
    /// place of `read_ranges`, where it is needed, and waits if it must.
    fn at_hand(&self, ranges: &[Range<u64>]) -> Option<ReadAtHand> {
        let _ = ranges;
        None
    }
}

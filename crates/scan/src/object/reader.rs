//! Where the bytes of an object come from.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use pushdown::Result;

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
}

//! Ranges of objects on servers that send objects only whole, as small web servers do.

use std::ops::Range;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{Error, GetOptions, GetResult, ObjectStore};

/// Maximum bytes before a range that are read and discarded.
const MAX_SKIPPED_BYTES: u64 = 256 * 1024 * 1024;

/// Reads `range` of an object. If the server does not support ranges, reads the whole object and
/// also returns the range that [`bytes()`] cuts out of it.
///
/// # Errors
///
/// Returns an error if the range begins so late that too many bytes would be discarded.
pub(crate) async fn get(
    store: &dyn ObjectStore,
    path: &Path,
    range: Range<u64>,
    options: GetOptions,
) -> object_store::Result<(GetResult, Option<Range<u64>>)> {
    let ranged = GetOptions { range: Some(range.clone().into()), ..options.clone() };
    match store.get_opts(path, ranged).await {
        Err(Error::NotSupported { source }) if range.start > MAX_SKIPPED_BYTES => Err(Error::NotSupported { source }),
        Err(Error::NotSupported { .. }) => Ok((store.get_opts(path, options).await?, Some(range))),
        found => found.map(|found| (found, None)),
    }
}

/// Returns the bytes of an answer of [`get`], as they arrive.
pub(crate) fn bytes((found, cut): (GetResult, Option<Range<u64>>)) -> BoxStream<'static, object_store::Result<Bytes>> {
    let pieces = found.into_stream();
    let Some(range) = cut else { return pieces };
    let cut = stream::try_unfold((pieces, 0_u64), move |(mut pieces, mut at)| {
        let range = range.clone();
        async move {
            while at < range.end {
                let Some(piece) = pieces.try_next().await? else { break };
                let (start, end) = (at, at + piece.len() as u64);
                at = end;
                let inside = |offset: u64| usize::try_from(offset.clamp(start, end) - start).unwrap_or(piece.len());
                let wanted = piece.slice(inside(range.start)..inside(range.end));
                if !wanted.is_empty() {
                    return Ok(Some((wanted, (pieces, at))));
                }
            }
            Ok(None)
        }
    });
    cut.boxed()
}

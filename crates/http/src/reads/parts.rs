//! Reading a range in parts, several at the same time.

use std::collections::VecDeque;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures::future::{BoxFuture, select_ok, try_join_all};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use tokio::task::JoinHandle;

use super::{PART_BYTES, ReadLimit};

/// The size of the first part of a long stream, in bytes. It is small because the consumer may stop
/// early.
const FIRST_PART_BYTES: u64 = 1024 * 1024;

/// One version of an object, of which several ranges can be read at the same time. Clones read the
/// same version.
pub trait RangeSource: Clone + Send + Sync + Unpin + 'static {
    /// The error of a failed read.
    type Error: Send + 'static;

    /// Reads all bytes of `range`.
    fn read(&self, range: Range<u64>) -> BoxFuture<'static, Result<Bytes, Self::Error>>;

    /// Converts `cause` into an error: the task of a read panicked or was aborted.
    fn ended(&self, cause: tokio::task::JoinError) -> Self::Error;
}

/// Reads all bytes of `range` of `source`, in parts of about equal size that are fetched at the
/// same time, each with a permit of `limit`.
///
/// # Errors
///
/// Returns the error of the first part that fails; the other parts are aborted.
pub async fn whole<S: RangeSource>(source: &S, limit: &Arc<ReadLimit>, range: Range<u64>) -> Result<Bytes, S::Error> {
    let parts = cut(range).into_iter().map(|part| Part::fetch(source, limit, part));
    let mut fetched = try_join_all(parts).await?;
    if fetched.len() < 2 {
        return Ok(fetched.pop().unwrap_or_default());
    }
    let mut whole = BytesMut::with_capacity(fetched.iter().map(Bytes::len).sum());
    fetched.iter().for_each(|part| whole.extend_from_slice(part));
    Ok(whole.freeze())
}

/// Streams `range` of `source` in order, as parts that are read ahead, each with a permit of
/// `limit`.
///
/// The number of parts read ahead starts at zero (at one if there are at most two parts) and grows
/// by one with each consumed part, up to `most_ahead`, so that little is read in vain if the
/// consumer stops early. The stream ends after the first error.
pub fn in_order<S: RangeSource>(
    source: S,
    limit: Arc<ReadLimit>,
    range: Range<u64>,
    most_ahead: usize,
) -> BoxStream<'static, Result<Bytes, S::Error>> {
    let mut parts: VecDeque<_> = match range.end.saturating_sub(range.start) {
        0 => VecDeque::new(),
        length if length > 2 * PART_BYTES => {
            let first = range.start + FIRST_PART_BYTES;
            std::iter::once(range.start..first).chain(cut(first..range.end)).collect()
        }
        _ => cut(range).into(),
    };
    let mut ahead = if parts.len() > 2 { 0 } else { most_ahead.min(1) };
    let mut begun = VecDeque::new();
    stream::poll_fn(move |context| {
        while begun.len() <= ahead
            && let Some(part) = parts.pop_front()
        {
            begun.push_back(Part::fetch(&source, &limit, part));
        }
        let Some(next) = begun.front_mut() else { return Poll::Ready(None) };
        let fetched = ready!(next.poll_unpin(context));
        begun.pop_front();
        ahead = (ahead + 1).min(most_ahead);
        if fetched.is_err() {
            begun.clear();
            parts.clear();
        }
        Poll::Ready(Some(fetched))
    })
    .boxed()
}

/// The maximum size of a part, in bytes.
pub const MAX_PART_BYTES: u64 = PART_BYTES / 2 * 3;

/// Cuts `range` into parts of about equal size, each of at most [`MAX_PART_BYTES`].
fn cut(range: Range<u64>) -> Vec<Range<u64>> {
    let length = range.end.saturating_sub(range.start);
    let count = ((length + PART_BYTES / 2) / PART_BYTES).max(1);
    let bound = |part: u64| range.start + (u128::from(length) * u128::from(part) / u128::from(count)) as u64;
    (0..count).map(|part| bound(part)..bound(part + 1)).collect()
}

/// Reads `range` of `source`, and sends the read a second time if the first one takes much longer
/// than others did, since some requests to an object store are slow whatever they read. Returns the
/// first successful response.
async fn hedged<S: RangeSource>(source: &S, limit: &ReadLimit, range: Range<u64>) -> Result<Bytes, S::Error> {
    let mut first = source.read(range.clone());
    let Some(patience) = limit.patience() else { return first.await };
    match tokio::time::timeout(patience, &mut first).await {
        Ok(fetched) => fetched,
        Err(_) if !limit.take_hedge() => first.await,
        Err(_) => Ok(select_ok([first, source.read(range)]).await?.0),
    }
}

/// A part that a task of its own fetches, even while the part is not polled, so that a slow
/// consumer does not hold a permit. Dropping it aborts the task.
struct Part<S: RangeSource> {
    source: S,
    task: JoinHandle<Result<Bytes, S::Error>>,
}

impl<S: RangeSource> Part<S> {
    fn fetch(source: &S, limit: &Arc<ReadLimit>, range: Range<u64>) -> Self {
        let (own, limit) = (source.clone(), Arc::clone(limit));
        let task = tokio::spawn(async move {
            let slot = limit.slot().await;
            let fetched = hedged(&own, &limit, range).await?;
            slot.done(fetched.len() as u64);
            Ok(fetched)
        });
        Self { source: source.clone(), task }
    }
}

impl<S: RangeSource> Future for Part<S> {
    type Output = Result<Bytes, S::Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let joined = ready!(Pin::new(&mut self.task).poll(context));
        Poll::Ready(joined.unwrap_or_else(|cause| Err(self.source.ended(cause))))
    }
}

impl<S: RangeSource> Drop for Part<S> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_range_once() {
        for length in [0, 1, PART_BYTES, PART_BYTES * 3 / 2, PART_BYTES * 3 / 2 + 1, 100 * PART_BYTES + 7] {
            let parts = cut(10..10 + length);
            assert_eq!((parts[0].start, parts[parts.len() - 1].end), (10, 10 + length));
            assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert!(parts.iter().all(|part| part.end - part.start <= PART_BYTES * 3 / 2 + 1), "{parts:?}");
        }
    }
}

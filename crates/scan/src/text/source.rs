//! The text of an object as a stream, decompressed, starting at an offset.
//!
//! Compressed text is decompressed by a background task, a few pieces in advance. If it has
//! [parts](crate::text::splitter), several tasks decompress one part each.

use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_compression::tokio::bufread::BzDecoder;
use bytes::Bytes;
use futures::future::ready;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use pushdowndb_contract::{Compression, Error, ErrorKind, Result};
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tokio_util::io::{ReaderStream, StreamReader};

use crate::counters::ScanCounters;
use crate::io::reader::ObjectReader;
use crate::limits::OVERSHOOT_BYTES;
use crate::runtime::interrupt::check_interrupt;
use crate::runtime::memory::{MemoryBudget, Shortage};
use crate::runtime::spawner::{Spawner, share_last_task};
use crate::text::rewrite::Rewriter;
use crate::text::splitter::Parted;
use crate::text::stage::Stage;

/// The maximum size of a piece of decompressed text, in bytes.
const MAX_PIECE_BYTES: usize = 256 * 1024;

/// The maximum number of decompressed pieces that wait.
const MAX_QUEUED_PIECES: usize = 4;

/// The same for each part. Most parts are decompressed completely while earlier parts are scanned.
const MAX_QUEUED_PIECES_PER_PART: usize = 16;

/// The maximum number of parts that wait, in addition to one being scanned and one being queued.
const MAX_QUEUED_PARTS: usize = 1;

/// A stream of text.
pub(crate) struct TextSource {
    reader: Arc<dyn ObjectReader>,
    pieces: BoxStream<'static, Result<Bytes>>,
    /// The offset in the object after the bytes of `pieces`.
    next: u64,
    /// The number of bytes to request next.
    step: u64,
}

impl TextSource {
    /// Streams the bytes of `range`, followed, on request, by the rest of the object.
    pub(crate) fn plain(reader: Arc<dyn ObjectReader>, range: Range<u64>) -> Self {
        let size = reader.size();
        let end = if range.end >= size { size } else { range.end.saturating_add(OVERSHOOT_BYTES).min(size) };
        let start = range.start.min(end);
        let pieces = if start < end { reader.stream(start..end) } else { stream::empty().boxed() };
        Self { reader, pieces, next: end, step: OVERSHOOT_BYTES * 4 }
    }

    /// Wraps text that was already read.
    pub(crate) fn read(reader: Arc<dyn ObjectReader>, text: Bytes) -> Self {
        let next = reader.size();
        Self { reader, pieces: stream::once(async { Ok(text) }).boxed(), next, step: 0 }
    }

    /// Streams all text of a compressed object. Counts the compressed bytes that it reads.
    pub(crate) fn compressed(
        reader: Arc<dyn ObjectReader>,
        compression: Compression,
        counters: Arc<ScanCounters>,
        spawner: Spawner,
        memory: &MemoryBudget,
    ) -> Self {
        let size = reader.size();
        if size == 0 {
            return Self { reader, pieces: stream::empty().boxed(), next: 0, step: 0 };
        }
        let scanned = Arc::clone(&counters);
        let bytes = reader
            .stream(0..size)
            .and_then(move |piece| {
                scanned.bytes_scanned.fetch_add(piece.len() as u64, Ordering::Relaxed);
                // Many bytes may decompress to no text at all.
                ready(check_interrupt().map(|()| piece))
            })
            .map_err(std::io::Error::other)
            .boxed();
        let location = reader.location().to_owned();
        let pieces = match compression {
            Compression::None => ahead(text(StreamReader::new(bytes), "", location), spawner),
            Compression::Bzip2 => {
                let mut decoder = BzDecoder::new(StreamReader::new(bytes));
                decoder.multiple_members(true);
                ahead(text(decoder, "bzip2", location), spawner)
            }
            Compression::Gzip => in_parts(bytes, Parted::Gzip, "gzip", location, spawner, memory.clone()),
            Compression::Zstd => in_parts(bytes, Parted::Zstd, "zstd", location, spawner, memory.clone()),
        };
        let pieces = pieces.inspect_ok(move |piece: &Bytes| {
            counters.bytes_processed.fetch_add(piece.len() as u64, Ordering::Relaxed);
        });
        Self { reader, pieces: pieces.boxed(), next: size, step: 0 }
    }

    /// Rewrites the delimiters of the text. If the text is not compressed, `counters` count the
    /// bytes that belong to the range.
    pub(crate) fn rewritten(self, rewriter: Rewriter, counters: Option<Arc<ScanCounters>>) -> Self {
        let (reader, next) = (Arc::clone(&self.reader), self.reader.size());
        let pieces = stream::try_unfold(Some((self, rewriter, counters)), |state| async move {
            let Some((mut source, mut rewriter, counters)) = state else { return Ok(None) };
            loop {
                check_interrupt()?;
                let piece = if rewriter.is_done() { None } else { source.next().await? };
                let before = rewriter.scanned();
                let (text, last) = match piece {
                    Some(piece) => (rewriter.feed(&piece)?, false),
                    None => (rewriter.finish()?, true),
                };
                if let Some(counters) = &counters {
                    let scanned = rewriter.scanned() - before;
                    counters.bytes_scanned.fetch_add(scanned, Ordering::Relaxed);
                    counters.bytes_processed.fetch_add(scanned, Ordering::Relaxed);
                }
                if last {
                    return Ok((!text.is_empty()).then_some((text, None)));
                }
                if !text.is_empty() {
                    return Ok(Some((text, Some((source, rewriter, counters)))));
                }
            }
        });
        Self { reader, pieces: pieces.boxed(), next, step: 0 }
    }

    /// Translates the text by `stage`. `counters` count the bytes before translation.
    pub(crate) fn translated(self, stage: Box<dyn Stage>, counters: Option<Arc<ScanCounters>>) -> Self {
        let (reader, next) = (Arc::clone(&self.reader), self.reader.size());
        let pieces = stream::try_unfold(Some((self, stage, counters)), |state| async move {
            let Some((mut source, mut stage, counters)) = state else { return Ok(None) };
            loop {
                check_interrupt()?;
                let Some(piece) = source.next().await? else {
                    let text = stage.finish()?;
                    return Ok((!text.is_empty()).then_some((text, None)));
                };
                if let Some(counters) = &counters {
                    counters.bytes_scanned.fetch_add(piece.len() as u64, Ordering::Relaxed);
                    counters.bytes_processed.fetch_add(piece.len() as u64, Ordering::Relaxed);
                }
                let text = stage.feed(&piece)?;
                if !text.is_empty() {
                    return Ok(Some((text, Some((source, stage, counters)))));
                }
            }
        });
        Self { reader, pieces: pieces.boxed(), next, step: 0 }
    }

    /// Returns the next piece; `None` at the end of the object.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            check_interrupt()?;
            if let Some(piece) = self.pieces.next().await {
                return piece.map(Some);
            }
            let end = self.next.saturating_add(self.step).min(self.reader.size());
            if self.next >= end {
                return Ok(None);
            }
            // A record extends far beyond the range, so larger and larger pieces are read.
            self.pieces = self.reader.stream(self.next..end);
            self.next = end;
            self.step = self.step.saturating_mul(4);
        }
    }
}

/// Streams the text of all parts, a few of which are decompressed in parallel.
fn in_parts(
    bytes: BoxStream<'static, std::io::Result<Bytes>>,
    parted: Parted,
    format: &'static str,
    location: String,
    spawner: Spawner,
    memory: MemoryBudget,
) -> BoxStream<'static, Result<Bytes>> {
    let place = location.clone();
    let parts = parted.cut(bytes).map_err(move |error| told(error, format, &place));
    let cutter = spawner.clone();
    let texts = parts.map(move |part| {
        let part = part?;
        let reserved = memory.try_reserve(part.window_bytes());
        let refused = |shortage: Shortage| {
            shortage.error(format!("{location}: a window of {format}"), "InvalidCompressionFormat")
        };
        let reserved = reserved.map_err(refused)?;
        let pieces = text(parted.decoder(part), format, location.clone()).map(move |piece| {
            // The memory of the window is reserved as long as the text is decompressed.
            let _reserved = &reserved;
            piece
        });
        Ok(started(pieces, MAX_QUEUED_PIECES_PER_PART, &spawner))
    });
    let start = async move { started(texts, MAX_QUEUED_PARTS, &cutter) };
    stream::once(start).flatten().try_flatten().boxed()
}

/// Moves `pieces` to a background task, which starts with the first poll and ends with the stream.
fn ahead(
    pieces: impl Stream<Item = Result<Bytes>> + Send + 'static,
    spawner: Spawner,
) -> BoxStream<'static, Result<Bytes>> {
    let start = async move { started(pieces, MAX_QUEUED_PIECES, &spawner) };
    stream::once(start).flatten().boxed()
}

/// Moves `items` to a background task, which starts at once and produces up to `most` items in
/// advance.
fn started<T: Send + 'static>(
    items: impl Stream<Item = Result<T>> + Send + 'static,
    most: usize,
    spawner: &Spawner,
) -> BoxStream<'static, Result<T>> {
    let (sender, receiver) = mpsc::channel(most);
    let task = spawner.spawn(async move {
        let mut items = pin!(items);
        while check_interrupt().is_ok() {
            let item = items.next().await.transpose();
            let is_last = !matches!(item, Ok(Some(_)));
            let is_waited_for = sender.capacity() == most;
            if sender.send(item).await.is_err() || is_last {
                return;
            }
            if is_waited_for {
                share_last_task();
            }
        }
    });
    let next = |(mut receiver, task): (mpsc::Receiver<Result<Option<T>>>, _)| async move {
        let is_full = receiver.len() == receiver.max_capacity();
        // The end is sent explicitly, since a task that merely stopped has not decompressed all
        // text.
        let Some(item) = receiver.recv().await else {
            return Err(Error::internal("decompressing a text stopped before its end"));
        };
        if is_full {
            share_last_task();
        }
        Ok(item?.map(|item| (item, (receiver, task))))
    };
    stream::try_unfold((receiver, task), next).boxed()
}

fn text(
    decoder: impl AsyncRead + Send + 'static,
    format: &'static str,
    location: String,
) -> BoxStream<'static, Result<Bytes>> {
    ReaderStream::with_capacity(decoder, MAX_PIECE_BYTES).map_err(move |error| told(error, format, &location)).boxed()
}

/// Converts an error of reading or decompressing.
fn told(error: std::io::Error, format: &str, location: &str) -> Error {
    match error.downcast::<Error>() {
        Ok(ours) => ours,
        Err(error) => {
            let (what, code) = match error.kind() {
                std::io::ErrorKind::UnexpectedEof => ("the compressed text is cut off", "TruncatedInput"),
                _ => ("cannot be decompressed", "InvalidCompressionFormat"),
            };
            let message = format!("{location}: {what} ({format})");
            Error::new(ErrorKind::Corrupt, message).with_source(error).with_code(code)
        }
    }
}

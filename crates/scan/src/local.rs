//! A file on a local disk.
//!
//! Reads go to the blocking pool in large aligned blocks. While the caller works on one block the next ones are
//! being read, so a scan waits for the disk only where the disk is slower than the scan. Blocks are read into the same
//! few buffers again and again: fresh memory would have to be zeroed and mapped first, and is in no cache.

use std::fs::File;
use std::io::{Error as IoError, ErrorKind as IoErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use pushdown::{Error, ErrorKind, Result};
use tokio::task::spawn_blocking;

use crate::{BlockBuffers, ObjectReader};

/// The size of a block; blocks begin at multiples of it.
const BLOCK_BYTES: u64 = 1024 * 1024;

/// Blocks being read or waiting to be taken.
const READ_AHEAD: usize = 3;

/// Separate ranges read at the same time.
const CONCURRENT_RANGES: usize = 4;

/// Buffers kept for the next ranges.
const RANGE_BUFFERS: usize = 2 * CONCURRENT_RANGES;

/// A file on a local disk. The file is opened once: replacing it by another does not disturb the scan.
#[derive(Clone, Debug)]
pub struct LocalFile {
    location: Arc<str>,
    file: Arc<File>,
    size: u64,
    /// What ranges are read into.
    ranges: Arc<BlockBuffers>,
}

impl LocalFile {
    /// Opens the file, which is called `location` in messages.
    pub fn open(path: impl AsRef<Path>, location: impl Into<Arc<str>>) -> Result<Self> {
        let location = location.into();
        let opened = File::open(path).and_then(|file| file.metadata().map(|metadata| (file, metadata)));
        let (file, metadata) = opened.map_err(|error| io_error(&location, error))?;
        if metadata.is_dir() {
            return Err(Error::invalid(format!("{location}: is a folder, not a file")));
        }
        Ok(Self::new(location, file, metadata.len()))
    }

    /// Of an open file, whose size is looked up.
    pub fn from_file(file: File, location: impl Into<Arc<str>>) -> Result<Self> {
        let location = location.into();
        let size = file.metadata().map_err(|error| io_error(&location, error))?.len();
        Ok(Self::new(location, file, size))
    }

    fn new(location: Arc<str>, file: File, size: u64) -> Self {
        Self { location, file: Arc::new(file), size, ranges: BlockBuffers::new(0, RANGE_BUFFERS) }
    }

    /// Reads one block into a buffer of `buffers`.
    fn read_block(
        &self,
        range: Range<u64>,
        buffers: &Arc<BlockBuffers>,
    ) -> impl Future<Output = Result<Bytes>> + Send + use<> {
        let file = self.clone();
        // Made here and not by the thread that reads: allocators keep memory for the thread that asked for it.
        let room = self.length(&range).map(|length| buffers.room(length));
        let task = spawn_blocking(move || {
            let mut room = room?;
            let read = file.file.read_exact_at(room.as_mut(), range.start);
            read.map_err(|error| io_error(&file.location, error))?;
            Ok(room.freeze())
        });
        async move { task.await.map_err(|error| Error::internal(format!("reading a file: {error}")))? }
    }

    fn length(&self, range: &Range<u64>) -> Result<usize> {
        usize::try_from(range.end.saturating_sub(range.start))
            .map_err(|_| Error::internal(format!("{}: range {range:?} is too long", self.location)))
    }
}

fn io_error(location: &str, error: IoError) -> Error {
    let (kind, message) = match error.kind() {
        IoErrorKind::NotFound => (ErrorKind::NotFound, "no such file"),
        IoErrorKind::PermissionDenied => (ErrorKind::Denied, "the file may not be read"),
        IoErrorKind::UnexpectedEof => (ErrorKind::Conflict, "the file became shorter while it was read"),
        _ => (ErrorKind::Unavailable, "the file cannot be read"),
    };
    Error::new(kind, format!("{location}: {message}")).with_source(error)
}

/// `range` cut at multiples of the block size.
fn blocks(range: Range<u64>) -> impl Iterator<Item = Range<u64>> + Send {
    let mut start = range.start;
    std::iter::from_fn(move || {
        let end = ((start / BLOCK_BYTES + 1) * BLOCK_BYTES).min(range.end);
        (start < end).then(|| std::mem::replace(&mut start, end)..end)
    })
}

impl ObjectReader for LocalFile {
    fn location(&self) -> &str {
        &self.location
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn stream(&self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        let longest = range.end.saturating_sub(range.start).min(BLOCK_BYTES);
        let (file, buffers) = (self.clone(), BlockBuffers::new(longest as usize, READ_AHEAD + 1));
        stream::iter(blocks(range)).map(move |block| file.read_block(block, &buffers)).buffered(READ_AHEAD).boxed()
    }

    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, Result<Vec<Bytes>>> {
        let file = self.clone();
        let read = move |range| file.read_block(range, &file.ranges);
        stream::iter(ranges).map(read).buffered(CONCURRENT_RANGES).try_collect().boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_the_range_and_are_aligned() {
        let all: Vec<_> = blocks(5..BLOCK_BYTES * 2 + 7).collect();
        assert_eq!(all, [5..BLOCK_BYTES, BLOCK_BYTES..BLOCK_BYTES * 2, BLOCK_BYTES * 2..BLOCK_BYTES * 2 + 7]);
        assert_eq!(blocks(3..3).count(), 0);
    }

    #[tokio::test]
    async fn a_stream_gives_the_bytes_of_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..BLOCK_BYTES * 5 + 3).map(|at| (at / 1000) as u8).collect();
        std::fs::write(file.path(), &bytes).unwrap();
        let file = LocalFile::open(file.path(), "f").unwrap();
        let all: Vec<Bytes> = file.stream(7..file.size()).try_collect().await.unwrap();
        assert!(all.iter().flatten().eq(bytes.iter().skip(7)));
    }
}

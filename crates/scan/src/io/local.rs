//! Local files.
//!
//! Files are read in large aligned blocks, see [`crate::io::page_cache`], so that a scan waits for
//! the disk only if the disk is slower than the scan.

use std::fs::File;
use std::io::{self, Error as IoError, ErrorKind as IoErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use pushdowndb_contract::{Error, ErrorKind, Result};

use crate::io::buffer_pool::BlockBuffers;
use crate::io::page_cache::{BlockFile, file_blocks, file_ranges, ranges_at_hand, read_cached};
use crate::io::reader::{ObjectReader, ReadAtHand};

/// The size of blocks, which end at multiples of it. Two blocks fit into a core's second-level
/// cache: one that is scanned, and one that is copied out of the page cache.
const BLOCK_BYTES: u64 = 512 * 1024;

/// The number of blocks that are being read or waiting to be consumed.
const READ_AHEAD: usize = 6;

/// The number of pooled buffers for blocks.
const BLOCK_BUFFERS: usize = 2 * (READ_AHEAD + 1);

/// The number of pooled buffers for ranges.
const RANGE_BUFFERS: usize = 8;

/// A local file. It is opened once, so replacing the file does not affect a running scan.
#[derive(Clone, Debug)]
pub struct LocalFile {
    location: Arc<str>,
    file: Arc<OpenFile>,
    size: u64,
    /// The buffer pools for blocks and for ranges.
    blocks: Arc<BlockBuffers>,
    ranges: Arc<BlockBuffers>,
}

#[derive(Debug)]
struct OpenFile(File);

impl BlockFile for OpenFile {
    fn read(&self, at: u64, block: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(block, at)
    }

    fn read_cached(&self, at: u64, block: &mut [u8]) -> io::Result<usize> {
        Ok(read_cached(&self.0, at, block))
    }

    fn block_bytes(&self, at: u64) -> u64 {
        BLOCK_BYTES - at % BLOCK_BYTES
    }
}

impl LocalFile {
    /// Opens the file at `path`. Errors refer to it as `location`.
    pub fn open(path: impl AsRef<Path>, location: impl Into<Arc<str>>) -> Result<Self> {
        let location = location.into();
        let file = File::open(path).map_err(|error| io_error(&location, error))?;
        Self::opened(file, location)
    }

    /// Wraps an open file. Errors refer to it as `location`.
    pub fn opened(file: File, location: impl Into<Arc<str>>) -> Result<Self> {
        let location = location.into();
        let metadata = file.metadata().map_err(|error| io_error(&location, error))?;
        if metadata.is_dir() {
            return Err(Error::invalid(format!("{location}: is a folder, not a file")));
        }
        Ok(Self::new(location, file, metadata.len()))
    }

    fn new(location: Arc<str>, file: File, size: u64) -> Self {
        let blocks = BlockBuffers::new(size.min(BLOCK_BYTES) as usize, BLOCK_BUFFERS);
        Self { location, file: Arc::new(OpenFile(file)), size, blocks, ranges: BlockBuffers::new(0, RANGE_BUFFERS) }
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

impl ObjectReader for LocalFile {
    fn location(&self) -> &str {
        &self.location
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn stream(&self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        let location = Arc::clone(&self.location);
        let blocks = file_blocks(Arc::clone(&self.file), range, READ_AHEAD, Arc::clone(&self.blocks));
        blocks.map_err(move |error| io_error(&location, error)).boxed()
    }

    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, Result<Vec<Bytes>>> {
        let Self { location, file, ranges: buffers, .. } = self.clone();
        async move {
            let read = file_ranges(&file, ranges, &buffers).await;
            read.map_err(|error| io_error(&location, error))
        }
        .boxed()
    }

    fn at_hand(&self, ranges: &[Range<u64>]) -> Option<ReadAtHand> {
        let location = Arc::clone(&self.location);
        ranges_at_hand(Arc::clone(&self.file), ranges, move |error| io_error(&location, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

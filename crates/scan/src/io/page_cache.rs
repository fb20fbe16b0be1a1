//! Reading a file block by block: cached blocks at once on the calling thread, others in advance on
//! blocking threads.
//!
//! To copy a block out of the page cache on another thread would cost two context switches and move
//! the block between cores. Only the kernel can say what is cached, so it is queried for each
//! block. After a miss it is not queried for a number of bytes. That number is small after the
//! first miss, since a file that was read minutes ago may lack a few pages, and grows if misses
//! continue.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use pushdowndb_contract::Error;
use tokio::task::{consume_budget, spawn_blocking};

use crate::io::buffer_pool::{BlockBuffers, BlockRoom};
use crate::io::reader::ReadAtHand;

/// The maximum number of bytes that are read on blocking threads before the kernel is queried
/// again.
const WAITED_BYTES: u64 = 16 * 1024 * 1024;

/// The distance between the bytes of a range that are tested: the kernel's usual read-ahead.
const LOOK_BYTES: usize = 128 * 1024;

/// Maximum number of uncached ranges that are read in parallel.
const MAX_PARALLEL_RANGES: usize = 4;

/// A file, or a similar source.
pub trait BlockFile: Send + Sync + 'static {
    /// Fills `block` with the bytes at offset `at`. May block.
    fn read(&self, at: u64, block: &mut [u8]) -> io::Result<()>;

    /// Reads only the cached prefix of these bytes, see [`read_cached`]. Returns its length.
    fn read_cached(&self, at: u64, block: &mut [u8]) -> io::Result<usize>;

    /// Returns whether the byte at `at` is certainly cached.
    fn is_cached(&self, at: u64) -> bool {
        matches!(self.read_cached(at, &mut [0]), Ok(1))
    }

    /// Returns the length of the block that begins at `at`.
    fn block_bytes(&self, at: u64) -> u64;
}

/// Streams the bytes of `range` in blocks, of which up to `ahead` are read in advance. Pass the
/// same `buffers` for all ranges of a file, since allocating fresh memory costs more than reading.
pub fn file_blocks<F: BlockFile>(
    file: Arc<F>,
    range: Range<u64>,
    ahead: usize,
    buffers: Arc<BlockBuffers>,
) -> impl Stream<Item = io::Result<Bytes>> + Send + Sync + use<F> {
    let blocks = FileBlocks { file, range, ahead, buffers, waited_for: None, missing: 0 };
    stream::try_unfold(blocks, async |mut blocks| {
        let block = blocks.next().await?;
        Ok(block.map(|block| (block, blocks)))
    })
}

type Blocks = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send + Sync>>;

struct FileBlocks<F> {
    file: Arc<F>,
    /// The range that is not yet read or being read.
    range: Range<u64>,
    ahead: usize,
    buffers: Arc<BlockBuffers>,
    /// The blocks that are being read on blocking threads, after a cache miss.
    waited_for: Option<Blocks>,
    /// The number of bytes read on blocking threads since the last block that was fully cached.
    missing: u64,
}

impl<F: BlockFile> FileBlocks<F> {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        if let Some(blocks) = &mut self.waited_for {
            if let Some(block) = blocks.next().await {
                return block.map(Some);
            }
            self.waited_for = None;
        }
        if self.range.is_empty() {
            return Ok(None);
        }
        // A task that never waits still has to yield.
        consume_budget().await;
        if let Some(block) = self.cached()? {
            return Ok(Some(block));
        }
        let start = self.range.start;
        let wanted = self.range.end.min(start.saturating_add(self.missing.clamp(1, WAITED_BYTES)));
        // Extended to whole blocks.
        let mut end = start;
        while end < wanted {
            end = end.saturating_add(self.file.block_bytes(end).max(1));
        }
        let range = start..end.min(self.range.end);
        self.missing = self.missing.saturating_add(range.end - start);
        self.range.start = range.end;
        let mut blocks = Box::pin(waited_for(&self.file, range, self.ahead, &self.buffers));
        let block = blocks.next().await.transpose();
        self.waited_for = Some(blocks);
        block
    }

    fn cached(&mut self) -> io::Result<Option<Bytes>> {
        let start = self.range.start;
        let length = self.file.block_bytes(start).min(self.range.end - start);
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let mut room = self.buffers.room(length, start);
        let read = self.file.read_cached(start, room.as_mut())?.min(length);
        self.range.start += read as u64;
        if read == length {
            self.missing = 0;
        }
        Ok((read > 0).then(|| room.freeze().slice(..read)))
    }
}

fn waited_for<F: BlockFile>(
    file: &Arc<F>,
    range: Range<u64>,
    ahead: usize,
    buffers: &Arc<BlockBuffers>,
) -> impl Stream<Item = io::Result<Bytes>> + Send + Sync + use<F> {
    let (file, buffers, mut start, end) = (Arc::clone(file), Arc::clone(buffers), range.start, range.end);
    let lengths = Arc::clone(&file);
    let blocks = std::iter::from_fn(move || {
        let block = start..end.min(start + lengths.block_bytes(start).max(1));
        start = block.end;
        (!block.is_empty()).then_some(block)
    });
    stream::iter(blocks).map(move |block| read_block(&file, block, &buffers)).buffered(ahead.max(1))
}

/// Returns the bytes of each range. Uncached ranges are read in parallel, a few at a time.
///
/// Cached bytes are copied on this thread: copying them on another thread would evict the data of
/// the scan from the CPU's caches.
pub async fn file_ranges<F: BlockFile>(
    file: &Arc<F>,
    ranges: Vec<Range<u64>>,
    buffers: &Arc<BlockBuffers>,
) -> io::Result<Vec<Bytes>> {
    let mut rooms = Vec::with_capacity(ranges.len());
    for range in ranges {
        let mut room = room_for(&range, buffers)?;
        let read = file.read_cached(range.start, room.as_mut())?.min(room.as_ref().len());
        rooms.push((range.start, room, read));
        consume_budget().await;
    }
    let whole = async |(start, room, read): (u64, BlockRoom, usize)| match read == room.as_ref().len() {
        true => Ok(room.freeze()),
        false => read_rest(file, start, room, read).await,
    };
    stream::iter(rooms).map(whole).buffered(MAX_PARALLEL_RANGES).try_collect().await
}

/// Returns a function that reads these ranges piece by piece; `None` unless the kernel has them
/// cached. `explain` converts errors.
pub fn ranges_at_hand<F: BlockFile>(
    file: Arc<F>,
    ranges: &[Range<u64>],
    explain: impl Fn(io::Error) -> Error + Send + Sync + 'static,
) -> Option<ReadAtHand> {
    if !are_cached(&*file, ranges) {
        return None;
    }
    Some(Arc::new(move |at, bytes| read_through(&*file, at, bytes).map_err(&explain)))
}

/// Returns whether the kernel has these ranges cached. Only some of the bytes are tested.
fn are_cached<F: BlockFile>(file: &F, ranges: &[Range<u64>]) -> bool {
    let looks = |range: &Range<u64>| {
        let last = range.end.checked_sub(1).filter(|last| range.start <= *last);
        range.clone().step_by(LOOK_BYTES).chain(last)
    };
    ranges.iter().flat_map(looks).all(|at| file.is_cached(at))
}

/// Fills `block` with the bytes at `at`: first the cached prefix, then the rest with a blocking
/// read.
fn read_through<F: BlockFile>(file: &F, at: u64, block: &mut [u8]) -> io::Result<()> {
    let read = file.read_cached(at, block)?;
    match block.get_mut(read..).unwrap_or_default() {
        [] => Ok(()),
        rest => file.read(at + read as u64, rest),
    }
}

/// Reads one block on a blocking thread.
fn read_block<F: BlockFile>(
    file: &Arc<F>,
    block: Range<u64>,
    buffers: &Arc<BlockBuffers>,
) -> impl Future<Output = io::Result<Bytes>> + Send + Sync + use<F> {
    let read = room_for(&block, buffers).map(|room| read_rest(file, block.start, room, 0));
    async move { read?.await }
}

/// Allocates space for a range on the calling thread, instead of the thread that reads. Allocators
/// keep memory per thread, and there are dozens of blocking threads, most of them idle.
fn room_for(range: &Range<u64>, buffers: &Arc<BlockBuffers>) -> io::Result<BlockRoom> {
    let length = usize::try_from(range.end.saturating_sub(range.start)).map_err(io::Error::other)?;
    Ok(buffers.room(length, range.start))
}

/// Reads a block at `start` on a blocking thread, after its cached prefix of `read` bytes.
fn read_rest<F: BlockFile>(
    file: &Arc<F>,
    start: u64,
    mut room: BlockRoom,
    read: usize,
) -> impl Future<Output = io::Result<Bytes>> + Send + Sync + use<F> {
    let file = Arc::clone(file);
    let rest = spawn_blocking(move || {
        file.read(start + read as u64, room.as_mut().get_mut(read..).unwrap_or_default())?;
        Ok(room.freeze())
    });
    async move { rest.await.map_err(io::Error::other)? }
}

/// Reads the cached prefix of the bytes at `at`, up to the length of `block`, and returns its
/// length. Never waits for a disk. Returns 0 if the system does not support this.
pub fn read_cached(file: &File, at: u64, block: &mut [u8]) -> usize {
    #[cfg(target_os = "linux")]
    {
        use rustix::io::{ReadWriteFlags, preadv2};
        let mut done = 0;
        while let Some(rest) = block.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match preadv2(file, &mut [io::IoSliceMut::new(rest)], at + done as u64, ReadWriteFlags::NOWAIT) {
                Ok(more) if more > 0 => done += more,
                // An error will be reported by the blocking read.
                _ => break,
            }
        }
        done
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (file, at, block);
        0
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    /// A file of which some bytes are not in memory.
    struct Partly {
        file: File,
        missing: Range<u64>,
        waits: AtomicUsize,
    }

    impl Partly {
        fn new(file: &tempfile::NamedTempFile, missing: Range<u64>) -> Self {
            Self { file: File::open(file.path()).unwrap(), missing, waits: AtomicUsize::new(0) }
        }
    }

    impl BlockFile for Partly {
        fn read(&self, at: u64, block: &mut [u8]) -> io::Result<()> {
            self.waits.fetch_add(1, Relaxed);
            self.file.read_exact_at(block, at)
        }

        fn read_cached(&self, at: u64, block: &mut [u8]) -> io::Result<usize> {
            let cached = if at < self.missing.end { self.missing.start.saturating_sub(at) } else { u64::MAX };
            let most = cached.min(block.len() as u64) as usize;
            self.file.read_exact_at(&mut block[..most], at)?;
            Ok(most)
        }

        fn block_bytes(&self, at: u64) -> u64 {
            1000 - at % 1000
        }
    }

    #[tokio::test]
    async fn blocks_are_the_bytes_of_the_range_wherever_they_come_from() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..10_500_u32).flat_map(|at| (at as u16).to_le_bytes()).collect();
        std::fs::write(file.path(), &bytes).unwrap();
        let all = 0..21_000;
        for (range, missing, waits) in [
            (0..21_000, all.clone(), 21),
            (7..20_999, all.clone(), 21),
            (7..20_999, 2_500..21_000, 19),
            // Bytes after a short miss are not read on blocking threads.
            (0..21_000, 2_500..2_510, 1),
            (0..21_000, 3_000..6_001, 4),
            (0..21_000, 0..0, 0),
            (5..5, all, 0),
        ] {
            let partly = Arc::new(Partly::new(&file, missing.clone()));
            let blocks: Vec<Bytes> = file_blocks(Arc::clone(&partly), range.clone(), 3, BlockBuffers::new(1000, 4))
                .try_collect()
                .await
                .unwrap();
            assert_eq!(blocks.concat(), bytes[range.start as usize..range.end as usize]);
            assert!(blocks.iter().all(|block| !block.is_empty() && block.len() <= 1000));
            assert_eq!(partly.waits.load(Relaxed), waits, "{range:?} without {missing:?}");
        }
    }

    #[tokio::test]
    async fn a_file_that_ends_early_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [1; 1500]).unwrap();
        let partly = Arc::new(Partly::new(&file, 1000..u64::MAX));
        let blocks: Vec<_> = file_blocks(partly, 0..2500, 1, BlockBuffers::new(1000, 4)).collect().await;
        assert!(matches!(blocks.as_slice(), [Ok(_), Err(_)]), "{blocks:?}");
    }

    #[test]
    fn what_was_just_written_is_in_memory_or_not_told() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"0123456789").unwrap();
        let mut block = [0; 20];
        let read = read_cached(file.as_file(), 3, &mut block);
        // A temporary folder may be on a file system for which the kernel cannot tell.
        assert!(read == 0 || block[..read] == *b"3456789", "{read}");
    }
}

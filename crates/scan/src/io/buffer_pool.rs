//! Pools of buffers, into which blocks are read and pages are decompressed.
//!
//! Fresh memory would have to be mapped and zeroed for every block, and is not in any cache. A scan
//! holds only a few blocks at a time, so it reuses the same few buffers, and leaves some of them to
//! later scans.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

use crate::runtime::memory::{MemoryBudget, Reservation, Shortage};

/// Buffer sizes are rounded up to a multiple of this, so that a slightly larger block fits, too.
const STEP_BYTES: usize = 64 * 1024;

/// Blocks are aligned like their file offsets, modulo a cache line. Other copies out of the page
/// cache take three times as long on AMD EPYC (on Intel Xeon there is no difference).
const ALIGNMENT: usize = 64;

/// The maximum ratio of a reused buffer to the size of the block.
const WASTE: usize = 4;

/// The maximum size of a pooled buffer, and of all buffers of a pool, in bytes.
const MAX_BUFFER_BYTES: usize = 16 * 1024 * 1024;
const MAX_POOL_BYTES: usize = 32 * 1024 * 1024;

/// The maximum total size of idle buffers, which belong to no scan, in bytes.
const MAX_IDLE_BYTES: usize = 32 * 1024 * 1024;

/// The buffers of finished scans, for later scans.
static IDLE: Idle = Idle(Mutex::new(Vec::new()));

/// Idle buffers, the most recently used one last.
#[derive(Debug)]
struct Idle(Mutex<Vec<Vec<u8>>>);

impl Idle {
    /// Adds `buffers` to the idle ones, and frees the least recently used buffers above
    /// `most_bytes`.
    fn leave(&self, buffers: &mut Vec<Vec<u8>>, most_bytes: usize) {
        if buffers.is_empty() {
            return;
        }
        let mut idle = self.lock();
        idle.append(buffers);
        let (mut kept, mut first) = (0, idle.len());
        while let Some(last) = first.checked_sub(1)
            && let Some(bytes) = idle.get(last)
            && kept + bytes.len() <= most_bytes
        {
            (kept, first) = (kept + bytes.len(), last);
        }
        idle.drain(..first);
    }

    fn smallest(&self, length: usize, block_bytes: usize) -> Option<Vec<u8>> {
        let mut idle = self.lock();
        let place = place_of_smallest(length, block_bytes, idle.iter().map(Vec::len))?;
        Some(idle.remove(place))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock()
    }
}

/// The buffer pool of a scan.
#[derive(Debug)]
pub struct BlockBuffers {
    block_bytes: usize,
    most: usize,
    free: Mutex<Vec<Buffer>>,
}

/// An initialized buffer, and its memory reservation.
#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    _reserved: Option<Reservation>,
}

impl Buffer {
    fn len(&self) -> usize {
        self.bytes.len()
    }
}

impl BlockBuffers {
    /// Creates a pool that keeps up to `most` unused buffers. Most blocks should have at most
    /// `block_bytes`.
    pub fn new(block_bytes: usize, most: usize) -> Arc<Self> {
        Arc::new(Self { block_bytes: block_bytes.saturating_add(ALIGNMENT), most, free: Mutex::default() })
    }

    /// Returns space for a block of `length` bytes, with arbitrary content. It is aligned like the
    /// offset `at` of a file.
    pub fn room(self: &Arc<Self>, length: usize, at: u64) -> BlockRoom {
        let needed = length + ALIGNMENT;
        let own = smallest(needed, self.block_bytes, &mut self.lock());
        let buffer = own.unwrap_or_else(|| Buffer { bytes: self.idle_or_new(needed), _reserved: None });
        BlockRoom::new(buffer, length, at, self)
    }

    /// Like [`Self::room`], with memory that stays reserved in `memory` as long as the pool has the
    /// buffer.
    pub(crate) fn reserved_room(
        self: &Arc<Self>,
        length: usize,
        at: u64,
        memory: &MemoryBudget,
    ) -> Result<BlockRoom, Shortage> {
        let needed = length + ALIGNMENT;
        let own = smallest(needed, self.block_bytes, &mut self.lock());
        let buffer = match own {
            Some(own) => own,
            None => {
                // Unused buffers are freed before the request is refused.
                let reserved = memory.try_reserve(needed).or_else(|_| {
                    self.lock().clear();
                    memory.try_reserve(needed)
                })?;
                let usual = self.idle_or_new(needed);
                let fits = reserved.grow(usual.len().saturating_sub(needed)).is_ok();
                let bytes = if fits { usual } else { vec![0; needed] };
                Buffer { bytes, _reserved: Some(reserved) }
            }
        };
        Ok(BlockRoom::new(buffer, length, at, self))
    }

    fn idle_or_new(&self, length: usize) -> Vec<u8> {
        IDLE.smallest(length, self.block_bytes).unwrap_or_else(|| {
            let usual = if length > self.block_bytes { length.next_multiple_of(STEP_BYTES) } else { self.block_bytes };
            vec![0; usual]
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Buffer>> {
        self.free.lock()
    }
}

impl Drop for BlockBuffers {
    fn drop(&mut self) {
        let free = std::mem::take(self.free.get_mut());
        IDLE.leave(&mut free.into_iter().map(|buffer| buffer.bytes).collect(), MAX_IDLE_BYTES);
    }
}

/// Returns the index of the smallest free buffer that is large enough and not too large. Among
/// buffers of equal size, it is the most recently used one, which is likely to be in a CPU cache.
fn place_of_smallest(length: usize, block_bytes: usize, free: impl Iterator<Item = usize>) -> Option<usize> {
    let usual = length.max(STEP_BYTES).max(block_bytes);
    let fit = free.enumerate().filter(|(_, bytes)| *bytes >= length && bytes / WASTE <= usual);
    fit.min_by_key(|(place, bytes)| (*bytes, std::cmp::Reverse(*place))).map(|(place, _)| place)
}

fn smallest(length: usize, block_bytes: usize, free: &mut Vec<Buffer>) -> Option<Buffer> {
    let place = place_of_smallest(length, block_bytes, free.iter().map(Buffer::len))?;
    Some(free.remove(place))
}

/// Space for one block. Its buffer returns to the pool when the block is dropped.
#[derive(Debug)]
pub struct BlockRoom {
    buffer: Buffer,
    /// The position of the block in the buffer.
    place: Range<usize>,
    buffers: Arc<BlockBuffers>,
}

impl BlockRoom {
    fn new(buffer: Buffer, length: usize, at: u64, buffers: &Arc<BlockBuffers>) -> Self {
        let start = (at as usize).wrapping_sub(buffer.bytes.as_ptr() as usize) % ALIGNMENT;
        Self { buffer, place: start..start + length, buffers: Arc::clone(buffers) }
    }

    /// Returns the filled block.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for BlockRoom {
    fn as_ref(&self) -> &[u8] {
        self.buffer.bytes.get(self.place.clone()).unwrap_or_default()
    }
}

impl AsMut<[u8]> for BlockRoom {
    fn as_mut(&mut self) -> &mut [u8] {
        self.buffer.bytes.get_mut(self.place.clone()).unwrap_or_default()
    }
}

impl Drop for BlockRoom {
    fn drop(&mut self) {
        let mut free = self.buffers.lock();
        // The pool does not keep all memory of a scan that once held many blocks.
        let all_kept = self.buffer.len() + free.iter().map(Buffer::len).sum::<usize>();
        if free.len() < self.buffers.most && self.buffer.len() <= MAX_BUFFER_BYTES && all_kept <= MAX_POOL_BYTES {
            free.push(std::mem::take(&mut self.buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_lies_like_in_its_file() {
        let buffers = BlockBuffers::new(100, 1);
        for at in [0, 1, 63, 64, 4095, u64::MAX] {
            let mut room = buffers.room(100, at);
            assert_eq!(room.as_ref().as_ptr() as usize % 64, at as usize % 64);
            room.as_mut().fill(at as u8);
            assert_eq!(room.freeze().as_ref(), [at as u8; 100]);
            assert!(buffers.lock().len() == 1, "one buffer for all of them");
        }
    }

    #[test]
    fn buffers_that_were_used_last_stay_for_the_next_scan() {
        let idle = Idle(Mutex::default());
        idle.leave(&mut vec![vec![1; 50], vec![2; 30]], 100);
        idle.leave(&mut vec![], 0);
        idle.leave(&mut vec![vec![3; 60]], 100);
        let kept = idle.lock().iter().map(|bytes| (bytes[0], bytes.len())).collect::<Vec<_>>();
        assert_eq!(kept, [(2, 30), (3, 60)]);
        idle.leave(&mut vec![vec![4; 101]], 100);
        assert!(idle.lock().is_empty());
    }

    #[test]
    fn a_buffer_is_used_again_when_its_block_is_gone() {
        let buffers = BlockBuffers::new(8, 1);
        let mut room = buffers.room(8, 0);
        room.as_mut().copy_from_slice(b"01234567");
        let first = room.freeze();
        let (place, kept) = (first.as_ptr(), first.slice(2..4));
        drop(first);
        let second = buffers.room(3, 0).freeze();
        assert!(second.as_ptr() != place && kept.as_ref() == b"23");
        drop(kept);
        let third = buffers.room(3, 0).freeze();
        assert_eq!((third.as_ptr(), third.as_ref()), (place, &b"012"[..]));
        drop((second, third));
        assert_eq!(buffers.lock().len(), 1);
        assert_eq!(buffers.room(100, 0).as_ref().len(), 100, "a longer block than usual");
    }

    #[test]
    fn a_buffer_that_waits_to_be_used_again_is_still_reserved() {
        let (buffers, memory) = (BlockBuffers::new(0, 4), MemoryBudget::new(64 * STEP_BYTES));
        let held = [1, 2].map(|_| buffers.reserved_room(STEP_BYTES, 0, &memory).unwrap());
        let used = memory.used();
        assert!(used >= 2 * STEP_BYTES);
        drop(held);
        let again = buffers.reserved_room(STEP_BYTES, 0, &memory).unwrap();
        assert_eq!(memory.used(), used, "one is used again and one waits");
        drop(again);
        let large = buffers.reserved_room(63 * STEP_BYTES, 0, &memory).expect("what waits is let go");
        assert!(buffers.reserved_room(STEP_BYTES, 0, &memory).is_err());
        drop((large, buffers));
        assert_eq!(memory.used(), 0);
    }
}

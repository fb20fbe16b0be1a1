//! Buffers that blocks are read and pages are decompressed into.
//!
//! Fresh memory for every block would have to be zeroed and mapped, and is in no cache. A scan holds few blocks at a
//! time, so it fills the same few buffers again and again, and leaves some to the scans that come after it.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::{MemoryBudget, Reservation, Shortage};

/// New buffers are of a multiple of this size, so that the next block, a little larger, fits as well.
const STEP_BYTES: usize = 64 * 1024;

/// Copies are fastest between addresses that are the same modulo this: a line of the cache.
const ALIGNMENT: usize = 64;

/// A block does not take a buffer that is so many times as large.
const WASTE: usize = 4;

/// Larger buffers are not kept, nor more than so many bytes in all.
const KEPT_BYTES: usize = 16 * 1024 * 1024;
const ALL_KEPT_BYTES: usize = 32 * 1024 * 1024;

/// As many bytes of buffers are kept that are of no scan.
const IDLE_BYTES: usize = 32 * 1024 * 1024;

/// Buffers of scans that ended, for those to come.
static IDLE: Idle = Idle(Mutex::new(Vec::new()));

/// The ones that were used last are at the end.
#[derive(Debug)]
struct Idle(Mutex<Vec<Vec<u8>>>);

impl Idle {
    /// Takes over these, and gives up those that were used longest ago where all would be more than `most_bytes`.
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The buffers of one scan.
#[derive(Debug)]
pub struct BlockBuffers {
    block_bytes: usize,
    most: usize,
    free: Mutex<Vec<Buffer>>,
}

/// Memory that was written before, and what is reserved for it.
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
    /// For blocks of usually at most `block_bytes`; up to `most` buffers are kept while no block is in them.
    pub fn new(block_bytes: usize, most: usize) -> Arc<Self> {
        Arc::new(Self { block_bytes: block_bytes.saturating_add(ALIGNMENT), most, free: Mutex::default() })
    }

    /// Room for a block of `length` bytes; what is in it is left from others.
    pub fn room(self: &Arc<Self>, length: usize) -> BlockRoom {
        let own = smallest(length, self.block_bytes, &mut self.lock());
        let buffer = own.unwrap_or_else(|| Buffer { bytes: self.idle_or_new(length), _reserved: None });
        BlockRoom { place: 0..length, buffer, buffers: Arc::clone(self) }
    }

    /// [`Self::room`] that is drawn from `memory`, also while it waits to be used again.
    pub(crate) fn reserved_room(self: &Arc<Self>, length: usize, memory: &MemoryBudget) -> Result<BlockRoom, Shortage> {
        let own = smallest(length, self.block_bytes, &mut self.lock());
        let buffer = match own {
            Some(own) => own,
            None => {
                // What waits to be used again is let go before anything is refused.
                let reserved = memory.try_reserve(length).or_else(|_| {
                    self.lock().clear();
                    memory.try_reserve(length)
                })?;
                let usual = self.idle_or_new(length);
                let fits = reserved.grow(usual.len().saturating_sub(length)).is_ok();
                let bytes = if fits { usual } else { vec![0; length] };
                Buffer { bytes, _reserved: Some(reserved) }
            }
        };
        Ok(BlockRoom { place: 0..length, buffer, buffers: Arc::clone(self) })
    }

    fn idle_or_new(&self, length: usize) -> Vec<u8> {
        IDLE.smallest(length, self.block_bytes).unwrap_or_else(|| {
            let usual = if length > self.block_bytes { length.next_multiple_of(STEP_BYTES) } else { self.block_bytes };
            vec![0; usual]
        })
    }

    /// [`Self::room`] for what lies at `at` of a file, aligned like that: copied out of the page cache to addresses that
    /// differ in their lowest bits it takes three times as long.
    pub fn room_like(self: &Arc<Self>, length: usize, at: u64) -> BlockRoom {
        self.room(length + ALIGNMENT).aligned_like(length, at)
    }

    /// [`Self::room_like`] that is drawn from `memory`, also while it waits to be used again.
    pub(crate) fn reserved_room_like(
        self: &Arc<Self>,
        length: usize,
        at: u64,
        memory: &MemoryBudget,
    ) -> Result<BlockRoom, Shortage> {
        Ok(self.reserved_room(length + ALIGNMENT, memory)?.aligned_like(length, at))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Buffer>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BlockBuffers {
    fn drop(&mut self) {
        let free = std::mem::take(self.free.get_mut().unwrap_or_else(PoisonError::into_inner));
        IDLE.leave(&mut free.into_iter().map(|buffer| buffer.bytes).collect(), IDLE_BYTES);
    }
}

/// Where the smallest free buffer is that is large enough, unless it is far too large. Of equal ones the one that was used
/// last: it is in a cache.
fn place_of_smallest(length: usize, block_bytes: usize, free: impl Iterator<Item = usize>) -> Option<usize> {
    let usual = length.max(STEP_BYTES).max(block_bytes);
    let fit = free.enumerate().filter(|(_, bytes)| *bytes >= length && bytes / WASTE <= usual);
    fit.min_by_key(|(place, bytes)| (*bytes, std::cmp::Reverse(*place))).map(|(place, _)| place)
}

fn smallest(length: usize, block_bytes: usize, free: &mut Vec<Buffer>) -> Option<Buffer> {
    let place = place_of_smallest(length, block_bytes, free.iter().map(Buffer::len))?;
    Some(free.remove(place))
}

/// Room for one block. Its buffer goes back when it, and the block made of it, are dropped.
#[derive(Debug)]
pub struct BlockRoom {
    buffer: Buffer,
    /// Where the block lies in the buffer.
    place: Range<usize>,
    buffers: Arc<BlockBuffers>,
}

impl BlockRoom {
    /// The block, as it was read.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl BlockRoom {
    /// The same with its `length` bytes at an address that is aligned like `at`.
    fn aligned_like(mut self, length: usize, at: u64) -> Self {
        let start = (at as usize).wrapping_sub(self.buffer.bytes.as_ptr() as usize) % ALIGNMENT;
        self.place = start..start + length;
        self
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
        // Whoever held many blocks at once does not leave all of their memory here.
        let all_kept = self.buffer.len() + free.iter().map(Buffer::len).sum::<usize>();
        if free.len() < self.buffers.most && self.buffer.len() <= KEPT_BYTES && all_kept <= ALL_KEPT_BYTES {
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
            let mut room = buffers.room_like(100, at);
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
        let mut room = buffers.room(8);
        room.as_mut().copy_from_slice(b"01234567");
        let first = room.freeze();
        let (place, kept) = (first.as_ptr(), first.slice(2..4));
        drop(first);
        let second = buffers.room(3).freeze();
        assert!(second.as_ptr() != place && kept.as_ref() == b"23");
        drop(kept);
        let third = buffers.room(3).freeze();
        assert_eq!((third.as_ptr(), third.as_ref()), (place, &b"012"[..]));
        drop((second, third));
        assert_eq!(buffers.lock().len(), 1);
        assert_eq!(buffers.room(100).as_ref().len(), 100, "a longer block than usual");
    }

    #[test]
    fn a_buffer_that_waits_to_be_used_again_is_still_reserved() {
        let (buffers, memory) = (BlockBuffers::new(0, 4), MemoryBudget::new(64 * STEP_BYTES));
        let held = [1, 2].map(|_| buffers.reserved_room(STEP_BYTES, &memory).unwrap());
        let used = memory.used();
        assert!(used >= 2 * STEP_BYTES);
        drop(held);
        let again = buffers.reserved_room(STEP_BYTES, &memory).unwrap();
        assert_eq!(memory.used(), used, "one is used again and one waits");
        drop(again);
        let large = buffers.reserved_room(64 * STEP_BYTES, &memory).expect("what waits is let go");
        assert!(buffers.reserved_room(STEP_BYTES, &memory).is_err());
        drop((large, buffers));
        assert_eq!(memory.used(), 0);
    }
}

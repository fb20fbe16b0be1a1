//! Buffers that blocks are read and pages are decompressed into.
//!
//! Fresh memory for every block would have to be zeroed and mapped, and is in no cache. A scan holds few blocks at a
//! time, so it fills the same few buffers again and again, and leaves some to the scans that come after it.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// New buffers are of a multiple of this size, so that the next block, a little larger, fits as well.
const STEP_BYTES: usize = 64 * 1024;

/// Copies are fastest between addresses that are the same modulo this: a line of the cache.
const ALIGNMENT: usize = 64;

/// A block does not take a buffer that is so many times as large.
const WASTE: usize = 4;

/// Larger buffers are not kept, nor more than so many bytes in all.
const KEPT_BYTES: usize = 16 * 1024 * 1024;
const ALL_KEPT_BYTES: usize = 64 * 1024 * 1024;

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

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The buffers of one scan.
#[derive(Debug)]
pub struct BlockBuffers {
    block_bytes: usize,
    most: usize,
    free: Mutex<Vec<Vec<u8>>>,
}

impl BlockBuffers {
    /// For blocks of usually at most `block_bytes`; up to `most` buffers are kept while no block is in them.
    pub fn new(block_bytes: usize, most: usize) -> Arc<Self> {
        Arc::new(Self { block_bytes: block_bytes.saturating_add(ALIGNMENT), most, free: Mutex::default() })
    }

    /// Room for a block of `length` bytes; what is in it is left from others.
    pub fn room(self: &Arc<Self>, length: usize) -> BlockRoom {
        let own = self.smallest(length, &mut self.lock());
        let bytes = own.or_else(|| self.smallest(length, &mut IDLE.lock())).unwrap_or_else(|| {
            let usual = if length > self.block_bytes { length.next_multiple_of(STEP_BYTES) } else { self.block_bytes };
            vec![0; usual]
        });
        BlockRoom { place: 0..length, bytes, buffers: Arc::clone(self) }
    }

    /// [`Self::room`] for what lies at `at` of a file, aligned like that: copied out of the page cache to addresses that
    /// differ in their lowest bits it takes three times as long.
    pub fn room_like(self: &Arc<Self>, length: usize, at: u64) -> BlockRoom {
        let mut room = self.room(length + ALIGNMENT);
        let start = (at as usize).wrapping_sub(room.bytes.as_ptr() as usize) % ALIGNMENT;
        room.place = start..start + length;
        room
    }

    /// The smallest free buffer that is large enough, unless it is far too large. Of equal ones the one that was used last:
    /// it is in a cache.
    fn smallest(&self, length: usize, free: &mut Vec<Vec<u8>>) -> Option<Vec<u8>> {
        let usual = length.max(STEP_BYTES).max(self.block_bytes);
        let fits = |bytes: &Vec<u8>| bytes.len() >= length && bytes.len() / WASTE <= usual;
        let fit = free.iter().enumerate().rev().filter(|(_, bytes)| fits(bytes));
        let (place, _) = fit.min_by_key(|(_, bytes)| bytes.len())?;
        Some(free.remove(place))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BlockBuffers {
    fn drop(&mut self) {
        IDLE.leave(self.free.get_mut().unwrap_or_else(PoisonError::into_inner), IDLE_BYTES);
    }
}

/// Room for one block. Its buffer goes back when it, and the block made of it, are dropped.
#[derive(Debug)]
pub struct BlockRoom {
    bytes: Vec<u8>,
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

impl AsRef<[u8]> for BlockRoom {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(self.place.clone()).unwrap_or_default()
    }
}

impl AsMut<[u8]> for BlockRoom {
    fn as_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.place.clone()).unwrap_or_default()
    }
}

impl Drop for BlockRoom {
    fn drop(&mut self) {
        let mut free = self.buffers.lock();
        // Whoever held many blocks at once does not leave all of their memory here.
        let all_kept = self.bytes.len() + free.iter().map(Vec::len).sum::<usize>();
        if free.len() < self.buffers.most && self.bytes.len() <= KEPT_BYTES && all_kept <= ALL_KEPT_BYTES {
            free.push(std::mem::take(&mut self.bytes));
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
}

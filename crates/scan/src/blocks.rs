//! Buffers that the blocks of a stream are read into.
//!
//! Fresh memory for every block would have to be zeroed and mapped, and is in no cache. A stream holds few blocks at a
//! time, so it reads into the same few buffers again and again.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// The buffers of one stream.
#[derive(Debug)]
pub struct BlockBuffers {
    block_bytes: usize,
    most: usize,
    free: Mutex<Vec<Vec<u8>>>,
}

impl BlockBuffers {
    /// For blocks of at most `block_bytes`; up to `most` buffers are kept while no block is in them.
    pub fn new(block_bytes: usize, most: usize) -> Arc<Self> {
        Arc::new(Self { block_bytes, most, free: Mutex::default() })
    }

    /// Room for a block of `length` bytes, at most [`Self::new`]'s; what is in it is left from others.
    pub fn room(self: &Arc<Self>, length: usize) -> BlockRoom {
        let free = self.lock().pop();
        let bytes = free.unwrap_or_else(|| vec![0; self.block_bytes]);
        BlockRoom { length: length.min(bytes.len()), bytes, buffers: Arc::clone(self) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room for one block. Its buffer goes back when it, and the block made of it, are dropped.
#[derive(Debug)]
pub struct BlockRoom {
    bytes: Vec<u8>,
    length: usize,
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
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

impl AsMut<[u8]> for BlockRoom {
    fn as_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(..self.length).unwrap_or_default()
    }
}

impl Drop for BlockRoom {
    fn drop(&mut self) {
        let mut free = self.buffers.lock();
        // Whoever held many blocks at once does not leave all of their memory here.
        if free.len() < self.buffers.most {
            free.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(buffers.room(100).as_ref().len(), 8);
    }
}

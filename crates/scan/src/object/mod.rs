//! Where the bytes of objects come from, and the buffers they are read into.

mod blocks;
mod file_blocks;
mod local;
mod memory;
mod reader;

pub use blocks::{BlockBuffers, BlockRoom};
pub use file_blocks::{BlockFile, file_blocks, file_ranges, ranges_at_hand, read_cached};
pub use local::LocalFile;
pub use memory::InMemory;
pub use reader::{ObjectReader, ReadAtHand};

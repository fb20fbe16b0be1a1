//! Sources of the bytes of objects, and the buffers into which they are read.

pub(crate) mod buffer_pool;
pub(crate) mod local;
pub(crate) mod memory;
pub(crate) mod page_cache;
pub(crate) mod reader;

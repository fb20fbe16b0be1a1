//! Where the bytes of objects come from, and the buffers they are read into.

pub(crate) mod buffer_pool;
pub(crate) mod local;
pub(crate) mod memory;
pub(crate) mod page_cache;
pub(crate) mod reader;

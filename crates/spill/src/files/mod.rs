//! Files of spilled data: parts in memory, on a local disk, and in an object store.

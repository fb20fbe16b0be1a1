//! A sort that spills ranges of its keys when its input does not fit into memory.

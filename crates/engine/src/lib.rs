//! SQL over object storage with pushdown, on DataFusion.

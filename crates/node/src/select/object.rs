//! The object of a request, and how it is scanned.

use std::sync::Arc;

use pushdowndb_scan::{KnownFooter, MemoryBudget, ObjectReader, ScanOptions};

use crate::Limits;

/// The object of a request.
#[derive(Clone, Debug)]
pub(crate) struct SelectObject {
    pub data: Arc<dyn ObjectReader>,
    /// The cache entry of its footer, for Parquet.
    pub footer: KnownFooter,
    /// The budget for reading it.
    pub memory: MemoryBudget,
}

/// The scan options of S3 Select.
pub(super) fn options(limits: &Limits, memory: &MemoryBudget) -> ScanOptions {
    ScanOptions {
        memory: memory.clone(),
        record_bytes: limits.select_record_bytes,
        row_group_bytes: limits.row_group_bytes,
        ..ScanOptions::default()
    }
}

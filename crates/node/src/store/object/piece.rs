//! The files of an object.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use uuid::Uuid;

use crate::store::disk::checksums::BlockChecksums;

/// A file, and the position of its bytes in the object.
#[derive(Debug)]
pub(crate) struct Piece {
    pub start: u64,
    pub size: u64,
    pub source: Source,
    /// The checksums of its blocks, and the id of the file. `None` behind a gateway, and for
    /// objects of earlier versions until the backfill.
    pub sums: Option<(Uuid, BlockChecksums)>,
}

/// How a piece is opened.
#[derive(Debug)]
pub(crate) enum Source {
    Open(Arc<File>),
    /// Opened on demand, so that an object of thousands of parts does not hold as many descriptors.
    Path(PathBuf),
}

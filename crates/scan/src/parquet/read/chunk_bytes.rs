//! The stored bytes of a column chunk. They are fetched, or read page by page if they are cached.
//!
//! Cached bytes are copied one page at a time, when the page is needed. A page fits into a
//! second-level cache, but a column chunk does not, and two threads with two row groups each would
//! need megabytes of fresh memory.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use ::parquet::errors::Result;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

use crate::io::reader::ReadAtHand;
use crate::parquet::errors::external;
use crate::parquet::read::header::PageHeader;
use crate::parquet::read::page_memory::{PageMemory, broken, zeroed};

/// The number of bytes that are read for a header at first. If it is longer, `GROWTH` times as many
/// are read, and so on.
const USUAL_HEADER_BYTES: usize = 256;
const GROWTH: usize = 4;

/// The maximum size of a header in bytes, as in Arrow's C++ library. Garbage looks like a truncated
/// header.
const MAX_HEADER_BYTES: usize = 16 * 1024 * 1024;

/// The maximum number of cached headers. Each header is needed two or three times.
const MAX_CACHED_HEADERS: usize = 1024;

/// The bytes of a column chunk. Clones share cached pages and headers.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkBytes {
    /// The available pieces, with their offsets in the file, ascending.
    pieces: Vec<(u64, Stored)>,
    kept: Arc<Mutex<Kept>>,
}

/// Consecutive bytes of a file: fetched, or cached by the kernel and read when needed.
#[derive(Clone)]
pub(crate) enum Stored {
    Fetched(Bytes),
    AtHand { length: u64, read: ReadAtHand },
}

#[derive(Debug, Default)]
struct Kept {
    /// Pages that were decompressed for a condition and are needed for the output, too, by the
    /// offset of their compressed bytes.
    pages: HashMap<u64, Bytes>,
    /// The number of bytes of pages that may still be cached.
    left: usize,
    headers: HashMap<u64, PageHeader>,
}

impl ChunkBytes {
    pub(crate) fn new(pieces: Vec<(u64, Stored)>) -> Self {
        Self { pieces, kept: Arc::default() }
    }

    /// Returns whether the whole range is available.
    pub(crate) fn holds(&self, range: &Range<u64>) -> bool {
        self.find(range.start).is_some_and(|(piece, skipped)| range.end - range.start <= piece.length() - skipped)
    }

    /// Reads the header of the page at offset `at`. The header must end before `end`.
    pub(crate) fn header(&self, at: u64, end: u64) -> Result<PageHeader> {
        let (piece, skipped) = self.find(at).ok_or_else(|| broken("lies where nothing was fetched"))?;
        let most = end.saturating_sub(at).min(piece.length() - skipped).min(MAX_HEADER_BYTES as u64) as usize;
        match piece {
            Stored::Fetched(bytes) => {
                let bytes = bytes.get(skipped as usize..).unwrap_or_default();
                PageHeader::parse(bytes.get(..most).unwrap_or_default())
            }
            Stored::AtHand { read, .. } => {
                if let Some(known) = self.kept().headers.get(&at) {
                    return Ok(known.clone());
                }
                let header = header_at_hand(read, at, most)?;
                let headers = &mut self.kept().headers;
                if headers.len() < MAX_CACHED_HEADERS {
                    headers.insert(at, header.clone());
                }
                Ok(header)
            }
        }
    }

    /// Returns the bytes of a page; `None` if some of them are not available.
    pub(crate) fn page(&self, range: Range<u64>, memory: &PageMemory) -> Result<Option<Bytes>> {
        let length = usize::try_from(range.end - range.start).map_err(external)?;
        Ok(match self.find(range.start) {
            Some((piece, skipped)) if length as u64 > piece.length() - skipped => None,
            Some((Stored::Fetched(bytes), skipped)) => {
                let first = skipped as usize;
                Some(bytes.slice(first..first + length))
            }
            Some((Stored::AtHand { read, .. }, _)) => {
                let mut room = memory.room(length, range.start)?;
                read(range.start, room.as_mut()).map_err(external)?;
                Some(room.freeze())
            }
            None => None,
        })
    }

    /// Returns the piece that contains offset `at` or ends there, and the offset in the piece.
    fn find(&self, at: u64) -> Option<(&Stored, u64)> {
        let place = self.pieces.partition_point(|(start, _)| *start <= at).checked_sub(1)?;
        let (start, piece) = self.pieces.get(place)?;
        Some((piece, at - start)).filter(|(piece, skipped)| *skipped <= piece.length())
    }

    /// Caches pages that are decompressed from now on, up to `most` bytes.
    pub(crate) fn keep_pages(&self, most: usize) {
        self.kept().left = most;
    }

    /// Returns the cached page whose compressed bytes begin at `at`.
    pub(crate) fn kept_page(&self, at: u64) -> Option<Bytes> {
        self.kept().pages.get(&at).cloned()
    }

    /// Caches a page, if it fits.
    pub(crate) fn keep(&self, at: u64, page: &Bytes) {
        let mut kept = self.kept();
        if let Some(left) = kept.left.checked_sub(page.len()) {
            kept.left = left;
            kept.pages.insert(at, page.clone());
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock()
    }
}

impl Stored {
    fn length(&self) -> u64 {
        match self {
            Self::Fetched(bytes) => bytes.len() as u64,
            Self::AtHand { length, .. } => *length,
        }
    }
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_fetched = matches!(self, Self::Fetched(_));
        f.debug_struct("Stored").field("length", &self.length()).field("is_fetched", &is_fetched).finish()
    }
}

/// Reads the header at offset `at`, which may have at most `most` bytes.
fn header_at_hand(read: &ReadAtHand, at: u64, most: usize) -> Result<PageHeader> {
    let mut usual = [0; USUAL_HEADER_BYTES];
    let (first, _) = usual.split_at_mut(most.min(USUAL_HEADER_BYTES));
    read(at, first).map_err(external)?;
    let mut header = PageHeader::parse(first);
    let mut length = USUAL_HEADER_BYTES;
    while header.is_err() && length < most {
        length = length.saturating_mul(GROWTH).min(most);
        let mut longer = zeroed(length)?;
        read(at, &mut longer).map_err(external)?;
        header = PageHeader::parse(&longer);
    }
    header
}

//! The bytes of a column chunk, as they are stored: fetched before, or read page by page where they are at hand.
//!
//! What the kernel has in memory is copied when it is needed, a page at a time: a page fits into a core's second cache, a
//! column chunk does not, and two threads that hold two row groups each would have to be given megabytes of fresh memory.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::parquet::errors::Result;
use bytes::Bytes;

use super::errors::external;
use super::header::PageHeader;
use super::page_memory::PageMemory;
use super::pages::{broken, zeroed};
use crate::ReadAtHand;

/// A header is rarely longer. Of one that is, four times as much is read, and so on.
const USUAL_HEADER_BYTES: usize = 256;
const GROWTH: usize = 4;

/// The longest header that is read; Arrow's C++ library has the same limit. What is no header looks like one that is cut off.
const MOST_HEADER_BYTES: usize = 16 * 1024 * 1024;

/// As many headers are remembered of what is at hand: each is asked for two or three times.
const HEADERS: usize = 1024;

/// What there is of a column chunk. Clones share what is kept of it.
#[derive(Clone, Debug, Default)]
pub(super) struct ChunkBytes {
    /// Where each piece lies in the file, ascending.
    pieces: Vec<(u64, Stored)>,
    kept: Arc<Mutex<Kept>>,
}

/// Bytes of a file, one after the other.
#[derive(Clone)]
pub(super) enum Stored {
    Fetched(Bytes),
    AtHand { length: u64, read: ReadAtHand },
}

#[derive(Debug, Default)]
struct Kept {
    /// Pages that were decompressed to decide a condition, for those who read their rows afterwards, by where their
    /// compressed bytes lie in the file.
    pages: HashMap<u64, Bytes>,
    /// As many bytes of pages may still be kept.
    left: usize,
    /// By where they lie.
    headers: HashMap<u64, PageHeader>,
}

impl ChunkBytes {
    pub(super) fn new(pieces: Vec<(u64, Stored)>) -> Self {
        Self { pieces, kept: Arc::default() }
    }

    /// Whether all of this is there.
    pub(super) fn holds(&self, range: &Range<u64>) -> bool {
        self.find(range.start).is_some_and(|(piece, skipped)| range.end - range.start <= piece.length() - skipped)
    }

    /// The header of the page at `at`, which ends before `end`.
    pub(super) fn header(&self, at: u64, end: u64) -> Result<PageHeader> {
        let (piece, skipped) = self.find(at).ok_or_else(|| broken("lies where nothing was fetched"))?;
        let most = end.saturating_sub(at).min(piece.length() - skipped).min(MOST_HEADER_BYTES as u64) as usize;
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
                if headers.len() < HEADERS {
                    headers.insert(at, header.clone());
                }
                Ok(header)
            }
        }
    }

    /// The bytes of a page. `None` if not all of them are there.
    pub(super) fn page(&self, range: Range<u64>, memory: &PageMemory) -> Result<Option<Bytes>> {
        let length = usize::try_from(range.end - range.start).map_err(external)?;
        Ok(match self.find(range.start) {
            Some((piece, skipped)) if length as u64 > piece.length() - skipped => None,
            Some((Stored::Fetched(bytes), skipped)) => {
                let first = skipped as usize;
                Some(bytes.slice(first..first + length))
            }
            Some((Stored::AtHand { read, .. }, _)) => {
                let mut room = memory.room_like(length, range.start)?;
                read(range.start, room.as_mut()).map_err(external)?;
                Some(room.freeze())
            }
            None => None,
        })
    }

    /// The piece that `at` lies in, or at whose end, and how much of it lies before.
    fn find(&self, at: u64) -> Option<(&Stored, u64)> {
        let place = self.pieces.partition_point(|(start, _)| *start <= at).checked_sub(1)?;
        let (start, piece) = self.pieces.get(place)?;
        Some((piece, at - start)).filter(|(piece, skipped)| *skipped <= piece.length())
    }

    /// Keeps pages that are decompressed from here on, up to so many bytes.
    pub(super) fn keep_pages(&self, most: usize) {
        self.kept().left = most;
    }

    /// The page of the bytes at `at`, decompressed, if it was kept.
    pub(super) fn kept_page(&self, at: u64) -> Option<Bytes> {
        self.kept().pages.get(&at).cloned()
    }

    /// Keeps a page, if there is room left.
    pub(super) fn keep(&self, at: u64, page: &Bytes) {
        let mut kept = self.kept();
        if let Some(left) = kept.left.checked_sub(page.len()) {
            kept.left = left;
            kept.pages.insert(at, page.clone());
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
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

/// The header at `at`, which has at most so many bytes.
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

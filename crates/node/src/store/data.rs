//! The bytes of an opened object, for GET and for scans alike.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Context;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt, stream};
use pushdown::ErrorKind;
use pushdowndb_scan::{
    BlockBuffers, BlockFile, Latest, ObjectReader, ReadAtHand, file_blocks, file_ranges, ranges_at_hand, read_cached,
};

use super::files::Pin;
use crate::scans::Bill;

/// Blocks of a stream that are read before they are asked for.
const BLOCKS_AHEAD: usize = 2;

/// Pieces of an object that is scanned that are open at a time: as many as scan it at once, on most machines. Whoever copies it
/// reads one after the other.
const PIECES_OPEN: usize = 16;

/// Buffers that the objects of a store keep for the next ranges.
const RANGE_BUFFERS: usize = 32;

/// How the objects of a store are read.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    block_bytes: usize,
    /// What ranges are read into, of all objects: for the few ranges of a small part of an object the kernel would have to find
    /// and clear fresh memory each time.
    ranges: Arc<BlockBuffers>,
}

impl Reading {
    /// In blocks of this size.
    pub fn new(block_bytes: usize) -> Self {
        Self { block_bytes, ranges: BlockBuffers::new(0, RANGE_BUFFERS) }
    }
}

/// The bytes of one version of one object. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ObjectData {
    place: Place,
    /// Whom the time is booked to that reading takes.
    bill: Option<Bill>,
}

#[derive(Clone, Debug)]
enum Place {
    /// Files of this machine.
    Here(Arc<Inner>),
    /// Another server.
    There(Arc<dyn ObjectReader>),
}

#[derive(Debug)]
struct Inner {
    location: String,
    size: u64,
    reading: Reading,
    /// What blocks are read into.
    buffers: Arc<BlockBuffers>,
    pieces: Vec<Piece>,
    /// The pieces that had to be opened last, and where they stand among all. Several who scan the object at once read a piece
    /// each, block by block.
    opened: Latest<(usize, Arc<File>)>,
    /// Set where the file may change under us: behind a gateway.
    witness: Option<Witness>,
    /// Set where the pieces are opened one by one.
    _pin: Option<Pin>,
}

/// A file and the place of its bytes in the object.
#[derive(Debug)]
pub(crate) struct Piece {
    pub start: u64,
    pub size: u64,
    pub source: Source,
}

/// How a piece is read.
#[derive(Debug)]
pub(crate) enum Source {
    Open(Arc<File>),
    /// Opened when it is read, so that an object of thousands of parts does not hold thousands of descriptors.
    Path(PathBuf),
}

/// What a file looked like when it was opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Witness {
    pub inode: u64,
    pub size: u64,
    pub modified_ns: i128,
}

impl Witness {
    pub fn of(metadata: &std::fs::Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            size: metadata.size(),
            modified_ns: i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
        }
    }
}

/// For blocks of this size of an object: as many as two who read it at once need.
fn buffers(block: usize, size: u64) -> Arc<BlockBuffers> {
    BlockBuffers::new(usize::try_from(size).unwrap_or(usize::MAX).min(block), 2 * (BLOCKS_AHEAD + 1))
}

impl ObjectData {
    pub fn new(location: String, reading: &Reading, pieces: Vec<Piece>, pin: Option<Pin>) -> Self {
        let size = pieces.iter().map(|piece| piece.size).sum();
        let (reading, buffers) = (reading.clone(), buffers(reading.block_bytes, size));
        let opened = Latest::default();
        let inner = Inner { location, size, reading, buffers, pieces, opened, witness: None, _pin: pin };
        Self::at(Place::Here(Arc::new(inner)))
    }

    /// One file that others may write to; a change is noticed and ends the read with an error.
    pub fn watched(location: String, reading: &Reading, file: File, witness: Witness) -> Self {
        let pieces = vec![Piece { start: 0, size: witness.size, source: Source::Open(Arc::new(file)) }];
        let (size, witness) = (witness.size, Some(witness));
        let (reading, buffers, opened) = (reading.clone(), buffers(reading.block_bytes, size), Latest::default());
        let inner = Inner { location, size, reading, buffers, pieces, opened, witness, _pin: None };
        Self::at(Place::Here(Arc::new(inner)))
    }

    /// Bytes behind a gateway.
    pub fn distant(reader: Arc<dyn ObjectReader>) -> Self {
        Self::at(Place::There(reader))
    }

    fn at(place: Place) -> Self {
        Self { place, bill: None }
    }

    /// The same for a scan, which pays for its reading: copying blocks takes as long as searching them.
    pub fn billed(self, bill: Bill) -> Self {
        Self { bill: Some(bill), ..self }
    }

    fn files(&self, inner: &Arc<Inner>) -> Billed {
        let most_open = if self.bill.is_some() { PIECES_OPEN } else { 1 };
        Billed { inner: Arc::clone(inner), bill: self.bill.clone(), most_open }
    }

    /// The bytes of `range` in blocks; those of files that are not in memory are read ahead.
    pub fn blocks(&self, range: Range<u64>) -> impl Stream<Item = io::Result<Bytes>> + Send + Sync + use<> {
        match &self.place {
            Place::Here(inner) => {
                let file = self.files(inner);
                file_blocks(Arc::new(file), range, BLOCKS_AHEAD, Arc::clone(&inner.buffers)).left_stream()
            }
            Place::There(reader) => {
                // A stream is asked by one at a time; the lock that is never taken says so to the compiler.
                let mut blocks = Mutex::new(reader.stream(range));
                let next = move |cx: &mut Context<'_>| {
                    blocks.get_mut().unwrap_or_else(PoisonError::into_inner).poll_next_unpin(cx)
                };
                stream::poll_fn(next).map(|block| block.map_err(io::Error::other)).right_stream()
            }
        }
    }
}

/// Files whose reading is booked to somebody.
#[derive(Clone, Debug)]
struct Billed {
    inner: Arc<Inner>,
    bill: Option<Bill>,
    /// How many of its pieces stay open.
    most_open: usize,
}

impl BlockFile for Billed {
    fn read(&self, at: u64, block: &mut [u8]) -> io::Result<()> {
        Bill::time(&self.bill, || self.inner.read(at, block, self.most_open))
    }

    /// Booked with what else the scan does that asks for it.
    fn read_cached(&self, at: u64, block: &mut [u8]) -> io::Result<usize> {
        self.inner.read_cached(at, block, self.most_open)
    }

    fn block_bytes(&self, _: u64) -> u64 {
        self.inner.reading.block_bytes as u64
    }
}

impl Inner {
    fn read(&self, start: u64, block: &mut [u8], most_open: usize) -> io::Result<()> {
        if start + block.len() as u64 > self.size {
            return Err(past_the_end());
        }
        let mut done = 0;
        while let Some((piece, at, out)) = self.next_piece(start, block, done) {
            self.file(piece, most_open)?.read_exact_at(out, at)?;
            done += out.len();
        }
        self.check_unchanged()
    }

    fn read_cached(&self, start: u64, block: &mut [u8], most_open: usize) -> io::Result<usize> {
        let mut done = 0;
        while let Some((piece, at, out)) = self.next_piece(start, block, done) {
            let read = read_cached(&*self.file(piece, most_open)?, at, out);
            done += read;
            if read < out.len() {
                break;
            }
        }
        self.check_unchanged()?;
        Ok(done)
    }

    /// The file of a piece.
    fn file(&self, piece: usize, most_open: usize) -> io::Result<Arc<File>> {
        match self.pieces.get(piece).map(|piece| &piece.source) {
            Some(Source::Open(file)) => Ok(Arc::clone(file)),
            Some(Source::Path(path)) => {
                let open = || File::open(path).map(|file| (piece, Arc::new(file)));
                Ok(self.opened.get_or_make(most_open, |(place, _)| *place == piece, open)?.1)
            }
            None => Err(past_the_end()),
        }
    }

    /// The place of the piece that has what comes after the first `done` bytes of a block from `start` on, where, and what of the block
    /// it fills.
    fn next_piece<'a>(&self, start: u64, block: &'a mut [u8], done: usize) -> Option<(usize, u64, &'a mut [u8])> {
        let at = start + done as u64;
        let place = self.pieces.partition_point(|piece| piece.start + piece.size <= at);
        let piece = self.pieces.get(place)?;
        let left = usize::try_from(piece.start + piece.size - at).unwrap_or(usize::MAX);
        let out = block.get_mut(done..)?;
        let length = out.len().min(left);
        let out = out.get_mut(..length).filter(|out| !out.is_empty())?;
        Some((place, at - piece.start, out))
    }

    fn check_unchanged(&self) -> io::Result<()> {
        let (Some(witness), Some(Piece { source: Source::Open(file), .. })) = (self.witness, self.pieces.first())
        else {
            return Ok(());
        };
        if Witness::of(&file.metadata()?) == witness {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidData, "the file was changed while it was being read"))
        }
    }

    fn error(&self, error: io::Error) -> pushdown::Error {
        let kind = match error.kind() {
            io::ErrorKind::InvalidData => ErrorKind::Conflict,
            io::ErrorKind::UnexpectedEof => ErrorKind::Corrupt,
            _ => ErrorKind::Unavailable,
        };
        pushdown::Error::new(kind, format!("{}: cannot read", self.location)).with_source(error)
    }
}

fn past_the_end() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "a read past the end of the object")
}

impl ObjectReader for ObjectData {
    fn location(&self) -> &str {
        match &self.place {
            Place::Here(inner) => &inner.location,
            Place::There(reader) => reader.location(),
        }
    }

    fn size(&self) -> u64 {
        match &self.place {
            Place::Here(inner) => inner.size,
            Place::There(reader) => reader.size(),
        }
    }

    fn stream(&self, range: Range<u64>) -> BoxStream<'static, pushdown::Result<Bytes>> {
        match &self.place {
            Place::Here(inner) => {
                let reader = Arc::clone(inner);
                self.blocks(range).map(move |block| block.map_err(|error| reader.error(error))).boxed()
            }
            Place::There(reader) => reader.stream(range),
        }
    }

    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, pushdown::Result<Vec<Bytes>>> {
        let inner = match &self.place {
            Place::Here(inner) => Arc::clone(inner),
            Place::There(reader) => return reader.read_ranges(ranges),
        };
        let file = Arc::new(self.files(&inner));
        async move {
            if ranges.iter().any(|range| range.end > inner.size) {
                return Err(inner.error(past_the_end()));
            }
            let read = file_ranges(&file, ranges, &inner.reading.ranges).await;
            read.map_err(|error| inner.error(error))
        }
        .boxed()
    }

    fn at_hand(&self, ranges: &[Range<u64>]) -> Option<ReadAtHand> {
        let inner = match &self.place {
            Place::Here(inner) => Arc::clone(inner),
            Place::There(reader) => return reader.at_hand(ranges),
        };
        // Whoever reads pays for that already, and for waiting too where it must.
        let file = Arc::new(Billed { bill: None, ..self.files(&inner) });
        ranges_at_hand(file, ranges, move |error| inner.error(error))
    }
}

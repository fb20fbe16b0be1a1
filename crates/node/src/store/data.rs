//! The bytes of an opened object, for GET and for scans alike.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Context;
use std::time::SystemTime;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt, stream};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use pushdown::ErrorKind;
use pushdowndb_scan::{
    BlockBuffers, BlockFile, Latest, ObjectReader, ReadAtHand, file_blocks, file_ranges, ranges_at_hand, read_cached,
};
use uuid::Uuid;

use super::checked::{Checked, Failure, How};
use super::files::Pin;
use super::sums::{Damaged, FileSums, Sums};
use super::verifier::Verifier;
use super::witness::Witness;
use crate::Limits;
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
    /// What blocks are compared with, and what is known of them.
    verifier: Arc<Verifier>,
}

impl Reading {
    pub fn new(limits: &Limits) -> Self {
        let ranges = BlockBuffers::new(0, RANGE_BUFFERS);
        Self { block_bytes: limits.block_bytes, ranges, verifier: Verifier::new(limits) }
    }

    /// The same, but every block is compared, however lately it was.
    pub fn of_a_scrub(&self) -> Self {
        Self { verifier: self.verifier.without_interval(), ..self.clone() }
    }

    /// What is known of the blocks.
    pub fn verifier(&self) -> &Arc<Verifier> {
        &self.verifier
    }
}

/// The bytes of one version of one object. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ObjectData {
    place: Place,
    /// Whether its ETag belongs to these bytes and never to others.
    is_settled: bool,
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
    /// The checksums of the pieces that were read last.
    sums: Latest<(usize, Arc<FileSums>)>,
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
    /// What its blocks are compared with, and the file they are of; there are none behind a gateway, nor of objects
    /// that an earlier version stored until a pass has made them.
    pub sums: Option<(Uuid, Sums)>,
}

/// How a piece is read.
#[derive(Debug)]
pub(crate) enum Source {
    Open(Arc<File>),
    /// Opened when it is read, so that an object of thousands of parts does not hold thousands of descriptors.
    Path(PathBuf),
}

/// For blocks of this size of an object: as many as two who read it at once need.
fn buffers(block: usize, size: u64) -> Arc<BlockBuffers> {
    BlockBuffers::new(usize::try_from(size).unwrap_or(usize::MAX).min(block), 2 * (BLOCKS_AHEAD + 1))
}

impl ObjectData {
    pub fn new(location: String, reading: &Reading, pieces: Vec<Piece>, pin: Option<Pin>) -> Self {
        let size = pieces.iter().map(|piece| piece.size).sum();
        let (reading, buffers) = (reading.clone(), buffers(reading.block_bytes, size));
        let (opened, sums) = (Latest::default(), Latest::default());
        let inner = Inner { location, size, reading, buffers, pieces, opened, sums, witness: None, _pin: pin };
        Self::at(Place::Here(Arc::new(inner)))
    }

    /// One file that others may write to; a change is noticed and ends the read with an error.
    pub fn watched(location: String, reading: &Reading, file: File, witness: Witness) -> Self {
        let pieces = vec![Piece { start: 0, size: witness.size, source: Source::Open(Arc::new(file)), sums: None }];
        let is_settled = witness.is_settled(SystemTime::now());
        let (size, witness) = (witness.size, Some(witness));
        let (reading, buffers) = (reading.clone(), buffers(reading.block_bytes, size));
        let (opened, sums) = (Latest::default(), Latest::default());
        let inner = Inner { location, size, reading, buffers, pieces, opened, sums, witness, _pin: None };
        Self { is_settled, ..Self::at(Place::Here(Arc::new(inner))) }
    }

    /// Bytes behind a gateway; `is_settled` where their ETag tells them from all others.
    pub fn distant(reader: Arc<dyn ObjectReader>, is_settled: bool) -> Self {
        Self { is_settled, ..Self::at(Place::There(reader)) }
    }

    fn at(place: Place) -> Self {
        Self { place, is_settled: true, bill: None }
    }

    /// Whether something may be learned of the bytes under their ETag. Not of a file that may still change unseen.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// The same for a scan, which pays for its reading: copying blocks takes as long as searching them.
    pub fn billed(self, bill: Bill) -> Self {
        Self { bill: Some(bill), ..self }
    }

    fn files(&self, inner: &Arc<Inner>) -> Billed {
        let most_open = if self.bill.is_some() { PIECES_OPEN } else { 1 };
        Billed { inner: Arc::clone(inner), bill: self.bill.clone(), most_open }
    }

    /// Reads what lies at `at`, and leaves nothing in the kernel's cache that was not there. Blocks.
    pub fn read_aside(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        match &self.place {
            Place::Here(inner) => {
                let was_cached = inner.is_cached(at, 1);
                inner.read(at, out, 1)?;
                if !was_cached {
                    inner.forget_cached(at, out.len() as u64);
                }
                Ok(())
            }
            Place::There(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Its pieces, if some have no checksums though our own store holds them.
    pub fn pieces_to_vouch_for(&self) -> Option<Vec<Range<u64>>> {
        let Place::Here(inner) = &self.place else { return None };
        let has_none = inner.witness.is_none() && inner.pieces.iter().any(|piece| piece.sums.is_none());
        has_none.then(|| inner.pieces.iter().map(|piece| piece.start..piece.start + piece.size).collect())
    }

    /// What of it has checksums and was not compared with them lately.
    pub fn unverified(&self) -> Vec<Range<u64>> {
        match &self.place {
            Place::Here(inner) => inner.unverified(),
            Place::There(_) => Vec::new(),
        }
    }

    /// The bytes of `range` in blocks; those of files that are not in memory are read ahead.
    pub fn blocks(&self, range: Range<u64>) -> impl Stream<Item = io::Result<Bytes>> + Send + Sync + use<> {
        match &self.place {
            Place::Here(inner) => {
                let (file, reader) = (self.files(inner), Arc::clone(inner));
                let blocks = file_blocks(Arc::new(file), range, BLOCKS_AHEAD, Arc::clone(&inner.buffers));
                // Logs are to say which object it was, as damage does by itself.
                let named = move |error: io::Error| match Damaged::in_error(&error) {
                    Some(_) => error,
                    None => io::Error::new(error.kind(), format!("{}: {error}", reader.location)),
                };
                blocks.map(move |block| block.map_err(&named)).left_stream()
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

    /// A byte that no one gets is compared with nothing.
    fn is_cached(&self, at: u64) -> bool {
        self.inner.is_cached(at, self.most_open)
    }

    fn block_bytes(&self, at: u64) -> u64 {
        self.inner.block_length(at)
    }
}

impl Inner {
    fn read(&self, start: u64, block: &mut [u8], most_open: usize) -> io::Result<()> {
        if start + block.len() as u64 > self.size {
            return Err(past_the_end());
        }
        let mut done = 0;
        while let Some((piece, at, out)) = self.next_piece(start, block, done) {
            let file = self.file(piece, most_open)?;
            if self.read_piece(piece, &file, at, out, How::Waiting)? < out.len() {
                return Err(past_the_end());
            }
            done += out.len();
        }
        self.check_unchanged()
    }

    fn read_cached(&self, start: u64, block: &mut [u8], most_open: usize) -> io::Result<usize> {
        let mut done = 0;
        while let Some((piece, at, out)) = self.next_piece(start, block, done) {
            let file = self.file(piece, most_open)?;
            let read = self.read_piece(piece, &file, at, out, How::Cached)?;
            done += read;
            if read < out.len() {
                break;
            }
        }
        self.check_unchanged()?;
        Ok(done)
    }

    fn is_cached(&self, at: u64, most_open: usize) -> bool {
        let mut byte = [0];
        let Some((piece, at, out)) = self.next_piece(at, &mut byte, 0) else { return false };
        self.file(piece, most_open).is_ok_and(|file| read_cached(&file, at, out) == 1)
    }

    /// Has the kernel let go of what it read.
    fn forget_cached(&self, at: u64, length: u64) {
        let place = self.pieces.partition_point(|piece| piece.start + piece.size <= at);
        let Some(piece) = self.pieces.get(place) else { return };
        let bounds = i64::try_from(at - piece.start).ok().zip(i64::try_from(length).ok());
        if let (Some((from, length)), Ok(file)) = (bounds, self.file(place, 1)) {
            // Advice; a file system that keeps no pages has nothing to forget.
            let _ = posix_fadvise(&*file, from, length, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
        }
    }

    /// Reads from one piece, and compares what it read with the checksums of its blocks.
    fn read_piece(&self, piece: usize, file: &File, at: u64, out: &mut [u8], how: How) -> io::Result<usize> {
        let Some(id) = self.pieces.get(piece).and_then(|piece| piece.sums).map(|(id, _)| id) else {
            return how.read(file, at, out);
        };
        let read = self.sums(piece, file, how).and_then(|sums| {
            let (verifier, buffers) = (&*self.reading.verifier, &self.reading.ranges);
            Checked { file, sums: &sums, verifier, buffers }.read(at, out, how)
        });
        read.or_else(|failure| match failure {
            Failure::Damaged(block) => {
                let size = self.block_size(piece);
                let (start, end) = (block * size, (block + 1) * size);
                let place = self.pieces.get(piece).map_or(0, |piece| piece.start);
                let what = format!("bytes {} to {} are not what was stored", place + start, place + end);
                Err(self.reading.verifier.report(&self.location, Some(id), what))
            }
            Failure::Io(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Failure::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.reading.verifier.report(&self.location, Some(id), "its data file ends early".to_owned()))
            }
            Failure::Io(error) => Err(error),
        })
    }

    fn block_size(&self, piece: usize) -> u64 {
        let sums = self.pieces.get(piece).and_then(|piece| piece.sums);
        sums.map_or(self.size, |(_, sums)| u64::from(sums.block.max(1)))
    }

    /// The checksums of a piece; an error of kind `WouldBlock` where they are not in memory and nothing may wait.
    fn sums(&self, place: usize, file: &File, how: How) -> Result<Arc<FileSums>, Failure> {
        let Some((piece, (id, sums))) = self.pieces.get(place).and_then(|piece| Some((piece, piece.sums?))) else {
            return Err(Failure::Io(past_the_end()));
        };
        let make = || {
            let behind = usize::try_from(sums.bytes_behind(piece.size)).map_err(io::Error::other)?;
            if let Some(known) = self.reading.verifier.get(id) {
                return Ok((place, known));
            }
            let mut bytes = vec![0; behind];
            if how.read(file, piece.size, &mut bytes)? < behind {
                return Err(Failure::Io(io::ErrorKind::WouldBlock.into()));
            }
            let Some(read) = FileSums::read(sums, piece.size, &bytes) else {
                let what = "the checksums of its blocks are not what was stored".to_owned();
                return Err(Failure::Io(self.reading.verifier.report(&self.location, Some(id), what)));
            };
            // Those of one block are in the index, and cost as much to keep as to verify.
            Ok((place, if behind == 0 { Arc::new(read) } else { self.reading.verifier.keep(id, read) }))
        };
        Ok(self.sums.get_or_make(PIECES_OPEN, |(known, _)| *known == place, make)?.1)
    }

    /// How long a block is that begins at `at`: it ends where one with a checksum does.
    fn block_length(&self, at: u64) -> u64 {
        let usual = (self.reading.block_bytes as u64).max(1);
        let place = self.pieces.partition_point(|piece| piece.start + piece.size <= at);
        let Some((piece, (_, sums))) = self.pieces.get(place).and_then(|piece| Some((piece, piece.sums?))) else {
            return usual;
        };
        let (from, block) = (at - piece.start, u64::from(sums.block.max(1)));
        let end = (from + usual) / block * block;
        let end = if end <= from { from + usual } else { end };
        end.min(piece.size) - from
    }

    fn unverified(&self) -> Vec<Range<u64>> {
        let since = self.reading.verifier.since();
        let is_fresh = |id: Uuid| {
            let known = self.reading.verifier.get(id);
            known.is_some_and(|sums| sums.are_fresh(0..=sums.block_at(sums.size.saturating_sub(1)).0, since))
        };
        let stale = self.pieces.iter().filter(|piece| piece.sums.is_some_and(|(id, _)| !is_fresh(id)));
        stale.map(|piece| piece.start..piece.start + piece.size).filter(|range| !range.is_empty()).collect()
    }

    /// The file of a piece.
    fn file(&self, piece: usize, most_open: usize) -> io::Result<Arc<File>> {
        match self.pieces.get(piece).map(|piece| &piece.source) {
            Some(Source::Open(file)) => Ok(Arc::clone(file)),
            Some(Source::Path(path)) => {
                let open = || File::open(path).map(|file| (piece, Arc::new(file)));
                let opened = self.opened.get_or_make(most_open, |(place, _)| *place == piece, open);
                Ok(opened.map_err(|error| self.missing(piece, error))?.1)
            }
            None => Err(past_the_end()),
        }
    }

    fn missing(&self, piece: usize, error: io::Error) -> io::Error {
        if error.kind() != io::ErrorKind::NotFound {
            return error;
        }
        let id = self.pieces.get(piece).and_then(|piece| piece.sums).map(|(id, _)| id);
        self.reading.verifier.report(&self.location, id, "a data file of it is missing".to_owned())
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
        if witness.still_holds(&Witness::of(file)?) {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidData, "the file was changed while it was being read"))
        }
    }

    fn error(&self, error: io::Error) -> pushdown::Error {
        if let Some(damaged) = Damaged::in_error(&error) {
            // Not of the client's making, as what it stored may be.
            return pushdown::Error::new(ErrorKind::Corrupt, damaged.to_string()).with_code("InternalError");
        }
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

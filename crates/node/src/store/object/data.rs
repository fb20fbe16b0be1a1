//! The bytes of an opened object, for GET and for scans.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::task::Context;
use std::time::SystemTime;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt, stream};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use parking_lot::Mutex;
use pushdowndb_contract::ErrorKind;
use pushdowndb_scan::{
    BlockBuffers, BlockFile, Latest, MemoryBudget, ObjectReader, ReadAtHand, file_blocks, file_ranges, ranges_at_hand,
    read_cached,
};
use uuid::Uuid;

use super::RemoteObject;
use super::file_version::FileVersion;
use super::piece::{Piece, Source};
use super::read_rate::ReadRate;
use super::verified_read::{ReadFailure, ReadMode, VerifiedFile};
use super::verifier::Verifier;
use crate::Limits;
use crate::store::disk::checksums::FileChecksums;
use crate::store::disk::data_files::FilePin;
use crate::store::fault::Damaged;
use crate::telemetry::CpuMeter;

/// Blocks of a stream that are read ahead.
const BLOCKS_AHEAD: usize = 2;

/// Pieces of an object that stay open while it is scanned: as many as are scanned in parallel on
/// most machines. Other reads keep one piece open.
const MAX_OPEN_PIECES: usize = 16;

/// Buffers that a store keeps for range reads.
const RANGE_BUFFERS: usize = 32;

/// How the objects of a store are read.
#[derive(Clone, Debug)]
pub(crate) struct ReadContext {
    block_bytes: usize,
    /// Buffers for range reads of all objects; allocating fresh memory for each would cost page
    /// faults.
    ranges: Arc<BlockBuffers>,
    /// Verifies blocks, and caches which ones are verified.
    verifier: Arc<Verifier>,
    /// The limit on the rate of disk reads, if there is one.
    rate: Option<Arc<ReadRate>>,
}

impl ReadContext {
    pub fn new(limits: &Limits) -> Self {
        let ranges = BlockBuffers::new(0, RANGE_BUFFERS);
        let rate = ReadRate::new(limits.disk_bytes).map(Arc::new);
        Self { block_bytes: limits.block_bytes, ranges, verifier: Verifier::new(limits), rate }
    }

    /// Returns the same context, except that every read verifies its blocks.
    pub fn without_interval(&self) -> Self {
        Self { verifier: self.verifier.without_interval(), ..self.clone() }
    }

    /// The verification state of the blocks.
    pub fn verifier(&self) -> &Arc<Verifier> {
        &self.verifier
    }
}

/// The bytes of one version of an object. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ObjectData {
    origin: Origin,
    /// Whether the ETag will always identify exactly these bytes.
    is_stable: bool,
    /// The meter that is charged for the time of reading.
    meter: Option<CpuMeter>,
}

#[derive(Clone, Debug)]
enum Origin {
    /// Files of this machine.
    Local(Arc<Inner>),
    /// An object on another server.
    Remote(Arc<dyn RemoteObject>),
}

#[derive(Debug)]
struct Inner {
    location: String,
    size: u64,
    reading: ReadContext,
    /// Buffers for blocks of a stream.
    buffers: Arc<BlockBuffers>,
    pieces: Vec<Piece>,
    /// The pieces opened last, by their index. Parallel scans of the object read a piece each.
    opened: Latest<(usize, Arc<File>)>,
    /// The checksums of the pieces read last.
    sums: Latest<(usize, Arc<FileChecksums>)>,
    /// Set for files that others may change: behind a gateway.
    version: Option<FileVersion>,
    /// Set if the pieces are opened one by one.
    _pin: Option<FilePin>,
}

/// Creates buffers for the blocks of an object, enough for two readers.
fn buffers(block: usize, size: u64) -> Arc<BlockBuffers> {
    BlockBuffers::new(usize::try_from(size).unwrap_or(usize::MAX).min(block), 2 * (BLOCKS_AHEAD + 1))
}

impl ObjectData {
    pub fn new(location: String, reading: &ReadContext, pieces: Vec<Piece>, pin: Option<FilePin>) -> Self {
        let size = pieces.iter().map(|piece| piece.size).sum();
        let (reading, buffers) = (reading.clone(), buffers(reading.block_bytes, size));
        let (opened, sums) = (Latest::default(), Latest::default());
        let inner = Inner { location, size, reading, buffers, pieces, opened, sums, version: None, _pin: pin };
        Self::at(Origin::Local(Arc::new(inner)))
    }

    /// Data in a file that other programs may write to; a change of the file fails the read.
    pub fn watched(location: String, reading: &ReadContext, file: File, version: FileVersion) -> Self {
        let pieces = vec![Piece { start: 0, size: version.size, source: Source::Open(Arc::new(file)), sums: None }];
        let is_stable = version.is_stable(SystemTime::now());
        let (size, version) = (version.size, Some(version));
        let (reading, buffers) = (reading.clone(), buffers(reading.block_bytes, size));
        let (opened, sums) = (Latest::default(), Latest::default());
        let inner = Inner { location, size, reading, buffers, pieces, opened, sums, version, _pin: None };
        Self { is_stable, ..Self::at(Origin::Local(Arc::new(inner))) }
    }

    /// An object on another server; `is_stable` if its ETag identifies the version.
    pub fn remote(reader: Arc<dyn RemoteObject>, is_stable: bool) -> Self {
        Self { is_stable, ..Self::at(Origin::Remote(reader)) }
    }

    fn at(origin: Origin) -> Self {
        Self { origin, is_stable: true, meter: None }
    }

    /// Whether results may be cached by ETag. False for a file that might still change unnoticed.
    pub fn is_stable(&self) -> bool {
        self.is_stable
    }

    /// Prepares the data for a scan that reserves from `memory`. The time of reading is charged to
    /// `meter`: copying blocks takes as long as searching them.
    pub fn for_scan(self, meter: CpuMeter, memory: &MemoryBudget) -> Self {
        let origin = match self.origin {
            Origin::Remote(reader) => Origin::Remote(reader.for_scan(memory)),
            local @ Origin::Local(_) => local,
        };
        Self { origin, meter: Some(meter), ..self }
    }

    fn files(&self, inner: &Arc<Inner>) -> MeteredFiles {
        let max_open = if self.meter.is_some() { MAX_OPEN_PIECES } else { 1 };
        MeteredFiles { inner: Arc::clone(inner), meter: self.meter.clone(), max_open }
    }

    /// Reads at `at` without adding pages to the page cache. Blocks.
    pub fn read_uncached(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        match &self.origin {
            Origin::Local(inner) => {
                let was_cached = inner.is_cached(at, 1);
                inner.read(at, out, 1)?;
                if !was_cached {
                    inner.drop_page_cache(at, out.len() as u64);
                }
                Ok(())
            }
            Origin::Remote(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The ranges of all pieces, if the store is local and some pieces lack checksums; otherwise
    /// `None`.
    pub fn pieces_without_checksums(&self) -> Option<Vec<Range<u64>>> {
        let Origin::Local(inner) = &self.origin else { return None };
        let has_none = inner.version.is_none() && inner.pieces.iter().any(|piece| piece.sums.is_none());
        has_none.then(|| inner.pieces.iter().map(|piece| piece.start..piece.start + piece.size).collect())
    }

    /// The ranges that have checksums and were not verified recently.
    pub fn unverified(&self) -> Vec<Range<u64>> {
        match &self.origin {
            Origin::Local(inner) => inner.unverified(),
            Origin::Remote(_) => Vec::new(),
        }
    }

    /// The bytes of `range` in blocks. Blocks that are not cached are read ahead.
    pub fn blocks(&self, range: Range<u64>) -> impl Stream<Item = io::Result<Bytes>> + Send + Sync + use<> {
        match &self.origin {
            Origin::Local(inner) => {
                let (file, reader) = (self.files(inner), Arc::clone(inner));
                let blocks = file_blocks(Arc::new(file), range, BLOCKS_AHEAD, Arc::clone(&inner.buffers));
                // Adds the location of the object for the log; errors about damage contain it
                // already.
                let named = move |error: io::Error| match Damaged::in_error(&error) {
                    Some(_) => error,
                    None => io::Error::new(error.kind(), format!("{}: {error}", reader.location)),
                };
                blocks.map(move |block| block.map_err(&named)).left_stream()
            }
            Origin::Remote(reader) => {
                // Makes the stream `Sync`. The lock is never contended, since only one task polls
                // the stream.
                let mut blocks = Mutex::new(reader.stream(range));
                let next = move |cx: &mut Context<'_>| blocks.get_mut().poll_next_unpin(cx);
                stream::poll_fn(next).map(|block| block.map_err(io::Error::other)).right_stream()
            }
        }
    }
}

/// Files whose reading is metered.
#[derive(Clone, Debug)]
struct MeteredFiles {
    inner: Arc<Inner>,
    meter: Option<CpuMeter>,
    /// Maximum pieces that stay open.
    max_open: usize,
}

impl BlockFile for MeteredFiles {
    fn read(&self, at: u64, block: &mut [u8]) -> io::Result<()> {
        let mut read = || self.inner.read(at, block, self.max_open);
        match &self.meter {
            Some(meter) => meter.time(read),
            None => read(),
        }
    }

    /// Not metered, since the scan that calls it is.
    fn read_cached(&self, at: u64, block: &mut [u8]) -> io::Result<usize> {
        self.inner.read_cached(at, block, self.max_open)
    }

    /// Not verified, since the byte is not returned.
    fn is_cached(&self, at: u64) -> bool {
        self.inner.is_cached(at, self.max_open)
    }

    fn block_bytes(&self, at: u64) -> u64 {
        self.inner.block_length(at)
    }
}

impl Inner {
    fn read(&self, start: u64, block: &mut [u8], max_open: usize) -> io::Result<()> {
        if start + block.len() as u64 > self.size {
            return Err(past_the_end());
        }
        let mut done = 0;
        while let Some((piece, at, out)) = self.next_piece(start, block, done) {
            let file = self.file(piece, max_open)?;
            if self.read_piece(piece, &file, at, out, ReadMode::Blocking)? < out.len() {
                return Err(past_the_end());
            }
            done += out.len();
        }
        self.reading.rate.iter().for_each(|rate| rate.pass(done));
        self.check_unchanged()
    }

    fn read_cached(&self, start: u64, block: &mut [u8], max_open: usize) -> io::Result<usize> {
        let mut done = 0;
        while let Some((piece, at, out)) = self.next_piece(start, block, done).filter(|_| self.reading.rate.is_none()) {
            let file = self.file(piece, max_open)?;
            let read = self.read_piece(piece, &file, at, out, ReadMode::CachedOnly)?;
            done += read;
            if read < out.len() {
                break;
            }
        }
        self.check_unchanged()?;
        Ok(done)
    }

    fn is_cached(&self, at: u64, max_open: usize) -> bool {
        let mut byte = [0];
        let next = self.next_piece(at, &mut byte, 0).filter(|_| self.reading.rate.is_none());
        let Some((piece, at, out)) = next else { return false };
        self.file(piece, max_open).is_ok_and(|file| read_cached(&file, at, out) == 1)
    }

    /// Drops cached pages of a range.
    fn drop_page_cache(&self, at: u64, length: u64) {
        let place = self.pieces.partition_point(|piece| piece.start + piece.size <= at);
        let Some(piece) = self.pieces.get(place) else { return };
        let bounds = i64::try_from(at - piece.start).ok().zip(i64::try_from(length).ok());
        if let (Some((from, length)), Ok(file)) = (bounds, self.file(place, 1)) {
            // Only advice; a file system without a page cache ignores it.
            let _ = posix_fadvise(&*file, from, length, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
        }
    }

    /// Reads from one piece and verifies its blocks.
    fn read_piece(&self, piece: usize, file: &File, at: u64, out: &mut [u8], mode: ReadMode) -> io::Result<usize> {
        let Some(id) = self.pieces.get(piece).and_then(|piece| piece.sums).map(|(id, _)| id) else {
            return mode.read(file, at, out);
        };
        let read = self.sums(piece, file, mode).and_then(|sums| {
            let (verifier, buffers) = (&*self.reading.verifier, &self.reading.ranges);
            VerifiedFile { file, sums: &sums, verifier, buffers }.read(at, out, mode)
        });
        read.or_else(|failure| match failure {
            ReadFailure::Damaged(block) => {
                let size = self.block_size(piece);
                let (start, end) = (block * size, (block + 1) * size);
                let place = self.pieces.get(piece).map_or(0, |piece| piece.start);
                let what = format!("bytes {} to {} are not what was stored", place + start, place + end);
                Err(self.reading.verifier.report(&self.location, Some(id), what))
            }
            ReadFailure::Io(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            ReadFailure::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.reading.verifier.report(&self.location, Some(id), "its data file ends early".to_owned()))
            }
            ReadFailure::Io(error) => Err(error),
        })
    }

    fn block_size(&self, piece: usize) -> u64 {
        let sums = self.pieces.get(piece).and_then(|piece| piece.sums);
        sums.map_or(self.size, |(_, sums)| u64::from(sums.block.max(1)))
    }

    /// The checksums of a piece; an error of kind `WouldBlock` if they are not cached and the read
    /// must not wait.
    fn sums(&self, place: usize, file: &File, mode: ReadMode) -> Result<Arc<FileChecksums>, ReadFailure> {
        let Some((piece, (id, sums))) = self.pieces.get(place).and_then(|piece| Some((piece, piece.sums?))) else {
            return Err(ReadFailure::Io(past_the_end()));
        };
        let make = || {
            let trailer = usize::try_from(sums.trailer_bytes(piece.size)).map_err(io::Error::other)?;
            if let Some(known) = self.reading.verifier.get(id) {
                return Ok((place, known));
            }
            let mut bytes = vec![0; trailer];
            if mode.read(file, piece.size, &mut bytes)? < trailer {
                return Err(ReadFailure::Io(io::ErrorKind::WouldBlock.into()));
            }
            let Some(read) = FileChecksums::read(sums, piece.size, &bytes) else {
                let what = "the checksums of its blocks are not what was stored".to_owned();
                return Err(ReadFailure::Io(self.reading.verifier.report(&self.location, Some(id), what)));
            };
            // A single checksum comes from the index, and caching it would cost as much as
            // verifying it.
            Ok((place, if trailer == 0 { Arc::new(read) } else { self.reading.verifier.keep(id, read) }))
        };
        Ok(self.sums.get_or_make(MAX_OPEN_PIECES, |(known, _)| *known == place, make)?.1)
    }

    /// The length of the block that starts at `at`, chosen so that it ends at a checksum boundary.
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
        let since = self.reading.verifier.trusted_since();
        let is_fresh = |id: Uuid| {
            let known = self.reading.verifier.get(id);
            known.is_some_and(|sums| sums.are_verified_since(0..=sums.block_at(sums.size.saturating_sub(1)).0, since))
        };
        let stale = self.pieces.iter().filter(|piece| piece.sums.is_some_and(|(id, _)| !is_fresh(id)));
        stale.map(|piece| piece.start..piece.start + piece.size).filter(|range| !range.is_empty()).collect()
    }

    /// Opens the file of a piece.
    fn file(&self, piece: usize, max_open: usize) -> io::Result<Arc<File>> {
        match self.pieces.get(piece).map(|piece| &piece.source) {
            Some(Source::Open(file)) => Ok(Arc::clone(file)),
            Some(Source::Path(path)) => {
                let open = || File::open(path).map(|file| (piece, Arc::new(file)));
                let opened = self.opened.get_or_make(max_open, |(place, _)| *place == piece, open);
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

    /// The piece that follows the first `done` bytes of a block from `start` on: its index, the
    /// position in it, and the part of the block that it fills.
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
        let (Some(version), Some(Piece { source: Source::Open(file), .. })) = (self.version, self.pieces.first())
        else {
            return Ok(());
        };
        if version.still_holds(&FileVersion::of(file)?) {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidData, "the file was changed while it was being read"))
        }
    }

    fn error(&self, error: io::Error) -> pushdowndb_contract::Error {
        if let Some(damaged) = Damaged::in_error(&error) {
            // The client did not cause this, unlike damage in the data that it stored.
            return pushdowndb_contract::Error::new(ErrorKind::Corrupt, damaged.to_string()).with_code("InternalError");
        }
        let kind = match error.kind() {
            io::ErrorKind::InvalidData => ErrorKind::Conflict,
            io::ErrorKind::UnexpectedEof => ErrorKind::Corrupt,
            _ => ErrorKind::Unavailable,
        };
        pushdowndb_contract::Error::new(kind, format!("{}: cannot read", self.location)).with_source(error)
    }
}

fn past_the_end() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "a read past the end of the object")
}

impl ObjectReader for ObjectData {
    fn location(&self) -> &str {
        match &self.origin {
            Origin::Local(inner) => &inner.location,
            Origin::Remote(reader) => reader.location(),
        }
    }

    fn size(&self) -> u64 {
        match &self.origin {
            Origin::Local(inner) => inner.size,
            Origin::Remote(reader) => reader.size(),
        }
    }

    fn stream(&self, range: Range<u64>) -> BoxStream<'static, pushdowndb_contract::Result<Bytes>> {
        match &self.origin {
            Origin::Local(inner) => {
                let reader = Arc::clone(inner);
                self.blocks(range).map(move |block| block.map_err(|error| reader.error(error))).boxed()
            }
            Origin::Remote(reader) => reader.stream(range),
        }
    }

    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, pushdowndb_contract::Result<Vec<Bytes>>> {
        let inner = match &self.origin {
            Origin::Local(inner) => Arc::clone(inner),
            Origin::Remote(reader) => return reader.read_ranges(ranges),
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
        let inner = match &self.origin {
            Origin::Local(inner) => Arc::clone(inner),
            Origin::Remote(reader) => return reader.at_hand(ranges),
        };
        // The caller's reader is metered already, including its waits.
        let file = Arc::new(MeteredFiles { meter: None, ..self.files(&inner) });
        ranges_at_hand(file, ranges, move |error| inner.error(error))
    }
}

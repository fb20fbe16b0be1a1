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
use pushdowndb_scan::{BlockBuffers, BlockRoom, ObjectReader};
use tokio::task::spawn_blocking;

use super::files::Pin;
use crate::scans::Bill;

/// Blocks of a stream that are read before they are asked for.
const BLOCKS_AHEAD: usize = 2;

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
    block: usize,
    pieces: Vec<Piece>,
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
    Open(File),
    /// Opened for each block, so that an object of thousands of parts does not hold thousands of descriptors.
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

impl ObjectData {
    pub fn new(location: String, block: usize, pieces: Vec<Piece>, pin: Option<Pin>) -> Self {
        let size = pieces.iter().map(|piece| piece.size).sum();
        Self::at(Place::Here(Arc::new(Inner { location, size, block, pieces, witness: None, _pin: pin })))
    }

    /// One file that others may write to; a change is noticed and ends the read with an error.
    pub fn watched(location: String, block: usize, file: File, witness: Witness) -> Self {
        let pieces = vec![Piece { start: 0, size: witness.size, source: Source::Open(file) }];
        let inner = Inner { location, size: witness.size, block, pieces, witness: Some(witness), _pin: None };
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

    /// The bytes of `range` in blocks; those of files are read one ahead.
    pub fn blocks(&self, range: Range<u64>) -> impl Stream<Item = io::Result<Bytes>> + Send + Sync + use<> {
        match &self.place {
            Place::Here(inner) => Inner::blocks(inner, range, &self.bill).left_stream(),
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

impl Inner {
    fn blocks(
        inner: &Arc<Self>,
        range: Range<u64>,
        bill: &Option<Bill>,
    ) -> impl Stream<Item = io::Result<Bytes>> + Send + Sync + use<> {
        let (inner, bill) = (Arc::clone(inner), bill.clone());
        let step = inner.block.max(1) as u64;
        let end = range.end;
        let starts = stream::iter((range.start..end).step_by(step as usize));
        let buffers = BlockBuffers::new(step.min(end.saturating_sub(range.start)) as usize, BLOCKS_AHEAD + 1);
        starts
            .map(move |start| {
                let (inner, bill) = (Arc::clone(&inner), bill.clone());
                let range = start..end.min(start + step);
                let room = inner.length(&range).map(|length| buffers.room(length));
                let read = spawn_blocking(move || Bill::time(&bill, || inner.read(range, room?)));
                async move { read.await.map_err(io::Error::other)? }
            })
            .buffered(BLOCKS_AHEAD)
    }

    /// The length of a range of the object.
    fn length(&self, range: &Range<u64>) -> io::Result<usize> {
        if range.end > self.size {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a read past the end of the object"));
        }
        usize::try_from(range.end.saturating_sub(range.start)).map_err(io::Error::other)
    }

    /// Reads into room for the range. That is made by whoever asks, not by the thread that reads: the allocator keeps
    /// what others free for the thread that made it, and there are dozens of those that read, each idle for long.
    fn read(&self, range: Range<u64>, mut room: BlockRoom) -> io::Result<Bytes> {
        let block = room.as_mut();
        let first = self.pieces.partition_point(|piece| piece.start + piece.size <= range.start);
        let mut at = range.start;
        for piece in self.pieces.iter().skip(first) {
            let done = (at - range.start) as usize;
            let want = (range.end - at).min(piece.start + piece.size - at) as usize;
            let Some(out) = block.get_mut(done..done + want).filter(|out| !out.is_empty()) else { break };
            match &piece.source {
                Source::Open(file) => file.read_exact_at(out, at - piece.start)?,
                Source::Path(path) => File::open(path)?.read_exact_at(out, at - piece.start)?,
            }
            at += want as u64;
        }
        self.check_unchanged()?;
        Ok(room.freeze())
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
                let blocks = Inner::blocks(inner, range, &self.bill);
                blocks.map(move |block| block.map_err(|error| reader.error(error))).boxed()
            }
            Place::There(reader) => reader.stream(range),
        }
    }

    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, pushdown::Result<Vec<Bytes>>> {
        let inner = match &self.place {
            Place::Here(inner) => Arc::clone(inner),
            Place::There(reader) => return reader.read_ranges(ranges),
        };
        let bill = self.bill.clone();
        async move {
            let reader = Arc::clone(&inner);
            // Each to be kept for as long as its reader likes: buffers of their own.
            let room = |length| BlockBuffers::new(length, 0).room(length);
            let rooms: Vec<_> = ranges.into_iter().map(|range| (inner.length(&range).map(room), range)).collect();
            let read = move |(room, range): (io::Result<_>, _)| reader.read(range, room?);
            spawn_blocking(move || Bill::time(&bill, || rooms.into_iter().map(read).collect::<io::Result<Vec<_>>>()))
                .await
                .map_err(io::Error::other)
                .flatten()
                .map_err(|error| inner.error(error))
        }
        .boxed()
    }
}

//! Reading a file from its start, even while it is written.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf, Bytes};
use datafusion_common::{Result, exec_datafusion_err, exec_err};
use futures::{Stream, stream};
use object_store::ObjectStoreExt;

use super::content::{Content, Phase};
use super::disk;
use super::error::damaged;
use super::part::{Part, Place};
use super::remote::RemoteParts;
use super::runtime::Job;
use super::seal::{self, Cipher, Seal};
use super::tiers::Ahead;
use super::usage::SpillMeter;

/// The maximum number of parts that are read ahead of the current one, if there is memory for them.
const AHEAD_PARTS: usize = 2;

/// The maximum number of bytes in one chunk of the stream. Arrow counts the buffer that a batch was
/// decoded from as memory of every batch with a slice of it, so chunks of a whole part would
/// exhaust the memory of a merge.
const CHUNK_BYTES: usize = 128 << 10;

/// Streams the content of a file. Waits for more bytes until the writer has finished.
///
/// The stream of a file without a writer is empty, as that of an empty local file is. If the writer
/// is dropped before it has finished, the stream ends with an error.
pub(super) fn read(content: Arc<Content>) -> impl Stream<Item = Result<Bytes>> + Send + 'static {
    let reader = Reader { content, next: 0, skip: 0, ahead: VecDeque::new(), current: Bytes::new() };
    stream::try_unfold(reader, |mut reader| async move {
        let chunk = reader.next_chunk().await?;
        Ok(chunk.map(|chunk| (chunk, reader)))
    })
}

struct Reader {
    content: Arc<Content>,
    /// The index of the part to return next.
    next: usize,
    /// The number of bytes of that part that were already returned, before it was sealed.
    skip: usize,
    /// The parts that are being read: the part `next` and some that follow it.
    ahead: VecDeque<Fetch>,
    /// The rest of the part that is being returned.
    current: Bytes,
}

/// A part that is in memory or being read.
enum Fetch {
    Done(Result<Bytes>),
    Job(Job<Result<Bytes>>, Option<Ahead>),
}

/// What the file has at the reader's position.
enum Position {
    Part,
    Bytes(Bytes),
    Wait,
    End,
}

impl Reader {
    async fn next_chunk(&mut self) -> Result<Option<Bytes>> {
        let content = self.content.clone();
        while self.current.is_empty() {
            // Registered before the position is checked, so that no change after that is missed.
            let mut changed = pin!(content.fault.changed.notified());
            changed.as_mut().enable();
            content.fault.check()?;
            match self.position()? {
                Position::Part => self.current = self.next_part().await?,
                Position::Bytes(bytes) => {
                    self.skip += bytes.len();
                    self.current = bytes;
                }
                Position::Wait => changed.await,
                Position::End => return Ok(None),
            }
        }
        let bytes = self.current.len().min(CHUNK_BYTES);
        Ok(Some(self.current.split_to(bytes)))
    }

    fn position(&self) -> Result<Position> {
        let state = self.content.state.lock();
        if self.next < state.parts.len() {
            return Ok(Position::Part);
        }
        let rest = state.tail.get(self.skip..).unwrap_or_default();
        if !rest.is_empty() {
            return Ok(Position::Bytes(Bytes::copy_from_slice(&rest[..rest.len().min(CHUNK_BYTES)])));
        }
        match state.phase {
            Phase::Writing => Ok(Position::Wait),
            Phase::New | Phase::Finished => Ok(Position::End),
            Phase::Abandoned => exec_err!("the writer of {} ended before it finished", self.content.name()),
        }
    }

    async fn next_part(&mut self) -> Result<Bytes> {
        self.fetch_ahead()?;
        let fetch = self.ahead.pop_front();
        let fetch = fetch.ok_or_else(|| exec_datafusion_err!("no part of {} is being read", self.content.name()))?;
        let start = Instant::now();
        let mut part = match fetch {
            Fetch::Done(part) => part?,
            Fetch::Job(job, _ahead) => job.await??,
        };
        self.content.tiers.meter.waited_to_read(start);
        part.advance(std::mem::take(&mut self.skip).min(part.len()));
        self.next += 1;
        Ok(part)
    }

    /// Starts to read the next part, and parts after it for which there is memory.
    fn fetch_ahead(&mut self) -> Result<()> {
        while self.ahead.len() <= AHEAD_PARTS {
            let part = {
                let state = self.content.state.lock();
                let Some(part) = state.parts.get(self.next + self.ahead.len()) else { break };
                part.clone()
            };
            let mut ahead = None;
            if !self.ahead.is_empty() {
                ahead = self.content.tiers.read_ahead(part.seal.stored_bytes);
                if ahead.is_none() || matches!(*part.place.lock(), Place::Memory(_)) {
                    break;
                }
            }
            self.ahead.push_back(fetch(&self.content, &part, ahead)?);
        }
        Ok(())
    }
}

/// Starts to read `part`. A part in memory is done at once.
fn fetch(content: &Content, part: &Part, ahead: Option<Ahead>) -> Result<Fetch> {
    let place = part.place.lock().clone();
    let read = PartRead {
        file: content.name(),
        seal: part.seal,
        cipher: content.tiers.cipher.clone(),
        meter: content.tiers.meter.clone(),
    };
    let job = match place {
        Place::Memory(stored) => return Ok(Fetch::Done(read.open("in memory", stored))),
        Place::Disk { offset } => {
            let path = content.local_path();
            let path = path.ok_or_else(|| damaged(&read.file, "on the local disk", "it has no local file"))?;
            Job::start_blocking(move || read.read_local(path, offset))?
        }
        Place::Remote { number } => {
            let remote = content.tiers.remote.clone();
            let remote = remote.ok_or_else(|| damaged(&read.file, "in an object store", "there is no store"))?;
            Job::start(async move { read.read_uploaded(&remote, number).await })?
        }
        Place::Gone => return Err(damaged(&read.file, "that was deleted", "the file was dropped")),
    };
    Ok(Fetch::Job(job, ahead))
}

/// The data needed to read a part. It does not keep the file alive, which is deleted with its last
/// user.
struct PartRead {
    file: String,
    seal: Seal,
    cipher: Option<Arc<Cipher>>,
    meter: SpillMeter,
}

impl PartRead {
    fn read_local(self, path: PathBuf, offset: u64) -> Result<Bytes> {
        let place = format!("at byte {offset} of {}", path.display());
        let stored = disk::read(&path, offset, self.seal.stored_bytes);
        let stored = stored.map_err(|error| damaged(&self.file, &place, error))?;
        self.meter.read_disk(stored.len());
        self.open(&place, stored)
    }

    async fn read_uploaded(self, remote: &RemoteParts, number: u64) -> Result<Bytes> {
        let key = remote.key(number);
        let place = format!("{number} ({key} of {})", remote.store().url);
        self.meter.get();
        let object = remote.store().store.get(&key).await.map_err(|error| damaged(&self.file, &place, error))?;
        // The size is checked before memory is allocated.
        if object.meta.size != self.seal.stored_bytes as u64 {
            let wrong = format!("it has {} bytes instead of {}", object.meta.size, self.seal.stored_bytes);
            return Err(damaged(&self.file, &place, wrong));
        }
        let stored = object.bytes().await.map_err(|error| damaged(&self.file, &place, error))?;
        self.meter.read_remote(stored.len());
        self.open(&place, stored)
    }

    fn open(&self, place: &str, stored: Bytes) -> Result<Bytes> {
        seal::open(self.cipher.as_deref(), self.seal, stored).map_err(|wrong| damaged(&self.file, place, wrong))
    }
}

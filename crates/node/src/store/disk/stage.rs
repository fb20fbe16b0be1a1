//! Receives the bytes of an upload into a draft file and hashes them. A block is written while the
//! next one arrives.

use std::mem;
use std::pin::Pin;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use s3s::crypto::{Checksum as _, Crc32, Crc32c, Crc64Nvme, Md5, Sha1, Sha256};
use tokio::task::{JoinHandle, spawn_blocking};

use super::DiskFile;
use super::checksums::{BlockChecksums, ChecksumBuilder};
use super::data_files::{DataFiles, SpaceReservation};
use crate::Limits;
use crate::store::{Algorithm, Checksum, Result, StoreError};

/// The bytes of an upload as they arrive.
pub(crate) type Body = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// A completely received upload that is not visible yet. Dropping it removes the draft.
#[derive(Debug)]
pub(crate) struct Staged {
    file: Option<DiskFile>,
    pub size: u64,
    pub md5: [u8; 16],
    pub checksum: Option<Checksum>,
    /// The checksums of its blocks.
    sums: Option<(BlockChecksums, Vec<u32>)>,
}

/// A draft with its size and checksums.
#[derive(Debug)]
pub(crate) struct Draft {
    pub file: DiskFile,
    pub size: u64,
    pub sums: Option<(BlockChecksums, Vec<u32>)>,
}

impl Staged {
    /// Takes the draft out, so that it is no longer removed on drop.
    pub(crate) fn take(mut self) -> Result<Draft> {
        let file = self.file.take().ok_or_else(|| StoreError::Corrupt("a draft was used twice".to_owned()))?;
        Ok(Draft { file, size: self.size, sums: self.sums.take() })
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            drop(file.remove());
        }
    }
}

/// Receives `body` into a draft. An error or a disconnect leaves nothing behind.
pub(crate) async fn stage(
    files: &DataFiles,
    limits: &Limits,
    mut body: Body,
    algorithm: Option<Algorithm>,
) -> Result<Staged> {
    // Includes the reservations of other writers, whose bytes the file system still reports as
    // free.
    let room = |bytes: usize| files.reserve_space(bytes as u64, limits.reserve_bytes);
    room(0)?;
    let file = files.create().map_err(StoreError::io("cannot make a file for the upload"))?;
    let draft = Receiving {
        staged: Staged { file: Some(file), size: 0, md5: [0; 16], checksum: None, sums: None },
        md5: Md5::new(),
        hasher: algorithm.map(Hasher::new),
        summing: ChecksumBuilder::new(u32::try_from(limits.checksum_block_bytes).unwrap_or(u32::MAX)),
    };
    let mut writer = Writer::Idle(Box::new(draft));
    // Grows on demand: most uploads are small, and a full block for each would waste memory.
    let mut block = BytesMut::new();
    let mut size = 0u64;
    loop {
        let Some(chunk) = body.next().await.transpose()? else { break };
        size += chunk.len() as u64;
        if size > limits.put_bytes {
            return Err(StoreError::TooLarge { what: "body", limit: limits.put_bytes });
        }
        block.extend_from_slice(&chunk);
        if block.len() >= limits.block_bytes {
            let full = mem::replace(&mut block, BytesMut::with_capacity(limits.block_bytes)).freeze();
            writer = writer.write(room(full.len())?, full).await?;
        }
    }
    writer = writer.write(room(block.len())?, block.freeze()).await?;
    Ok(writer.idle().await?.finish(algorithm))
}

struct Receiving {
    staged: Staged,
    md5: Md5,
    hasher: Option<Hasher>,
    summing: ChecksumBuilder,
}

impl Receiving {
    fn write(&mut self, block: &[u8]) -> Result<()> {
        let Some(file) = &self.staged.file else { return Ok(()) };
        file.write(self.staged.size, block).map_err(StoreError::io("cannot write the upload"))?;
        self.md5.update(block);
        self.summing.update(block);
        if let Some(hasher) = &mut self.hasher {
            hasher.update(block);
        }
        self.staged.size += block.len() as u64;
        Ok(())
    }

    fn finish(mut self, algorithm: Option<Algorithm>) -> Staged {
        self.staged.md5 = self.md5.finalize();
        self.staged.sums = Some(self.summing.finish());
        self.staged.checksum = algorithm
            .zip(self.hasher)
            .map(|(algorithm, hasher)| Checksum { algorithm, value: BASE64_STANDARD.encode(hasher.finish()) });
        self.staged
    }
}

/// The draft while it is idle, or the task that writes a block of it while the next one arrives.
enum Writer {
    Idle(Box<Receiving>),
    Busy(JoinHandle<Result<Box<Receiving>>>),
}

impl Writer {
    async fn idle(self) -> Result<Box<Receiving>> {
        match self {
            Self::Idle(draft) => Ok(draft),
            Self::Busy(task) => task.await.map_err(StoreError::task)?,
        }
    }

    /// Starts writing a block for which space is reserved in `room`.
    async fn write(self, room: SpaceReservation, block: Bytes) -> Result<Self> {
        let mut draft = self.idle().await?;
        Ok(Self::Busy(spawn_blocking(move || {
            draft.write(&block)?;
            drop(room);
            Ok(draft)
        })))
    }
}

/// A hash of any [`Algorithm`].
pub(crate) enum Hasher {
    Crc32(Crc32),
    Crc32c(Crc32c),
    Crc64nvme(Crc64Nvme),
    Sha1(Sha1),
    Sha256(Sha256),
}

impl Hasher {
    pub fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Crc32 => Self::Crc32(Crc32::new()),
            Algorithm::Crc32c => Self::Crc32c(Crc32c::new()),
            Algorithm::Crc64nvme => Self::Crc64nvme(Crc64Nvme::new()),
            Algorithm::Sha1 => Self::Sha1(Sha1::new()),
            Algorithm::Sha256 => Self::Sha256(Sha256::new()),
        }
    }

    pub fn update(&mut self, block: &[u8]) {
        match self {
            Self::Crc32(hash) => hash.update(block),
            Self::Crc32c(hash) => hash.update(block),
            Self::Crc64nvme(hash) => hash.update(block),
            Self::Sha1(hash) => hash.update(block),
            Self::Sha256(hash) => hash.update(block),
        }
    }

    pub fn finish(self) -> Vec<u8> {
        match self {
            Self::Crc32(hash) => hash.finalize().to_vec(),
            Self::Crc32c(hash) => hash.finalize().to_vec(),
            Self::Crc64nvme(hash) => hash.finalize().to_vec(),
            Self::Sha1(hash) => hash.finalize().to_vec(),
            Self::Sha256(hash) => hash.finalize().to_vec(),
        }
    }
}

//! Checksums of the blocks of a data file.
//!
//! ```text
//! data/<xx>/<id>   the bytes of a piece of an object
//!                  trailer: a CRC32C of each block, if there is more than one
//! index            the block size and one CRC32C: of the only block, or of the trailer
//! ```
//!
//! A small object costs a few bytes of its record, a large one 1/16,384 of its size. Checksums are
//! durable together with what they cover, and a trailer of another file is detected.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crc_fast::{CrcAlgorithm, Digest};
use serde::{Deserialize, Serialize};

/// The CRC32C of `bytes`.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// The checksums of a data file, as the index stores them.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct BlockChecksums {
    /// The size of a block, in bytes.
    pub block: u32,
    /// The CRC32C of the only block, or of the trailer.
    pub crc: u32,
}

impl BlockChecksums {
    /// The checksums of a file with these blocks.
    pub fn of(block: u32, sums: &[u32]) -> Self {
        let crc = match sums {
            [] => crc32c(&[]),
            [only] => *only,
            sums => crc32c(&to_bytes(sums)),
        };
        Self { block, crc }
    }

    fn blocks(self, size: u64) -> u64 {
        size.div_ceil(u64::from(self.block.max(1)))
    }

    /// The size of the trailer of a file with `size` bytes of data.
    pub fn trailer_bytes(self, size: u64) -> u64 {
        match self.blocks(size) {
            0 | 1 => 0,
            blocks => blocks * 4,
        }
    }
}

/// The bytes of a trailer.
pub(crate) fn to_bytes(sums: &[u32]) -> Vec<u8> {
    sums.iter().flat_map(|sum| sum.to_le_bytes()).collect()
}

/// Computes checksums of bytes as they arrive.
#[derive(Debug)]
pub(crate) struct ChecksumBuilder {
    block: u32,
    digest: Digest,
    /// Bytes of the unfinished block.
    last: u32,
    sums: Vec<u32>,
}

impl ChecksumBuilder {
    pub fn new(block: u32) -> Self {
        let digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        Self { block: block.max(1), digest, last: 0, sums: Vec::new() }
    }

    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = (self.block - self.last) as usize;
            let (now, later) = bytes.split_at(bytes.len().min(room));
            bytes = later;
            if now.len() == self.block as usize {
                self.sums.push(crc32c(now));
                continue;
            }
            self.digest.update(now);
            self.last += now.len() as u32;
            if self.last == self.block {
                self.end_block();
            }
        }
    }

    fn end_block(&mut self) {
        self.sums.push(self.digest.finalize_reset() as u32);
        self.last = 0;
    }

    /// The checksums for the index, and those for the trailer.
    pub fn finish(mut self) -> (BlockChecksums, Vec<u32>) {
        if self.last > 0 {
            self.end_block();
        }
        (BlockChecksums::of(self.block, &self.sums), self.sums)
    }
}

/// The checksums of one data file, and when each block was last verified.
#[derive(Debug)]
pub(crate) struct FileChecksums {
    pub block: u64,
    /// The size of the data, without the trailer.
    pub size: u64,
    sums: Box<[u32]>,
    /// When each block was last verified, in seconds of the clock of
    /// [`Verifier`](crate::store::object::verifier::Verifier); 0 is never.
    verified: Box<[AtomicU32]>,
}

impl FileChecksums {
    /// Reads a trailer; `None` if it is damaged.
    pub fn read(sums: BlockChecksums, size: u64, trailer: &[u8]) -> Option<Self> {
        let all: Box<[u32]> = match sums.blocks(size) {
            0 => Box::default(),
            1 => Box::new([sums.crc]),
            blocks => {
                let (chunks, rest) = trailer.as_chunks::<4>();
                let fits = rest.is_empty() && chunks.len() as u64 == blocks && crc32c(trailer) == sums.crc;
                fits.then(|| chunks.iter().map(|sum| u32::from_le_bytes(*sum)).collect())?
            }
        };
        let verified = all.iter().map(|_| AtomicU32::new(0)).collect();
        Some(Self { block: u64::from(sums.block.max(1)), size, sums: all, verified })
    }

    /// The memory used, in bytes.
    pub fn size_bytes(&self) -> usize {
        size_of::<Self>() + self.sums.len() * 8
    }

    /// The number, start and end of the block that contains the offset `at`.
    pub fn block_at(&self, at: u64) -> (u64, u64, u64) {
        let block = at / self.block;
        let start = block * self.block;
        (block, start, (start + self.block).min(self.size))
    }

    /// Whether all of `blocks` were verified at or after `since`; false if `since` is `None`.
    pub fn are_verified_since(&self, blocks: std::ops::RangeInclusive<u64>, since: Option<u32>) -> bool {
        let Some(since) = since else { return false };
        let stamps = self.verified.get(*blocks.start() as usize..=*blocks.end() as usize);
        stamps.is_some_and(|stamps| stamps.iter().all(|stamp| stamp.load(Relaxed) >= since))
    }

    /// Verifies the bytes of a block, and records the time `now` if they are intact.
    pub fn verify(&self, block: u64, bytes: &[u8], now: u32) -> bool {
        let fits = self.sums.get(block as usize).is_some_and(|sum| *sum == crc32c(bytes));
        if let Some(stamp) = self.verified.get(block as usize) {
            stamp.store(if fits { now } else { 0 }, Relaxed);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_do_not_depend_on_how_the_bytes_come() {
        let bytes: Vec<u8> = (0..10_000u32).map(|at| (at % 251) as u8).collect();
        for size in [0, 1, 999, 1000, 1001, 2000, 10_000] {
            let bytes = &bytes[..size];
            let expected: Vec<u32> = bytes.chunks(1000).map(crc32c).collect();
            for step in [1, 7, 1000, 2500, 20_000] {
                let mut summing = ChecksumBuilder::new(1000);
                bytes.chunks(step).for_each(|chunk| summing.update(chunk));
                let (sums, all) = summing.finish();
                assert_eq!(all, expected, "{size} by {step}");
                let trailer = if all.len() > 1 { to_bytes(&all) } else { Vec::new() };
                assert_eq!(trailer.len() as u64, sums.trailer_bytes(size as u64));
                let read = FileChecksums::read(sums, size as u64, &trailer).unwrap();
                for (block, bytes) in (0..).zip(bytes.chunks(1000)) {
                    assert!(!read.are_verified_since(block..=block, Some(1)));
                    assert!(read.verify(block, bytes, 5) && read.are_verified_since(block..=block, Some(5)));
                    assert!(
                        !read.are_verified_since(block..=block, Some(6))
                            && !read.are_verified_since(block..=block, None)
                    );
                    let mut wrong = bytes.to_vec();
                    wrong[0] ^= 1;
                    assert!(!read.verify(block, &wrong, 5) && !read.are_verified_since(block..=block, Some(1)));
                }
                if let Some(last) = trailer.len().checked_sub(1) {
                    let mut wrong = trailer.clone();
                    wrong[last] ^= 128;
                    assert!(FileChecksums::read(sums, size as u64, &wrong).is_none());
                    assert!(FileChecksums::read(sums, size as u64, &trailer[1..]).is_none());
                }
            }
        }
    }
}

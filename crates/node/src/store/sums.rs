//! Checksums of the blocks of a data file.
//!
//! ```text
//! data/<xx>/<id>   the bytes of a piece of an object
//!                  a CRC32C of each block of them, if there is more than one
//! index            the size of a block and one CRC32C: of the only block, or of the checksums behind the bytes
//! ```
//!
//! So a small object costs nothing but some bytes of its record, a large one a sixteen-thousandth of its size, both
//! are durable with what they belong to, and checksums of another file are noticed.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crc_fast::{CrcAlgorithm, Digest};
use serde::{Deserialize, Serialize};

/// The CRC32C of some bytes.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// What the index keeps of a data file's checksums.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Sums {
    /// The size of a block, in bytes.
    pub block: u32,
    /// The CRC32C of the only block, or of the checksums of all.
    pub crc: u32,
}

impl Sums {
    /// Of a file of this size whose blocks have these checksums.
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

    /// How many bytes of checksums lie behind the bytes of a file of this size.
    pub fn bytes_behind(self, size: u64) -> u64 {
        match self.blocks(size) {
            0 | 1 => 0,
            blocks => blocks * 4,
        }
    }
}

/// What is written behind the bytes.
pub(super) fn to_bytes(sums: &[u32]) -> Vec<u8> {
    sums.iter().flat_map(|sum| sum.to_le_bytes()).collect()
}

/// Makes the checksums of bytes as they come.
#[derive(Debug)]
pub(super) struct Summing {
    block: u32,
    digest: Digest,
    /// Bytes of the last block.
    last: u32,
    sums: Vec<u32>,
}

impl Summing {
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

    /// The checksums of all blocks, for the index and for behind the bytes.
    pub fn finish(mut self) -> (Sums, Vec<u32>) {
        if self.last > 0 {
            self.end_block();
        }
        (Sums::of(self.block, &self.sums), self.sums)
    }
}

/// The checksums of one data file, and when each block was last found to fit.
#[derive(Debug)]
pub(super) struct FileSums {
    pub block: u64,
    /// Of the bytes, without what lies behind them.
    pub size: u64,
    sums: Box<[u32]>,
    /// In seconds of a [`super::verifier::Verifier`]'s clock; 0 is never.
    verified: Box<[AtomicU32]>,
}

impl FileSums {
    /// From what lies behind the bytes, `None` if that is not what was written.
    pub fn read(sums: Sums, size: u64, behind: &[u8]) -> Option<Self> {
        let all: Box<[u32]> = match sums.blocks(size) {
            0 => Box::default(),
            1 => Box::new([sums.crc]),
            blocks => {
                let (chunks, rest) = behind.as_chunks::<4>();
                let fits = rest.is_empty() && chunks.len() as u64 == blocks && crc32c(behind) == sums.crc;
                fits.then(|| chunks.iter().map(|sum| u32::from_le_bytes(*sum)).collect())?
            }
        };
        let verified = all.iter().map(|_| AtomicU32::new(0)).collect();
        Some(Self { block: u64::from(sums.block.max(1)), size, sums: all, verified })
    }

    /// The memory it takes.
    pub fn size_bytes(&self) -> usize {
        size_of::<Self>() + self.sums.len() * 8
    }

    /// The block that begins at or before `at`, and where it begins and ends.
    pub fn block_at(&self, at: u64) -> (u64, u64, u64) {
        let block = at / self.block;
        let start = block * self.block;
        (block, start, (start + self.block).min(self.size))
    }

    /// Whether all these blocks were found to fit at or after `since`.
    pub fn are_fresh(&self, blocks: std::ops::RangeInclusive<u64>, since: Option<u32>) -> bool {
        let Some(since) = since else { return false };
        let stamps = self.verified.get(*blocks.start() as usize..=*blocks.end() as usize);
        stamps.is_some_and(|stamps| stamps.iter().all(|stamp| stamp.load(Relaxed) >= since))
    }

    /// Whether these are the bytes of the block, which counts from `now` on.
    pub fn verify(&self, block: u64, bytes: &[u8], now: u32) -> bool {
        let fits = self.sums.get(block as usize).is_some_and(|sum| *sum == crc32c(bytes));
        if let Some(stamp) = self.verified.get(block as usize) {
            stamp.store(if fits { now } else { 0 }, Relaxed);
        }
        fits
    }
}

/// Some bytes of an object are not those that were written, or not there.
#[derive(Debug, thiserror::Error)]
#[error("{object} is damaged: {what}")]
pub(crate) struct Damaged {
    pub object: String,
    pub what: String,
}

impl Damaged {
    /// The damage that an error of reading speaks of.
    pub fn in_error(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
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
                let mut summing = Summing::new(1000);
                bytes.chunks(step).for_each(|chunk| summing.update(chunk));
                let (sums, all) = summing.finish();
                assert_eq!(all, expected, "{size} by {step}");
                let behind = if all.len() > 1 { to_bytes(&all) } else { Vec::new() };
                assert_eq!(behind.len() as u64, sums.bytes_behind(size as u64));
                let read = FileSums::read(sums, size as u64, &behind).unwrap();
                for (block, bytes) in (0..).zip(bytes.chunks(1000)) {
                    assert!(!read.are_fresh(block..=block, Some(1)));
                    assert!(read.verify(block, bytes, 5) && read.are_fresh(block..=block, Some(5)));
                    assert!(!read.are_fresh(block..=block, Some(6)) && !read.are_fresh(block..=block, None));
                    let mut wrong = bytes.to_vec();
                    wrong[0] ^= 1;
                    assert!(!read.verify(block, &wrong, 5) && !read.are_fresh(block..=block, Some(1)));
                }
                if let Some(last) = behind.len().checked_sub(1) {
                    let mut wrong = behind.clone();
                    wrong[last] ^= 128;
                    assert!(FileSums::read(sums, size as u64, &wrong).is_none());
                    assert!(FileSums::read(sums, size as u64, &behind[1..]).is_none());
                }
            }
        }
    }
}

//! Reads of a file, verified block by block.
//!
//! The bytes that are verified are the ones that are returned, unless their block was verified
//! recently. If only a part of an unverified block is requested, the whole block is read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use pushdowndb_scan::{BlockBuffers, read_cached};

use super::verifier::Verifier;
use crate::store::disk::checksums::FileChecksums;

/// Whether a read may wait for the disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ReadMode {
    Blocking,
    /// Reads only what the kernel has cached.
    CachedOnly,
}

impl ReadMode {
    /// Fills `out`, or as much of it as is available without waiting.
    pub fn read(self, file: &File, at: u64, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Blocking => file.read_exact_at(out, at).map(|()| out.len()),
            Self::CachedOnly => Ok(read_cached(file, at, out)),
        }
    }
}

/// A file with its checksums.
pub(crate) struct VerifiedFile<'a> {
    pub file: &'a File,
    pub sums: &'a FileChecksums,
    pub verifier: &'a Verifier,
    /// Buffers for blocks of which only a part is requested.
    pub buffers: &'a Arc<BlockBuffers>,
}

/// The reason for a failed read: the number of the damaged block, or an I/O error.
pub(crate) enum ReadFailure {
    Damaged(u64),
    Io(io::Error),
}

impl From<io::Error> for ReadFailure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl VerifiedFile<'_> {
    /// Reads at `at` until `out` is full. Returns how many bytes were available and verified.
    pub fn read(&self, at: u64, out: &mut [u8], mode: ReadMode) -> Result<usize, ReadFailure> {
        let Some(last) = (at + out.len() as u64).checked_sub(1).filter(|last| *last >= at) else { return Ok(0) };
        let since = self.verifier.trusted_since();
        let (first, last) = (self.sums.block_at(at).0, self.sums.block_at(last).0);
        if self.sums.are_verified_since(first..=last, since) {
            return Ok(mode.read(self.file, at, out)?);
        }
        let mut done = 0;
        while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let from = at + done as u64;
            let (block, start, end) = self.sums.block_at(from);
            let (wanted, read) = if from == start && rest.len() as u64 >= end - start {
                let whole = self.whole_blocks(from, rest.len());
                let rest = rest.get_mut(..whole).unwrap_or_default();
                (whole, self.read_blocks(block, rest, mode, since)?)
            } else {
                let part = rest.len().min(usize::try_from(end.saturating_sub(from)).unwrap_or(usize::MAX));
                let rest = rest.get_mut(..part).unwrap_or_default();
                (part, self.read_part(block, from, rest, mode, since)?)
            };
            done += read;
            if read < wanted || wanted == 0 {
                break;
            }
        }
        Ok(done)
    }

    /// The part of `length` bytes from the block start `from` on that consists of whole blocks, in
    /// bytes.
    fn whole_blocks(&self, from: u64, length: usize) -> usize {
        let end = from + length as u64;
        let whole = if end >= self.sums.size { self.sums.size } else { end / self.sums.block * self.sums.block };
        usize::try_from(whole - from).unwrap_or(usize::MAX).min(length)
    }

    fn read_blocks(
        &self,
        first: u64,
        out: &mut [u8],
        mode: ReadMode,
        since: Option<u32>,
    ) -> Result<usize, ReadFailure> {
        let count = mode.read(self.file, first * self.sums.block, out)?;
        let mut good = 0;
        for (block, bytes) in (first..).zip(out.chunks(self.sums.block as usize)) {
            if good + bytes.len() > count {
                break;
            }
            self.compare(block, bytes, since)?;
            good += bytes.len();
        }
        Ok(good)
    }

    fn read_part(
        &self,
        block: u64,
        from: u64,
        out: &mut [u8],
        mode: ReadMode,
        since: Option<u32>,
    ) -> Result<usize, ReadFailure> {
        if self.sums.are_verified_since(block..=block, since) {
            return Ok(mode.read(self.file, from, out)?);
        }
        let (_, start, end) = self.sums.block_at(from);
        let mut whole = self.buffers.room(usize::try_from(end - start).map_err(io::Error::other)?, start);
        if mode.read(self.file, start, whole.as_mut())? < whole.as_ref().len() {
            return Ok(0);
        }
        self.compare(block, whole.as_ref(), since)?;
        let place = (from - start) as usize;
        out.copy_from_slice(whole.as_ref().get(place..place + out.len()).unwrap_or_default());
        Ok(out.len())
    }

    fn compare(&self, block: u64, bytes: &[u8], since: Option<u32>) -> Result<(), ReadFailure> {
        let fits =
            self.sums.are_verified_since(block..=block, since) || self.sums.verify(block, bytes, self.verifier.now());
        if fits { Ok(()) } else { Err(ReadFailure::Damaged(block)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::store::disk::checksums::{ChecksumBuilder, to_bytes};

    #[test]
    fn every_range_is_its_bytes_or_an_error_that_names_the_block() {
        let bytes: Vec<u8> = (0..10_300u32).map(|at| (at * 7 % 253) as u8).collect();
        let mut summing = ChecksumBuilder::new(1000);
        summing.update(&bytes);
        let (sums, all) = summing.finish();
        let buffers = BlockBuffers::new(1000, 4);
        let on_disk = |bytes: &[u8]| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), [bytes, &to_bytes(&all)].concat()).unwrap();
            file
        };
        let mut wrong = bytes.clone();
        wrong[5_500] ^= 4;
        let (good, bad) = (on_disk(&bytes), on_disk(&wrong));
        for seconds in [0, 600] {
            let verifier = Verifier::new(&Limits {
                verify_interval: std::time::Duration::from_secs(seconds),
                ..Limits::default()
            });
            for (file, damaged) in [(&good, None), (&bad, Some(5))] {
                for start in [0, 1, 999, 1000, 4999, 5000, 5499, 5999, 6000, 9999, 10_299] {
                    for length in [1, 2, 999, 1000, 1001, 2500, 10_300] {
                        let sums = FileChecksums::read(sums, bytes.len() as u64, &to_bytes(&all)).unwrap();
                        let end = bytes.len().min(start + length);
                        for mode in [ReadMode::Blocking, ReadMode::CachedOnly] {
                            let mut out = vec![0; end - start];
                            let file = file.as_file();
                            let checked = VerifiedFile { file, sums: &sums, verifier: &verifier, buffers: &buffers };
                            let meets = damaged.is_some_and(|block| start < (block + 1) * 1000 && end > block * 1000);
                            match checked.read(start as u64, &mut out, mode) {
                                Ok(count) if !meets => {
                                    // Temporary folders may be on a file system that does not
                                    // report what is cached.
                                    assert!(count == out.len() || mode == ReadMode::CachedOnly && count == 0);
                                    assert_eq!(out[..count], bytes[start..start + count]);
                                }
                                Ok(count) => {
                                    assert!(mode == ReadMode::CachedOnly && count == 0, "{start} {length} {count}");
                                }
                                Err(ReadFailure::Damaged(block)) => assert!(meets && Some(block as usize) == damaged),
                                Err(ReadFailure::Io(error)) => panic!("{error}"),
                            }
                        }
                    }
                }
            }
        }
    }
}

//! Decompression of pages.
//!
//! A page claims its uncompressed size. The library allocates that size unchecked, and some of its
//! codecs exceed it. Here the size is limited, a failed allocation is an error instead of aborting
//! the process, and output of any other size is refused.

use std::io::Read;

use ::parquet::basic::Compression;
use ::parquet::errors::{ParquetError, Result};
use bytes::Bytes;

use crate::parquet::errors::check_interrupt;
use crate::parquet::read::page_memory::{PageMemory, other_size, zeroed};

/// The codec of a column chunk.
pub(crate) enum Codec {
    None,
    Snappy(snap::raw::Decoder),
    Gzip,
    Brotli,
    /// Raw LZ4 blocks.
    Lz4,
    /// LZ4 blocks in Hadoop's framing, or in one of two other forms that some writers use by
    /// mistake.
    Lz4Hadoop,
    Zstd(zstd::bulk::Decompressor<'static>),
}

/// The number of bytes after which decompression of a stream can be interrupted.
const PIECE_BYTES: usize = 1 << 20;

/// The buffer size of the Brotli decoder.
const BROTLI_BYTES: usize = 4096;

/// The maximum zstd window of a large page, as a power of two: 128 MiB, which is zstd's own limit.
const LARGE_WINDOW_LOG: u32 = 27;

/// The maximum ratio of output to input. Snappy copies at most 64 bytes per three bytes, LZ4 at
/// most 255 more per byte.
const MAX_SNAPPY_RATIO: usize = 32;
const MAX_LZ4_RATIO: usize = 256;

impl Codec {
    pub(crate) fn new(compression: Compression) -> Result<Self> {
        Ok(match compression {
            Compression::UNCOMPRESSED => Self::None,
            Compression::SNAPPY => Self::Snappy(snap::raw::Decoder::new()),
            Compression::GZIP(_) => Self::Gzip,
            Compression::BROTLI(_) => Self::Brotli,
            Compression::LZ4_RAW => Self::Lz4,
            Compression::LZ4 => Self::Lz4Hadoop,
            Compression::ZSTD(_) => Self::Zstd(zstd::bulk::Decompressor::new()?),
            other => return Err(ParquetError::NYI(format!("the codec {other}"))),
        })
    }

    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Decompresses a large page of `length` bytes, which starts with `first`.
    ///
    /// Memory grows with the output. If the codec needs all memory at once, it is allocated only if
    /// the input can expand to that size.
    pub(crate) fn decompress_large(
        &mut self,
        first: &[u8],
        from: &[u8],
        length: usize,
        memory: &PageMemory,
    ) -> Result<Bytes> {
        let most = match self {
            Self::Gzip => return memory.read_all(first, flate2::read::MultiGzDecoder::new(from), length),
            Self::Brotli => return memory.read_all(first, brotli::Decompressor::new(from, BROTLI_BYTES), length),
            Self::Zstd(_) => {
                let mut decoder = zstd::Decoder::with_buffer(from)?;
                decoder.window_log_max(LARGE_WINDOW_LOG)?;
                // The window is at most as large as the page.
                let _window = memory.reserve(length.min(1 << LARGE_WINDOW_LOG))?;
                return memory.read_all(first, decoder, length);
            }
            Self::None => 1,
            Self::Snappy(_) => MAX_SNAPPY_RATIO,
            Self::Lz4 | Self::Lz4Hadoop => MAX_LZ4_RATIO,
        };
        let own = length.checked_sub(first.len()).filter(|own| *own <= from.len().saturating_mul(most));
        let own = own.ok_or_else(|| other_size(length))?;
        let reserved = memory.reserve(length)?;
        let mut all = zeroed(length)?;
        let (levels, values) = all.split_at_mut(length - own);
        levels.copy_from_slice(first);
        self.decompress(from, values)?;
        Ok(reserved.hold(all))
    }

    /// Decompresses `from` into `to`, which it must fill exactly.
    pub(crate) fn decompress(&mut self, from: &[u8], to: &mut [u8]) -> Result<()> {
        if to.is_empty() {
            // A page with only NULLs: some writers store nothing, others an empty frame.
            return Ok(());
        }
        let filled = match self {
            Self::None => {
                from.len() == to.len() && {
                    to.copy_from_slice(from);
                    true
                }
            }
            Self::Gzip => fill(flate2::read::MultiGzDecoder::new(from), to)?,
            Self::Brotli => fill(brotli::Decompressor::new(from, BROTLI_BYTES), to)?,
            Self::Zstd(decoder) => decoder.decompress_to_buffer(from, to)? == to.len(),
            // The stream states its own size, which the decoder checks.
            Self::Snappy(decoder) => decoder.decompress(from, to).map_err(external)? == to.len(),
            Self::Lz4 => lz4_flex::block::decompress_into(from, to).map_err(external)? == to.len(),
            Self::Lz4Hadoop => {
                hadoop(from, to) == Some(to.len())
                    || fill(lz4_flex::frame::FrameDecoder::new(from), to).is_ok_and(|filled| filled)
                    || lz4_flex::block::decompress_into(from, to).map_err(external)? == to.len()
            }
        };
        if filled {
            return Ok(());
        }
        Err(other_size(to.len()))
    }
}

fn external(error: impl std::error::Error + Send + Sync + 'static) -> ParquetError {
    ParquetError::General(error.to_string())
}

/// Reads exactly all of `to` from `from`. Returns false if `from` is shorter or longer.
fn fill(mut from: impl Read, mut to: &mut [u8]) -> Result<bool> {
    while !to.is_empty() {
        check_interrupt()?;
        let (piece, _) = to.split_at_mut(to.len().min(PIECE_BYTES));
        match from.read(piece)? {
            0 => return Ok(false),
            read => to = to.get_mut(read..).unwrap_or_default(),
        }
    }
    Ok(from.read(&mut [0])? == 0)
}

/// Decompresses frames, each of which has an uncompressed and a compressed size, both big-endian,
/// and a block. Returns `None` if the bytes have another form.
fn hadoop(mut from: &[u8], mut to: &mut [u8]) -> Option<usize> {
    let mut written = 0;
    while !from.is_empty() {
        let (large, rest) = from.split_first_chunk::<4>()?;
        let (small, rest) = rest.split_first_chunk::<4>()?;
        let (large, small) = (u32::from_be_bytes(*large) as usize, u32::from_be_bytes(*small) as usize);
        let (block, rest) = rest.split_at_checked(small)?;
        let (room, left) = to.split_at_mut_checked(large)?;
        if lz4_flex::block::decompress_into(block, room).ok()? != large {
            return None;
        }
        written += large;
        (from, to) = (rest, left);
    }
    Some(written)
}

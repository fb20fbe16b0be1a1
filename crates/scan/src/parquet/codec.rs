//! Decompressing pages.
//!
//! A page says how large it becomes. The library makes room for that without asking, and some of its codecs go on
//! past it. Here it is at most what is allowed, room that is not there is an error rather than the end of the
//! process, and what becomes larger or smaller than it said is refused.

use std::io::Read;

use ::parquet::basic::Compression;
use ::parquet::errors::{ParquetError, Result};

/// The codec of a column chunk.
pub(super) enum Codec {
    None,
    Snappy(snap::raw::Decoder),
    Gzip,
    Brotli,
    /// Blocks of LZ4 as they are.
    Lz4,
    /// Blocks of LZ4 framed as Hadoop does, or, by writers that took that for something else, in one of two other ways.
    Lz4Hadoop,
    Zstd(zstd::bulk::Decompressor<'static>),
}

/// The buffer that Brotli's decoder works in.
const BROTLI_BYTES: usize = 4096;

impl Codec {
    pub(super) fn new(compression: Compression) -> Result<Self> {
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

    pub(super) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Appends what `from` holds to `to`, which is exactly so many bytes.
    pub(super) fn decompress(&mut self, from: &[u8], to: &mut Vec<u8>, bytes: usize) -> Result<()> {
        if bytes == 0 {
            // A page of NULLs alone: some writers put nothing here, others an empty frame.
            return Ok(());
        }
        let start = to.len();
        to.try_reserve_exact(bytes).map_err(|error| ParquetError::General(format!("no room for a page: {error}")))?;
        let written = match self {
            Self::None => {
                to.extend_from_slice(from);
                from.len()
            }
            Self::Gzip => read(flate2::read::MultiGzDecoder::new(from), to, bytes)?,
            Self::Brotli => read(brotli::Decompressor::new(from, BROTLI_BYTES), to, bytes)?,
            Self::Zstd(decoder) => {
                let mut into = std::io::Cursor::new(&mut *to);
                into.set_position(start as u64);
                decoder.decompress_to_buffer(from, &mut into)?
            }
            Self::Snappy(decoder) => {
                // The stream states its own size, which the decoder compares with the room.
                to.resize(start + bytes, 0);
                decoder.decompress(from, to.get_mut(start..).unwrap_or_default()).map_err(external)?
            }
            Self::Lz4 => {
                to.resize(start + bytes, 0);
                lz4_flex::block::decompress_into(from, to.get_mut(start..).unwrap_or_default()).map_err(external)?
            }
            Self::Lz4Hadoop => {
                to.resize(start + bytes, 0);
                let room = to.get_mut(start..).unwrap_or_default();
                if hadoop(from, room) != Some(bytes) {
                    to.truncate(start);
                    let framed = read(lz4_flex::frame::FrameDecoder::new(from), to, bytes);
                    if framed.is_err() || to.len() - start != bytes {
                        to.resize(start + bytes, 0);
                        let room = to.get_mut(start..).unwrap_or_default();
                        lz4_flex::block::decompress_into(from, room).map_err(external)?;
                    }
                }
                bytes
            }
        };
        if written != bytes || to.len() != start + bytes {
            return Err(ParquetError::General(format!("a page said to have {bytes} bytes has another size")));
        }
        Ok(())
    }
}

fn external(error: impl std::error::Error + Send + Sync + 'static) -> ParquetError {
    ParquetError::General(error.to_string())
}

/// Reads at most a byte more than it should be.
fn read(from: impl Read, to: &mut Vec<u8>, bytes: usize) -> Result<usize> {
    Ok(from.take(bytes as u64 + 1).read_to_end(to)?)
}

/// Frames of a decompressed and a compressed size, both big-endian, and a block. `None` if it is something else.
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

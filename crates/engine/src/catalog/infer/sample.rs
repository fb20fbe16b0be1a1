//! Samples of objects for inference: their first bytes, decompressed.

use std::io::{Cursor, Read};

use bytes::Bytes;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use object_store::ObjectStore;
use pushdowndb_contract::{Compression, Error, ErrorKind, Result};

use crate::catalog::{DataObject, FileName};

/// Maximum ratio of decompressed to stored bytes in a sample, so that repetitive text does not fill
/// the memory.
const MAX_DECOMPRESSION_FACTOR: u64 = 8;

/// The first bytes of an object, decompressed.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// The text, without a byte-order mark of UTF-8.
    pub(crate) bytes: Bytes,
    /// Whether `bytes` is the whole object.
    pub(crate) is_whole: bool,
    /// Whether it begins with a byte-order mark of UTF-16.
    pub(crate) is_utf16: bool,
    /// Whether the object's name is that of a log, whose delimiter may be a blank.
    pub(crate) is_log: bool,
}

impl Sample {
    /// Fetches up to `limit` stored bytes of text and decompresses them. `address` is for errors.
    pub(crate) async fn fetch(
        store: &dyn ObjectStore,
        object: &DataObject,
        compression: Compression,
        limit: u64,
        address: &str,
    ) -> Result<Self> {
        let stored = object.fetch(store, 0..limit.min(object.size), address).await?;
        let is_all = limit >= object.size;
        if compression == Compression::None {
            refuse_binary(&stored, address)?;
        }
        let mut sample = match compression {
            Compression::None => Self { bytes: stored, is_whole: is_all, is_utf16: false, is_log: false },
            Compression::Gzip => decompress(FileCompressionType::GZIP, "gzip", stored, is_all, limit, address)?,
            Compression::Bzip2 => decompress(FileCompressionType::BZIP2, "bzip2", stored, is_all, limit, address)?,
            Compression::Zstd => decompress(FileCompressionType::ZSTD, "zstd", stored, is_all, limit, address)?,
        };
        sample.is_log = FileName::of(object.path.as_ref()).is_log;
        // The mark of UTF-8 is stripped; that of UTF-16 stays, since it gives the byte order.
        match sample.bytes.as_ref() {
            [0xEF, 0xBB, 0xBF, ..] => sample.bytes = sample.bytes.slice(3..),
            [0xFE, 0xFF, ..] | [0xFF, 0xFE, ..] => sample.is_utf16 = true,
            _ => {}
        }
        Ok(sample)
    }
}

/// Fails if `bytes` begin like a binary file of a known format; the error names the format.
fn refuse_binary(bytes: &[u8], address: &str) -> Result<()> {
    let what = match bytes {
        [0x1F, 0x8B, ..] => "gzip; name it .gz, or say compression = 'gzip'",
        [0x28, 0xB5, 0x2F, 0xFD, ..] => "zstd; name it .zst, or say compression = 'zstd'",
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, ..] => "bzip2; name it .bz2, or say compression = 'bzip2'",
        [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => "xz, which is not read; compress it as .gz or .zst",
        [b'P', b'K', 3, 4, ..] => "a ZIP archive or a workbook, which is not read; save it as CSV, or unpack it",
        [b'P', b'A', b'R', b'1', ..] => "Parquet; name it .parquet, or read it by read_parquet",
        [b'O', b'b', b'j', 1, ..] => "Avro, which is not read; convert it to Parquet",
        [b'O', b'R', b'C', ..] => "ORC, which is not read; convert it to Parquet",
        _ => return Ok(()),
    };
    Err(Error::unsupported(format!("{address}: is {what}")))
}

/// Decompresses `stored` as far as possible: the end of the sample may cut it off.
fn decompress(
    codec: FileCompressionType,
    name: &str,
    stored: Bytes,
    is_all: bool,
    limit: u64,
    address: &str,
) -> Result<Sample> {
    let broken = |error: Box<dyn std::error::Error + Send + Sync>| {
        Error::new(ErrorKind::Corrupt, format!("{address}: is not {name}, or damaged")).with_source(error)
    };
    if stored.is_empty() {
        return Ok(Sample { bytes: stored, is_whole: is_all, is_utf16: false, is_log: false });
    }
    let cap = limit.saturating_mul(MAX_DECOMPRESSION_FACTOR);
    let mut reader = codec.convert_read(Cursor::new(stored)).map_err(|e| broken(e.into()))?.take(cap);
    let (mut bytes, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        match reader.read(&mut chunk) {
            Ok(0) => break,
            Ok(n) => bytes.extend_from_slice(chunk.get(..n).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            // The end of the sample cuts the stream; what came before is good.
            Err(_) if !is_all && !bytes.is_empty() => break,
            Err(error) => return Err(broken(error.into())),
        }
    }
    let is_whole = is_all && reader.limit() > 0;
    Ok(Sample { bytes: bytes.into(), is_whole, is_utf16: false, is_log: false })
}

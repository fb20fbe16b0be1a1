//! Samples of objects for inference: their first bytes, decompressed.

use std::io::{Cursor, Read};

use bytes::Bytes;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use object_store::ObjectStore;
use pushdowndb_contract::{Compression, Error, ErrorKind, Result};

use crate::catalog::DataObject;

/// The most that a compressed sample may grow: repetitive text must not fill the memory.
const MAX_DECOMPRESSION_FACTOR: u64 = 8;

/// The start of an object.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// The text, without its byte-order mark.
    pub(crate) bytes: Bytes,
    /// Whether this is the whole object.
    pub(crate) is_whole: bool,
}

impl Sample {
    /// Fetches and decompresses up to `limit` stored bytes of text; `address` is for messages.
    pub(crate) async fn fetch(
        store: &dyn ObjectStore,
        object: &DataObject,
        compression: Compression,
        limit: u64,
        address: &str,
    ) -> Result<Self> {
        let stored = object.fetch(store, 0..limit.min(object.size), address).await?;
        let is_all = limit >= object.size;
        let sample = match compression {
            Compression::None => Self { bytes: stored, is_whole: is_all },
            Compression::Gzip => decompress(FileCompressionType::GZIP, "gzip", stored, is_all, limit, address)?,
            Compression::Bzip2 => decompress(FileCompressionType::BZIP2, "bzip2", stored, is_all, limit, address)?,
            Compression::Zstd => decompress(FileCompressionType::ZSTD, "zstd", stored, is_all, limit, address)?,
        };
        sample.without_mark(address)
    }

    /// Strips the byte-order mark of UTF-8, refuses text in UTF-16.
    fn without_mark(mut self, address: &str) -> Result<Self> {
        match self.bytes.as_ref() {
            [0xEF, 0xBB, 0xBF, ..] => self.bytes = self.bytes.slice(3..),
            [0xFE, 0xFF, ..] | [0xFF, 0xFE, ..] => {
                return Err(Error::unsupported(format!("{address}: is text in UTF-16; convert it to UTF-8")));
            }
            _ => {}
        }
        Ok(self)
    }
}

/// Decodes as much of a cut-off stream as there is.
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
        return Ok(Sample { bytes: stored, is_whole: is_all });
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
    Ok(Sample { bytes: bytes.into(), is_whole })
}

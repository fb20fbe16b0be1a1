//! Rows as Arrow IPC messages: one stream for an answer, dictionaries sent when they change, bodies compressed.
//!
//! The message with the schema is left out: both sides know it from the fragment, and a peer that could send one
//! could send any.

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamEncoder};
use bytes::{Bytes, BytesMut};
use pushdown::wire::Encoding;
use pushdown::{Error, Fragment, Result};
use pushdowndb_scan::{compact, output_schema};

/// Writes the batches of one answer.
pub(super) struct BatchWriter {
    encoder: StreamEncoder,
}

impl BatchWriter {
    /// For what comes out of the fragment, whose expressions are checked by the way.
    pub fn new(fragment: &Fragment, encoding: Encoding) -> Result<Self> {
        let schema = output_schema(fragment)?;
        let compression = match encoding {
            Encoding::None => None,
            Encoding::Lz4 => Some(CompressionType::LZ4_FRAME),
            Encoding::Zstd => Some(CompressionType::ZSTD),
        };
        let options = IpcWriteOptions::default().try_with_compression(compression).map_err(internal)?;
        let mut encoder = StreamEncoder::try_new_with_options(&schema, options).map_err(internal)?;
        // The first batch brings the schema; an empty one takes it away.
        drop(encoder.encode(&RecordBatch::new_empty(schema)).map_err(internal)?);
        Ok(Self { encoder })
    }

    /// The messages of a batch.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<Bytes> {
        let buffers = self.encoder.encode(&compact(batch)?).map_err(internal)?;
        let mut bytes = BytesMut::with_capacity(buffers.iter().map(|buffer| buffer.len()).sum());
        buffers.iter().for_each(|buffer| bytes.extend_from_slice(buffer));
        Ok(bytes.freeze())
    }
}

fn internal(error: ArrowError) -> Error {
    Error::internal("rows that cannot be sent").with_source(error)
}

//! Encodes batches as Arrow IPC messages, with dictionaries and compression.
//!
//! The schema message is left out: both sides derive the schema from the fragment, and the engine
//! need not trust a schema sent by a peer. If the request accepts dictionaries, text columns with
//! few distinct values are dictionary-encoded, batch by batch. Each set of encoded columns is a
//! stream of its own, since the schema of a stream cannot change.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamEncoder};
use bytes::{Bytes, BytesMut};
use pushdowndb_contract::limits::FRAGMENT_STREAMS;
use pushdowndb_contract::wire::{Encoding, FragmentRequest};
use pushdowndb_contract::{Error, Result};
use pushdowndb_scan::{
    DictionaryColumns, as_dictionary, compact, dictionary_candidates, output_schema, with_dictionaries, with_positions,
};

/// Batches to skip after a column turned out not to suit a dictionary.
const DICTIONARY_RETRY_BATCHES: u32 = 16;

/// Encodes the batches of one response.
pub(super) struct BatchWriter {
    schema: SchemaRef,
    options: IpcWriteOptions,
    streams: HashMap<DictionaryColumns, StreamEncoder>,
    candidates: Vec<Candidate>,
}

/// A text column that may be dictionary-encoded.
struct Candidate {
    column: usize,
    /// Batches until encoding is tried again.
    pause: u32,
}

impl BatchWriter {
    /// Creates a writer for the output of the request's fragment. Expects that the expressions of
    /// the fragment were checked.
    pub fn new(request: &FragmentRequest) -> Result<Self> {
        let schema = output_schema(&request.fragment)?;
        let schema = if request.positions { with_positions(&schema) } else { schema };
        let compression = match request.encoding {
            Encoding::None => None,
            Encoding::Lz4 => Some(CompressionType::LZ4_FRAME),
            Encoding::Zstd => Some(CompressionType::ZSTD),
        };
        let options = IpcWriteOptions::default().try_with_compression(compression).map_err(internal)?;
        let candidates = match request.dictionaries {
            true => dictionary_candidates(&schema).map(|column| Candidate { column, pause: 0 }).collect(),
            false => vec![],
        };
        Ok(Self { schema, options, streams: HashMap::new(), candidates })
    }

    /// Encodes a batch. Returns its dictionary columns and the messages.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(DictionaryColumns, Bytes)> {
        let batch = compact(batch)?;
        let mut columns = batch.columns().to_vec();
        let mut dictionaries = self.encode(&mut columns);
        if !self.streams.contains_key(&dictionaries) && self.streams.len() + 1 >= FRAGMENT_STREAMS {
            dictionaries = 0;
        }
        let buffers = match dictionaries {
            0 => self.stream(0)?.encode(&batch),
            some => {
                let schema = with_dictionaries(&self.schema, some);
                let schema = schema.ok_or_else(|| Error::internal("a dictionary of a column that is no text"))?;
                let batch = RecordBatch::try_new(schema, columns).map_err(internal)?;
                self.stream(some)?.encode(&batch)
            }
        };
        let buffers = buffers.map_err(internal)?;
        let mut bytes = BytesMut::with_capacity(buffers.iter().map(|buffer| buffer.len()).sum());
        buffers.iter().for_each(|buffer| bytes.extend_from_slice(buffer));
        Ok((dictionaries, bytes.freeze()))
    }

    /// Dictionary-encodes the candidate columns that become smaller that way, and returns which
    /// ones.
    fn encode(&mut self, columns: &mut [ArrayRef]) -> DictionaryColumns {
        let mut encoded = 0;
        for candidate in &mut self.candidates {
            let Some(column) = columns.get_mut(candidate.column) else { continue };
            if candidate.pause > 0 {
                candidate.pause -= 1;
            } else if let Some(dictionary) = as_dictionary(column) {
                *column = dictionary;
                encoded |= 1 << candidate.column;
            } else {
                candidate.pause = DICTIONARY_RETRY_BATCHES;
            }
        }
        encoded
    }

    fn stream(&mut self, dictionaries: DictionaryColumns) -> Result<&mut StreamEncoder> {
        use std::collections::hash_map::Entry;
        match self.streams.entry(dictionaries) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => {
                let schema = with_dictionaries(&self.schema, dictionaries).unwrap_or_else(|| Arc::clone(&self.schema));
                let mut encoder =
                    StreamEncoder::try_new_with_options(&schema, self.options.clone()).map_err(internal)?;
                // The first batch emits the schema; encoding an empty one discards it.
                drop(encoder.encode(&RecordBatch::new_empty(schema)).map_err(internal)?);
                Ok(new.insert(encoder))
            }
        }
    }
}

fn internal(error: ArrowError) -> Error {
    Error::internal("rows that cannot be sent").with_source(error)
}

//! Decodes the Arrow IPC messages of a response, after checking them against bounds.
//!
//! Checksums show that a message arrived as it was sent, not that it is valid, and Arrow trusts the
//! lengths in it: of its body, of the arrays, of decompressed buffers. Here a message is decoded
//! only if all of these lie within the message and within [`MAX_BATCH_BYTES`].

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow_ipc::reader::{StreamDecoder, read_record_batch};
use arrow_ipc::writer::StreamEncoder;
use arrow_ipc::{CompressionType, Message, MessageHeader, RecordBatch as BatchMessage, root_as_message};
use bytes::{Bytes, BytesMut};
use pushdowndb_contract::limits::FRAGMENT_STREAMS;
use pushdowndb_contract::{Error, ErrorKind, Result};
use pushdowndb_scan::{DictionaryColumns, with_dictionaries, without_dictionaries};

/// Maximum size of a batch in bytes, both encoded and decoded.
const MAX_BATCH_BYTES: u64 = 512 * 1024 * 1024;

/// Maximum size of a message's metadata in bytes.
const MAX_METADATA_BYTES: usize = 16 * 1024 * 1024;

/// Maximum number of rows of a batch, and of the arrays inside one.
const MAX_BATCH_ROWS: i64 = 1 << 30;

/// The first bytes of every message, before the length of its metadata.
const MARK: [u8; 4] = [0xff; 4];
const PREFIX_BYTES: usize = 8;

/// Decodes the batches of a response. Text columns that are sent as dictionaries are converted to
/// the plain type that the plan expects.
pub(crate) struct BatchStreams {
    schema: SchemaRef,
    /// One decoder for each set of columns that are sent as dictionaries.
    streams: HashMap<DictionaryColumns, BatchDecoder>,
}

impl BatchStreams {
    /// Creates a decoder for batches of `schema`, which the response does not contain.
    pub(crate) fn new(schema: SchemaRef) -> Self {
        Self { schema, streams: HashMap::new() }
    }

    /// Adds the next bytes of the stream whose columns `dictionaries` are sent as dictionaries.
    /// Returns the batch that they complete, if any; they must not complete two.
    pub(crate) fn feed(&mut self, dictionaries: DictionaryColumns, bytes: &[u8]) -> Result<Option<RecordBatch>> {
        let room = self.streams.len() < FRAGMENT_STREAMS;
        let batch = match self.streams.get_mut(&dictionaries) {
            Some(known) => known.feed(bytes)?,
            None if !room => return Err(corrupt("it has too many streams")),
            None => {
                let schema = with_dictionaries(&self.schema, dictionaries);
                let schema = schema.ok_or_else(|| corrupt("a column is a dictionary that cannot be one"))?;
                let mut decoder = BatchDecoder::new(schema)?;
                let batch = decoder.feed(bytes)?;
                self.streams.insert(dictionaries, decoder);
                batch
            }
        };
        match batch {
            Some(batch) if dictionaries != 0 => without_dictionaries(&batch, &self.schema).map(Some),
            plain => Ok(plain),
        }
    }
}

/// The decoder of one stream.
struct BatchDecoder {
    decoder: StreamDecoder,
    schema: SchemaRef,
    /// Bytes of an incomplete message.
    waiting: BytesMut,
}

impl BatchDecoder {
    fn new(schema: SchemaRef) -> Result<Self> {
        let internal = |error| Error::internal("a schema that cannot be sent").with_source(error);
        let mut decoder = StreamDecoder::new();
        let mut encoder = StreamEncoder::try_new(&schema).map_err(internal)?;
        let empty = RecordBatch::new_empty(SchemaRef::clone(&schema));
        // The encoder puts the schema before the first batch; its own message is not needed.
        let first = encoder.encode(&empty).map_err(internal)?;
        let first: Vec<u8> = first.iter().flat_map(|buffer| buffer.to_vec()).collect();
        let length = message_bytes(&first)?.unwrap_or_default();
        let mut brings = Buffer::from(first.get(..length).unwrap_or_default());
        while !brings.is_empty() {
            decoder.decode(&mut brings).map_err(internal)?;
        }
        Ok(Self { decoder, schema, waiting: BytesMut::new() })
    }

    /// Decodes the next bytes of the stream and returns the batch that they complete, if any.
    /// `bytes` must not hold the ends of two batches.
    fn feed(&mut self, bytes: &[u8]) -> Result<Option<RecordBatch>> {
        self.waiting.extend_from_slice(bytes);
        let mut batch = None;
        while let Some(length) = message_bytes(&self.waiting)?.filter(|length| *length <= self.waiting.len()) {
            let message = self.waiting.split_to(length).freeze();
            match self.decode(message)? {
                Some(_) if batch.is_some() => return Err(corrupt("two batches in one frame")),
                Some(next) => batch = Some(next),
                None => {}
            }
        }
        Ok(batch)
    }

    /// Decodes a complete message.
    fn decode(&mut self, bytes: Bytes) -> Result<Option<RecordBatch>> {
        let (message, body) = parts(&bytes)?;
        check(&message, body)?;
        // Arrow reports the remaining errors, or panics.
        let decoded = catch_unwind(AssertUnwindSafe(|| match message.header_as_record_batch() {
            // The stream decoder would wait for the bytes of an empty body.
            Some(batch) if body.is_empty() => {
                let (schema, version) = (SchemaRef::clone(&self.schema), message.version());
                read_record_batch(&Buffer::from(&[]), batch, schema, &HashMap::new(), None, &version).map(Some)
            }
            _ => self.decoder.decode(&mut Buffer::from(bytes.clone())),
        }));
        let decoded = decoded.map_err(|_| corrupt("a batch contradicts itself"))?;
        let batch = decoded.map_err(|error| corrupt(&error.to_string()))?.filter(|batch| batch.num_rows() > 0);
        match &batch {
            Some(batch) if batch.schema().fields() != self.schema.fields() => Err(corrupt("a batch has other columns")),
            _ => Ok(batch),
        }
    }
}

fn corrupt(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the answer of storage: {what}"))
}

/// Returns the length of the message that begins here; `None` if there are too few bytes to tell.
fn message_bytes(bytes: &[u8]) -> Result<Option<usize>> {
    let Some(metadata) = metadata_bytes(bytes)? else { return Ok(None) };
    let end = PREFIX_BYTES + metadata;
    let Some(metadata) = bytes.get(PREFIX_BYTES..end) else { return Ok(None) };
    let message = root_as_message(metadata).map_err(|error| corrupt(&error.to_string()))?;
    let body = u64::try_from(message.bodyLength()).ok().filter(|body| *body <= MAX_BATCH_BYTES);
    let body = body.ok_or_else(|| corrupt(&format!("a batch claims to have {} bytes", message.bodyLength())))?;
    Ok(Some(end + body as usize))
}

fn metadata_bytes(bytes: &[u8]) -> Result<Option<usize>> {
    let Some(prefix) = bytes.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
    let [a, b, c, d, length @ ..] = *prefix;
    let length = u32::from_le_bytes(length) as usize;
    match [a, b, c, d] == MARK && (1..=MAX_METADATA_BYTES).contains(&length) {
        true => Ok(Some(length)),
        false => Err(corrupt("a message does not begin as one")),
    }
}

/// Splits a whole message into metadata and body.
fn parts(bytes: &[u8]) -> Result<(Message<'_>, &[u8])> {
    let end = PREFIX_BYTES + metadata_bytes(bytes)?.unwrap_or_default();
    let (said, body) = bytes.split_at_checked(end).ok_or_else(|| corrupt("a message is cut"))?;
    let message = root_as_message(said.get(PREFIX_BYTES..).unwrap_or_default());
    Ok((message.map_err(|error| corrupt(&error.to_string()))?, body))
}

/// Checks that the lengths in a message lie within its body and within bounds.
fn check(message: &Message<'_>, body: &[u8]) -> Result<()> {
    let batch = match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => message.header_as_dictionary_batch().and_then(|values| values.data()),
        _ => None,
    };
    let batch = batch.ok_or_else(|| corrupt("a message is no batch"))?;
    let lengths = batch.nodes().into_iter().flatten().flat_map(|node| [node.length(), node.null_count()]);
    if !std::iter::once(batch.length()).chain(lengths).all(|length| (0..=MAX_BATCH_ROWS).contains(&length)) {
        return Err(corrupt("a batch claims to have too many rows"));
    }
    let decoded = decoded_bytes(&batch, body)?;
    match decoded <= MAX_BATCH_BYTES {
        true => Ok(()),
        false => Err(corrupt(&format!("a batch would take {decoded} bytes"))),
    }
}

/// Returns an upper bound on the bytes that the buffers of a batch decode to.
fn decoded_bytes(batch: &BatchMessage<'_>, body: &[u8]) -> Result<u64> {
    let codec = batch.compression().map(|compression| compression.codec());
    let mut total = 0u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let place = usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
        let bytes = place.and_then(|(start, length)| body.get(start..start.checked_add(length)?));
        let bytes = bytes.ok_or_else(|| corrupt("a batch has bytes outside of its body"))?;
        total = total.saturating_add(match codec {
            Some(codec) if !bytes.is_empty() => decompressed_bytes(codec, bytes)?,
            _ => bytes.len() as u64,
        });
    }
    Ok(total)
}

/// Returns an upper bound on the bytes that a compressed buffer decodes to. The buffer begins with
/// their number, which is -1 if it is not compressed.
fn decompressed_bytes(codec: CompressionType, bytes: &[u8]) -> Result<u64> {
    let (claimed, compressed) = bytes.split_first_chunk::<8>().ok_or_else(|| corrupt("a buffer is too short"))?;
    let claimed = match i64::from_le_bytes(*claimed) {
        -1 => return Ok(compressed.len() as u64),
        claimed => u64::try_from(claimed).map_err(|_| corrupt("a buffer claims to have less than nothing"))?,
    };
    Ok(match codec {
        // LZ4 frames decode to their end, whatever the number; Zstandard stops at the number.
        CompressionType::LZ4_FRAME if claimed > 0 => {
            let most = lz4_bytes(compressed).ok_or_else(|| corrupt("a buffer is no frame of LZ4"))?;
            claimed.max(most)
        }
        _ => claimed,
    })
}

/// Returns an upper bound on the bytes that an LZ4 frame decodes to: the sum over its blocks, each
/// of the maximum size in the frame's header ([LZ4 Frame
/// Format](https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md), 1.6). Returns `None` if
/// `frame` is not exactly one frame.
fn lz4_bytes(frame: &[u8]) -> Option<u64> {
    const MAGIC: [u8; 4] = 0x184D_2204_u32.to_le_bytes();
    const NOT_COMPRESSED: u32 = 1 << 31;
    let [flags, sizes] = *frame.strip_prefix(&MAGIC)?.first_chunk::<2>()?;
    let is_set = |bit: u8| flags & (1 << bit) != 0;
    let block = 1u64 << (8 + 2 * u32::from((sizes >> 4) & 7));
    // Two bytes of flags, the content's size, a dictionary's number, and a checksum of these.
    let head = 2 + 8 * usize::from(is_set(3)) + 4 * usize::from(is_set(0)) + 1;
    let mut rest = frame.get(MAGIC.len() + head..)?;
    let mut total = 0u64;
    loop {
        let (size, after) = rest.split_first_chunk::<4>()?;
        let size = u32::from_le_bytes(*size);
        if size == 0 {
            let end = if is_set(2) { 4 } else { 0 };
            return (after.len() == end).then_some(total);
        }
        let bytes = (size & !NOT_COMPRESSED) as usize;
        // One byte of compressed text stands for at most 255 decoded bytes.
        total += if size & NOT_COMPRESSED == 0 { block.min(bytes as u64 * 255) } else { bytes as u64 };
        rest = after.get(bytes + if is_set(4) { 4 } else { 0 }..)?;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use arrow::datatypes::{DataType, Field, Schema};
    use arrow_ipc::writer::IpcWriteOptions;

    use super::*;

    fn schema() -> SchemaRef {
        let fields = vec![Field::new("n", DataType::Int64, true), Field::new("s", DataType::Utf8, true)];
        Arc::new(Schema::new(fields))
    }

    fn batch(rows: i64) -> RecordBatch {
        let numbers = (0..rows).map(|n| (n % 3 > 0).then_some(n));
        let texts = (0..rows).map(|n| (n % 5 > 0).then(|| format!("text {}", n % 10)));
        let columns: Vec<ArrayRef> =
            vec![Arc::new(numbers.collect::<Int64Array>()), Arc::new(texts.collect::<StringArray>())];
        RecordBatch::try_new(schema(), columns).unwrap()
    }

    /// The message of a batch, without that of the schema.
    fn sent(batch: &RecordBatch, compression: Option<CompressionType>) -> Vec<u8> {
        let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
        let mut encoder = StreamEncoder::try_new_with_options(&batch.schema(), options).unwrap();
        drop(encoder.encode(&RecordBatch::new_empty(batch.schema())).unwrap());
        encoder.encode(batch).unwrap().iter().flat_map(|buffer| buffer.to_vec()).collect()
    }

    const CODECS: [Option<CompressionType>; 3] = [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)];

    #[test]
    fn batches_come_back_however_they_are_cut() {
        for codec in CODECS {
            for rows in [1, 1000, 100_000] {
                let bytes = sent(&batch(rows), codec);
                for piece in [7, 1 << 20] {
                    let mut decoder = BatchDecoder::new(schema()).unwrap();
                    let got: Vec<_> = bytes.chunks(piece).filter_map(|piece| decoder.feed(piece).unwrap()).collect();
                    assert_eq!(got, [batch(rows)], "{codec:?}");
                    assert!(decoder.waiting.is_empty());
                }
            }
        }
    }

    #[test]
    fn rows_without_columns_come_at_once() {
        let schema = Arc::new(Schema::empty());
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(7));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), vec![], &options).unwrap();
        let mut decoder = BatchDecoder::new(schema).unwrap();
        assert_eq!(decoder.feed(&sent(&batch, None)).unwrap().unwrap().num_rows(), 7);
    }

    #[test]
    fn what_is_claimed_is_bounded_before_it_is_decoded() {
        let message = |bytes: &[u8]| BatchDecoder::new(schema()).unwrap().feed(bytes).unwrap_err().message().to_owned();
        let bytes = sent(&batch(1000), Some(CompressionType::LZ4_FRAME));
        // The length before the numbers, 8000 bytes, now exceeds the memory.
        let claimed = 8000i64.to_le_bytes();
        let at = bytes.windows(8).position(|window| window == claimed).unwrap();
        for (claim, part) in [(1i64 << 40, "would take"), (i64::MAX, "would take"), (-2, "less than nothing")] {
            let mut lying = bytes.clone();
            lying[at..at + 8].copy_from_slice(&claim.to_le_bytes());
            assert!(message(&lying).contains(part), "{claim}: {}", message(&lying));
        }
        // A frame that decodes to more than it claims, block after block.
        let mut frame = vec![0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73];
        for _ in 0..3 {
            frame.extend_from_slice(&20_000u32.to_le_bytes());
            frame.extend_from_slice(&[0xff; 20_000]);
        }
        assert_eq!(lz4_bytes(&frame), None, "without its end");
        frame.extend_from_slice(&[0; 4]);
        assert_eq!(lz4_bytes(&frame), Some(3 * (4 << 20)));
        frame.push(0);
        assert_eq!(lz4_bytes(&frame), None, "something follows");

        let mut decoder = BatchDecoder::new(schema()).unwrap();
        let error = decoder.feed(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "metadata of 2 GiB");
    }

    #[test]
    fn no_damage_panics_or_asks_for_much() {
        for codec in CODECS {
            let bytes = sent(&batch(40), codec);
            for at in 0..bytes.len() {
                for value in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut damaged = bytes.clone();
                    damaged[at] = value;
                    // Any result will do, as long as it returns.
                    drop(BatchDecoder::new(schema()).unwrap().feed(&damaged));
                }
            }
        }
    }
}

//! Chunked bodies (`aws-chunked`), decoded as they arrive.
//!
//! A chunk may be as long as the body, so its bytes are passed on before its signature is verified.
//! A wrong signature ends the body with an error, and the bytes received are dropped.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use hyper::body::{Body as HttpBody, Frame};
use s3s::crypto::{Checksum as _, Sha256};
use s3s::{Body, StdError};

use super::trailer::Trailer;
use crate::s3::auth::chunk_chain::Chain;
use crate::store::StoreError;

/// Maximum bytes of the line before a chunk.
const MAX_HEAD_BYTES: usize = 1024;

/// Maximum bytes of a trailer.
const MAX_TRAILER_BYTES: usize = 16 << 10;

/// Maximum headers in a trailer.
const MAX_TRAILER_HEADERS: usize = 100;

const TRAILER_SIGNATURE: &str = "x-amz-trailer-signature";

/// Decodes an `aws-chunked` body to the bytes within its chunks.
pub(crate) struct Chunked {
    body: Body,
    /// Bytes that were received but not decoded yet.
    arrived: Bytes,
    decoder: Decoder,
}

impl Chunked {
    /// Decodes `body`, whose chunks continue `chain` if `is_signed`. Fills `trailer` at the end.
    pub fn new(body: Body, chain: Chain, is_signed: bool, trailer: Trailer) -> Self {
        Self { body, arrived: Bytes::new(), decoder: Decoder::new(chain, is_signed, trailer) }
    }
}

impl HttpBody for Chunked {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        loop {
            let Self { arrived, decoder, .. } = &mut *self;
            if let Some(data) = decoder.decode(arrived)? {
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                // HTTP trailers are not part of the body.
                Some(Ok(frame)) => self.arrived = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    self.decoder.finish()?;
                    return Poll::Ready(None);
                }
            }
        }
    }
}

/// The position of the next byte in the body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum At {
    /// In the line before a chunk.
    Head,
    /// In a chunk, with this many bytes left.
    Data(u64),
    /// In the line break after a chunk, with this many of its two bytes left.
    End(usize),
    /// After the last chunk.
    Trailer,
    /// The trailer was read.
    Done,
}

struct Decoder {
    at: At,
    chain: Chain,
    is_signed: bool,
    /// The part of the line or of the trailer that has arrived.
    line: BytesMut,
    /// The signature of the current chunk, and its hash so far.
    signature: String,
    hash: Sha256,
    trailer: Trailer,
}

impl Decoder {
    fn new(chain: Chain, is_signed: bool, trailer: Trailer) -> Self {
        let (line, signature, hash) = (BytesMut::new(), String::new(), Sha256::new());
        Self { at: At::Head, chain, is_signed, line, signature, hash, trailer }
    }

    /// Consumes bytes of `arrived` up to and including the next data of a chunk, and returns that
    /// data. Returns `None` when `arrived` is used up.
    fn decode(&mut self, arrived: &mut Bytes) -> Result<Option<Bytes>, StoreError> {
        while arrived.has_remaining() {
            match self.at {
                At::Head => self.head(arrived)?,
                At::Data(left) => {
                    let length = arrived.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    let data = arrived.split_to(length);
                    self.data(&data, left - length as u64)?;
                    return Ok(Some(data));
                }
                At::End(left) => {
                    let end = arrived.split_to(arrived.len().min(left));
                    if !b"\r\n"[2 - left..].starts_with(&end) {
                        return Err(malformed("a chunk is longer than it says"));
                    }
                    self.at = if end.len() == left { At::Head } else { At::End(left - end.len()) };
                }
                At::Trailer | At::Done => {
                    if self.line.len() + arrived.len() > MAX_TRAILER_BYTES {
                        return Err(malformed("its trailer is too long"));
                    }
                    self.line.extend_from_slice(&arrived.split_to(arrived.len()));
                }
            }
        }
        Ok(None)
    }

    fn head(&mut self, arrived: &mut Bytes) -> Result<(), StoreError> {
        let end = memchr::memchr(b'\n', arrived).map(|at| at + 1);
        self.line.extend_from_slice(&arrived.split_to(end.unwrap_or(arrived.len()).min(MAX_HEAD_BYTES)));
        if !self.line.ends_with(b"\n") {
            return match self.line.len() < MAX_HEAD_BYTES {
                true => Ok(()),
                false => Err(malformed("a chunk has no size")),
            };
        }
        let line = self.line.split();
        let size = size(&line).ok_or_else(|| malformed("a chunk has no size"))?;
        if self.is_signed {
            let signature = signature(&line).ok_or_else(|| malformed("a chunk has no signature"))?;
            signature.clone_into(&mut self.signature);
        }
        match size {
            0 => {
                self.verify_chunk()?;
                self.at = At::Trailer;
            }
            size => self.at = At::Data(size),
        }
        Ok(())
    }

    /// Hashes `data` of a chunk if it is signed, and verifies the chunk at its end. `left` is the
    /// number of bytes of the chunk that follow.
    fn data(&mut self, data: &[u8], left: u64) -> Result<(), StoreError> {
        if self.is_signed {
            self.hash.update(data);
        }
        self.at = At::Data(left);
        if left == 0 {
            self.verify_chunk()?;
            self.at = At::End(2);
        }
        Ok(())
    }

    fn verify_chunk(&mut self) -> Result<(), StoreError> {
        if !self.is_signed {
            return Ok(());
        }
        let hash = std::mem::replace(&mut self.hash, Sha256::new()).finalize();
        match self.chain.verify_chunk(&self.signature, &hash) {
            true => Ok(()),
            false => Err(StoreError::ChunkSignature),
        }
    }

    /// Ends the body: parses the trailer and verifies its signature. Returns an error if the body
    /// is incomplete.
    fn finish(&mut self) -> Result<(), StoreError> {
        match self.at {
            At::Trailer => self.at = At::Done,
            At::Done => return Ok(()),
            _ => return Err(malformed("it ends before its last chunk")),
        }
        let lines = std::str::from_utf8(&self.line).map_err(|_| malformed("its trailer is no UTF-8"))?;
        let (mut fields, mut signature) = (Vec::new(), None);
        for line in lines.split('\n').map(|line| line.trim_end_matches('\r')).filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').ok_or_else(|| malformed("its trailer is malformed"))?;
            let (name, value) = (name.to_ascii_lowercase(), value.trim_ascii());
            match name == TRAILER_SIGNATURE {
                true => signature = Some(value),
                false => fields.push((name, value)),
            }
            if fields.len() > MAX_TRAILER_HEADERS {
                return Err(malformed("its trailer has too many headers"));
            }
        }
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        if signature.is_none() && (fields.is_empty() || !self.is_signed) {
            return self.set_trailer(&fields);
        }
        let signature = signature.ok_or_else(|| malformed("its trailer has no signature"))?;
        let signed: String = fields.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        if !self.chain.verify_trailer(signature, &signed) {
            return Err(StoreError::ChunkSignature);
        }
        self.set_trailer(&fields)
    }

    fn set_trailer(&self, fields: &[(String, &str)]) -> Result<(), StoreError> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| malformed("its trailer is malformed"))?;
            let value = HeaderValue::from_str(value).map_err(|_| malformed("its trailer is malformed"))?;
            headers.append(name, value);
        }
        self.trailer.set(headers);
        Ok(())
    }
}

fn malformed(what: &str) -> StoreError {
    StoreError::Body(what.to_owned())
}

/// The signature in the line before a chunk.
fn signature(line: &[u8]) -> Option<&str> {
    let (_, signature) = std::str::from_utf8(line.strip_suffix(b"\r\n")?).ok()?.split_once(";chunk-signature=")?;
    (signature.len() == 64).then_some(signature)
}

/// The size in the line before a chunk.
fn size(line: &[u8]) -> Option<u64> {
    let digits = line.strip_suffix(b"\r\n")?.split(|byte| *byte == b';').next()?;
    let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::auth::chunk_chain::tests::example;

    /// Decodes `text`, which arrives in pieces of `piece` bytes, and returns its bytes and trailer.
    fn decode(is_signed: bool, text: &[u8], piece: usize) -> Result<(Vec<u8>, HeaderMap), StoreError> {
        let trailer = Trailer::default();
        let mut decoder = Decoder::new(example(), is_signed, trailer.clone());
        let mut all = Vec::new();
        for piece in text.chunks(piece) {
            let mut piece = Bytes::copy_from_slice(piece);
            while let Some(data) = decoder.decode(&mut piece)? {
                all.extend_from_slice(&data);
            }
            assert!(decoder.line.len() <= MAX_HEAD_BYTES.max(MAX_TRAILER_BYTES), "little is held back");
        }
        decoder.finish()?;
        Ok((all, trailer.get().cloned().unwrap_or_default()))
    }

    /// Chunks as a client signs them, with a signed `trailer` if it is not empty.
    fn as_signed(chunks: &[&[u8]], trailer: &str) -> Vec<u8> {
        let mut chain = example();
        let mut all = Vec::new();
        for data in chunks.iter().chain([&&b""[..]]) {
            let signature = chain.sign_chunk(data);
            all.extend(format!("{:x};chunk-signature={signature}\r\n", data.len()).into_bytes());
            all.extend_from_slice(data);
            all.extend(if data.is_empty() { "" } else { "\r\n" }.bytes());
        }
        if !trailer.is_empty() {
            let signature = chain.sign_trailer(&format!("{trailer}\n"));
            all.extend(format!("{trailer}\r\n{TRAILER_SIGNATURE}:{signature}\r\n").bytes());
        }
        all.extend(b"\r\n");
        all
    }

    #[test]
    fn unsigned_chunks_are_decoded() {
        let text = b"b\r\nhello world\r\n1;x=y\r\n?\r\n0\r\nX-Amz-Checksum-Crc32: AA==\r\n\r\n";
        for piece in 1..text.len() {
            let (all, trailer) = decode(false, text, piece).unwrap();
            assert_eq!(all, b"hello world?", "in pieces of {piece}");
            assert_eq!((trailer.len(), &trailer["x-amz-checksum-crc32"]), (1, &HeaderValue::from_static("AA==")));
        }
        for end in ["0\r\n", "0\r\n\r\n"] {
            assert_eq!(decode(false, end.as_bytes(), 2).unwrap().0, b"");
        }
    }

    #[test]
    fn sizes_may_have_more_than_32_bits() {
        let mut decoder = Decoder::new(example(), false, Trailer::default());
        let mut arrived = Bytes::from([format!("{:x}\r\n", 5_000_000_000_u64).as_bytes(), &[7; 100]].concat());
        assert_eq!(decoder.decode(&mut arrived).unwrap().unwrap().len(), 100);
        assert_eq!(decoder.at, At::Data(4_999_999_900));
    }

    #[test]
    fn signed_chunks_are_verified() {
        let large: Vec<u8> = (0..700_000_u32).map(|i| (i / 7) as u8).collect();
        let trailer = "x-amz-checksum-crc32c:wdBDMA==";
        let text = as_signed(&[b"small", &large, b"again"], trailer);
        for piece in [1, 997, 65_536, 1 << 20] {
            let (all, headers) = decode(true, &text, piece).unwrap();
            assert!(all == [b"small", large.as_slice(), b"again"].concat(), "in pieces of {piece}");
            assert_eq!(headers["x-amz-checksum-crc32c"], "wdBDMA==");
        }
        assert!(decode(true, &text[..400_000], 10_000).is_err(), "cut off");
    }

    #[test]
    fn another_byte_or_signature_is_refused() {
        let good = as_signed(&[b"hello", b"again"], "x-amz-checksum-crc32c:wdBDMA==");
        assert!(decode(true, &good, 10).is_ok());
        let changed = |at: usize| {
            let mut bad = good.clone();
            bad[at] ^= 1;
            decode(true, &bad, 10)
        };
        let text = String::from_utf8(good.clone()).unwrap();
        for part in ["hello", "again", "wdBDMA", "x-amz-trailer-signature:"] {
            let at = text.find(part).unwrap() + part.len();
            let refused = changed(if part.ends_with(':') { at } else { at - 1 });
            assert!(matches!(refused, Err(StoreError::ChunkSignature)), "{part}");
        }
        for (at, _) in text.match_indices("chunk-signature=") {
            assert!(matches!(changed(at + 20), Err(StoreError::ChunkSignature)), "{at}");
        }
        let stripped = text.split("x-amz-trailer-signature").next().unwrap();
        assert!(matches!(decode(true, stripped.as_bytes(), 10), Err(StoreError::Body(_))));
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        let long = "1".repeat(3 * MAX_HEAD_BYTES);
        for text in ["", "hello", "\r\n", "xyz\r\nabc", "+5\r\nhello\r\n", "5\r\nhelloXX", "3\nabc", long.as_str()] {
            for piece in [1, 3, 5000] {
                assert!(matches!(decode(false, text.as_bytes(), piece), Err(StoreError::Body(_))), "{text}");
            }
        }
        let unsigned = b"5\r\nhello\r\n0\r\n\r\n";
        assert!(decode(false, unsigned, 4).is_ok() && decode(true, unsigned, 4).is_err());
        let long = format!("0\r\nx-amz-checksum-crc32:{}\r\n", "A".repeat(MAX_TRAILER_BYTES));
        assert!(decode(false, long.as_bytes(), 1000).is_err());
    }
}

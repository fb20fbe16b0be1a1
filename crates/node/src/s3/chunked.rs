//! Bodies in chunks (`aws-chunked`), in chunks that are small.
//!
//! s3s takes in a whole chunk before it hands on a byte of it, and reads sizes of 32 bits. Clients that do not sign
//! their chunks may send an object as a single one. So these are cut up here, as the bytes arrive. Signed chunks
//! cannot be, as their signature is over all of them: they are of a few MiB at most, and longer ones are refused.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use hyper::body::{Body as HttpBody, Frame};
use s3s::{Body, HttpRequest};

/// The longest chunk that may be signed.
const SIGNED_BYTES: u64 = 16 << 20;

/// The header that announces what follows the last chunk.
const TRAILER: &str = "x-amz-trailer";

/// The longest line that may tell a chunk's size.
const HEAD_BYTES: usize = 1024;

/// The same request; a body in chunks comes in small ones.
pub(super) fn in_small_chunks(request: HttpRequest) -> HttpRequest {
    match kind(request.headers()) {
        None => request,
        Some(signed) => request.map(|body| {
            let (head, ready) = (BytesMut::new(), VecDeque::new());
            Body::http_body(Chunks { body, signed, at: At::Head, head, ready })
        }),
    }
}

/// The same request as s3s takes it: one without a signed body may leave its trailer out, which s3s wants announced
/// all the same. To be called once nothing unsigned is looked for any more.
pub(super) fn with_trailer(mut request: HttpRequest) -> HttpRequest {
    let headers = request.headers_mut();
    if kind(headers) == Some(false) && !headers.contains_key(TRAILER) {
        headers.insert(TRAILER, HeaderValue::from_static(""));
    }
    request
}

/// The name that the trailer announces, if it announces one.
pub(super) fn announced(headers: &HeaderMap) -> Option<&str> {
    let name = headers.get(TRAILER)?.to_str().ok()?.trim();
    Some(name).filter(|name| !name.is_empty())
}

/// Whether the chunks of the body are signed, if it is in chunks.
fn kind(headers: &HeaderMap) -> Option<bool> {
    let sum = headers.get("x-amz-content-sha256")?.to_str().ok()?.strip_prefix("STREAMING-")?;
    Some(!sum.starts_with("UNSIGNED-"))
}

struct Chunks {
    body: Body,
    signed: bool,
    at: At,
    /// What there is of a line that is not whole.
    head: BytesMut,
    /// Bytes to hand on.
    ready: VecDeque<Bytes>,
}

/// What comes next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum At {
    /// The size of a chunk.
    Head,
    /// So many bytes of a chunk.
    Data(u64),
    /// So many bytes of the line's end behind them.
    End(usize),
    /// The trailer, or something that is no chunk, which s3s refuses.
    Rest,
}

impl Chunks {
    /// Takes in bytes as they arrived.
    fn take(&mut self, mut bytes: Bytes) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.at {
                At::Rest => {
                    self.ready.push_back(bytes);
                    return Ok(());
                }
                At::Head => self.take_head(&mut bytes)?,
                At::Data(left) => {
                    let data = bytes.split_to(bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
                    self.at = match left - data.len() as u64 {
                        0 => At::End(2),
                        left => At::Data(left),
                    };
                    if self.signed {
                        self.ready.push_back(data);
                    } else {
                        let size = format!("{:x}\r\n", data.len());
                        self.ready.extend([Bytes::from(size), data, Bytes::from_static(b"\r\n")]);
                    }
                }
                At::End(left) => {
                    let end = bytes.split_to(bytes.len().min(left));
                    if !b"\r\n"[2 - left..].starts_with(&end) {
                        self.ready.push_back(end);
                        self.at = At::Rest;
                        continue;
                    }
                    self.at = if end.len() == left { At::Head } else { At::End(left - end.len()) };
                    if self.signed {
                        self.ready.push_back(end);
                    }
                }
            }
        }
        Ok(())
    }

    fn take_head(&mut self, bytes: &mut Bytes) -> io::Result<()> {
        let end = memchr::memchr(b'\n', bytes).map(|at| at + 1);
        self.head.extend_from_slice(&bytes.split_to(end.unwrap_or(bytes.len()).min(HEAD_BYTES)));
        if end.is_none() && self.head.len() < HEAD_BYTES {
            return Ok(());
        }
        let head = self.head.split().freeze();
        let size = size(&head);
        if self.signed && size.is_some_and(|size| size > SIGNED_BYTES) {
            let message = format!("a chunk that is signed has at most {} MiB", SIGNED_BYTES >> 20);
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        self.at = match size {
            None | Some(0) => At::Rest,
            Some(size) => At::Data(size),
        };
        if self.signed || self.at == At::Rest {
            self.ready.push_back(head);
        }
        Ok(())
    }
}

/// The size of a chunk that begins with this line.
fn size(head: &[u8]) -> Option<u64> {
    let digits = head.strip_suffix(b"\r\n")?.split(|byte| *byte == b';').next()?;
    let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    u64::from_str_radix(digits, 16).ok()
}

impl HttpBody for Chunks {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            if let Some(bytes) = self.ready.pop_front().filter(Buf::has_remaining) {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => self.take(bytes)?,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(io::Error::other(error)))),
                // A line that was cut off.
                None if !self.head.is_empty() => {
                    let head = self.head.split().freeze();
                    return Poll::Ready(Some(Ok(Frame::data(head))));
                }
                None => return Poll::Ready(None),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ready.is_empty() && self.head.is_empty() && self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(text: &[u8], piece: usize, signed: bool) -> io::Result<Vec<u8>> {
        let (head, ready) = (BytesMut::new(), VecDeque::new());
        let mut chunks = Chunks { body: Body::empty(), signed, at: At::Head, head, ready };
        for piece in text.chunks(piece) {
            chunks.take(Bytes::copy_from_slice(piece))?;
        }
        let passed: Vec<u8> = chunks.ready.iter().flatten().copied().collect();
        Ok([passed.as_slice(), &chunks.head].concat())
    }

    /// What chunks hold, and what follows them.
    fn held(mut text: &[u8]) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let end = memchr::memchr(b'\n', text).unwrap() + 1;
            let size = size(&text[..end]).unwrap() as usize;
            text = &text[end..];
            if size == 0 {
                all.extend_from_slice(text);
                return all;
            }
            all.extend_from_slice(&text[..size]);
            assert_eq!(&text[size..size + 2], b"\r\n");
            text = &text[size + 2..];
        }
    }

    #[test]
    fn unsigned_chunks_become_small_ones() {
        let text = b"b\r\nhello\r\n0\r\n!\r\n1;x=y\r\n?\r\n0\r\nx-amz-checksum-crc32:AA==\r\n\r\n";
        for piece in 1..text.len() {
            let passed = passed(text, piece, false).unwrap();
            assert_eq!(held(&passed), held(text), "in pieces of {piece}");
        }
        let large = [format!("{:x}\r\n", 5_000_000_000_u64).as_bytes(), &[7; 100]].concat();
        let passed = passed(&large, 10, false).unwrap();
        assert!(passed.starts_with(b"9\r\n") && passed.iter().filter(|byte| **byte == 7).count() == 100);
    }

    #[test]
    fn signed_chunks_stay_as_they_are_and_are_bounded() {
        let chunk = format!("5;chunk-signature={}\r\nhello\r\n", "a".repeat(64));
        let text = format!("{chunk}{chunk}0;chunk-signature={}\r\n\r\n", "b".repeat(64));
        for piece in [1, 2, 7, 1000] {
            assert_eq!(passed(text.as_bytes(), piece, true).unwrap(), text.as_bytes());
        }
        let head = format!("{:x};chunk-signature={}\r\n", SIGNED_BYTES + 1, "a".repeat(64));
        assert!(passed(head.as_bytes(), 10, true).is_err());
    }

    #[test]
    fn what_is_no_chunk_is_handed_on() {
        let long = "1".repeat(3 * HEAD_BYTES);
        for text in ["", "hello", "\r\n", "xyz\r\nabc", "+5\r\nhello\r\n", "5\r\nhelloXX", "3\nabc", long.as_str()] {
            for piece in [1, 3, 5000] {
                let passed = passed(text.as_bytes(), piece, false).unwrap();
                assert!(passed.ends_with(&text.as_bytes()[text.len().min(9)..]), "{text}");
                assert!(size(text.as_bytes()).is_some() || passed.len() >= text.len(), "{text}");
            }
        }
    }
}

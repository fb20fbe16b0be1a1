//! Bodies in chunks (`aws-chunked`), in chunks that are small.
//!
//! s3s takes in a whole chunk before it hands on a byte of it, and reads sizes of 32 bits. Clients may send an object as a single
//! one. So large chunks are cut up here, as the bytes arrive. The signature of a chunk is over all of it: so a large one that
//! is signed is hashed on its way, and its pieces carry signatures of ours, made with the client's key ([`Chain`]). The last
//! piece of a chunk is held back until the client's own signature was verified; if it is wrong, so is that of the piece, and
//! s3s refuses the body as it would have refused the chunk.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use hyper::body::{Body as HttpBody, Frame};
use s3s::crypto::{Checksum as _, Sha256};
use s3s::{Body, HttpRequest};

use super::chunk_signatures::Chain;
use crate::keyring::Keyring;

/// The longest chunk that is signed and handed on as it is.
const WHOLE_BYTES: u64 = 256 << 10;

/// A longer one is handed on in pieces of at least so many bytes, but for the last.
const PIECE_BYTES: usize = 128 << 10;

/// The header that announces what follows the last chunk.
const TRAILER: &str = "x-amz-trailer";

/// The longest line that may tell a chunk's size.
const HEAD_BYTES: usize = 1024;

/// The longest trailer that is signed.
const TRAILER_BYTES: usize = 16 << 10;

/// The same request; a body in chunks comes in small ones.
pub(super) fn in_small_chunks(request: HttpRequest, keyring: &Keyring) -> HttpRequest {
    let signing = match kind(request.headers()) {
        None => return request,
        Some(false) => Signing::None,
        Some(true) => match Chain::of(request.headers(), keyring) {
            Some(chain) => Signing::Known(Box::new(Signed::new(chain))),
            None => Signing::Unknown,
        },
    };
    request.map(|body| Body::http_body(Chunks::new(body, signing)))
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
    signing: Signing,
    at: At,
    /// What there is of a line, or of a trailer, that is not whole.
    head: BytesMut,
    /// Bytes to hand on.
    ready: VecDeque<Bytes>,
}

/// How the chunks are signed.
enum Signing {
    None,
    /// By nobody who could be verified: s3s refuses the request before it reads its body.
    Unknown,
    Known(Box<Signed>),
}

/// Chunks that are signed.
struct Signed {
    chain: Chain,
    /// Whether one was cut: from then on all are signed anew.
    cut: bool,
    /// Of the chunk at hand: the client's signature, the hash so far, and what is not handed on yet.
    given: String,
    hash: Sha256,
    held: Vec<Bytes>,
    held_bytes: usize,
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
    /// The trailer behind chunks that are signed anew, to the end of the body.
    Trailer,
    /// The trailer, or something that is no chunk, which s3s refuses.
    Rest,
}

impl Chunks {
    fn new(body: Body, signing: Signing) -> Self {
        Self { body, signing, at: At::Head, head: BytesMut::new(), ready: VecDeque::new() }
    }

    /// Takes in bytes as they arrived.
    fn take(&mut self, mut bytes: Bytes) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.at {
                At::Rest => {
                    self.ready.push_back(bytes);
                    return Ok(());
                }
                At::Trailer => {
                    if self.head.len() + bytes.len() > TRAILER_BYTES {
                        return Err(refused(format!("a trailer has at most {TRAILER_BYTES} bytes")));
                    }
                    self.head.extend_from_slice(&bytes);
                    return Ok(());
                }
                At::Head => self.take_head(&mut bytes)?,
                At::Data(left) => {
                    let data = bytes.split_to(bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
                    let left = left - data.len() as u64;
                    self.at = if left == 0 { At::End(2) } else { At::Data(left) };
                    match &mut self.signing {
                        Signing::None => self.ready.extend(chunk(data.len(), "", [data])),
                        Signing::Known(signed) if signed.cut => signed.take(data, left == 0, &mut self.ready),
                        Signing::Known(_) | Signing::Unknown => self.ready.push_back(data),
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
                    match &self.signing {
                        Signing::None => {}
                        Signing::Known(signed) if signed.cut => {}
                        Signing::Known(_) | Signing::Unknown => self.ready.push_back(end),
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
        self.at = match size {
            None | Some(0) => At::Rest,
            Some(size) => At::Data(size),
        };
        match &mut self.signing {
            Signing::None if self.at != At::Rest => return Ok(()),
            Signing::None => {}
            Signing::Unknown if size.is_some_and(|size| size > WHOLE_BYTES) => {
                return Err(refused(format!("a chunk whose signer is not known has at most {WHOLE_BYTES} bytes")));
            }
            Signing::Unknown => {}
            Signing::Known(signed) => match (size, signature(&head)) {
                (Some(size), Some(given)) if signed.cut || size > WHOLE_BYTES => {
                    signed.begin(given);
                    if size == 0 {
                        signed.take(Bytes::new(), true, &mut self.ready);
                        self.at = At::Trailer;
                    }
                    return Ok(());
                }
                (Some(_), Some(given)) => signed.chain.pass(given),
                // No chunk: what follows is not looked at by s3s either.
                _ => self.at = At::Rest,
            },
        }
        self.ready.push_back(head);
        Ok(())
    }

    /// Whether the body, should it end here, lacks its last chunk where s3s would not see it: of what is held back it sees nothing.
    fn is_unfinished(&self) -> bool {
        let cut = matches!(&self.signing, Signing::Known(signed) if signed.cut);
        cut && !matches!(self.at, At::Trailer | At::Rest)
    }

    /// What is left at the end of the body: a line that was cut off, or the trailer.
    fn finish(&mut self) -> Option<Bytes> {
        let rest = self.head.split().freeze();
        match &self.signing {
            _ if rest.is_empty() => None,
            Signing::Known(signed) if self.at == At::Trailer => Some(signed.chain.trailer(&rest).into()),
            _ => Some(rest),
        }
    }
}

impl Signed {
    fn new(chain: Chain) -> Self {
        Self { chain, cut: false, given: String::new(), hash: Sha256::new(), held: Vec::new(), held_bytes: 0 }
    }

    /// Begins a chunk that is handed on in pieces.
    fn begin(&mut self, given: &str) {
        self.cut = true;
        given.clone_into(&mut self.given);
        self.hash = Sha256::new();
    }

    /// Takes in bytes of the chunk, and hands on what there is if it is enough, or all of it.
    fn take(&mut self, data: Bytes, is_last: bool, ready: &mut VecDeque<Bytes>) {
        self.hash.update(&data);
        self.held_bytes += data.len();
        self.held.push(data);
        if !is_last && self.held_bytes < PIECE_BYTES {
            return;
        }
        let verified = !is_last || {
            let hash = std::mem::replace(&mut self.hash, Sha256::new()).finalize();
            self.chain.verify(&self.given, &hash)
        };
        let mut hash = Sha256::new();
        self.held.iter().for_each(|bytes| hash.update(bytes));
        let signature = format!(";chunk-signature={}", self.chain.sign(verified, &hash.finalize()));
        let pieces = std::mem::take(&mut self.held);
        match std::mem::take(&mut self.held_bytes) {
            // The chunk that ends the body has no line's end of its own.
            0 => ready.push_back(format!("0{signature}\r\n").into()),
            bytes => ready.extend(chunk(bytes, &signature, pieces)),
        }
    }
}

/// A chunk of so many bytes.
fn chunk(bytes: usize, signature: &str, pieces: impl IntoIterator<Item = Bytes>) -> impl Iterator<Item = Bytes> {
    let head = Bytes::from(format!("{bytes:x}{signature}\r\n"));
    let end = Bytes::from_static(b"\r\n");
    std::iter::once(head).chain(pieces.into_iter().collect::<Vec<_>>()).chain([end])
}

fn refused(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// The signature of a chunk that begins with this line.
fn signature(head: &[u8]) -> Option<&str> {
    let (_, signature) = std::str::from_utf8(head.strip_suffix(b"\r\n")?).ok()?.split_once(";chunk-signature=")?;
    (signature.len() == 64).then_some(signature)
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
                None if self.is_unfinished() => {
                    self.at = At::Rest;
                    return Poll::Ready(Some(Err(refused("the body ends before its last chunk".to_owned()))));
                }
                None if !self.head.is_empty() => {
                    return Poll::Ready(self.finish().map(|rest| Ok(Frame::data(rest))));
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
    use super::super::chunk_signatures::sha256;
    use super::super::chunk_signatures::tests::{SEED, example};
    use super::*;

    fn unsigned() -> Chunks {
        Chunks::new(Body::empty(), Signing::None)
    }

    fn signed() -> Chunks {
        Chunks::new(Body::empty(), Signing::Known(Box::new(Signed::new(example()))))
    }

    fn passed(mut chunks: Chunks, text: &[u8], piece: usize) -> io::Result<Vec<u8>> {
        for piece in text.chunks(piece) {
            chunks.take(Bytes::copy_from_slice(piece))?;
        }
        let rest = chunks.finish();
        Ok(chunks.ready.iter().chain(&rest).flatten().copied().collect())
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

    /// Chunks as a client signs them, and those of a body that was handed on as s3s verifies them: their data, if all
    /// signatures are right.
    fn as_signed(chunks: &[Vec<u8>]) -> Vec<u8> {
        let mut chain = example();
        let mut all = Vec::new();
        for data in chunks.iter().chain([&Vec::new()]) {
            let signature = chain.sign(true, &sha256(data));
            all.extend(format!("{:x};chunk-signature={signature}\r\n", data.len()).into_bytes());
            all.extend(data);
            all.extend(b"\r\n");
        }
        all
    }

    fn verified(mut text: &[u8]) -> Option<(Vec<u8>, usize)> {
        let (mut chain, mut all, mut longest) = (example(), Vec::new(), 0);
        loop {
            let end = memchr::memchr(b'\n', text)? + 1;
            let (head, rest) = text.split_at(end);
            let size = size(head)? as usize;
            let data = rest.get(..size)?;
            if !chain.verify(signature(head)?, &sha256(data)) {
                return None;
            }
            longest = longest.max(size);
            all.extend_from_slice(data);
            if size == 0 {
                return Some((all, longest));
            }
            text = rest.get(size..)?.strip_prefix(b"\r\n")?;
        }
    }

    #[test]
    fn unsigned_chunks_become_small_ones() {
        let text = b"b\r\nhello\r\n0\r\n!\r\n1;x=y\r\n?\r\n0\r\nx-amz-checksum-crc32:AA==\r\n\r\n";
        for piece in 1..text.len() {
            let passed = passed(unsigned(), text, piece).unwrap();
            assert_eq!(held(&passed), held(text), "in pieces of {piece}");
        }
        let large = [format!("{:x}\r\n", 5_000_000_000_u64).as_bytes(), &[7; 100]].concat();
        let passed = passed(unsigned(), &large, 10).unwrap();
        assert!(passed.starts_with(b"9\r\n") && passed.iter().filter(|byte| **byte == 7).count() == 100);
    }

    #[test]
    fn small_signed_chunks_stay_as_they_are() {
        let text = as_signed(&[b"hello".to_vec(), vec![7; WHOLE_BYTES as usize]]);
        for piece in [1, 7, 1000, 1 << 20] {
            assert!(passed(signed(), &text, piece).unwrap() == text);
        }
    }

    #[test]
    fn large_signed_chunks_become_small_ones_with_signatures_of_ours() {
        let large: Vec<u8> = (0..700_000_u32).map(|i| (i / 7) as u8).collect();
        let text = as_signed(&[b"small".to_vec(), large.clone(), b"again".to_vec()]);
        let all = [b"small", large.as_slice(), b"again"].concat();
        for piece in [1, 997, 65_536, 1 << 20] {
            let passed = passed(signed(), &text, piece).unwrap();
            let (data, longest) = verified(&passed).expect("every signature is right");
            assert!(data == all, "in pieces of {piece}");
            assert!(longest < PIECE_BYTES + piece.max(6), "{longest} bytes in pieces of {piece}");
            let mut cut_off = signed();
            cut_off.take(Bytes::copy_from_slice(&text[..400_000])).unwrap();
            assert!(cut_off.is_unfinished());
        }
    }

    #[test]
    fn a_large_chunk_with_another_signature_is_refused_before_its_end_is_handed_on() {
        let large = vec![7; 700_000];
        let good = as_signed(&[large.clone(), b"again".to_vec()]);
        let mut bad = good.clone();
        bad[300_000] ^= 1;
        assert!(verified(&passed(signed(), &good, 10_000).unwrap()).is_some());
        let refused = passed(signed(), &bad, 10_000).unwrap();
        assert!(verified(&refused).is_none());
        let wrong = "0".repeat(64);
        assert!(String::from_utf8_lossy(&refused).contains(&wrong), "the piece that is held back has no signature");
        let forged = [format!("{:x};chunk-signature={SEED}\r\n", large.len()).as_bytes(), &large, b"\r\n"].concat();
        assert!(verified(&passed(signed(), &forged, 10_000).unwrap()).is_none());
    }

    #[test]
    fn what_is_held_of_an_unfinished_chunk_is_little() {
        let mut chunks = signed();
        let head = format!("{:x};chunk-signature={SEED}\r\n", 4_000_000_000_u64);
        chunks.take(Bytes::from(head)).unwrap();
        for _ in 0..1000 {
            chunks.take(Bytes::from_static(&[7; 10_000])).unwrap();
            chunks.ready.clear();
            let Signing::Known(signed) = &chunks.signing else { panic!("it is signed") };
            assert!(signed.held_bytes < PIECE_BYTES + 10_000);
        }
        let head = format!("{:x};chunk-signature={SEED}\r\n", WHOLE_BYTES + 1);
        let mut of_nobody = Chunks::new(Body::empty(), Signing::Unknown);
        assert!(of_nobody.take(Bytes::from(head)).is_err());
    }

    #[test]
    fn what_is_no_chunk_is_handed_on() {
        let long = "1".repeat(3 * HEAD_BYTES);
        for text in ["", "hello", "\r\n", "xyz\r\nabc", "+5\r\nhello\r\n", "5\r\nhelloXX", "3\nabc", long.as_str()] {
            for piece in [1, 3, 5000] {
                let passed = passed(unsigned(), text.as_bytes(), piece).unwrap();
                assert!(passed.ends_with(&text.as_bytes()[text.len().min(9)..]), "{text}");
                assert!(size(text.as_bytes()).is_some() || passed.len() >= text.len(), "{text}");
            }
        }
    }
}

//! The fields of an upload form that s3s does not hand on: it reads them, but knows neither the variable
//! `${filename}` in a key nor tags.
//!
//! All fields stand before the file. They are read here, up to a bound, and then given to s3s once more, with
//! the name of the file in the key. A signature covers the form's policy, not its fields, so nothing signed
//! changes; and the policy is held against the key as it will be.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Method};
use hyper::body::{Body as HttpBody, Frame};
use s3s::{Body, HttpRequest, S3Result, s3_error};

use super::version_2::verify_text;
use crate::keyring::Keyring;

/// As much as s3s takes of the fields together, and their headers.
const HEAD_BYTES: usize = 320 << 10;

/// Half of what s3s holds back at a time.
const PIECE_BYTES: usize = 32 << 10;

const VARIABLE: &str = "${filename}";

/// The tags of a form, as XML.
#[derive(Clone, Debug)]
pub(super) struct FormTagging(pub String);

/// Whether a request is an upload form.
pub(super) fn is_form(method: &Method, headers: &HeaderMap) -> bool {
    const FORM: &[u8] = b"multipart/form-data";
    let kind = headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes()).unwrap_or_default();
    method == Method::POST && kind.get(..FORM.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(FORM))
}

/// The same form with the name of its file in its key, and with its tags beside it; refused if it lacks a
/// field that s3s would miss too late, or has a wrong signature of version 2.
pub(super) async fn complete(request: HttpRequest, keyring: &Keyring) -> S3Result<HttpRequest> {
    let Some(boundary) = boundary(request.headers()) else { return Ok(request) };
    let (mut parts, mut body) = request.into_parts();
    let mut read = BytesMut::new();
    // However small the pieces are that it comes in, all tries together look at no more than twice its bytes.
    let mut next_try = 0;
    let head = loop {
        if read.len() >= next_try {
            if let Some(head) = Head::parse(&read, &boundary) {
                break Some(head);
            }
            next_try = read.len() * 2;
        }
        let frame = if read.len() > HEAD_BYTES {
            None
        } else {
            std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await
        };
        match frame.map(|frame| frame.map(Frame::into_data)) {
            Some(Ok(Ok(data))) => read.extend_from_slice(&data),
            Some(Ok(Err(_))) => {}
            // s3s meets the end or the error too, and says so.
            Some(Err(_)) | None => break Head::parse(&read, &boundary),
        }
    };
    let read = read.freeze();
    let mut first = read.clone();
    if let Some(head) = head {
        head.check(&read, keyring)?;
        if let Some(tags) = head.field(&read, "tagging") {
            parts.extensions.insert(FormTagging(tags.to_owned()));
        }
        if let Some(key) = head.field(&read, "key").filter(|key| key.contains(VARIABLE)) {
            first = head.with_key(&read, &key.replace(VARIABLE, &head.filename));
            // It is another one now, and s3s does not ask for it.
            parts.headers.remove(CONTENT_LENGTH);
        }
    }
    Ok(HttpRequest::from_parts(parts, Body::http_body(InPieces { ready: first, rest: body })))
}

fn boundary(headers: &HeaderMap) -> Option<String> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let parameter = kind.split(';').map(str::trim).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.eq_ignore_ascii_case("boundary").then(|| value.trim_matches('"').to_owned())
    });
    parameter.filter(|boundary| !boundary.is_empty() && boundary.len() <= 200)
}

/// Where the fields of a form lie.
#[derive(Debug)]
struct Head {
    fields: Vec<(String, std::ops::Range<usize>)>,
    /// Without the folders it was in.
    filename: String,
}

impl Head {
    /// The head of what was read, if it is all there and well-formed.
    fn parse(read: &[u8], boundary: &str) -> Option<Self> {
        let (mark, next) = (format!("--{boundary}\r\n"), format!("\r\n--{boundary}"));
        let mut at = find(read, mark.as_bytes(), 0)? + mark.len();
        let mut fields = Vec::new();
        loop {
            let end = find(read, b"\r\n\r\n", at)?;
            let headers = String::from_utf8_lossy(read.get(at..end)?).into_owned();
            let name = parameter(&headers, "name")?;
            let start = end + 4;
            if name.eq_ignore_ascii_case("file") {
                let path = parameter(&headers, "filename").unwrap_or_default();
                let filename = path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
                return Some(Self { fields, filename });
            }
            let end = find(read, next.as_bytes(), start)?;
            fields.push((name, start..end));
            at = end + next.len() + 2;
        }
    }

    fn field<'a>(&self, read: &'a [u8], name: &str) -> Option<&'a str> {
        let (_, place) = self.fields.iter().find(|(field, _)| field.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(read.get(place.clone())?).ok()
    }

    fn check(&self, read: &[u8], keyring: &Keyring) -> S3Result<()> {
        let field = |name: &str| self.field(read, name);
        if field("key").is_none() {
            return Err(s3_error!(
                InvalidArgument,
                "Bucket POST must contain a field named 'key'. If it is specified, please check the order of the fields."
            ));
        }
        let Some(access_key_id) = field("AWSAccessKeyId") else { return Ok(()) };
        let missing = |name: &str| s3_error!(InvalidArgument, "Bucket POST must contain a field named '{}'.", name);
        let policy = field("policy").ok_or_else(|| missing("policy"))?;
        let signature = field("signature").ok_or_else(|| missing("signature"))?;
        verify_text(keyring, access_key_id, policy, signature)
    }

    fn with_key(&self, read: &Bytes, key: &str) -> Bytes {
        let Some((_, place)) = self.fields.iter().find(|(field, _)| field.eq_ignore_ascii_case("key")) else {
            return read.clone();
        };
        let (before, after) = (read.get(..place.start), read.get(place.end..));
        [before.unwrap_or_default(), key.as_bytes(), after.unwrap_or_default()].concat().into()
    }
}

/// A quoted parameter of Content-Disposition.
fn parameter(headers: &str, name: &str) -> Option<String> {
    let line = headers.lines().find(|line| line.to_ascii_lowercase().starts_with("content-disposition:"))?;
    let lower = line.to_ascii_lowercase();
    // The space tells `name` from `filename`.
    let start = lower.find(&format!(" {name}=\""))? + name.len() + 3;
    let rest = line.get(start..)?;
    rest.find('"').and_then(|end| rest.get(..end)).map(str::to_owned)
}

fn find(hay: &[u8], needle: &[u8], from: usize) -> Option<usize> {
    let hay = hay.get(from..)?;
    hay.windows(needle.len()).position(|window| window == needle).map(|at| at + from)
}

/// What was read already, and then the rest, in pieces: s3s refuses a file where a larger one follows one that ends
/// with the first bytes of a boundary, be it only a carriage return.
struct InPieces {
    ready: Bytes,
    rest: Body,
}

impl HttpBody for InPieces {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        while self.ready.is_empty() {
            let frame = ready!(Pin::new(&mut self.rest).poll_frame(cx));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.ready = data,
                Some(Ok(Err(_))) => {}
                Some(Err(error)) => return Poll::Ready(Some(Err(std::io::Error::other(error)))),
                None => return Poll::Ready(None),
            }
        }
        let most = self.ready.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.ready.split_to(most)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &[u8] = b"--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nfoo-${filename}\r\n\
        --b\r\nContent-Disposition: form-data; name=\"tagging\"\r\n\r\n<Tagging/>\r\n\
        --b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"C:\\up\\a b.txt\"\r\n\r\nbytes";

    #[test]
    fn heads_are_read_once_they_are_there() {
        for cut in 0..FORM.len() {
            let whole = FORM.get(cut..).is_some_and(|rest| rest.len() <= 5);
            assert_eq!(Head::parse(&FORM[..cut], "b").is_some(), whole, "{cut}");
        }
        let head = Head::parse(FORM, "b").unwrap();
        assert_eq!(head.filename, "a b.txt");
        assert_eq!(head.field(FORM, "Key"), Some("foo-${filename}"));
        assert_eq!(head.field(FORM, "tagging"), Some("<Tagging/>"));
        let changed = head.with_key(&Bytes::from_static(FORM), "foo-a b.txt");
        let again = Head::parse(&changed, "b").unwrap();
        assert_eq!(again.field(&changed, "key"), Some("foo-a b.txt"));
        assert!(changed.ends_with(b"bytes"));
    }

    #[test]
    fn boundaries_are_found() {
        let with = |kind: &'static str| boundary(&HeaderMap::from_iter([(CONTENT_TYPE, kind.parse().unwrap())]));
        assert_eq!(with("multipart/form-data; boundary=x-1").as_deref(), Some("x-1"));
        assert_eq!(with("multipart/form-data; charset=a; Boundary=\"x 1\"").as_deref(), Some("x 1"));
        assert_eq!(with("multipart/form-data"), None);
    }
}

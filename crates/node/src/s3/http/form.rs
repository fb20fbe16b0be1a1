//! Upload forms: the fields before the file, parsed once and rewritten for s3s.
//!
//! s3s would parse a form again with every piece that arrives, and supports neither `${filename}`
//! in a key nor tags. So the fields are parsed here, up to a size limit and in linear time, and s3s
//! gets a form that is written from them: the node and s3s see the same fields. The signature,
//! which is verified by then, is left out.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use hyper::body::{Body as HttpBody, Frame};
use memchr::memmem;
use s3s::{Body, S3Error, S3Result, StdError, s3_error};

/// Maximum bytes before the file. S3 allows 20 KB.
const MAX_HEAD_BYTES: usize = 32 << 10;

/// The longest boundary, in characters (RFC 2046, section 5.1.1).
const MAX_BOUNDARY_CHARACTERS: usize = 70;

/// Maximum bytes of a piece passed to s3s: half of what s3s buffers at a time.
const PIECE_BYTES: usize = 32 << 10;

const VARIABLE: &str = "${filename}";

/// The fields that hold the signature.
const SIGNATURES: [&str; 2] = ["x-amz-signature", "signature"];

/// The tagging document of a form, in XML.
#[derive(Clone, Debug)]
pub(crate) struct FormTagging(pub String);

/// The fields of a form in their order. Each name occurs once.
#[derive(Debug)]
pub(crate) struct Form {
    boundary: String,
    fields: Vec<(String, String)>,
    /// The name of the file, without its folders.
    filename: String,
    /// The bytes of the file that were read along with the fields.
    file: Bytes,
}

impl Form {
    /// Reads the fields from the beginning of `body`.
    pub async fn read(headers: &HeaderMap, body: &mut Body) -> S3Result<Self> {
        let boundary = boundary(headers)?;
        let mut read = BytesMut::new();
        // Parses again when the length has doubled, so that the time is linear in total.
        let mut next_attempt = 0;
        loop {
            if read.len() >= next_attempt {
                if let Some(head) = Self::parse(&read, &boundary)? {
                    return Ok(head);
                }
                next_attempt = read.len() * 2;
            }
            if read.len() > MAX_HEAD_BYTES {
                return Err(s3_error!(
                    MaxPostPreDataLengthExceededError,
                    "the fields of a form have at most {} bytes",
                    MAX_HEAD_BYTES
                ));
            }
            let frame = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await;
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => read.extend_from_slice(&data),
                Some(Ok(Err(_))) => {}
                Some(Err(error)) => return Err(s3_error!(RequestTimeout, "the form did not arrive: {}", error)),
                None => return Self::parse(&read, &boundary)?.ok_or_else(|| malformed("it ends before its file")),
            }
        }
    }

    /// Parses the bytes `read` so far; `None` if the fields are incomplete.
    fn parse(read: &[u8], boundary: &str) -> S3Result<Option<Self>> {
        let (first, next) = (format!("--{boundary}\r\n"), format!("\r\n--{boundary}"));
        let Some(mut at) = memmem::find(read, first.as_bytes()).map(|start| start + first.len()) else {
            return Ok(None);
        };
        let next = memmem::Finder::new(&next);
        let mut names = BTreeSet::new();
        let mut fields = Vec::new();
        loop {
            let rest = read.get(at..).unwrap_or_default();
            let Some(end) = memmem::find(rest, b"\r\n\r\n") else { return Ok(None) };
            let headers = String::from_utf8_lossy(rest.get(..end).unwrap_or_default()).into_owned();
            let name = parameter(&headers, "name").ok_or_else(|| malformed("a field has no name"))?;
            let rest = rest.get(end + 4..).unwrap_or_default();
            if name.eq_ignore_ascii_case("file") {
                let path = parameter(&headers, "filename").unwrap_or_default();
                let filename = path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
                let (boundary, file) = (boundary.to_owned(), Bytes::copy_from_slice(rest));
                return Ok(Some(Self { boundary, fields, filename, file }));
            }
            if !names.insert(name.to_ascii_lowercase()) {
                return Err(s3_error!(InvalidArgument, "the form holds the field '{}' more than once", name));
            }
            let Some(end) = next.find(rest) else { return Ok(None) };
            let value = std::str::from_utf8(rest.get(..end).unwrap_or_default());
            let value = value.map_err(|_| malformed("a field is no UTF-8"))?;
            match rest.get(end + next.needle().len()..).unwrap_or_default() {
                [b'\r', b'\n', ..] => {}
                [] | [b'\r'] | [b'-'] => return Ok(None),
                [b'-', b'-', ..] => return Err(malformed("it has no file")),
                _ => return Err(malformed("its boundary is part of a longer line")),
            }
            fields.push((name, value.to_owned()));
            at = read.len() - rest.len() + end + next.needle().len() + 2;
        }
    }

    /// The field `name`, as it was sent.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(field, _)| field.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub fn require(&self, name: &str) -> S3Result<&str> {
        self.field(name).ok_or_else(|| {
            s3_error!(
                InvalidArgument,
                "Bucket POST must contain a field named '{}'.  If it is specified, please check the order of the fields.",
                name
            )
        })
    }

    /// The field `name`. In the key, the name of the file replaces `${filename}`.
    pub fn value(&self, name: &str) -> Option<Cow<'_, str>> {
        let value = self.field(name)?;
        Some(match name.eq_ignore_ascii_case("key") {
            true => Cow::Owned(value.replace(VARIABLE, &self.filename)),
            false => Cow::Borrowed(value),
        })
    }

    /// The tagging document of the form, if it has one.
    pub fn tagging(&self) -> Option<FormTagging> {
        self.field("tagging").map(|tags| FormTagging(tags.to_owned()))
    }

    /// Returns the form without its signature, followed by `rest`. Refuses values that contain a
    /// line that starts like the boundary, also where the name of the file completes one: s3s would
    /// parse fields from there that no policy was checked for, or another policy.
    pub fn into_body(self, rest: Body) -> S3Result<Body> {
        let mut text = String::new();
        for (name, _) in &self.fields {
            if SIGNATURES.iter().any(|signature| name.eq_ignore_ascii_case(signature)) {
                continue;
            }
            let (boundary, value) = (&self.boundary, self.value(name).unwrap_or_default());
            let is_boundary = |line: &str| line.strip_prefix("--").is_some_and(|line| line.starts_with(boundary));
            if value.split("\r\n").any(is_boundary) {
                return Err(malformed("the value of a field contains the boundary"));
            }
            text += &format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        }
        text += &format!("--{}\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n", self.boundary);
        Ok(Body::http_body(InPieces { ready: [Bytes::from(text), self.file].concat().into(), rest }))
    }
}

fn malformed(what: &str) -> S3Error {
    s3_error!(MalformedPOSTRequest, "The body of your POST request is not well-formed multipart/form-data: {}", what)
}

/// The boundary from Content-Type, parsed as s3s does.
fn boundary(headers: &HeaderMap) -> S3Result<String> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()?.parse::<mime::Mime>().ok());
    let boundary = kind.and_then(|kind| kind.get_param(mime::BOUNDARY).map(|boundary| boundary.as_str().to_owned()));
    let boundary = boundary.ok_or_else(|| malformed("it has no boundary"))?;
    if boundary.is_empty() || boundary.len() > MAX_BOUNDARY_CHARACTERS || boundary.contains(['\r', '\n']) {
        return Err(malformed("a boundary has 1 to 70 characters"));
    }
    Ok(boundary)
}

/// The quoted parameter `name` of Content-Disposition.
fn parameter(headers: &str, name: &str) -> Option<String> {
    let line = headers.lines().find(|line| line.to_ascii_lowercase().starts_with("content-disposition:"))?;
    let lower = line.to_ascii_lowercase();
    // The leading space distinguishes `name` from `filename`.
    let start = lower.find(&format!(" {name}=\""))? + name.len() + 3;
    let rest = line.get(start..)?;
    rest.find('"').and_then(|end| rest.get(..end)).map(str::to_owned)
}

/// Yields the bytes that were read already and then the rest, in small pieces. s3s refuses a file
/// in which a piece ends with the first bytes of a boundary, even a single carriage return, and a
/// large piece follows.
struct InPieces {
    ready: Bytes,
    rest: Body,
}

impl HttpBody for InPieces {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        while self.ready.is_empty() {
            let frame = ready!(Pin::new(&mut self.rest).poll_frame(cx));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.ready = data,
                Some(Ok(Err(_))) => {}
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let most = self.ready.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.ready.split_to(most)))))
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    impl Form {
        /// A form of these fields without a file.
        pub(crate) fn of(fields: &[(&str, &str)]) -> Self {
            let fields = fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            Self { boundary: "b".into(), fields, filename: String::new(), file: Bytes::new() }
        }
    }

    const FORM: &str = "--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nfoo-${filename}\r\n\
        --b\r\nContent-Disposition: form-data; name=\"tagging\"\r\n\r\n<Tagging/>\r\n\
        --b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"C:\\up\\a b.txt\"\r\n\r\nbytes";

    fn parse(text: &str) -> S3Result<Option<Form>> {
        Form::parse(text.as_bytes(), "b")
    }

    #[tokio::test]
    async fn heads_are_read_once_they_are_there_and_written_anew() {
        for cut in 0..FORM.len() {
            let whole = FORM.get(cut..).is_some_and(|rest| rest.len() <= 5);
            assert_eq!(parse(&FORM[..cut]).unwrap().is_some(), whole, "{cut}");
        }
        let head = parse(FORM).unwrap().unwrap();
        assert_eq!((head.filename.as_str(), head.field("Key")), ("a b.txt", Some("foo-${filename}")));
        assert_eq!(head.tagging().unwrap().0, "<Tagging/>");
        let body = head.into_body(Body::from(" and more".to_owned())).unwrap().store_all_limited(1000).await.unwrap();
        let again = Form::parse(&body, "b").unwrap().unwrap();
        assert_eq!((again.field("key"), again.file.as_ref()), (Some("foo-a b.txt"), b"bytes and more".as_slice()));
    }

    #[test]
    fn fields_are_there_once() {
        let twice = FORM.replace("name=\"key\"", "name=\"Tagging\"");
        assert_eq!(parse(&twice).unwrap_err().code().as_str(), "InvalidArgument");
        let without = FORM.replace("--b\r\nContent-Disposition: form-data; name=\"file\"", "--b--\r\nx");
        assert_eq!(parse(&without).unwrap_err().code().as_str(), "MalformedPOSTRequest");
        assert!(parse(&FORM.replace("name=\"tagging\"", "x")).is_err());
    }

    #[test]
    fn no_field_is_hidden_in_another() {
        let refused = |from: &str, to: &str, filename: &str| {
            let form = parse(&FORM.replace(from, to).replace("C:\\up\\a b.txt", filename)).unwrap().unwrap();
            form.into_body(Body::empty()).err().map(|error| error.code().as_str().to_owned())
        };
        let malformed = Some("MalformedPOSTRequest".to_owned());
        let part = "\r\nContent-Disposition: form-data; name=\"policy\"\r\n\r\ne30=";
        for value in [format!("--b{part}").as_str(), "--b", "--b--", "--bc"] {
            assert_eq!(refused("<Tagging/>", value, "f"), malformed, "{value}");
        }
        for value in ["", "--", "-b", " --b", "\n--b", "\r--b", "--\r\nb", "\r\n"] {
            assert_eq!(refused("<Tagging/>", value, "f"), None, "{value}");
        }
        for (key, filename) in [("${filename}", "--b"), ("foo\r\n${filename}", "--b"), ("foo\r\n-${filename}", "-b")] {
            assert_eq!(refused("foo-${filename}", &format!("{key}{part}"), filename), malformed, "{key}");
        }
    }

    #[tokio::test]
    async fn long_heads_and_boundaries_are_refused() {
        let read = async |boundary: &str, text: String| {
            let kind = format!("multipart/form-data; boundary={boundary}").parse().unwrap();
            let pieces = text
                .into_bytes()
                .chunks(2)
                .map(|piece| Ok::<_, std::io::Error>(piece.to_vec().into()))
                .collect::<Vec<_>>();
            let mut body = Body::from(s3s::dto::StreamingBlob::wrap(stream::iter(pieces)));
            let head = Form::read(&HeaderMap::from_iter([(CONTENT_TYPE, kind)]), &mut body).await;
            head.map_err(|error| error.code().as_str().to_owned())
        };
        assert!(read("b", FORM.to_owned()).await.is_ok());
        assert_eq!(read("b", "x".repeat(900_000)).await.unwrap_err(), "MaxPostPreDataLengthExceededError");
        assert_eq!(read(&"b".repeat(71), FORM.to_owned()).await.unwrap_err(), "MalformedPOSTRequest");
        assert_eq!(read("b", FORM[..60].to_owned()).await.unwrap_err(), "MalformedPOSTRequest");
    }
}

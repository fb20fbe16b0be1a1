//! The fields of an upload form, which stand before its file: read, verified and written anew.
//!
//! s3s parses a form before it verifies anything, and again with every piece that arrives; it knows neither the variable
//! `${filename}` in a key nor tags. So the fields are read here, up to a bound and in linear time; the signature over their
//! policy is verified before a byte of the file is taken; and s3s is given the fields in a form written by the node, so
//! that both see the same ones.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use hyper::body::{Body as HttpBody, Frame};
use memchr::memmem;
use s3s::auth::Credentials as Signer;
use s3s::{Body, S3Error, S3Result, s3_error};

use super::authentication::version_2_is_off;
use super::signing::{is_same, sign_policy};
use super::version_2::verify_text;
use crate::keyring::Keyring;

/// The fields of a form and what is around them, in bytes. S3 takes 20 KB.
const HEAD_BYTES: usize = 32 << 10;

/// The longest boundary, in characters (RFC 2046, section 5.1.1).
const BOUNDARY_CHARACTERS: usize = 70;

/// Half of what s3s holds back at a time.
const PIECE_BYTES: usize = 32 << 10;

const VARIABLE: &str = "${filename}";

/// The tags of a form, as XML.
#[derive(Clone, Debug)]
pub(super) struct FormTagging(pub String);

/// The fields of a form, in their order, each name once.
#[derive(Debug)]
pub(super) struct Head {
    boundary: String,
    fields: Vec<(String, String)>,
    /// The name of the file, without the folders it was in.
    filename: String,
    /// What was read of the file already.
    file: Bytes,
}

impl Head {
    /// Reads the fields from the beginning of `body`.
    pub async fn read(headers: &HeaderMap, body: &mut Body) -> S3Result<Self> {
        let boundary = boundary(headers)?;
        let mut read = BytesMut::new();
        // However small the pieces are that it arrives in, all attempts together look at no more than twice its bytes.
        let mut next_attempt = 0;
        loop {
            if read.len() >= next_attempt {
                if let Some(head) = Self::parse(&read, &boundary)? {
                    return Ok(head);
                }
                next_attempt = read.len() * 2;
            }
            if read.len() > HEAD_BYTES {
                return Err(s3_error!(
                    MaxPostPreDataLengthExceededError,
                    "the fields of a form have at most {} bytes",
                    HEAD_BYTES
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

    /// The fields of what was read; nothing while some are missing.
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

    fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(field, _)| field.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    fn require(&self, name: &str) -> S3Result<&str> {
        self.field(name).ok_or_else(|| {
            s3_error!(
                InvalidArgument,
                "Bucket POST must contain a field named '{}'.  If it is specified, please check the order of the fields.",
                name
            )
        })
    }

    /// Verifies the signature over the form's policy and gives its signer. What the policy says of the fields is checked later.
    pub fn verify(&self, keyring: &Keyring, version_2: bool) -> S3Result<Signer> {
        self.require("key")?;
        let in_version_2 = self.field("AWSAccessKeyId").is_some() || self.field("signature").is_some();
        let in_version_4 = self.field("x-amz-signature").is_some() || self.field("x-amz-credential").is_some();
        let id = match (in_version_2, in_version_4) {
            (true, true) => return Err(s3_error!(InvalidArgument, "the form is signed twice")),
            (false, false) => return Err(super::grant::anonymous()),
            (true, false) if !version_2 => return Err(version_2_is_off()),
            (true, false) => {
                let id = self.require("AWSAccessKeyId")?;
                verify_text(keyring, id, self.require("policy")?, self.require("signature")?)?;
                id
            }
            (false, true) => {
                let credential = self.require("x-amz-credential")?;
                let (id, scope) = credential.split_once('/').unwrap_or((credential, ""));
                let key = keyring.get(id);
                let key =
                    key.ok_or_else(|| s3_error!(InvalidAccessKeyId, "the access key does not exist on this node"))?;
                let right = sign_policy(&key.credentials.secret_access_key, scope, self.require("policy")?);
                let right = right.ok_or_else(|| s3_error!(InvalidRequest, "invalid field: x-amz-credential"))?;
                if !is_same(self.require("x-amz-signature")?.as_bytes(), right.as_bytes()) {
                    return Err(s3_error!(SignatureDoesNotMatch, "the signature does not match the policy"));
                }
                id
            }
        };
        let key = keyring.get(id).ok_or_else(super::grant::anonymous)?;
        let secret = key.credentials.secret_access_key.as_str().into();
        Ok(Signer { access_key: id.to_owned(), secret_key: secret })
    }

    /// The tags of the form.
    pub fn tagging(&self) -> Option<FormTagging> {
        self.field("tagging").map(|tags| FormTagging(tags.to_owned()))
    }

    /// The form with these fields, the name of the file in the key, and `rest` after what was read.
    pub fn into_body(self, rest: Body) -> Body {
        let mut text = String::new();
        for (name, value) in &self.fields {
            let value = match name.eq_ignore_ascii_case("key") {
                true => value.replace(VARIABLE, &self.filename),
                false => value.clone(),
            };
            text +=
                &format!("--{}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n", self.boundary);
        }
        text += &format!("--{}\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n", self.boundary);
        Body::http_body(InPieces { ready: [Bytes::from(text), self.file].concat().into(), rest })
    }
}

fn malformed(what: &str) -> S3Error {
    s3_error!(MalformedPOSTRequest, "The body of your POST request is not well-formed multipart/form-data: {}", what)
}

/// The boundary by the rule that s3s reads it by.
fn boundary(headers: &HeaderMap) -> S3Result<String> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()?.parse::<mime::Mime>().ok());
    let boundary = kind.and_then(|kind| kind.get_param(mime::BOUNDARY).map(|boundary| boundary.as_str().to_owned()));
    let boundary = boundary.ok_or_else(|| malformed("it has no boundary"))?;
    if boundary.is_empty() || boundary.len() > BOUNDARY_CHARACTERS || boundary.contains(['\r', '\n']) {
        return Err(malformed("a boundary has 1 to 70 characters"));
    }
    Ok(boundary)
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
    use futures::stream;

    use super::*;
    use crate::Credentials;

    const FORM: &str = "--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nfoo-${filename}\r\n\
        --b\r\nContent-Disposition: form-data; name=\"tagging\"\r\n\r\n<Tagging/>\r\n\
        --b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"C:\\up\\a b.txt\"\r\n\r\nbytes";

    fn parse(text: &str) -> S3Result<Option<Head>> {
        Head::parse(text.as_bytes(), "b")
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
        let body = head.into_body(Body::from(" and more".to_owned())).store_all_limited(1000).await.unwrap();
        let again = Head::parse(&body, "b").unwrap().unwrap();
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
            let head = Head::read(&HeaderMap::from_iter([(CONTENT_TYPE, kind)]), &mut body).await;
            head.map_err(|error| error.code().as_str().to_owned())
        };
        assert!(read("b", FORM.to_owned()).await.is_ok());
        assert_eq!(read("b", "x".repeat(900_000)).await.unwrap_err(), "MaxPostPreDataLengthExceededError");
        assert_eq!(read(&"b".repeat(71), FORM.to_owned()).await.unwrap_err(), "MalformedPOSTRequest");
        assert_eq!(read("b", FORM[..60].to_owned()).await.unwrap_err(), "MalformedPOSTRequest");
    }

    #[test]
    fn forms_are_signed_once() {
        let credentials = Credentials { access_key_id: "a".into(), secret_access_key: "12345678".into() };
        let keyring = Keyring::one(credentials);
        let verify = |fields: &[(&str, &str)]| {
            let fields = fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            let head = Head { boundary: "b".into(), fields, filename: String::new(), file: Bytes::new() };
            head.verify(&keyring, true)
                .map(|signer| signer.access_key)
                .map_err(|error| error.code().as_str().to_owned())
        };
        let (key, policy) = (("key", "k"), ("policy", "e30="));
        let credential = ("x-amz-credential", "a/20260101/us-east-1/s3/aws4_request");
        let right = sign_policy("12345678", "20260101/us-east-1/s3/aws4_request", "e30=").unwrap();
        let signature = ("x-amz-signature", right.as_str());
        assert_eq!(verify(&[key, policy, credential, signature]).as_deref(), Ok("a"));
        for (fields, code) in [
            (&[policy, credential, signature][..], "InvalidArgument"),
            (&[key, policy][..], "AccessDenied"),
            (&[key, policy, credential][..], "InvalidArgument"),
            (&[key, ("policy", "e30"), credential, signature][..], "SignatureDoesNotMatch"),
            (&[key, policy, credential, signature, ("AWSAccessKeyId", "a")][..], "InvalidArgument"),
            (&[key, policy, ("AWSAccessKeyId", "a"), ("signature", "x")][..], "SignatureDoesNotMatch"),
            (&[key, policy, ("x-amz-credential", "b/x"), signature][..], "InvalidAccessKeyId"),
        ] {
            assert_eq!(verify(fields), Err(code.to_owned()), "{fields:?}");
        }
    }
}

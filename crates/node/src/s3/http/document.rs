//! XML documents that the node writes itself, where s3s would write them differently from S3.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use s3s::xml::{Deserializer, SerResult, Serializer};
use s3s::{Body, HttpResponse, S3Error, S3Result};

const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// The body of a response, stored in its extensions, that replaces the one that s3s wrote.
#[derive(Clone, Debug)]
pub(crate) struct Document(pub Bytes);

/// Writes a document with the root `name`.
pub(crate) fn document(
    name: &str,
    content: impl FnOnce(&mut Serializer<&mut Vec<u8>>) -> SerResult,
) -> S3Result<Document> {
    let mut text = Vec::new();
    let mut xml = Serializer::new(&mut text);
    let written = xml.decl().and_then(|()| xml.element_with_ns(name, NAMESPACE, content));
    written.map_err(S3Error::internal_error)?;
    Ok(Document(text.into()))
}

/// The document of an error.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct ErrorDocument {
    pub code: String,
    pub message: Option<String>,
}

impl ErrorDocument {
    pub fn of(error: &S3Error) -> Self {
        Self { code: error.code().as_str().to_owned(), message: error.message().map(str::to_owned) }
    }

    /// Parses a document that s3s wrote.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut document = Self::default();
        let mut xml = Deserializer::new(text);
        let read = xml.named_element("Error", |xml| {
            xml.for_each_element(|xml, name| {
                let value: String = xml.content()?;
                match name {
                    b"Code" => document.code = value,
                    b"Message" => document.message = Some(value),
                    _ => {}
                }
                Ok(())
            })
        });
        read.ok().map(|()| document)
    }

    /// Writes the document, with the `path` and the `id` of the request.
    pub fn write(&self, path: &str, id: &str) -> Bytes {
        let message = self.message.as_deref();
        let message = message.or_else(|| MESSAGES.iter().find(|(code, _)| *code == self.code).map(|(_, text)| *text));
        let mut text = Vec::new();
        let mut xml = Serializer::new(&mut text);
        let written = xml.decl().and_then(|()| {
            xml.element("Error", |xml| {
                xml.content("Code", self.code.as_str())?;
                if let Some(message) = message {
                    xml.content("Message", printable(message).as_str())?;
                }
                xml.content("Resource", printable(path).as_str())?;
                xml.content("RequestId", id)
            })
        });
        // Writing to memory does not fail.
        drop(written);
        text.into()
    }

    /// An answer that consists of this document.
    pub fn into_response(self, status: StatusCode, path: &str, id: &str) -> HttpResponse {
        let mut response = HttpResponse::new(Body::from(self.write(path, id)));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
        response
    }
}

/// The messages of S3 for the codes that s3s sends without one.
const MESSAGES: [(&str, &str); 6] = [
    ("InvalidBucketName", "The specified bucket is not valid."),
    ("InvalidURI", "Couldn't parse the specified URI."),
    ("KeyTooLongError", "Your key is too long."),
    ("MalformedXML", "The XML you provided was not well-formed or did not validate against our published schema."),
    ("MissingContentLength", "You must provide the Content-Length HTTP header."),
    ("MissingRequestBodyError", "Request body is empty."),
];

/// Replaces the characters that keys may contain but XML may not.
fn printable(text: &str) -> String {
    let allowed = |c: char| c >= ' ' && c != '\u{FFFE}' && c != '\u{FFFF}' || matches!(c, '\t' | '\n' | '\r');
    text.chars().map(|c| if allowed(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_request() {
        let with = |code: &str, message: Option<&str>| {
            let document = ErrorDocument { code: code.to_owned(), message: message.map(str::to_owned) };
            String::from_utf8(document.write("/b/<k>&\u{1}", "7").to_vec()).unwrap()
        };
        let signed = with("X", None);
        assert!(
            signed.ends_with(
                "<Error><Code>X</Code><Resource>/b/&lt;k&gt;&amp;\u{FFFD}</Resource><RequestId>7</RequestId></Error>"
            ),
            "{signed}"
        );
        let worded = with("InvalidURI", None);
        assert!(worded.contains("<Code>InvalidURI</Code><Message>Couldn&apos;t parse"), "{worded}");
        let kept = with("InvalidURI", Some("x"));
        assert!(kept.contains("<Message>x</Message>") && !kept.contains("parse"), "{kept}");
    }

    #[test]
    fn documents_of_s3s_are_read_as_they_were_meant() {
        for (code, message) in [("NoSuchKey", Some("a key named <k> & \"more\"")), ("InvalidURI", None)] {
            let mut error = S3Error::new(s3s::S3ErrorCode::from_bytes(code.as_bytes()).unwrap());
            if let Some(message) = message {
                error.set_message(message);
            }
            let expected = ErrorDocument::of(&error);
            let text = error.to_http_response().unwrap().into_body().bytes().unwrap();
            assert_eq!(ErrorDocument::parse(&text), Some(expected));
        }
        assert_eq!(ErrorDocument::parse(b"<Other/>"), None);
    }
}

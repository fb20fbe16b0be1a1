//! The expected response to a request.

use http::header::{CONTENT_LENGTH, CONTENT_RANGE, LOCATION, RANGE};
use http::request;
use http::response::Parts;
use http::{HeaderMap, HeaderName, Method, StatusCode};

/// The maximum length of a document, in bytes; a listing of a thousand long names fits.
const MAX_DOCUMENT_BYTES: u64 = 64 << 20;

/// The range of bytes that a request asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    /// The first and the last byte, inclusive.
    Bounded(u64, u64),
    From(u64),
    /// The last bytes of the object: their number.
    Last(u64),
}

/// The properties of a request that determine which response is valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    kind: Kind,
    /// True for a HEAD request, whose response has no body.
    is_head: bool,
    part: Option<Part>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// Bytes of an object.
    Object,
    /// A document: a listing, or the outcome of a change.
    Document,
    /// A response that is streamed, without a maximum length and without a time limit.
    Stream,
}

/// The expected length of a body, in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Length {
    /// The exact length, if known.
    pub exact: Option<u64>,
    /// The maximum length.
    pub max: u64,
    /// True for a document, which has to arrive within a time limit.
    pub is_document: bool,
}

impl Expected {
    /// Returns what the `head` of a request says about its response.
    pub fn of(head: &request::Parts) -> Self {
        let request::Parts { method, uri, headers, .. } = head;
        let mut names =
            uri.query().unwrap_or_default().split('&').map(|pair| pair.split('=').next().unwrap_or_default());
        let is_listing = names.any(|name| LISTINGS.contains(&name));
        let kind = match *method {
            Method::GET | Method::HEAD if !is_listing => Kind::Object,
            Method::POST if !is_listing => Kind::Stream,
            _ => Kind::Document,
        };
        let part = headers.get(RANGE).and_then(|range| part(range.to_str().ok()?));
        Self { kind, is_head: *method == Method::HEAD, part: part.filter(|_| *method == Method::GET) }
    }

    /// Returns the expected length of the body of `answer`, or a message if `answer` does not match
    /// the request.
    pub fn length(&self, answer: &Parts) -> Result<Length, String> {
        if answer.status.is_redirection()
            && answer.status != StatusCode::NOT_MODIFIED
            && let Some(to) = text(&answer.headers, LOCATION)
        {
            // The query may hold a signature.
            let to = to.split(['?', '#']).next().unwrap_or_default();
            return Err(format!(
                "the server redirects to {to}, and redirects are not followed: name that address itself"
            ));
        }
        if self.is_head || matches!(answer.status, StatusCode::NOT_MODIFIED | StatusCode::NO_CONTENT) {
            return Ok(Length { exact: Some(0), max: 0, is_document: true });
        }
        let promised = text(&answer.headers, CONTENT_LENGTH).and_then(|length| length.parse().ok());
        if !answer.status.is_success() {
            return Ok(Length { exact: promised, max: MAX_DOCUMENT_BYTES, is_document: true });
        }
        match (self.kind, self.part) {
            (Kind::Stream, _) => Ok(Length { exact: promised, max: u64::MAX, is_document: false }),
            (Kind::Document, _) => Ok(Length { exact: promised, max: MAX_DOCUMENT_BYTES, is_document: true }),
            (Kind::Object, None) if answer.status == StatusCode::PARTIAL_CONTENT => {
                Err("the server answered with a part of the object, and was asked for all of it".to_owned())
            }
            (Kind::Object, None) => Ok(Length { exact: promised, max: u64::MAX, is_document: false }),
            // A server without support for ranges sends the whole object; the store detects that
            // and fails.
            (Kind::Object, Some(_)) if answer.status == StatusCode::OK => {
                Ok(Length { exact: promised, max: u64::MAX, is_document: false })
            }
            (Kind::Object, Some(part)) => {
                let sent = self.sent_part(part, answer)?;
                match promised {
                    Some(promised) if promised != sent => {
                        Err(format!("the server promised {promised} bytes for a part of {sent}"))
                    }
                    _ => Ok(Length { exact: Some(sent), max: sent, is_document: false }),
                }
            }
        }
    }

    /// Returns the length of the part in `answer`, or a message unless it is the requested part.
    fn sent_part(&self, expected: Part, answer: &Parts) -> Result<u64, String> {
        if answer.status != StatusCode::PARTIAL_CONTENT {
            return Err(format!("the server answered {} to a request for a part of the object", answer.status));
        }
        let sent = text(&answer.headers, CONTENT_RANGE).unwrap_or_default();
        let (first, last, size) =
            content_range(sent).ok_or_else(|| format!("the server did not say which part it sent: '{sent}'"))?;
        let end = size.map(|size| size.saturating_sub(1));
        let wanted = match expected {
            Part::Bounded(from, to) => (from, end.map_or(to, |end| end.min(to))),
            Part::From(from) => (from, end.unwrap_or(last)),
            Part::Last(count) => match size {
                Some(size) => (size.saturating_sub(count), size.saturating_sub(1)),
                None => (first, last),
            },
        };
        if (first, last) != wanted {
            return Err(format!("the server sent the bytes {first} to {last} instead of {} to {}", wanted.0, wanted.1));
        }
        (last - first).checked_add(1).ok_or_else(|| "the server sent a part without an end".to_owned())
    }
}

/// Query parameters of requests whose responses are documents.
const LISTINGS: [&str; 6] = ["list-type", "uploads", "uploadId", "delete", "comp", "restype"];

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn part(range: &str) -> Option<Part> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    match (first, last) {
        ("", last) => last.parse().ok().map(Part::Last),
        (first, "") => first.parse().ok().map(Part::From),
        (first, last) => Some(Part::Bounded(first.parse().ok()?, last.parse().ok()?)),
    }
}

/// Parses a `Content-Range` into the first byte, the last byte and, if given, the object's size.
fn content_range(text: &str) -> Option<(u64, u64, Option<u64>)> {
    let (range, size) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    let size = if size == "*" { None } else { Some(size.parse::<u64>().ok()?) };
    (first <= last && size.is_none_or(|size| last < size)).then_some((first, last, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(target: &str, range: Option<&str>) -> Expected {
        let mut request = http::Request::get(target);
        if let Some(range) = range {
            request = request.header(RANGE, range);
        }
        Expected::of(&request.body(()).unwrap().into_parts().0)
    }

    fn answer(status: u16, headers: &[(HeaderName, &str)]) -> Parts {
        let mut answer = http::Response::builder().status(status);
        for (name, value) in headers {
            answer = answer.header(name, *value);
        }
        answer.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_part_is_the_one_that_was_asked_for() {
        let cases = [
            ("bytes=2-4", "bytes 2-4/10", Some(3)),
            ("bytes=2-40", "bytes 2-9/10", Some(8)),
            ("bytes=2-", "bytes 2-9/10", Some(8)),
            ("bytes=-3", "bytes 7-9/10", Some(3)),
            ("bytes=-30", "bytes 0-9/10", Some(10)),
            ("bytes=2-4", "bytes 2-4/*", Some(3)),
            ("bytes=2-4", "bytes 2-5/10", None),
            ("bytes=2-4", "bytes 1-4/10", None),
            ("bytes=2-4", "bytes 2-3/10", None),
            ("bytes=2-4", "bytes 4-2/10", None),
            ("bytes=2-4", "bytes 2-4/3", None),
            ("bytes=-3", "bytes 6-8/10", None),
            ("bytes=0-", "bytes 0-18446744073709551615/*", None),
            ("bytes=2-4", "items 2-4/10", None),
            ("bytes=2-4", "", None),
        ];
        for (range, sent, bytes) in cases {
            let length = expected("/k", Some(range)).length(&answer(206, &[(CONTENT_RANGE, sent)]));
            assert_eq!(length.clone().ok().and_then(|length| length.exact), bytes, "{range} {sent} {length:?}");
        }
        let part = expected("/k", Some("bytes=2-4"));
        let whole = part.length(&answer(200, &[(CONTENT_LENGTH, "10")])).unwrap();
        assert_eq!(whole.exact, Some(10));
        assert!(part.length(&answer(201, &[])).is_err());
        let longer = [(CONTENT_RANGE, "bytes 2-4/10"), (CONTENT_LENGTH, "4")];
        assert!(part.length(&answer(206, &longer)).is_err());
        assert!(expected("/k", None).length(&answer(206, &[(CONTENT_RANGE, "bytes 0-3/10")])).is_err());
    }

    #[test]
    fn redirects_are_errors_that_keep_signatures_to_themselves() {
        for status in [301, 302, 303, 307, 308] {
            let to = [(LOCATION, "http://169.254.169.254/latest?X-Amz-Signature=secret")];
            let error = expected("/k", None).length(&answer(status, &to)).unwrap_err();
            assert!(error.contains("http://169.254.169.254/latest") && !error.contains("secret"), "{error}");
        }
        assert!(expected("/k", None).length(&answer(304, &[(LOCATION, "/x")])).is_ok());
    }

    #[test]
    fn what_is_no_object_is_bounded() {
        let listing = expected("/b?list-type=2&prefix=a", None).length(&answer(200, &[])).unwrap();
        assert_eq!(listing, Length { exact: None, max: MAX_DOCUMENT_BYTES, is_document: true });
        let refused = expected("/k", Some("bytes=0-1")).length(&answer(500, &[])).unwrap();
        assert_eq!(refused.max, MAX_DOCUMENT_BYTES);
        let whole = expected("/k", None).length(&answer(200, &[(CONTENT_LENGTH, "5")])).unwrap();
        assert_eq!(whole, Length { exact: Some(5), max: u64::MAX, is_document: false });
    }
}

//! The response to SelectObjectContent: a stream of frames, each with its own checksums.
//!
//! A record may be split between frames at any byte, even inside a field or a character. Only the
//! concatenation of all Records frames is text.

use aws_smithy_types::event_stream::Message;
use bytes::Bytes;
use pushdowndb_contract::{Error, ErrorKind, Result};
use quick_xml::events::Event as Xml;

use crate::messages::{self, FrameEvent, corrupt};

/// The statistics that the server reports.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Bytes of the object that were read, before decompression.
    pub bytes_scanned: u64,
    /// Bytes processed, after decompression.
    pub bytes_processed: u64,
    /// Bytes of records returned.
    pub bytes_returned: u64,
}

/// One event of the response.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// The next bytes of the result.
    Records(Bytes),
    /// Keep-alive.
    Cont,
    /// Statistics so far.
    Progress(Stats),
    /// Final statistics.
    Stats(Stats),
    /// The end of a complete result.
    End,
}

impl FrameEvent for Event {
    fn read(message: &Message) -> Result<Self> {
        let header = |name: &str| messages::text(message, name);
        match header(":message-type") {
            Some("event") => {}
            Some("error") => {
                let code = header(":error-code").unwrap_or("InternalError");
                return Err(error_from_code(code, header(":error-message").unwrap_or_default()));
            }
            other => return Err(corrupt(&format!("a frame is of type {other:?}"))),
        }
        Ok(match header(":event-type") {
            Some("Records") => Self::Records(message.payload().clone()),
            Some("Cont") => Self::Cont,
            Some("Progress") => Self::Progress(stats(message.payload())),
            Some("Stats") => Self::Stats(stats(message.payload())),
            Some("End") => Self::End,
            other => return Err(corrupt(&format!("an event is of type {other:?}"))),
        })
    }

    fn is_end(&self) -> bool {
        *self == Self::End
    }
}

/// Parses statistics. They are informative only, so a missing number is 0.
fn stats(payload: &[u8]) -> Stats {
    let number = |name| text_of(payload, name).and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    Stats {
        bytes_scanned: number("BytesScanned"),
        bytes_processed: number("BytesProcessed"),
        bytes_returned: number("BytesReturned"),
    }
}

/// Returns the text of the first element with this `name`.
fn text_of(xml: &[u8], name: &str) -> Option<String> {
    let mut reader = quick_xml::Reader::from_reader(xml);
    let mut inside = false;
    let mut text = String::new();
    loop {
        match reader.read_event().ok()? {
            Xml::Start(start) => inside = start.local_name().as_ref() == name.as_bytes(),
            Xml::Text(part) if inside => text.push_str(&part.decode().ok()?),
            Xml::GeneralRef(reference) if inside => {
                let name = reference.decode().ok()?;
                text.push_str(&quick_xml::escape::unescape(&format!("&{name};")).ok()?);
            }
            Xml::End(_) if inside => return Some(text),
            Xml::End(_) => inside = false,
            Xml::Eof => return None,
            _ => {}
        }
    }
}

/// Returns the error for an HTTP response with a status other than 200.
pub fn error_from_response(status: u16, body: &[u8]) -> Error {
    let message = text_of(body, "Message").unwrap_or_default();
    match text_of(body, "Code") {
        Some(code) => error_from_code(&code, &message),
        None => {
            let kind = match status {
                401 | 403 => ErrorKind::Denied,
                404 => ErrorKind::NotFound,
                405 | 501 => ErrorKind::Unsupported,
                409 | 412 => ErrorKind::Conflict,
                429 => ErrorKind::Throttled,
                500.. => ErrorKind::Unavailable,
                _ => ErrorKind::Invalid,
            };
            Error::new(kind, format!("storage answered with status {status}"))
        }
    }
}

/// Returns the error for an S3 error `code`.
pub(crate) fn error_from_code(code: &str, message: &str) -> Error {
    let kind = match code {
        "SlowDown" | "Busy" | "RequestLimitExceeded" | "TooManyRequests" => ErrorKind::Throttled,
        // MinIO returns this code for any value that cannot be converted, where a retry does not
        // help.
        "InternalError" if message.contains("cast") || message.contains("convert") => ErrorKind::Invalid,
        // These limits of the server do not apply to plain reads.
        "OverMaxRecordSize" | "OverMaxColumn" | "OverMaxParquetBlockSize" => ErrorKind::Unsupported,
        "InternalError" | "ServiceUnavailable" | "RequestTimeout" | "OperationAborted" => ErrorKind::Unavailable,
        "NoSuchKey" | "NoSuchBucket" | "NoSuchUpload" | "NoSuchVersion" => ErrorKind::NotFound,
        "AccessDenied"
        | "InvalidAccessKeyId"
        | "SignatureDoesNotMatch"
        | "ExpiredToken"
        | "InvalidToken"
        | "RequestTimeTooSkewed"
        | "AccountProblem" => ErrorKind::Denied,
        "PreconditionFailed" => ErrorKind::Conflict,
        "CastFailed"
        | "InvalidCast"
        | "IntegerOverflow"
        | "NumberFormatError"
        | "ValueParseFailure"
        | "CSVParsingError"
        | "CSVUnescapedQuote"
        | "JSONParsingError"
        | "ParquetParsingError"
        | "TruncatedInput"
        | "InvalidTextEncoding"
        | "AmbiguousFieldName"
        | "MissingHeaders"
        | "EvaluatorBindingDoesNotExist"
        | "InvalidColumnIndex"
        | "InvalidRequest" => ErrorKind::Invalid,
        "MethodNotAllowed" | "NotImplemented" | "ExpressionTooLong" | "InvalidDataType" => ErrorKind::Unsupported,
        code if ["Unsupported", "Parse", "Lexer", "Evaluator", "Incorrect", "Illegal", "Like", "Invalid", "Over"]
            .iter()
            .any(|prefix| code.starts_with(prefix)) =>
        {
            ErrorKind::Unsupported
        }
        _ => ErrorKind::Unavailable,
    };
    let space = if message.is_empty() { "" } else { ": " };
    Error::new(kind, format!("storage answered {code}{space}{message}"))
}

#[cfg(test)]
mod tests;

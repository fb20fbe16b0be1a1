//! The answer to SelectObjectContent: a stream of frames, each with its own checksums.
//!
//! Records break anywhere: in the middle of a field, of a character, across frames. Only the bytes of all
//! Records frames together are text. An answer without its End frame is truncated, however complete it looks.

use aws_smithy_types::event_stream::Message;
use bytes::Bytes;
use pushdown::{Error, ErrorKind, Result};
use quick_xml::events::Event as Xml;

use crate::messages::{self, MessageDecoder, corrupt};

/// What the server did so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Bytes read of the object.
    pub bytes_scanned: u64,
    /// Bytes processed, after decompression.
    pub bytes_processed: u64,
    /// Bytes of records returned.
    pub bytes_returned: u64,
}

/// One event of the answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// Some bytes of the result.
    Records(Bytes),
    /// The connection is alive.
    Cont,
    /// What was done so far.
    Progress(Stats),
    /// What was done in all.
    Stats(Stats),
    /// The result is complete.
    End,
}

/// Takes frames out of the bytes of an answer, however they are cut.
#[derive(Debug, Default)]
pub struct FrameDecoder(MessageDecoder);

impl FrameDecoder {
    /// A decoder at the start of an answer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the answer.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.0.feed(bytes);
    }

    /// The next event, or `None` until more bytes are fed. An error frame is an error.
    #[expect(clippy::should_implement_trait, reason = "an iterator would end where this waits for bytes")]
    pub fn next(&mut self) -> Result<Option<Event>> {
        let Some(message) = self.0.next()? else { return Ok(None) };
        let event = event(&message)?;
        if event == Event::End {
            self.0.end();
        }
        Ok(Some(event))
    }

    /// Says that no more bytes come. An answer without its End frame is truncated.
    pub fn finish(&self) -> Result<()> {
        self.0.finish()
    }
}

fn event(message: &Message) -> Result<Event> {
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
        Some("Records") => Event::Records(message.payload().clone()),
        Some("Cont") => Event::Cont,
        Some("Progress") => Event::Progress(stats(message.payload())),
        Some("Stats") => Event::Stats(stats(message.payload())),
        Some("End") => Event::End,
        other => return Err(corrupt(&format!("an event is of type {other:?}"))),
    })
}

/// Counts that the server claims; nothing depends on them, so what is missing is 0.
fn stats(payload: &[u8]) -> Stats {
    let number = |name| text_of(payload, name).and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    Stats {
        bytes_scanned: number("BytesScanned"),
        bytes_processed: number("BytesProcessed"),
        bytes_returned: number("BytesReturned"),
    }
}

/// The text of the first element of this name.
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

/// The error that an HTTP answer other than 200 stands for.
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

/// The error that a code of S3 stands for: what the caller can do about it.
pub(crate) fn error_from_code(code: &str, message: &str) -> Error {
    let kind = match code {
        "SlowDown" | "Busy" | "RequestLimitExceeded" | "TooManyRequests" => ErrorKind::Throttled,
        // MinIO says so of any value that does not convert, which no retry will change.
        "InternalError" if message.contains("cast") || message.contains("convert") => ErrorKind::Invalid,
        // What this server is too small for, a plain read is not.
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

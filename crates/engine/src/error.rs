//! Conversion of errors from and to DataFusion and object_store, which preserves their kind.

use std::error::Error as StdError;
use std::fmt;

use datafusion::common::DataFusionError;
use pushdowndb_contract::{Error, ErrorKind};

use crate::messages::plain;

/// Wraps an [`Error`] for DataFusion.
pub(crate) fn to_datafusion(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Converts an error of DataFusion. An [`Error`] inside it is found however deeply it is wrapped.
pub(crate) fn from_datafusion(error: DataFusionError) -> Error {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(&error);
    while let Some(link) = cause {
        if let Some(ours) = link.downcast_ref::<Error>() {
            return Error::new(ours.kind(), ours.to_string());
        }
        if let Some(store) = link.downcast_ref::<object_store::Error>() {
            return from_object_store_ref(store);
        }
        if let Some(DataFusionError::Shared(inner)) = link.downcast_ref::<DataFusionError>() {
            cause = Some(inner.as_ref());
            continue;
        }
        cause = link.source();
    }
    if let Some(carried) = from_carried(&error.to_string()) {
        return carried;
    }
    let kind = match error.find_root() {
        DataFusionError::NotImplemented(_) => ErrorKind::Unsupported,
        DataFusionError::ResourcesExhausted(_) => ErrorKind::Limit,
        DataFusionError::IoError(_) => ErrorKind::Unavailable,
        DataFusionError::Internal(_) => ErrorKind::Internal,
        _ => ErrorKind::Invalid,
    };
    let message = error.strip_backtrace();
    let kind = if message.contains("No function matches the given name") { ErrorKind::Invalid } else { kind };
    let message = plain(&message);
    let message = message.as_str();
    // COPY reports the failures of its stores as text only.
    if let Some((_, said)) = message.split_once("Error performing ") {
        let said = said.split("\nThis issue was likely caused by").next().unwrap_or(said);
        let kind = kind_from_text(said);
        return Error::new(kind, readable(kind, said));
    }
    if message.contains("DiskManager is disabled") {
        let hint = "; the access policy lists no folder to spill to: list one to write (--allow-write) and SET \
                    pushdown.spill_disk";
        return Error::new(kind, format!("{message}{hint}"));
    }
    if let Some(format) = message.strip_prefix("Unable to find factory for ") {
        let known = "CSV, TSV, JSON, NDJSON, JSONL or PARQUET";
        return Error::invalid(format!("there is no format {format}; STORED AS takes {known}"));
    }
    let message = message.strip_prefix("ParserError(\"").and_then(|m| m.strip_suffix("\")")).unwrap_or(message);
    Error::new(kind, message)
}

/// Precedes the number of an error's kind in [`carried`].
const KIND_MARK: &str = "\u{1}kind ";

/// Converts an error so that it keeps its kind when another process receives it as text.
pub(crate) fn carried(error: DataFusionError) -> DataFusionError {
    let error = from_datafusion(error);
    let number = ErrorKind::ALL.iter().position(|kind| *kind == error.kind()).unwrap_or_default();
    DataFusionError::External(Box::new(Carried(format!("{KIND_MARK}{number}\u{1}{error}"))))
}

/// Finds a [`carried`] error in a text.
fn from_carried(text: &str) -> Option<Error> {
    let (_, carried) = text.split_once(KIND_MARK)?;
    let (number, message) = carried.split_once('\u{1}')?;
    let kind = ErrorKind::ALL.get(number.parse::<usize>().ok()?)?;
    Some(Error::new(*kind, message))
}

/// The text of a [`carried`] error.
#[derive(Debug)]
struct Carried(String);

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Carried {}

/// Converts an object store's error.
pub(crate) fn from_object_store(error: object_store::Error) -> Error {
    from_object_store_ref(&error)
}

pub(crate) fn from_object_store_ref(error: &object_store::Error) -> Error {
    use object_store::Error as Store;
    if let Some(ours) = find_ours(error) {
        return ours;
    }
    let text = with_cause(error);
    let kind = match error {
        Store::NotFound { .. } => ErrorKind::NotFound,
        Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => ErrorKind::Denied,
        Store::Precondition { .. } | Store::AlreadyExists { .. } | Store::NotModified { .. } => ErrorKind::Conflict,
        Store::NotImplemented { .. } | Store::NotSupported { .. } => ErrorKind::Unsupported,
        Store::InvalidPath { .. } | Store::UnknownConfigurationKey { .. } => ErrorKind::Invalid,
        _ => kind_from_text(&text),
    };
    Error::new(kind, readable(kind, &text))
}

/// Finds an [`Error`] among the causes of another error, such as a refusal below a store.
pub(crate) fn find_ours(error: &(dyn StdError + 'static)) -> Option<Error> {
    let mut cause = Some(error);
    while let Some(link) = cause {
        if let Some(ours) = link.downcast_ref::<Error>() {
            return Some(Error::new(ours.kind(), ours.to_string()));
        }
        cause = link.source();
    }
    None
}

/// The message with its root cause, which most messages omit: a refused connection, for example.
pub(crate) fn with_cause(error: &(dyn StdError + 'static)) -> String {
    let text = error.to_string();
    let mut last = None;
    let mut cause = error.source();
    while let Some(next) = cause {
        (last, cause) = (Some(next.to_string()), next.source());
    }
    match last {
        Some(cause) if !text.contains(&cause) => format!("{text}: {cause}"),
        _ => text,
    }
}

/// Guesses the kind from text: object_store reports some S3 answers only as text around the
/// response's XML.
fn kind_from_text(text: &str) -> ErrorKind {
    const CODES: [(&str, ErrorKind); 9] = [
        ("NoSuchBucket", ErrorKind::NotFound),
        ("NoSuchKey", ErrorKind::NotFound),
        ("AccessDenied", ErrorKind::Denied),
        ("InvalidAccessKeyId", ErrorKind::Denied),
        ("SignatureDoesNotMatch", ErrorKind::Denied),
        ("status code: 403", ErrorKind::Denied),
        ("SlowDown", ErrorKind::Throttled),
        ("status code: 400", ErrorKind::Invalid),
        ("status code: 404", ErrorKind::NotFound),
    ];
    // The text begins with the address, which may hold any number: a key such as part-00404.csv is
    // no status.
    let said = text.rsplit_once("Server returned").map_or("", |(_, said)| said);
    CODES.iter().find(|(code, _)| said.contains(code)).map_or(ErrorKind::Unavailable, |(_, kind)| *kind)
}

/// Shortens an error's text and adds advice on failures that a user can fix.
fn readable(kind: ErrorKind, text: &str) -> String {
    // The XML body repeats the message at length.
    let short = text.split("<?xml").next().unwrap_or(text).trim_end_matches([' ', ':', '\n']);
    let code = text
        .split_once("<Code>")
        .and_then(|(_, rest)| rest.split_once("</Code>"))
        .map(|(code, _)| format!(" ({code})"))
        .unwrap_or_default();
    let hint = match kind {
        // The address at which machines of AWS get their credentials.
        _ if text.contains("169.254.169.254") => {
            "; no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, --aws-profile, or --anonymous"
        }
        _ if pushdowndb_http::is_untrusted(text) => ", or --insecure for a test",
        ErrorKind::Denied => {
            "; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or --aws-profile), or use --anonymous for public data"
        }
        _ => "",
    };
    format!("{short}{code}{hint}")
}

//! The error type of all crates: its kind says what the caller can do, its message what went wrong.

use std::error::Error as StdError;
use std::fmt;

/// The result of every fallible operation in this project's libraries.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error, by what the caller can do about it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The query, request or data is wrong: fix it.
    Invalid,
    /// Valid, but not implemented here: the engine falls back to plain reads of the object.
    Unsupported,
    /// The bucket, object, table or column does not exist.
    NotFound,
    /// Credentials are missing or wrong, or do not permit this.
    Denied,
    /// The object changed, or something with that name exists already.
    Conflict,
    /// A limit that the user set was exceeded, or would have been.
    Limit,
    /// Too many requests: wait, then retry.
    Throttled,
    /// The peer failed or vanished: retry, then fall back to plain reads.
    Unavailable,
    /// Stored bytes contradict themselves: never retry, always report.
    Corrupt,
    /// The user stopped it.
    Cancelled,
    /// A bug in this program.
    Internal,
}

impl ErrorKind {
    /// Every kind, for tables that map kinds to codes and for tests.
    pub const ALL: [Self; 11] = [
        Self::Invalid,
        Self::Unsupported,
        Self::NotFound,
        Self::Denied,
        Self::Conflict,
        Self::Limit,
        Self::Throttled,
        Self::Unavailable,
        Self::Corrupt,
        Self::Cancelled,
        Self::Internal,
    ];

    /// True if the same request may succeed when sent again.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Throttled | Self::Unavailable)
    }
}

/// An error: a kind that programs act on, a message for people, and the underlying cause.
///
/// The message says where (object, byte offset, column) and, if possible, what to do about it.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
    code: Option<&'static str>,
}

impl Error {
    /// Creates an error of this `kind`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None, code: None }
    }

    /// Creates an [`ErrorKind::Invalid`] error.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Creates an [`ErrorKind::Unsupported`] error.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// Creates an [`ErrorKind::Internal`] error.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Adds the cause, printed after the message.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Adds the error code that S3 Select documents for this error, such as `CastFailed`.
    #[must_use]
    pub fn with_code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// Prefixes the message with a place or an action, such as `s3://b/k`.
    #[must_use]
    pub fn context(mut self, prefix: impl fmt::Display) -> Self {
        self.message = format!("{prefix}: {}", self.message);
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The error code that S3 Select documents for this error, if it has one.
    pub fn code(&self) -> Option<&'static str> {
        self.code
    }

    /// The message alone, without causes.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let mut cause = self.source.as_deref().map(|s| s as &dyn StdError);
        let mut printed = self.message.clone();
        while let Some(error) = cause {
            // Many libraries repeat their cause in their own message; print each text once.
            let text = error.to_string();
            if !printed.contains(&text) {
                write!(f, ": {text}")?;
                printed.push_str(&text);
            }
            cause = error.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|s| s as &(dyn StdError + 'static))
    }
}

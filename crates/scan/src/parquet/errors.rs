//! Errors of the Parquet library as ours.

use ::parquet::errors::ParquetError;
use pushdown::{Error, ErrorKind};

/// What the error means for the object called `location`.
pub(super) fn explain(location: &str, error: ParquetError) -> Error {
    match error {
        ParquetError::External(error) => match error.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(other) => contradiction(location).with_source(other),
        },
        // Codecs and encodings that are not built in.
        ParquetError::NYI(what) => {
            let code = if what.to_lowercase().contains("codec") || what.contains("ompression") {
                "ParquetUnsupportedCompressionCodec"
            } else {
                "UnsupportedParquetType"
            };
            Error::unsupported(format!("{location}: is not supported here: {what}")).with_code(code)
        }
        other => contradiction(location).with_source(other),
    }
}

/// Ours on its way through the library, which [`explain`] takes out again, or another one.
pub(super) fn external(error: impl std::error::Error + Send + Sync + 'static) -> ParquetError {
    ParquetError::External(Box::new(error))
}

/// Fails if the task was interrupted.
pub(super) fn check_interrupt() -> Result<(), ParquetError> {
    crate::interrupt::check_interrupt().map_err(external)
}

/// The file says one thing and is another.
pub(super) fn contradiction(location: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{location}: the Parquet file contradicts itself"))
}

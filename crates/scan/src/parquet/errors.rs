//! Conversion of errors of the Parquet library.

use ::parquet::errors::ParquetError;
use pushdowndb_contract::{Error, ErrorKind};

/// Converts an error for the object called `location`.
pub(crate) fn explain(location: &str, error: ParquetError) -> Error {
    match error {
        ParquetError::External(error) => match error.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(other) => contradiction(location).with_source(other),
        },
        // Codecs and encodings that are not compiled in.
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

/// Wraps an error so that it passes through the library; [`explain`] unwraps it.
pub(crate) fn external(error: impl std::error::Error + Send + Sync + 'static) -> ParquetError {
    ParquetError::External(Box::new(error))
}

/// Returns an error if the task was interrupted.
pub(crate) fn check_interrupt() -> Result<(), ParquetError> {
    crate::runtime::interrupt::check_interrupt().map_err(external)
}

/// Returns the error for a file that contradicts itself.
pub(crate) fn contradiction(location: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{location}: the Parquet file contradicts itself"))
}

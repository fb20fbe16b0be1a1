//! Conversion of Arrow, DataFusion and Parquet errors. The kind of the result decides how the
//! caller reacts.

use arrow::error::ArrowError;
use datafusion_common::DataFusionError;
use pushdowndb_contract::{Error, ErrorKind};

/// Converts an error of an evaluation. Invalid values and expressions are the user's errors, all
/// others are internal errors.
pub(crate) fn from_datafusion(error: DataFusionError) -> Error {
    match error {
        DataFusionError::ArrowError(error, _) => from_arrow(*error),
        DataFusionError::External(error) => match error.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(other) => Error::internal(other.to_string()),
        },
        DataFusionError::Context(_, inner) => from_datafusion(*inner),
        DataFusionError::Diagnostic(_, inner) => from_datafusion(*inner),
        DataFusionError::Plan(message) | DataFusionError::Execution(message) => Error::invalid(message),
        DataFusionError::NotImplemented(message) => Error::unsupported(message),
        DataFusionError::ResourcesExhausted(message) => Error::new(ErrorKind::Limit, message),
        other => Error::internal(other.to_string()),
    }
}

/// Converts an error of a kernel.
pub(crate) fn from_arrow(error: ArrowError) -> Error {
    match error {
        ArrowError::CastError(message) => Error::invalid(message).with_code("CastFailed"),
        ArrowError::ArithmeticOverflow(message) => Error::invalid(message).with_code("IntegerOverflow"),
        ArrowError::DivideByZero => crate::error::division_by_zero(),
        ArrowError::ParseError(message)
        | ArrowError::ComputeError(message)
        | ArrowError::JsonError(message)
        | ArrowError::CsvError(message)
        | ArrowError::InvalidArgumentError(message) => Error::invalid(message),
        ArrowError::NotYetImplemented(message) => Error::unsupported(message),
        ArrowError::ParquetError(message) => Error::new(ErrorKind::Corrupt, message),
        ArrowError::ExternalError(error) => match error.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(other) => Error::internal(other.to_string()),
        },
        other => Error::internal(other.to_string()),
    }
}

/// Wraps an error so that it passes through DataFusion's expressions; [`from_datafusion`] unwraps
/// it.
pub(crate) fn into_datafusion(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

pub(crate) fn division_by_zero() -> Error {
    Error::invalid("division by zero").with_code("ExternalEvalException")
}

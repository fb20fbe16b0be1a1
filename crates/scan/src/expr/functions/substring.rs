//! SUBSTRING of a constant text by position.
//!
//! A Bloom filter in S3 Select is a long constant of `0` and `1`, of which each row reads one
//! character (PushdownDB, Section V). DataFusion's function would first repeat the constant for
//! each row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::Result as DfResult;
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use pushdowndb_contract::{Error, Result};

use crate::error::{from_arrow, from_datafusion};
use crate::expr::functions::json::constant_or_rows;

/// The function `SUBSTRING(text FROM start [FOR length])` of one constant text. Its arguments are
/// start and length.
#[derive(Debug, Eq, Hash, PartialEq)]
pub(crate) struct ConstantSubstring {
    text: String,
    /// The offsets of the characters, and the end; `None` if each character is one byte.
    starts: Option<Vec<usize>>,
    signature: Signature,
}

impl ConstantSubstring {
    pub(crate) fn new(text: &str) -> Self {
        let starts = || text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        Self {
            text: text.to_owned(),
            starts: (!text.is_ascii()).then(starts),
            signature: Signature::variadic_any(Volatility::Immutable),
        }
    }

    /// Returns the characters from number `start` on, counted from 1.
    fn part(&self, start: i64, length: Option<i64>) -> Result<&str> {
        if let Some(negative @ ..0) = length {
            return Err(Error::invalid(format!("SUBSTRING cannot have a length of {negative}")));
        }
        let count = self.starts.as_ref().map_or(self.text.len(), |starts| starts.len() - 1);
        let first = start.saturating_sub(1);
        let within = |at: i64| usize::try_from(at.max(0)).map_or(count, |at| at.min(count));
        let (from, to) = (within(first), length.map_or(count, |length| within(first.saturating_add(length))));
        let byte = |at: usize| self.starts.as_ref().map_or(Some(at), |starts| starts.get(at).copied());
        let part = byte(from).zip(byte(to)).and_then(|(from, to)| self.text.get(from..to));
        part.ok_or_else(|| Error::internal("a part of a text between its characters"))
    }

    fn on_arrays(&self, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
        let numbers = |arg: &ColumnarValue| -> Result<Int64Array> {
            let array = arg.clone().into_array(rows).map_err(from_datafusion)?;
            Ok(cast(&array, &DataType::Int64).map_err(from_arrow)?.as_primitive::<Int64Type>().clone())
        };
        let starts = args.first().map(numbers).transpose()?.ok_or_else(|| Error::internal("SUBSTRING of nowhere"))?;
        let lengths = args.get(1).map(numbers).transpose()?;
        let mut parts = StringBuilder::with_capacity(rows, rows);
        for row in 0..rows {
            let length = lengths.as_ref().map(|lengths| lengths.is_valid(row).then(|| lengths.value(row)));
            match (starts.is_valid(row), length) {
                (false, _) | (_, Some(None)) => parts.append_null(),
                (true, length) => parts.append_value(self.part(starts.value(row), length.flatten())?),
            }
        }
        Ok(Arc::new(parts.finish()))
    }
}

impl ScalarUDFImpl for ConstantSubstring {
    fn name(&self) -> &str {
        "constant_substring"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        constant_or_rows(&args, |rows| self.on_arrays(&args.args, rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_of_datafusion() {
        for (text, start, length, expected) in [
            ("abcdef", 2, Some(3), "bcd"),
            ("abcdef", 1, Some(1), "a"),
            ("abcdef", 6, Some(1), "f"),
            ("abcdef", 7, Some(1), ""),
            ("abcdef", 4, None, "def"),
            ("abcdef", -1, Some(3), "a"),
            ("abcdef", 0, None, "abcdef"),
            ("abcdef", i64::MIN, Some(3), ""),
            ("abcdef", i64::MAX, Some(i64::MAX), ""),
            ("aé🌏d", 2, Some(2), "é🌏"),
            ("aé🌏d", 4, Some(9), "d"),
            ("aé🌏d", 5, None, ""),
            ("", 1, Some(1), ""),
        ] {
            let part = ConstantSubstring::new(text);
            assert_eq!(part.part(start, length).ok(), Some(expected), "{text} from {start} for {length:?}");
        }
        assert!(ConstantSubstring::new("abc").part(1, Some(-1)).is_err());
    }
}

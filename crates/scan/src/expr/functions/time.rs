//! Functions of S3 Select timestamps, which are text (see [`pushdowndb_contract::Timestamp`]).
//!
//! Arrow's dates and timestamps, as in Parquet, are accepted, too.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Builder, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit, TimestampMicrosecondType};
use datafusion_common::Result as DfResult;
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use pushdowndb_contract::{DatePart, Error, Expr, Function, Literal, Pattern, Result, Timestamp};

use crate::error::{from_arrow, from_datafusion};
use crate::expr::functions::json::constant_or_rows;
use crate::values::fields::shorten;

/// A function of timestamps, with its constant arguments.
#[derive(Debug, Eq, Hash, PartialEq)]
pub(crate) struct TimeFunction {
    function: Function,
    part: Option<DatePart>,
    /// A constant pattern, which is known to be valid.
    pattern: Option<String>,
    signature: Signature,
}

impl TimeFunction {
    /// Returns the function and its remaining arguments; `None` if it is not a function of
    /// timestamps.
    pub(crate) fn new(function: Function, args: &[Expr]) -> Result<Option<(Self, &[Expr])>> {
        let (part, pattern, rest): (_, _, &[Expr]) = match (function, args) {
            (Function::ToTimestamp, [_]) => (None, None, args),
            (Function::ReadTimestamp | Function::FormatTimestamp, [value, Expr::Literal(Literal::Utf8(pattern))]) => {
                let parsed = Pattern::parse(pattern)?;
                if function == Function::ReadTimestamp {
                    parsed.for_reading()?;
                }
                (None, Some(pattern.clone()), std::slice::from_ref(value))
            }
            (Function::ReadTimestamp | Function::FormatTimestamp, [_, _]) => (None, None, args),
            (Function::DateAdd | Function::DateDiff, [part, rest @ ..]) if rest.len() == 2 => {
                (constant_part(part), None, rest)
            }
            (Function::Extract, [part, rest @ ..]) if rest.len() == 1 => (constant_part(part), None, rest),
            _ => return Ok(None),
        };
        if part.is_none() && matches!(function, Function::DateAdd | Function::DateDiff | Function::Extract) {
            return Err(Error::invalid(format!("{} takes the name of a date part", function.sql())));
        }
        let signature = Signature::variadic_any(Volatility::Immutable);
        Ok(Some((Self { function, part, pattern, signature }, rest)))
    }

    fn on_arrays(&self, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
        let array = |index: usize| -> Result<ArrayRef> {
            let arg = args.get(index).cloned().ok_or_else(|| Error::internal("a function lacks an argument"))?;
            arg.into_array(rows).map_err(from_datafusion)
        };
        let part = || self.part.ok_or_else(|| Error::internal("a function of a date part was made without"));
        match self.function {
            Function::ToTimestamp => texts(&Times::new(&array(0)?)?, |time, out| {
                let _ = write!(out, "{time}");
                Ok(())
            }),
            Function::FormatTimestamp => {
                let mut patterns = Patterns::new(self.pattern.as_deref(), args.get(1), rows)?;
                let times = Times::new(&array(0)?)?;
                let mut out = StringBuilder::new();
                for row in 0..rows {
                    match (times.get(row)?, patterns.get(row, false)?) {
                        (Some(time), Some(pattern)) => out.append_value(pattern.format(&time)),
                        _ => out.append_null(),
                    }
                }
                Ok(Arc::new(out.finish()))
            }
            Function::ReadTimestamp => {
                let mut patterns = Patterns::new(self.pattern.as_deref(), args.get(1), rows)?;
                let text = cast(&array(0)?, &DataType::Utf8).map_err(from_arrow)?;
                let mut out = StringBuilder::new();
                for (row, text) in text.as_string::<i32>().iter().enumerate() {
                    match (text, patterns.get(row, true)?) {
                        (Some(text), Some(pattern)) => {
                            let time = pattern.read(text).ok_or_else(|| {
                                let message = format!("'{}' is not of the form of its pattern", shorten(text));
                                Error::invalid(message).with_code("ValueParseFailure")
                            })?;
                            out.append_value(time.to_string());
                        }
                        _ => out.append_null(),
                    }
                }
                Ok(Arc::new(out.finish()))
            }
            Function::DateAdd => {
                let part = part()?;
                let counts = cast(&array(0)?, &DataType::Int64).map_err(from_arrow)?;
                let counts = counts.as_primitive::<Int64Type>();
                let times = Times::new(&array(1)?)?;
                let mut out = StringBuilder::new();
                for row in 0..rows {
                    match times.get(row)? {
                        Some(time) if counts.is_valid(row) => {
                            let moved = time.add(part, counts.value(row)).ok_or_else(|| {
                                let message =
                                    format!("DATE_ADD({}, {}, {time}) is out of range", part.name(), counts.value(row));
                                Error::invalid(message).with_code("IllegalSqlFunctionArgument")
                            })?;
                            out.append_value(moved.to_string());
                        }
                        _ => out.append_null(),
                    }
                }
                Ok(Arc::new(out.finish()))
            }
            Function::DateDiff => {
                let part = part()?;
                let (from, to) = (Times::new(&array(0)?)?, Times::new(&array(1)?)?);
                let mut out = Int64Builder::with_capacity(rows);
                for row in 0..rows {
                    out.append_option(match (from.get(row)?, to.get(row)?) {
                        (Some(from), Some(to)) => from.until(part, &to),
                        _ => None,
                    });
                }
                Ok(Arc::new(out.finish()))
            }
            Function::Extract => {
                let part = part()?;
                let times = Times::new(&array(0)?)?;
                let mut out = Int64Builder::with_capacity(rows);
                for row in 0..rows {
                    out.append_option(times.get(row)?.map(|time| time.part(part)));
                }
                Ok(Arc::new(out.finish()))
            }
            other => Err(Error::internal(format!("{} is no function of timestamps", other.sql()))),
        }
    }
}

fn constant_part(part: &Expr) -> Option<DatePart> {
    match part {
        Expr::Literal(Literal::Utf8(name)) => DatePart::from_name(name),
        _ => None,
    }
}

fn texts(times: &Times, write: impl Fn(Timestamp, &mut StringBuilder) -> Result<()>) -> Result<ArrayRef> {
    let mut out = StringBuilder::new();
    for row in 0..times.len() {
        match times.get(row)? {
            Some(time) => {
                write(time, &mut out)?;
                out.append_value("");
            }
            None => out.append_null(),
        }
    }
    Ok(Arc::new(out.finish()))
}

/// One pattern for all rows, or one for each row.
enum Patterns {
    Constant(Pattern),
    Rows(StringArray, Option<(String, Pattern)>),
}

impl Patterns {
    fn new(constant: Option<&str>, arg: Option<&ColumnarValue>, rows: usize) -> Result<Self> {
        if let Some(pattern) = constant {
            return Ok(Self::Constant(Pattern::parse(pattern)?));
        }
        let array = arg.cloned().ok_or_else(|| Error::internal("a pattern is missing"))?;
        let array = cast(&array.into_array(rows).map_err(from_datafusion)?, &DataType::Utf8).map_err(from_arrow)?;
        Ok(Self::Rows(array.as_string::<i32>().clone(), None))
    }

    fn get(&mut self, row: usize, reading: bool) -> Result<Option<&Pattern>> {
        match self {
            Self::Constant(pattern) => Ok(Some(pattern)),
            Self::Rows(all, last) => {
                if all.is_null(row) {
                    return Ok(None);
                }
                let text = all.value(row);
                if last.as_ref().is_none_or(|(known, _)| known != text) {
                    let pattern = Pattern::parse(text)?;
                    if reading {
                        pattern.for_reading()?;
                    }
                    *last = Some((text.to_owned(), pattern));
                }
                Ok(last.as_ref().map(|(_, pattern)| pattern))
            }
        }
    }
}

/// Timestamps as text, or as Arrow's instants.
enum Times {
    Text(StringArray),
    /// Instants in microseconds, and the number of fraction digits to write.
    Instants(arrow::array::TimestampMicrosecondArray, u8),
}

impl Times {
    fn new(array: &ArrayRef) -> Result<Self> {
        let data_type = array.data_type();
        if data_type.is_string() || data_type.is_null() {
            let text = cast(array, &DataType::Utf8).map_err(from_arrow)?;
            return Ok(Self::Text(text.as_string::<i32>().clone()));
        }
        if matches!(data_type, DataType::Date32 | DataType::Date64) {
            // A date has no time: its text is that of a timestamp with the precision of a day.
            let text =
                cast(&cast(array, &DataType::Date32).map_err(from_arrow)?, &DataType::Utf8).map_err(from_arrow)?;
            return Ok(Self::Text(text.as_string::<i32>().clone()));
        }
        let places = match data_type {
            DataType::Timestamp(TimeUnit::Second, _) => 0,
            DataType::Timestamp(TimeUnit::Millisecond, _) => 3,
            _ => 6,
        };
        let zone = Some("+00:00".into());
        let array = cast(array, &DataType::Timestamp(TimeUnit::Microsecond, zone)).map_err(from_arrow)?;
        Ok(Self::Instants(array.as_primitive::<TimestampMicrosecondType>().clone(), places))
    }

    fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Instants(instants, _) => instants.len(),
        }
    }

    fn get(&self, row: usize) -> Result<Option<Timestamp>> {
        match self {
            Self::Text(text) if text.is_valid(row) => {
                let text = text.value(row);
                Timestamp::parse(text.trim_matches(' ')).map(Some).ok_or_else(|| {
                    let message = format!(
                        "cannot parse '{}' as TIMESTAMP; one looks like 2007-04-05T or 2007-04-05T14:30:00Z",
                        shorten(text)
                    );
                    Error::invalid(message).with_code("CastFailed")
                })
            }
            Self::Instants(instants, places) if instants.is_valid(row) => {
                Timestamp::from_micros(instants.value(row), *places)
                    .map(Some)
                    .ok_or_else(|| Error::invalid("a timestamp is outside the years 1 to 9999").with_code("CastFailed"))
            }
            _ => Ok(None),
        }
    }
}

impl ScalarUDFImpl for TimeFunction {
    fn name(&self) -> &str {
        self.function.sql()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(match self.function {
            Function::DateDiff | Function::Extract => DataType::Int64,
            _ => DataType::Utf8,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        constant_or_rows(&args, |rows| self.on_arrays(&args.args, rows))
    }
}

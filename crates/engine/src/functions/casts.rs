//! Casts whose result differs from arrow's, or from what DataFusion 55.2 makes of them in
//! comparisons.
//!
//! | cast | becomes | arrow 59 |
//! | --- | --- | --- |
//! | a `DECIMAL` to an integer | rounded, halves away from zero: 2.5 is 3 | cut |
//! | a `DOUBLE` or `REAL` to an integer | rounded, halves to the even one: 2.5 is 2 | cut |
//! | a `TIMESTAMP` to text | `2024-01-02 03:04:05.12` | `2024-01-02T03:04:05.120` |
//! | a `TIMESTAMPTZ` to text | `2024-01-02 03:04:05+00` | `2024-01-02T03:04:05Z` |
//! | a `DOUBLE` or `REAL` to text | `1.0`, `1e+20`, `1e-05`, `NaN`, `Infinity` | `1.0`, `1e20`, `1e-5`, `NaN`, `inf` |
//! | a `DOUBLE` beyond `REAL` to it | an error | infinity |
//!
//! DataFusion simplifies `CAST(d AS INT) = 3` to `d = 3`, and `CAST(d AS DECIMAL(9, 1)) = 3.4` to
//! `d = 3.4`, although the cast loses digits. It does not simplify calls of these functions.
//!
//! Scans use arrow's casts, since S3 Select writes values like them. So only casts of decimals are
//! pushed ([`in_storage`]).

use std::fmt::Write;
use std::sync::Arc;

use chrono::{DateTime, Datelike, NaiveDateTime, Offset, TimeZone, Timelike, Utc};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, StringArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, TimestampSecondArray,
};
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options};
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef, Float32Type, Float64Type, TimeUnit,
};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use pushdowndb_contract::Error;

use crate::error::to_datafusion;

/// Returns the function that casts `from` to `to`; `None` if arrow's cast is right. With `safe`,
/// values that cannot be cast become NULL.
pub(crate) fn function(from: &DataType, to: &DataType, safe: bool) -> Option<Arc<ScalarUDF>> {
    let is_text = matches!(to, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let ours = match from {
        DataType::Timestamp(..) => is_text,
        DataType::Float32 => is_text || to.is_integer(),
        DataType::Float64 => is_text || to.is_integer() || *to == DataType::Float32,
        DataType::Decimal128(_, scale) if *scale > 0 => match to {
            DataType::Decimal128(_, kept) => kept < scale,
            to => to.is_integer(),
        },
        _ => false,
    };
    let signature = Signature::any(1, Volatility::Immutable);
    // Other processes find it by its name.
    let name = format!("{}cast_{from}_to_{to}", if safe { "try_" } else { "" });
    ours.then(|| Arc::new(ScalarUDF::from(OwnCast { name, from: from.clone(), to: to.clone(), safe, signature })))
}

/// Returns the arguments with which [`function`] made this one; `None` if it did not make it.
pub(crate) fn made_of(function: &ScalarUDF) -> Option<(&DataType, &DataType, bool)> {
    function.inner().downcast_ref::<OwnCast>().map(|cast| (&cast.from, &cast.to, cast.safe))
}

/// Returns the types to which storage casts a value, one after the other, for the same result as
/// `function`. Returns `None` if this module did not make it, or if storage has no such cast.
pub(crate) fn in_storage(function: &ScalarUDF) -> Option<Vec<DataType>> {
    let cast = function.inner().downcast_ref::<OwnCast>().filter(|cast| !cast.safe)?;
    match (&cast.from, &cast.to) {
        (DataType::Decimal128(..), to @ DataType::Decimal128(..)) => Some(vec![to.clone()]),
        (DataType::Decimal128(..), to) => Some(vec![whole(&cast.from)?, to.clone()]),
        _ => None,
    }
}

/// The decimal without a fraction that has room for the rounded values of `decimal`.
fn whole(decimal: &DataType) -> Option<DataType> {
    let DataType::Decimal128(digits, scale) = decimal else { return None };
    let before = digits.saturating_sub(u8::try_from(*scale).ok()?).saturating_add(1);
    Some(DataType::Decimal128(before.min(DECIMAL128_MAX_PRECISION), 0))
}

#[derive(Debug, Eq, Hash, PartialEq)]
struct OwnCast {
    name: String,
    from: DataType,
    to: DataType,
    safe: bool,
    signature: Signature,
}

impl ScalarUDFImpl for OwnCast {
    fn name(&self) -> &str {
        &self.name
    }

    /// Returns the column name of a plain cast.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match args {
            [value] => Expr::Cast(Cast::new(Box::new(value.clone()), self.to.clone())).schema_name().to_string(),
            _ => self.name().to_owned(),
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = self.safe || args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.to.clone(), nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else { return exec_err!("{} takes one value", self.name()) };
        let done = self.cast(&value.to_array(1)?)?;
        Ok(match value {
            ColumnarValue::Array(_) => ColumnarValue::Array(done),
            ColumnarValue::Scalar(_) => ColumnarValue::Scalar(ScalarValue::try_from_array(&done, 0)?),
        })
    }
}

impl OwnCast {
    fn cast(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let texts = match values.data_type() {
            DataType::Float64 if self.to == DataType::Float32 => return self.real(values),
            DataType::Float64 if self.to.is_integer() => {
                let rounded = values.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::round_ties_even);
                return self.arrow(&rounded, &self.to);
            }
            DataType::Float32 if self.to.is_integer() => {
                let rounded = values.as_primitive::<Float32Type>().unary::<_, Float32Type>(f32::round_ties_even);
                return self.arrow(&rounded, &self.to);
            }
            DataType::Decimal128(..) => {
                let rounded = match whole(values.data_type()).filter(|_| self.to.is_integer()) {
                    Some(whole) => self.arrow(values, &whole)?,
                    None => Arc::clone(values),
                };
                return self.arrow(&rounded, &self.to);
            }
            DataType::Float64 => texts(values.as_primitive::<Float64Type>().iter(), write_float),
            DataType::Float32 => texts(values.as_primitive::<Float32Type>().iter(), write_float),
            DataType::Timestamp(unit, zone) => timestamps(values, *unit, zone.as_deref())?,
            _ => return Ok(cast(values, &self.to)?),
        };
        Ok(cast(&texts, &self.to)?)
    }

    /// Casts like arrow; a value that cannot be cast is an error, or NULL if `safe`.
    fn arrow(&self, values: &dyn Array, to: &DataType) -> Result<ArrayRef> {
        let options = CastOptions { safe: self.safe, ..CastOptions::default() };
        Ok(cast_with_options(values, to, &options)?)
    }

    /// Casts to REAL; a number that is too large is an error, or NULL if `safe`.
    fn real(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let wide = values.as_primitive::<Float64Type>();
        let is_lost = |value: f64| value.is_finite() && (value as f32).is_infinite();
        if self.safe {
            return Ok(Arc::new(wide.unary_opt::<_, Float32Type>(|value| (!is_lost(value)).then_some(value as f32))));
        }
        match wide.iter().flatten().find(|value| is_lost(*value)) {
            Some(lost) => {
                let message = format!("{lost:e} is out of the range of REAL; leave it a DOUBLE");
                Err(to_datafusion(Error::invalid(message)))
            }
            None => Ok(cast(values, &DataType::Float32)?),
        }
    }
}

fn texts<T>(values: impl Iterator<Item = Option<T>>, write: impl Fn(&mut String, T)) -> StringArray {
    let mut text = String::new();
    let texts = values.map(|value| {
        text.clear();
        value.map(|value| {
            write(&mut text, value);
            text.clone()
        })
    });
    texts.collect()
}

/// Writes the shortest digits of a number, with a point, or with an exponent if it is small or has
/// more than 16 digits before the point.
fn write_float<T: std::fmt::LowerExp>(text: &mut String, number: T) {
    let exact = format!("{number:e}");
    let Some((digits, exponent)) = exact.split_once('e') else {
        text.push_str(match exact.as_str() {
            "inf" => "Infinity",
            "-inf" => "-Infinity",
            _ => "NaN",
        });
        return;
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    if !(-4..16).contains(&exponent) {
        let (direction, exponent) = if exponent < 0 { ('-', -exponent) } else { ('+', exponent) };
        let _ = write!(text, "{sign}{digits}e{direction}{exponent:02}");
        return;
    }
    let digits: String = digits.chars().filter(|digit| *digit != '.').collect();
    text.push_str(sign);
    match usize::try_from(exponent) {
        Ok(before) if digits.len() > before + 1 => {
            let (whole, fraction) = digits.split_at(before + 1);
            let _ = write!(text, "{whole}.{fraction}");
        }
        Ok(before) => {
            let _ = write!(text, "{digits:0<width$}.0", width = before + 1);
        }
        Err(_) => {
            let zeros = usize::try_from(-exponent - 1).unwrap_or_default();
            let _ = write!(text, "0.{:0<zeros$}{digits}", "");
        }
    }
}

fn timestamps(values: &ArrayRef, unit: TimeUnit, zone: Option<&str>) -> Result<StringArray> {
    let zone = zone.map(str::parse::<Tz>).transpose()?;
    let array = values.as_ref();
    let any = array.as_any();
    // Each value as seconds and nanoseconds.
    let parts: Box<dyn Iterator<Item = Option<(i64, u32)>> + '_> = match unit {
        TimeUnit::Second => split(any.downcast_ref::<TimestampSecondArray>(), 1),
        TimeUnit::Millisecond => split(any.downcast_ref::<TimestampMillisecondArray>(), 1_000),
        TimeUnit::Microsecond => split(any.downcast_ref::<TimestampMicrosecondArray>(), 1_000_000),
        TimeUnit::Nanosecond => split(any.downcast_ref::<TimestampNanosecondArray>(), 1_000_000_000),
    };
    let mut text = String::new();
    let texts = parts.map(|parts| {
        let Some((seconds, nanoseconds)) = parts else { return Ok(None) };
        let Some(instant) = DateTime::<Utc>::from_timestamp(seconds, nanoseconds) else {
            return exec_err!("a timestamp of {seconds} seconds has no date");
        };
        text.clear();
        match &zone {
            None => write_time(&mut text, instant.naive_utc()),
            Some(zone) => {
                let offset = zone.offset_from_utc_datetime(&instant.naive_utc()).fix().local_minus_utc();
                write_time(&mut text, instant.naive_utc() + chrono::TimeDelta::seconds(offset.into()));
                let (sign, offset) = if offset < 0 { ('-', -offset) } else { ('+', offset) };
                let _ = write!(text, "{sign}{:02}", offset / 3600);
                if offset % 3600 != 0 {
                    let _ = write!(text, ":{:02}", offset % 3600 / 60);
                }
            }
        }
        Ok(Some(text.clone()))
    });
    texts.collect()
}

fn split<'a, T: ArrowPrimitiveType<Native = i64>>(
    values: Option<&'a datafusion::arrow::array::PrimitiveArray<T>>,
    a_second: i64,
) -> Box<dyn Iterator<Item = Option<(i64, u32)>> + 'a> {
    let nanoseconds = move |value: i64| value.rem_euclid(a_second) * (1_000_000_000 / a_second);
    let parts = move |value: i64| (value.div_euclid(a_second), u32::try_from(nanoseconds(value)).unwrap_or_default());
    Box::new(values.into_iter().flat_map(|values| values.iter()).map(move |value| value.map(parts)))
}

/// Writes `2024-01-02 03:04:05.12`: a fraction without trailing zeros.
fn write_time(text: &mut String, time: NaiveDateTime) {
    // The year before 1 is 1 BC.
    let (year, era) = if time.year() > 0 { (time.year(), "") } else { (1 - time.year(), " BC") };
    let (month, day) = (time.month(), time.day());
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    let _ = write!(text, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}");
    if time.nanosecond() != 0 {
        let fraction = format!("{:09}", time.nanosecond());
        let _ = write!(text, ".{}", fraction.trim_end_matches('0'));
    }
    text.push_str(era);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(number: f64) -> String {
        let mut text = String::new();
        write_float(&mut text, number);
        text
    }

    #[test]
    fn floats_as_others_write_them() {
        for (number, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-2.5, "-2.5"),
            (100.0, "100.0"),
            (0.1, "0.1"),
            (1e-4, "0.0001"),
            (1.25e-3, "0.00125"),
            (1e-5, "1e-05"),
            (1.25e-7, "1.25e-07"),
            (5e-324, "5e-324"),
            (1e15, "1000000000000000.0"),
            (1234567890123456.0, "1234567890123456.0"),
            (123456789012345.6, "123456789012345.6"),
            (1e16, "1e+16"),
            (1.2345678901234568e17, "1.2345678901234568e+17"),
            (-1.5e300, "-1.5e+300"),
            (f64::NAN, "NaN"),
            (-f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(float(number), text);
        }
        let mut text = String::new();
        write_float(&mut text, 0.1_f32);
        assert_eq!(text, "0.1");
    }

    #[test]
    fn timestamps_as_others_write_them() {
        let micros = |values: Vec<i64>| Arc::new(TimestampMicrosecondArray::from(values)) as ArrayRef;
        let of = |values: Vec<i64>, zone: Option<&str>| {
            let texts = timestamps(&micros(values), TimeUnit::Microsecond, zone).unwrap();
            texts.iter().flatten().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            of(vec![0, 1, -1, 1_704_164_645_120_000, -62_167_219_200_000_000], None),
            [
                "1970-01-01 00:00:00",
                "1970-01-01 00:00:00.000001",
                "1969-12-31 23:59:59.999999",
                "2024-01-02 03:04:05.12",
                "0001-01-01 00:00:00 BC",
            ]
        );
        assert_eq!(of(vec![0], Some("UTC")), ["1970-01-01 00:00:00+00"]);
        assert_eq!(of(vec![0], Some("+05:30")), ["1970-01-01 05:30:00+05:30"]);
        assert_eq!(of(vec![0], Some("America/New_York")), ["1969-12-31 19:00:00-05"]);
    }
}

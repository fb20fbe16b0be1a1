//! Conversion of Python values to parameters of SQL.

use std::collections::BTreeMap;

use arrow::datatypes::{DataType, IntervalMonthDayNano, i256};
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike, Utc};
use datafusion::common::ScalarValue;
use pushdowndb_engine::Parameters;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyFloat, PyInt, PyList, PyString, PyTime,
    PyTuple, PyTzInfo, PyTzInfoAccess,
};

use super::errors::invalid;

/// Maximum digits of Arrow's decimal types.
const DECIMAL128_DIGITS: usize = 38;
const DECIMAL256_DIGITS: usize = 76;

/// Converts the parameters of a statement: a list or tuple for positional ones, a dict for named
/// ones.
pub fn parameters(given: Option<&Bound<'_, PyAny>>) -> PyResult<Parameters> {
    let Some(given) = given.filter(|given| !given.is_none()) else { return Ok(Parameters::None) };
    if let Ok(named) = given.cast::<PyDict>() {
        let mut values = BTreeMap::new();
        for (name, value) in named {
            let name: String = name.extract()?;
            let value = scalar(&value).map_err(|error| at(given.py(), &name, &error))?;
            values.insert(name, value);
        }
        return Ok(Parameters::Named(values));
    }
    if !(given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>()) {
        return Err(invalid("parameters are a list, a tuple or a dict"));
    }
    let mut values = Vec::new();
    for (place, value) in given.try_iter()?.enumerate() {
        values.push(scalar(&value?).map_err(|error| at(given.py(), &(place + 1).to_string(), &error))?);
    }
    Ok(Parameters::Positional(values))
}

fn at(py: Python<'_>, parameter: &str, error: &PyErr) -> PyErr {
    invalid(format!("parameter {parameter}: {}", error.value(py)))
}

/// Converts a Python value to a value of SQL.
fn scalar(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    if value.is_none() {
        return Ok(ScalarValue::Null);
    }
    if let Ok(yes) = value.cast::<PyBool>() {
        return Ok(ScalarValue::Boolean(Some(yes.is_true())));
    }
    if value.is_instance_of::<PyInt>() {
        return integer(value);
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(ScalarValue::Float64(Some(value.extract()?)));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(ScalarValue::Utf8(Some(value.extract()?)));
    }
    if value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>() {
        return Ok(ScalarValue::Binary(Some(value.extract()?)));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return list(value);
    }
    if let Ok(time) = value.cast::<PyDateTime>() {
        return instant(time);
    }
    if value.is_instance_of::<PyDate>() {
        let days = value.extract::<NaiveDate>()?.signed_duration_since(NaiveDate::default()).num_days();
        return Ok(ScalarValue::Date32(i32::try_from(days).ok()));
    }
    if value.is_instance_of::<PyTime>() {
        let time: NaiveTime = value.extract()?;
        let micros = i64::from(time.num_seconds_from_midnight()) * 1_000_000 + i64::from(time.nanosecond() / 1000);
        return Ok(ScalarValue::Time64Microsecond(Some(micros)));
    }
    if value.is_instance_of::<PyDelta>() {
        return interval(value.extract()?);
    }
    of_other_modules(value)
}

/// Converts values of classes that are not built in: decimals, UUIDs, scalars of NumPy, NA of
/// pandas.
fn of_other_modules(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    let class = value.get_type();
    let (module, name) = (class.module()?.to_string(), class.name()?.to_string());
    match (module.split('.').next().unwrap_or_default(), name.as_str()) {
        ("decimal", "Decimal") => decimal(value),
        ("uuid", "UUID") => Ok(ScalarValue::Utf8(Some(value.str()?.extract()?))),
        ("pandas", "NAType" | "NaTType") => Ok(ScalarValue::Null),
        ("numpy", _) if value.hasattr("item")? => {
            let plain = value.call_method0("item")?;
            match plain.get_type().is(&class) {
                true => Err(invalid(format!("a value of the type {module}.{name} cannot be a parameter"))),
                false => scalar(&plain),
            }
        }
        _ => Err(invalid(format!(
            "a value of the type {module}.{name} cannot be a parameter; use a number, a string, bytes, a date or time, \
             None, or a list of these"
        ))),
    }
}

fn integer(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    if let Ok(number) = value.extract::<i64>() {
        return Ok(ScalarValue::Int64(Some(number)));
    }
    if let Ok(number) = value.extract::<u64>() {
        return Ok(ScalarValue::UInt64(Some(number)));
    }
    // The integer may have any number of digits, while Python formats only some thousands of them.
    of_digits(&value.str()?.to_string(), 0)
}

/// The decimal whose unscaled value has these `digits`.
fn of_digits(digits: &str, scale: usize) -> PyResult<ScalarValue> {
    let count = digits.trim_start_matches('-').len().max(scale);
    let too_long = || invalid(format!("a number of more than {DECIMAL256_DIGITS} digits"));
    let places = i8::try_from(scale).map_err(|_| too_long())?;
    // The precision is the number of digits: with a larger one, arithmetic would overflow sooner.
    if count <= DECIMAL128_DIGITS {
        let number = digits.parse().map_err(|_| too_long())?;
        return Ok(ScalarValue::Decimal128(Some(number), u8::try_from(count).unwrap_or(u8::MAX), places));
    }
    if count > DECIMAL256_DIGITS {
        return Err(too_long());
    }
    let number = i256::from_string(digits).ok_or_else(too_long)?;
    Ok(ScalarValue::Decimal256(Some(number), u8::try_from(count).unwrap_or(u8::MAX), places))
}

fn decimal(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    let (negative, digits, exponent): (u8, Vec<u32>, Bound<'_, PyAny>) = value.call_method0("as_tuple")?.extract()?;
    let exponent: i64 = exponent.extract().map_err(|_| invalid("NaN and infinity are no decimals; use a float"))?;
    let mut text: String = digits.iter().filter_map(|digit| char::from_digit(*digit, 10)).collect();
    let zeros = usize::try_from(exponent).unwrap_or(0);
    if zeros > DECIMAL256_DIGITS {
        return Err(invalid(format!("a number of more than {DECIMAL256_DIGITS} digits")));
    }
    text.extend(std::iter::repeat_n('0', zeros));
    let scale = usize::try_from(exponent.checked_neg().unwrap_or(i64::MAX)).unwrap_or(0);
    let sign = if negative == 1 { "-" } else { "" };
    of_digits(&format!("{sign}{text}"), scale)
}

/// Converts a datetime: with a time zone it is a point in time, without one it is local.
fn instant(time: &Bound<'_, PyDateTime>) -> PyResult<ScalarValue> {
    let py = time.py();
    // NaT of pandas is a datetime that is not equal to itself.
    if time.ne(time)? {
        return Ok(ScalarValue::Null);
    }
    let nanoseconds = match time.getattr_opt("nanosecond")? {
        Some(nanoseconds) => nanoseconds.extract::<i64>()?,
        None => 0,
    };
    let (micros, zone) = match time.get_tzinfo() {
        Some(_) => {
            let utc = time.call_method1("astimezone", (PyTzInfo::utc(py)?,))?;
            let utc: DateTime<Utc> = utc.extract()?;
            (utc.timestamp_micros(), Some("UTC".into()))
        }
        None => (time.extract::<NaiveDateTime>()?.and_utc().timestamp_micros(), None),
    };
    let exact = micros.checked_mul(1000).and_then(|nanos| nanos.checked_add(nanoseconds));
    match exact.filter(|_| nanoseconds != 0) {
        Some(nanos) => Ok(ScalarValue::TimestampNanosecond(Some(nanos), zone)),
        None => Ok(ScalarValue::TimestampMicrosecond(Some(micros), zone)),
    }
}

fn interval(length: TimeDelta) -> PyResult<ScalarValue> {
    let days = length.num_days();
    let rest = length - TimeDelta::days(days);
    let too_long = || invalid("a timedelta of more days than an interval has");
    let (days, nanos) = (i32::try_from(days).map_err(|_| too_long())?, rest.num_nanoseconds().ok_or_else(too_long)?);
    Ok(ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(0, days, nanos))))
}

fn list(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    let values = value.try_iter()?.map(|value| scalar(&value?)).collect::<PyResult<Vec<_>>>()?;
    let types: Vec<DataType> =
        values.iter().map(ScalarValue::data_type).filter(|kind| *kind != DataType::Null).collect();
    let kind = match types.as_slice() {
        [] => DataType::Null,
        [first, others @ ..] if others.iter().all(|kind| kind == first) => first.clone(),
        kinds if kinds.iter().all(|kind| kind.is_integer() || kind.is_floating()) => DataType::Float64,
        kinds => {
            let names: Vec<String> = kinds.iter().map(ToString::to_string).collect();
            return Err(invalid(format!("a list of values of several types: {}", names.join(", "))));
        }
    };
    let cast = |value: ScalarValue| value.cast_to(&kind).map_err(|error| invalid(error.strip_backtrace()));
    let values = values.into_iter().map(cast).collect::<PyResult<Vec<_>>>()?;
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&values, &kind)))
}

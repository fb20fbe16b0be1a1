//! Conversion of Arrow values to Python values.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, IntervalUnit, TimeUnit, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use chrono::{DateTime, Datelike, NaiveDate, NaiveTime, TimeDelta};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple, PyType, PyTzInfo};

use super::errors::invalid;

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
/// The length of a month in intervals, as in PostgreSQL and DuckDB.
const DAYS_PER_MONTH: i64 = 30;

type Values<'py> = Vec<Bound<'py, PyAny>>;

/// Converts the rows of a batch to tuples.
pub fn tuples<'py>(py: Python<'py>, batch: &RecordBatch) -> PyResult<Vec<Bound<'py, PyTuple>>> {
    let columns = batch.columns().iter().map(|column| values(py, column)).collect::<PyResult<Vec<_>>>()?;
    rows_of(py, columns, batch.num_rows())
}

/// The text of each cell, formatted as the shell prints it.
pub fn cells<'py>(py: Python<'py>, batch: &RecordBatch) -> PyResult<Vec<Bound<'py, PyTuple>>> {
    let options = FormatOptions::new().with_null("NULL");
    let mut columns = Vec::new();
    for column in batch.columns() {
        let formatter = ArrayFormatter::try_new(column, &options).map_err(of_arrow)?;
        let text = |row| formatter.value(row).try_to_string().map_err(of_arrow)?.into_bound_py_any(py);
        columns.push((0..batch.num_rows()).map(text).collect::<PyResult<Vec<_>>>()?);
    }
    rows_of(py, columns, batch.num_rows())
}

fn rows_of<'py>(py: Python<'py>, columns: Vec<Values<'py>>, rows: usize) -> PyResult<Vec<Bound<'py, PyTuple>>> {
    let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
    (0..rows).map(|_| PyTuple::new(py, columns.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>())).collect()
}

fn of_arrow(error: ArrowError) -> PyErr {
    invalid(error)
}

/// The values of a column.
fn values<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Values<'py>> {
    let to = |kind: &DataType| cast(array, kind).map_err(of_arrow);
    match array.data_type() {
        DataType::Null => each(py, array, |_| Ok(py.None().into_bound(py))),
        DataType::Boolean => {
            let array = array.as_boolean();
            each(py, array, |row| array.value(row).into_bound_py_any(py))
        }
        DataType::Int8 => numbers::<Int8Type>(py, array),
        DataType::Int16 => numbers::<Int16Type>(py, array),
        DataType::Int32 => numbers::<Int32Type>(py, array),
        DataType::Int64 => numbers::<Int64Type>(py, array),
        DataType::UInt8 => numbers::<UInt8Type>(py, array),
        DataType::UInt16 => numbers::<UInt16Type>(py, array),
        DataType::UInt32 => numbers::<UInt32Type>(py, array),
        DataType::UInt64 => numbers::<UInt64Type>(py, array),
        DataType::Float16 => {
            let array = array.as_primitive::<Float16Type>();
            each(py, array, |row| array.value(row).to_f64().into_bound_py_any(py))
        }
        DataType::Float32 => numbers::<Float32Type>(py, array),
        DataType::Float64 => numbers::<Float64Type>(py, array),
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            each(py, array, |row| Ok(PyString::new(py, array.value(row)).into_any()))
        }
        DataType::LargeUtf8 | DataType::Utf8View => {
            let array = to(&DataType::LargeUtf8)?;
            let array = array.as_string::<i64>();
            each(py, array, |row| Ok(PyString::new(py, array.value(row)).into_any()))
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            let array = to(&DataType::LargeBinary)?;
            let array = array.as_binary::<i64>();
            each(py, array, |row| Ok(PyBytes::new(py, array.value(row)).into_any()))
        }
        kind if kind.is_decimal() => {
            let class = decimal_class(py)?;
            let text = to(&DataType::Utf8)?;
            let text = text.as_string::<i32>();
            each(py, text, |row| class.call1((text.value(row),)))
        }
        DataType::Date32 => {
            let array = array.as_primitive::<Date32Type>();
            each(py, array, |row| date(py, i64::from(array.value(row))))
        }
        DataType::Date64 => {
            let array = array.as_primitive::<Date64Type>();
            each(py, array, |row| date(py, array.value(row).div_euclid(SECONDS_PER_DAY * 1000)))
        }
        DataType::Time32(_) | DataType::Time64(_) => {
            let array = micros(&to(&DataType::Time64(TimeUnit::Nanosecond))?, 1000)?;
            each(py, &array, |row| time(py, array.as_primitive::<Int64Type>().value(row)))
        }
        DataType::Timestamp(unit, zone) => {
            let array = in_micros(array, *unit)?;
            let zone = zone.as_deref().map(|zone| time_zone(py, zone)).transpose()?;
            each(py, &array, |row| timestamp(py, array.as_primitive::<Int64Type>().value(row), zone.as_ref()))
        }
        DataType::Duration(unit) => {
            let array = in_micros(array, *unit)?;
            each(py, &array, |row| length(py, array.as_primitive::<Int64Type>().value(row)))
        }
        DataType::Interval(_) => {
            let array = to(&DataType::Interval(IntervalUnit::MonthDayNano))?;
            let array = array.as_primitive::<IntervalMonthDayNanoType>();
            each(py, array, |row| {
                let value = array.value(row);
                let days = i64::from(value.months) * DAYS_PER_MONTH + i64::from(value.days);
                length(py, days * SECONDS_PER_DAY * MICROS_PER_SECOND + value.nanoseconds.div_euclid(1000))
            })
        }
        DataType::List(_) => {
            let array = array.as_list::<i32>();
            each(py, array, |row| Ok(PyList::new(py, values(py, &array.value(row))?)?.into_any()))
        }
        DataType::LargeList(_) | DataType::FixedSizeList(..) | DataType::ListView(_) | DataType::LargeListView(_) => {
            lists(py, array)
        }
        DataType::Struct(_) => structs(py, array),
        DataType::Map(..) => maps(py, array),
        DataType::Dictionary(_, values_type) => values(py, &to(values_type)?),
        DataType::RunEndEncoded(_, field) => values(py, &to(field.data_type())?),
        other => Err(invalid(format!("values of the type {other} are no values of Python; read them by arrow()"))),
    }
}

/// Calls `value` for each row that is not NULL; rows that are NULL become None.
fn each<'py>(
    py: Python<'py>,
    array: &dyn Array,
    value: impl Fn(usize) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Values<'py>> {
    let none = || py.None().into_bound(py);
    (0..array.len()).map(|row| if array.is_null(row) { Ok(none()) } else { value(row) }).collect()
}

fn numbers<'py, T>(py: Python<'py>, array: &ArrayRef) -> PyResult<Values<'py>>
where
    T: ArrowPrimitiveType,
    T::Native: IntoPyObject<'py>,
{
    let array = array.as_primitive::<T>();
    each(py, array, |row| array.value(row).into_bound_py_any(py))
}

fn lists<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Values<'py>> {
    let (DataType::LargeList(field)
    | DataType::FixedSizeList(field, _)
    | DataType::ListView(field)
    | DataType::LargeListView(field)) = array.data_type()
    else {
        return Err(invalid("this is no list"));
    };
    let array = cast(array, &DataType::LargeList(field.clone())).map_err(of_arrow)?;
    let array = array.as_list::<i64>();
    each(py, array, |row| Ok(PyList::new(py, values(py, &array.value(row))?)?.into_any()))
}

fn structs<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Values<'py>> {
    let array = array.as_struct();
    let columns = array.columns().iter().map(|column| values(py, column)).collect::<PyResult<Vec<_>>>()?;
    let names: Vec<Bound<'py, PyString>> = array.fields().iter().map(|field| PyString::new(py, field.name())).collect();
    each(py, array, |row| {
        let dict = PyDict::new(py);
        for (name, column) in names.iter().zip(&columns) {
            dict.set_item(name, column.get(row))?;
        }
        Ok(dict.into_any())
    })
}

fn maps<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Values<'py>> {
    let array = array.as_map();
    each(py, array, |row| {
        let entries = array.value(row);
        let (keys, items) = (values(py, entries.column(0))?, values(py, entries.column(1))?);
        let dict = PyDict::new(py);
        for (key, item) in keys.into_iter().zip(items) {
            dict.set_item(key, item)?;
        }
        Ok(dict.into_any())
    })
}

/// Converts times or durations to numbers of microseconds. Nanoseconds are cut off, as in
/// `datetime`.
fn in_micros(array: &ArrayRef, unit: TimeUnit) -> PyResult<ArrayRef> {
    match unit {
        TimeUnit::Second => scaled(array, |value| value.checked_mul(MICROS_PER_SECOND)),
        TimeUnit::Millisecond => scaled(array, |value| value.checked_mul(1000)),
        TimeUnit::Microsecond => scaled(array, Some),
        TimeUnit::Nanosecond => micros(array, 1000),
    }
}

fn micros(array: &ArrayRef, divisor: i64) -> PyResult<ArrayRef> {
    scaled(array, |value| Some(value.div_euclid(divisor)))
}

fn scaled(array: &ArrayRef, scale: impl Fn(i64) -> Option<i64>) -> PyResult<ArrayRef> {
    let array = cast(array, &DataType::Int64).map_err(of_arrow)?;
    let scale = |value| scale(value).ok_or_else(|| invalid("a time beyond those of Python; read it by arrow()"));
    let scaled = array.as_primitive::<Int64Type>().try_unary::<_, Int64Type, PyErr>(scale)?;
    Ok(std::sync::Arc::new(scaled))
}

fn beyond(what: &str) -> PyErr {
    invalid(format!("a {what} beyond the years 1 to 9999 of Python; read it by arrow()"))
}

fn date(py: Python<'_>, days: i64) -> PyResult<Bound<'_, PyAny>> {
    let day = TimeDelta::try_days(days).and_then(|days| NaiveDate::default().checked_add_signed(days));
    day.filter(|day| (1..=9999).contains(&day.year())).ok_or_else(|| beyond("date"))?.into_bound_py_any(py)
}

fn time(py: Python<'_>, micros: i64) -> PyResult<Bound<'_, PyAny>> {
    let (seconds, micros) = (micros.div_euclid(MICROS_PER_SECOND), micros.rem_euclid(MICROS_PER_SECOND));
    let (seconds, nanos) = (u32::try_from(seconds).ok(), u32::try_from(micros * 1000).ok());
    let time =
        seconds.zip(nanos).and_then(|(seconds, nanos)| NaiveTime::from_num_seconds_from_midnight_opt(seconds, nanos));
    time.ok_or_else(|| invalid("a time of day beyond 24 hours"))?.into_bound_py_any(py)
}

fn timestamp<'py>(py: Python<'py>, micros: i64, zone: Option<&Bound<'py, PyTzInfo>>) -> PyResult<Bound<'py, PyAny>> {
    let instant = DateTime::from_timestamp_micros(micros).filter(|time| (1..=9999).contains(&time.year()));
    let instant = instant.ok_or_else(|| beyond("timestamp"))?;
    match zone {
        None => instant.naive_utc().into_bound_py_any(py),
        Some(zone) => instant.into_bound_py_any(py)?.call_method1("astimezone", (zone,)),
    }
}

fn length(py: Python<'_>, micros: i64) -> PyResult<Bound<'_, PyAny>> {
    TimeDelta::microseconds(micros).into_bound_py_any(py)
}

/// The time zone with this name or offset, such as `+02:00`.
fn time_zone<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyTzInfo>> {
    if matches!(name, "UTC" | "Z" | "+00:00") {
        return Ok(PyTzInfo::utc(py)?.to_owned());
    }
    let offset = NaiveTime::parse_from_str(name.trim_start_matches(['+', '-']), "%H:%M");
    match (name.starts_with(['+', '-']), offset) {
        (true, Ok(offset)) => {
            let offset = offset.signed_duration_since(NaiveTime::MIN);
            PyTzInfo::fixed_offset(py, if name.starts_with('-') { -offset } else { offset })
        }
        _ => PyTzInfo::timezone(py, name),
    }
}

fn decimal_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "decimal", "Decimal")
}

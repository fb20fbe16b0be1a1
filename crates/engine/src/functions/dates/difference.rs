//! Differences of times: `date_diff` counts the boundaries of a unit between two times, `date_sub`
//! counts the whole units, and `age` gives months, days and a time.

use std::sync::Arc;

use chrono::{Datelike, NaiveDate, NaiveDateTime, Timelike};
use datafusion::arrow::array::{ArrayRef, AsArray, Int64Builder, IntervalMonthDayNanoBuilder};
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNanoType, IntervalUnit, TimestampMicrosecondType};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::ScalarUDF;
use pushdowndb_contract::Error;

use super::super::simple::Simple;
use super::times::{local, time};
use crate::error::to_datafusion;

/// Returns the functions of this module.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let takes = |types: &[DataType]| match types {
        [part, from, to] if part.is_string() || part.is_null() => Ok(vec![DataType::Utf8, time(from)?, time(to)?]),
        _ => plan_err!("date_diff and date_sub take a unit such as 'day' and two times"),
    };
    let returns = |_: &[DataType]| Ok(DataType::Int64);
    let diff =
        Simple { name: "date_diff", takes, returns, compute: |args, _| counted(args, boundaries), simplify: None };
    let sub = Simple { name: "date_sub", takes, returns, compute: |args, _| counted(args, lengths), simplify: None };
    let age = Simple {
        name: "age",
        takes: |types| match types {
            [to, from] => Ok(vec![time(to)?, time(from)?]),
            _ => plan_err!("age takes one or two times"),
        },
        returns: |_| Ok(DataType::Interval(IntervalUnit::MonthDayNano)),
        compute: ages,
        simplify: None,
    };
    vec![diff.function(), sub.function(), age.function()]
}

const DAY: i64 = 24 * 60 * 60 * 1_000_000;

/// A unit of time.
#[derive(Clone, Copy)]
enum Unit {
    /// A unit of this many microseconds.
    Micros(i64),
    Week,
    /// A unit of this many months.
    Months(i64),
}

impl Unit {
    fn parse(name: &str) -> Result<Self> {
        let lower = name.to_lowercase();
        Ok(match lower.strip_suffix('s').filter(|one| !one.is_empty() && *one != "m").unwrap_or(&lower) {
            "microsecond" | "u" | "us" => Self::Micros(1),
            "millisecond" | "m" => Self::Micros(1_000),
            _ if lower == "ms" => Self::Micros(1_000),
            _ if lower == "s" => Self::Micros(1_000_000),
            "second" | "sec" => Self::Micros(1_000_000),
            "minute" | "min" => Self::Micros(60_000_000),
            "hour" | "hr" | "h" => Self::Micros(3_600_000_000),
            "day" | "d" | "dayofmonth" => Self::Micros(DAY),
            "week" | "w" => Self::Week,
            "month" | "mon" => Self::Months(1),
            "quarter" => Self::Months(3),
            "year" | "yr" | "y" => Self::Months(12),
            "decade" => Self::Months(120),
            "century" | "centurie" => Self::Months(1_200),
            "millennium" | "millennia" => Self::Months(12_000),
            _ => {
                let known =
                    "microsecond, millisecond, second, minute, hour, day, week, month, quarter, year, decade, century";
                return Err(to_datafusion(Error::invalid(format!(
                    "there is no unit of time '{name}'; known are {known}"
                ))));
            }
        })
    }
}

fn counted(args: &[ArrayRef], count: fn(Unit, i64, i64) -> Result<i64>) -> Result<ArrayRef> {
    let [units, from, to] = args else { return plan_err!("three arguments are expected") };
    let units = units.as_string::<i32>();
    let (from, to) = (from.as_primitive::<TimestampMicrosecondType>(), to.as_primitive::<TimestampMicrosecondType>());
    let mut counts = Int64Builder::with_capacity(from.len());
    let mut last: Option<(&str, Unit)> = None;
    for (unit, (from, to)) in units.iter().zip(from.iter().zip(to.iter())) {
        let (Some(name), Some(from), Some(to)) = (unit, from, to) else {
            counts.append_null();
            continue;
        };
        let unit = match last {
            Some((known, unit)) if known == name => unit,
            _ => Unit::parse(name)?,
        };
        last = Some((name, unit));
        counts.append_value(count(unit, from, to)?);
    }
    Ok(Arc::new(counts.finish()))
}

/// Counts the boundaries of the unit between the times.
fn boundaries(unit: Unit, from: i64, to: i64) -> Result<i64> {
    Ok(match unit {
        Unit::Micros(length) => to.div_euclid(length) - from.div_euclid(length),
        // As in DuckDB, every seven days are a boundary, whatever the weekday.
        Unit::Week => (to.div_euclid(DAY) - from.div_euclid(DAY)) / 7,
        Unit::Months(length) => {
            let month = |time: i64| local(time).map(|time| months(time).div_euclid(length));
            month(to)? - month(from)?
        }
    })
}

/// Counts the whole units between the times.
fn lengths(unit: Unit, from: i64, to: i64) -> Result<i64> {
    Ok(match unit {
        Unit::Micros(length) => to.saturating_sub(from) / length,
        Unit::Week => to.saturating_sub(from) / (7 * DAY),
        Unit::Months(_) if to < from => -lengths(unit, to, from)?,
        Unit::Months(length) => {
            let (from, to) = (local(from)?, local(to)?);
            // On the last day of a month, a month that began on a later day of the month is
            // complete.
            let is_last = to.date().succ_opt().is_none_or(|next| next.month() != to.month());
            let day = if is_last { from.day().min(to.day()) } else { from.day() };
            let begun = (to.day(), to.time()) < (day, from.time());
            (months(to) - months(from) - i64::from(begun)) / length
        }
    })
}

/// The months since the year 0.
fn months(time: NaiveDateTime) -> i64 {
    i64::from(time.year()) * 12 + i64::from(time.month0())
}

fn ages(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let [to, from] = args else { return plan_err!("age takes two times") };
    let (to, from) = (to.as_primitive::<TimestampMicrosecondType>(), from.as_primitive::<TimestampMicrosecondType>());
    let mut ages = IntervalMonthDayNanoBuilder::with_capacity(rows);
    for (to, from) in to.iter().zip(from.iter()) {
        match (to, from) {
            (Some(to), Some(from)) if to < from => {
                let (months, days, nanos) = age(local(from)?, local(to)?);
                ages.append_value(IntervalMonthDayNanoType::make_value(-months, -days, -nanos));
            }
            (Some(to), Some(from)) => {
                let (months, days, nanos) = age(local(to)?, local(from)?);
                ages.append_value(IntervalMonthDayNanoType::make_value(months, days, nanos));
            }
            _ => ages.append_null(),
        }
    }
    Ok(Arc::new(ages.finish()))
}

/// Returns the months, days and nanoseconds from `from` to the later time `to`, counted like
/// PostgreSQL: days are borrowed from the month of `from`.
fn age(to: NaiveDateTime, from: NaiveDateTime) -> (i32, i32, i64) {
    let nanos_of = |time: NaiveDateTime| {
        i64::from(time.num_seconds_from_midnight()) * 1_000_000_000 + i64::from(time.nanosecond())
    };
    let mut months = i32::try_from(months(to) - months(from)).unwrap_or(i32::MAX);
    let mut days = to.day().cast_signed() - from.day().cast_signed();
    let mut nanos = nanos_of(to) - nanos_of(from);
    if nanos < 0 {
        nanos += DAY * 1_000;
        days -= 1;
    }
    while days < 0 {
        days += days_of_month(from);
        months -= 1;
    }
    (months, days, nanos)
}

fn days_of_month(time: NaiveDateTime) -> i32 {
    let (year, month) = if time.month() == 12 { (time.year() + 1, 1) } else { (time.year(), time.month() + 1) };
    let last = NaiveDate::from_ymd_opt(year, month, 1).and_then(|first| first.pred_opt());
    last.map_or(31, |last| last.day().cast_signed())
}

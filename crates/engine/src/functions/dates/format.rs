//! Times as text and back, by formats of `%` and a letter: `strftime`, `strptime`, `try_strptime`.
//!
//! The letters are those of chrono, except that `%f`, `%g` and `%n` are micro-, milli- and
//! nanoseconds, and that a time has no zone, as in DuckDB.

use std::fmt::Write;
use std::sync::Arc;

use chrono::format::{Item, Parsed, StrftimeItems, parse};
use chrono::{NaiveDateTime, NaiveTime, TimeDelta};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringBuilder, TimestampMicrosecondBuilder};
use datafusion::arrow::datatypes::{DataType, TimestampMicrosecondType};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::ScalarUDF;
use pushdowndb_contract::Error;

use super::super::simple::Simple;
use super::times::{MICROSECONDS, local, time};
use crate::error::to_datafusion;

/// Returns the functions of this module.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let texts = |types: &[DataType]| match types {
        [_, _] if types.iter().all(|own| own.is_string() || own.is_null()) => Ok(vec![DataType::Utf8; 2]),
        _ => plan_err!("strptime takes a text and a format"),
    };
    let strftime = Simple {
        name: "strftime",
        takes: |types| match types {
            [format, of] if format.is_string() && !of.is_string() => Ok(vec![DataType::Utf8, time(of)?]),
            [of, format] if format.is_string() || format.is_null() => Ok(vec![time(of)?, DataType::Utf8]),
            _ => plan_err!("strftime takes a time and a format, such as '%Y-%m-%d'"),
        },
        returns: |_| Ok(DataType::Utf8),
        compute: written,
        simplify: None,
    };
    let returns = |_: &[DataType]| Ok(MICROSECONDS);
    let strptime =
        Simple { name: "strptime", takes: texts, returns, compute: |args, _| read(args, false), simplify: None };
    let lenient =
        Simple { name: "try_strptime", takes: texts, returns, compute: |args, _| read(args, true), simplify: None };
    vec![strftime.function(), strptime.function(), lenient.function()]
}

/// Translates a format to chrono's letters, for reading if `reads`, else for writing.
fn translated(format: &str, reads: bool) -> String {
    let mut text = String::with_capacity(format.len());
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '.' && reads && chars.peek() == Some(&'%') {
            // A point before the letter reads a fraction of any number of digits.
            let mut ahead = chars.clone();
            ahead.next();
            if let Some('f' | 'g' | 'n') = ahead.next() {
                chars = ahead;
                text.push_str("%.f");
                continue;
            }
        }
        if c != '%' {
            text.push(c);
            continue;
        }
        match (chars.next(), reads) {
            (Some('f'), _) => text.push_str("%6f"),
            (Some('g'), _) => text.push_str("%3f"),
            (Some('n'), _) => text.push_str("%9f"),
            (Some('c'), _) => text.push_str("%Y-%m-%d %H:%M:%S"),
            (Some('x'), _) => text.push_str("%Y-%m-%d"),
            (Some('X'), _) => text.push_str("%H:%M:%S"),
            (Some('z'), false) => text.push_str("+00"),
            (Some('Z'), false) => {}
            (Some(letter), _) => text.extend(['%', letter]),
            (None, _) => text.push('%'),
        }
    }
    text
}

/// Parses a `translated` format. `format` is for errors.
fn items<'a>(format: &str, translated: &'a str) -> Result<Vec<Item<'a>>> {
    let items: Vec<_> = StrftimeItems::new(translated).collect();
    if items.contains(&Item::Error) {
        return Err(to_datafusion(Error::invalid(format!(
            "'{format}' is no format of a time: a % takes a letter, as in '%Y-%m-%d %H:%M:%S'"
        ))));
    }
    Ok(items)
}

/// Calls `row` with each format, its parsed items and its value, or with `None` if one of them is
/// NULL. A format is parsed again only if it differs from the one before.
fn each<'a, T>(
    formats: impl Iterator<Item = Option<&'a str>>,
    values: impl Iterator<Item = Option<T>>,
    reads: bool,
    mut row: impl FnMut(Option<(&str, &[Item<'_>], T)>) -> Result<()>,
) -> Result<()> {
    let mut known: Option<(&str, Vec<Item<'static>>)> = None;
    for (format, value) in formats.zip(values) {
        let (Some(format), Some(value)) = (format, value) else {
            row(None)?;
            continue;
        };
        if known.as_ref().is_none_or(|(known, _)| *known != format) {
            let own = items(format, &translated(format, reads))?.into_iter().map(Item::to_owned).collect();
            known = Some((format, own));
        }
        if let Some((format, items)) = &known {
            row(Some((format, items, value)))?;
        }
    }
    Ok(())
}

fn written(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let (times, formats) = match args {
        [formats, times] if formats.data_type().is_string() => (times, formats),
        [times, formats] => (times, formats),
        _ => return plan_err!("strftime takes a time and a format"),
    };
    let mut texts = StringBuilder::new();
    let mut text = String::new();
    let times = times.as_primitive::<TimestampMicrosecondType>();
    each(formats.as_string::<i32>().iter(), times.iter(), false, |row| {
        match row {
            None => texts.append_null(),
            Some((format, items, time)) => {
                text.clear();
                write!(text, "{}", local(time)?.format_with_items(items.iter())).map_err(|_| {
                    to_datafusion(Error::invalid(format!("'{format}' is no format of a time without a zone")))
                })?;
                texts.append_value(&text);
            }
        }
        Ok(())
    })?;
    Ok(Arc::new(texts.finish()))
}

fn read(args: &[ArrayRef], lenient: bool) -> Result<ArrayRef> {
    let [texts, formats] = args else { return plan_err!("strptime takes a text and a format") };
    let (texts, formats) = (texts.as_string::<i32>(), formats.as_string::<i32>());
    let mut times = TimestampMicrosecondBuilder::with_capacity(texts.len());
    each(formats.iter(), texts.iter(), true, |row| {
        let Some((format, items, text)) = row else {
            times.append_null();
            return Ok(());
        };
        match time_of(text, items) {
            Some(time) => times.append_value(time.and_utc().timestamp_micros()),
            None if lenient => times.append_null(),
            None => {
                let message = format!("'{text}' is no time of the format '{format}'; try_strptime gives NULL");
                return Err(to_datafusion(Error::invalid(message)));
            }
        }
        Ok(())
    })?;
    Ok(Arc::new(times.finish()))
}

/// Parses the time in `text`, in UTC if it has a zone. Missing parts are the first ones: the first
/// day of the month, January, midnight.
fn time_of(text: &str, items: &[Item<'_>]) -> Option<NaiveDateTime> {
    let mut parsed = Parsed::new();
    parse(&mut parsed, text, items.iter()).ok()?;
    let date = parsed.to_naive_date().ok().or_else(|| {
        if parsed.year().is_none() && parsed.year_mod_100().is_none() {
            parsed.set_year(1900).ok()?;
        }
        if parsed.ordinal().is_none() && parsed.week_from_mon().is_none() && parsed.isoweek().is_none() {
            if parsed.month().is_none() {
                parsed.set_month(1).ok()?;
            }
            if parsed.day().is_none() {
                parsed.set_day(1).ok()?;
            }
        }
        parsed.to_naive_date().ok()
    });
    if let Some(seconds) = parsed.timestamp() {
        return chrono::DateTime::from_timestamp(seconds, parsed.nanosecond().unwrap_or(0))
            .map(|time| time.naive_utc());
    }
    if parsed.hour_div_12().is_some() || parsed.hour_mod_12().is_some() {
        if parsed.hour_div_12().is_none() {
            parsed.set_ampm(false).ok()?;
        }
        if parsed.minute().is_none() {
            parsed.set_minute(0).ok()?;
        }
    }
    let time = match parsed.to_naive_time() {
        Ok(time) => time,
        Err(_) if parsed.hour_mod_12().is_none() => NaiveTime::MIN,
        Err(_) => return None,
    };
    let zone = TimeDelta::seconds(parsed.offset().unwrap_or(0).into());
    date?.and_time(time).checked_sub_signed(zone)
}

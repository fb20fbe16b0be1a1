//! Constants: numbers as they are written, timestamps in text, and casts of both.

use pushdown::{Expr, Literal};

use super::kind::{Kind, Typed};
use crate::SelectError;
use crate::ast::TypeName;

/// A number as it is written: an integer, else a decimal of up to 38 digits, else a float.
pub(super) fn number(written: &str) -> Result<Typed, SelectError> {
    let (literal, kind) = if let Ok(value) = written.parse() {
        (Literal::Int64(value), Kind::Int)
    } else if let Some((value, precision, scale)) = decimal(written) {
        (Literal::Decimal(value, precision, scale), Kind::Decimal(Some((precision, scale))))
    } else {
        match written.parse::<f64>() {
            Ok(value) if value.is_finite() => (Literal::Float64(value), Kind::Float),
            _ => return Err(SelectError::new("NumberFormatError", format!("{written} is out of range"))),
        }
    };
    Ok(Typed { expr: Expr::Literal(literal), kind, written: Some(written.to_owned()) })
}

/// `-12.50` as (-1250, 4, 2); `None` with an exponent or more than 38 digits.
fn decimal(written: &str) -> Option<(i128, u8, i8)> {
    let (sign, digits) = match written.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, written.strip_prefix('+').unwrap_or(written)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    if all.is_empty() || !all.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let significant = all.trim_start_matches('0').len().max(fraction.len()).max(1);
    if significant > 38 {
        return None;
    }
    let value: i128 = all.parse().ok()?;
    Some((sign * value, u8::try_from(significant).ok()?, i8::try_from(fraction.len()).ok()?))
}

/// A decimal at another scale, if it is the same value there and fits the precision.
pub(super) fn rescale(value: i128, from: i8, precision: u8, to: i8) -> Option<i128> {
    let shift = i32::from(to) - i32::from(from);
    let power = 10_i128.checked_pow(shift.unsigned_abs())?;
    let value = if shift >= 0 {
        value.checked_mul(power)?
    } else if value % power == 0 {
        value / power
    } else {
        return None;
    };
    (value.unsigned_abs() < 10_u128.checked_pow(precision.into())?).then_some(value)
}

/// CAST of a constant text or number, done once instead of for every row.
pub(super) fn cast(text: &str, to: TypeName) -> Result<Typed, SelectError> {
    let failed = || SelectError::new("CastFailed", format!("'{text}' is no {}", type_text(to)));
    let trimmed = text.trim();
    let (literal, kind) = match to {
        TypeName::Text => (Literal::Utf8(text.to_owned()), Kind::Text),
        TypeName::Bool => match trimmed.to_ascii_lowercase().as_str() {
            "true" => (Literal::Boolean(true), Kind::Bool),
            "false" => (Literal::Boolean(false), Kind::Bool),
            _ => return Err(failed()),
        },
        TypeName::Int => (Literal::Int64(trimmed.parse().map_err(|_| failed())?), Kind::Int),
        TypeName::Float => (Literal::Float64(trimmed.parse().map_err(|_| failed())?), Kind::Float),
        TypeName::Decimal(precision, scale) => {
            let (value, _, from) = decimal(trimmed).ok_or_else(failed)?;
            let value = rescale(value, from, precision, scale).ok_or_else(failed)?;
            (Literal::Decimal(value, precision, scale), Kind::Decimal(Some((precision, scale))))
        }
        TypeName::Timestamp => (Literal::Timestamp(timestamp(trimmed)?, true), Kind::Timestamp { utc: true }),
    };
    Ok(Typed::new(Expr::Literal(literal), kind))
}

fn type_text(to: TypeName) -> String {
    match to {
        TypeName::Bool => "BOOL".to_owned(),
        TypeName::Int => "INT".to_owned(),
        TypeName::Float => "FLOAT".to_owned(),
        TypeName::Decimal(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        TypeName::Text => "STRING".to_owned(),
        TypeName::Timestamp => "TIMESTAMP".to_owned(),
    }
}

/// Microseconds of a timestamp: `1994T`, `1994-01T`, `1994-01-01` with or without `T`, and
/// `1994-01-01T08:30[:15[.25]]` with `Z` or an offset.
pub(super) fn timestamp(text: &str) -> Result<i64, SelectError> {
    read_timestamp(text).ok_or_else(|| {
        let message = format!("'{text}' is no timestamp; one looks like 2007-04-05T or 2007-04-05T14:30:00Z");
        SelectError::new("ValueParseFailure", message)
    })
}

fn read_timestamp(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', 't']).unwrap_or((text, ""));
    let mut parts = date.split('-');
    let year: i64 = field(parts.next()?, 4)?;
    let (month, day) = (parts.next(), parts.next());
    if parts.next().is_some() || (day.is_none() && !text.contains(['T', 't'])) {
        return None;
    }
    let month = month.map_or(Some(1), |month| field(month, 2))?;
    let day = day.map_or(Some(1), |day| field(day, 2))?;
    let days = days_from_civil(year, month, day)?;
    let micros = if time.is_empty() { 0 } else { read_time(time)? };
    days.checked_mul(86_400_000_000)?.checked_add(micros)
}

/// A time of day with its offset from UTC taken off, in microseconds.
fn read_time(text: &str) -> Option<i64> {
    let (clock, offset) = if let Some(clock) = text.strip_suffix(['Z', 'z']) {
        (clock, 0)
    } else {
        let at = text.rfind(['+', '-'])?;
        let (hours, minutes) = text.get(at + 1..)?.split_once(':')?;
        let minutes = field(hours, 2)? * 60 + field(minutes, 2)?;
        (text.get(..at)?, if text.get(at..)?.starts_with('-') { -minutes } else { minutes })
    };
    let mut parts = clock.split(':');
    let (hour, minute) = (field(parts.next()?, 2)?, field(parts.next()?, 2)?);
    let (second, fraction) = match parts.next() {
        None => (0, 0),
        Some(seconds) => {
            let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
            if fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            let micros: String = fraction.chars().chain("000000".chars()).take(6).collect();
            (field(whole, 2)?, micros.parse().ok()?)
        }
    };
    let valid = parts.next().is_none() && hour < 24 && minute < 60 && second < 60;
    valid.then(|| ((hour * 60 + minute - offset) * 60 + second) * 1_000_000 + fraction)
}

/// A number of exactly so many digits.
fn field(text: &str, digits: usize) -> Option<i64> {
    if text.len() == digits && text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Days since 1970-01-01 of a day of the proleptic Gregorian calendar, by Howard Hinnant's algorithm.
fn days_from_civil(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return None,
    };
    if !(1..=last).contains(&day) {
        return None;
    }
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_every_digit() {
        let literal = |text| number(text).unwrap().expr;
        assert_eq!(literal("24"), Expr::int(24));
        assert_eq!(literal("0.05"), Expr::Literal(Literal::Decimal(5, 2, 2)));
        assert_eq!(literal("-12.50"), Expr::Literal(Literal::Decimal(-1250, 4, 2)));
        assert_eq!(literal("9223372036854775808"), Expr::Literal(Literal::Decimal(9_223_372_036_854_775_808, 19, 0)));
        assert_eq!(literal("1e3"), Expr::Literal(Literal::Float64(1000.0)));
        assert_eq!(number("1e999").unwrap_err().code, "NumberFormatError");
    }

    #[test]
    fn timestamps_of_every_length() {
        let day = 86_400_000_000;
        assert_eq!(read_timestamp("1970T"), Some(0));
        assert_eq!(read_timestamp("1970-02T"), Some(31 * day));
        assert_eq!(read_timestamp("2000-02-29"), Some(11_016 * day));
        assert_eq!(read_timestamp("1970-01-02T01:30+01:30"), Some(day));
        assert_eq!(read_timestamp("1970-01-01T00:00:01.5Z"), Some(1_500_000));
        for wrong in ["1970", "1970-13-01", "1971-02-29", "1970-01-01T25:00Z", "1970-01-01T00:00", "x", "1970-1-1"] {
            assert_eq!(read_timestamp(wrong), None, "{wrong}");
        }
    }
}

//! The type that a column of text values has.
//!
//! DataFusion's own rules: BOOLEAN, BIGINT, DOUBLE, DATE (exactly `YYYY-MM-DD`), TIMESTAMP, else text. Here a
//! date must also exist, because a value that the scan could not read must not make the column's type.

use arrow::datatypes::{DataType, TimeUnit};
use chrono::{NaiveDate, NaiveTime};

/// Which types the values seen so far have.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Seen(u8);

/// What one value looks like.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(super) enum Look {
    Boolean = 1,
    Integer = 1 << 1,
    Float = 1 << 2,
    Date = 1 << 3,
    /// Local time, to the microsecond.
    Micros = 1 << 4,
    /// Local time, finer than that.
    Nanos = 1 << 5,
    /// An instant with its zone.
    Instant = 1 << 6,
    Text = 1 << 7,
}

impl Seen {
    /// One more value that is not NULL.
    pub(super) fn add(&mut self, value: &str) {
        self.0 |= Look::of(value) as u8;
    }

    /// The narrowest type for all of them; `None` if there were none.
    pub(super) fn data_type(self) -> Option<DataType> {
        const BOOLEAN: u8 = Look::Boolean as u8;
        const INTEGER: u8 = Look::Integer as u8;
        const FLOAT: u8 = Look::Float as u8;
        const DATE: u8 = Look::Date as u8;
        const MICROS: u8 = Look::Micros as u8;
        const NANOS: u8 = Look::Nanos as u8;
        const INSTANT: u8 = Look::Instant as u8;
        let within = |allowed: u8| self.0 & !allowed == 0;
        Some(match self.0 {
            0 => return None,
            BOOLEAN => DataType::Boolean,
            INTEGER => DataType::Int64,
            _ if within(INTEGER | FLOAT) => DataType::Float64,
            DATE => DataType::Date32,
            _ if within(DATE | MICROS) => DataType::Timestamp(TimeUnit::Microsecond, None),
            _ if within(DATE | MICROS | NANOS) => DataType::Timestamp(TimeUnit::Nanosecond, None),
            INSTANT => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            _ => DataType::Utf8,
        })
    }
}

impl Look {
    pub(super) fn of(value: &str) -> Self {
        if value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false") {
            return Self::Boolean;
        }
        let unsigned = value.strip_prefix('-').unwrap_or(value);
        if !unsigned.is_empty() && unsigned.bytes().all(|b| b.is_ascii_digit()) {
            // A number too large for BIGINT keeps its digits as text.
            return if value.parse::<i64>().is_ok() { Self::Integer } else { Self::Text };
        }
        if is_float(unsigned) || matches!(value, "NaN" | "nan" | "inf" | "-inf") {
            return Self::Float;
        }
        date_or_time(value).unwrap_or(Self::Text)
    }
}

/// Digits with a point or an exponent.
fn is_float(unsigned: &str) -> bool {
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => unsigned.split_at(at),
        None => (unsigned, ""),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent = exponent.get(1..).map(|e| e.strip_prefix(['+', '-']).unwrap_or(e));
    digits(whole)
        && digits(fraction)
        && whole.len() + fraction.len() > 0
        && exponent.is_none_or(|e| !e.is_empty() && digits(e))
}

/// `YYYY-MM-DD`, then perhaps `T` or a space, `HH:MM:SS[.fraction]` and a zone.
fn date_or_time(value: &str) -> Option<Look> {
    let date = value.get(..10)?;
    let shape =
        date.bytes().enumerate().all(|(at, b)| if matches!(at, 4 | 7) { b == b'-' } else { b.is_ascii_digit() });
    if !shape || date.parse::<NaiveDate>().is_err() {
        return None;
    }
    let rest = value.get(10..)?;
    if rest.is_empty() {
        return Some(Look::Date);
    }
    let time = rest.strip_prefix(['T', ' '])?;
    let clock = time.get(..8)?;
    if clock.bytes().any(|b| !b.is_ascii_digit() && b != b':') || NaiveTime::parse_from_str(clock, "%H:%M:%S").is_err()
    {
        return None;
    }
    let rest = time.get(8..)?;
    let (digits, zone) = match rest.strip_prefix('.') {
        Some(fraction) => {
            let end = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
            if !(1..=9).contains(&end) {
                return None;
            }
            (end, fraction.get(end..)?)
        }
        None => (0, rest),
    };
    match zone {
        "" if digits > 6 => Some(Look::Nanos),
        "" => Some(Look::Micros),
        zone if digits <= 6 && is_zone(zone) => Some(Look::Instant),
        _ => None,
    }
}

/// `Z`, `+01`, `-0530` or `+05:30`.
fn is_zone(zone: &str) -> bool {
    let Some(offset) = zone.strip_prefix(['+', '-']) else { return zone == "Z" };
    let digits: String = offset.chars().filter(|&c| c != ':').collect();
    let colon = offset.find(':').is_none_or(|at| at == 2 && offset.len() == 5);
    colon && matches!(digits.len(), 2 | 4) && digits.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_look_like_their_type() {
        use Look::*;
        for (value, look) in [
            ("TRUE", Boolean),
            ("-12", Integer),
            ("007", Integer),
            ("9223372036854775808", Text),
            ("+1", Text),
            ("1.", Float),
            (".5", Float),
            ("-1e9", Float),
            ("1.5E-3", Float),
            ("1e", Text),
            (".", Text),
            ("-", Text),
            ("NaN", Float),
            ("2024-02-29", Date),
            ("2023-02-29", Text),
            ("2024-2-9", Text),
            ("2024-02-29 12:00:00", Micros),
            ("2024-02-29T12:00:00.123456", Micros),
            ("2024-02-29T12:00:00.123456789", Nanos),
            ("2024-02-29T12:00:00Z", Instant),
            ("2024-02-29T12:00:00.5+05:30", Instant),
            ("2024-02-29T25:00:00", Text),
            ("2024-02-29 noon", Text),
            ("a", Text),
            ("2024-02-2ä", Text),
        ] {
            assert_eq!(Look::of(value), look, "{value}");
        }
    }

    #[test]
    fn columns_widen() {
        let of = |values: &[&str]| {
            let mut seen = Seen::default();
            values.iter().for_each(|value| seen.add(value));
            seen.data_type()
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["1", "2.5"]), Some(DataType::Float64));
        assert_eq!(of(&["1", "true"]), Some(DataType::Utf8));
        assert_eq!(of(&["2024-01-01", "2024-01-01 00:00:00"]), Some(DataType::Timestamp(TimeUnit::Microsecond, None)));
        assert_eq!(of(&["2024-01-01 00:00:00Z", "2024-01-01 00:00:00"]), Some(DataType::Utf8));
        assert_eq!(of(&["1", "2024-01-01"]), Some(DataType::Utf8));
    }
}

//! The type of a column of text values.
//!
//! DataFusion's own rules: BOOLEAN, BIGINT, DOUBLE, DATE (exactly `YYYY-MM-DD`), TIMESTAMP, else
//! text. Here a date must also exist, because the scan could not read another.
//!
//! No type may lose digits: `007` and `01.10` are text, since they are names, and so are integers
//! beyond BIGINT; `+5` is text, `-0` an integer, `1e5` a number with an exponent. A column of
//! integers and fractions is DOUBLE only if a DOUBLE holds each of the integers, else text.

use arrow::datatypes::{DataType, TimeUnit};
use chrono::{NaiveDate, NaiveTime};
use pushdowndb_scan::is_exact_as_double;

/// The looks of all values of a column, as a set of bits.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Looks(u16);

/// What one text value looks like.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u16)]
pub(crate) enum Look {
    Boolean = 1,
    Integer = 1 << 1,
    Float = 1 << 2,
    Date = 1 << 3,
    /// Local time, to the microsecond.
    Micros = 1 << 4,
    /// Local time, finer than a microsecond.
    Nanos = 1 << 5,
    /// A timestamp with a time zone.
    Instant = 1 << 6,
    Text = 1 << 7,
    /// An integer that fits in a BIGINT, but that a DOUBLE cannot represent exactly.
    Long = 1 << 8,
    /// Digits that stay text: they have leading zeros or do not fit in a BIGINT.
    Digits = 1 << 9,
}

impl Looks {
    /// Adds a value that is not NULL.
    pub(crate) fn add(&mut self, value: &str) {
        self.0 |= Look::of(value) as u16;
    }

    /// Returns the union of two sets of looks.
    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether all values are written like numbers, although some may have to stay text.
    pub(crate) fn are_digits(self) -> bool {
        const ALL: u16 = Look::Integer as u16 | Look::Long as u16 | Look::Float as u16 | Look::Digits as u16;
        self.0 != 0 && self.0 & !ALL == 0
    }

    /// Returns the narrowest type that holds all values; `None` if there were none.
    pub(crate) fn data_type(self) -> Option<DataType> {
        const BOOLEAN: u16 = Look::Boolean as u16;
        const INTEGER: u16 = Look::Integer as u16;
        const FLOAT: u16 = Look::Float as u16;
        const DATE: u16 = Look::Date as u16;
        const MICROS: u16 = Look::Micros as u16;
        const NANOS: u16 = Look::Nanos as u16;
        const LONG: u16 = Look::Long as u16;
        const INSTANT: u16 = Look::Instant as u16;
        let within = |allowed: u16| self.0 & !allowed == 0;
        Some(match self.0 {
            0 => return None,
            BOOLEAN => DataType::Boolean,
            _ if within(INTEGER | LONG) => DataType::Int64,
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
    pub(crate) fn of(value: &str) -> Self {
        if value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false") {
            return Self::Boolean;
        }
        let unsigned = value.strip_prefix('-').unwrap_or(value);
        if !unsigned.is_empty() && unsigned.bytes().all(|b| b.is_ascii_digit()) {
            return match value.parse::<i64>() {
                _ if begins_with_zeros(unsigned) => Self::Digits,
                Ok(_) if is_exact_as_double(value) => Self::Integer,
                Ok(_) => Self::Long,
                Err(_) => Self::Digits,
            };
        }
        if is_float(unsigned) && begins_with_zeros(unsigned) {
            return Self::Digits;
        }
        if is_float(unsigned) || matches!(value, "NaN" | "nan" | "inf" | "-inf") {
            return Self::Float;
        }
        date_or_time(value).unwrap_or(Self::Text)
    }
}

/// Whether digits begin with a zero that a number would lose.
pub(crate) fn begins_with_zeros(unsigned: &str) -> bool {
    matches!(unsigned.as_bytes(), [b'0', b'0'..=b'9', ..])
}

/// Whether the text is digits with a point or an exponent.
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

/// Whether the text is a day as `31.12.2024` or `1.2.2024`.
pub(crate) fn is_dotted_date(value: &str) -> bool {
    let mut parts = value.split('.');
    let (Some(day), Some(month), Some(year), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    matches!((day.len(), month.len(), year.len()), (1..=2, 1..=2, 4))
        && digits(day)
        && digits(month)
        && digits(year)
        && NaiveDate::parse_from_str(value, "%d.%m.%Y").is_ok()
}

/// Whether the text is a day as `31.12.2024` with a time, `23:59:59`.
pub(crate) fn is_dotted_time(value: &str) -> bool {
    value.split_once(' ').is_some_and(|(day, time)| {
        is_dotted_date(day) && time.len() == 8 && NaiveTime::parse_from_str(time, "%H:%M:%S").is_ok()
    })
}

/// The look of `YYYY-MM-DD`, then perhaps `T` or a space, `HH:MM[:SS[.fraction]]` and a zone.
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
    if time.len() == 5 && NaiveTime::parse_from_str(time, "%H:%M").is_ok() {
        return Some(Look::Micros);
    }
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

/// Whether the text is `Z`, `+01`, `-0530` or `+05:30`.
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
            ("0", Integer),
            ("-0", Integer),
            ("0.5", Float),
            ("007", Digits),
            ("-01", Digits),
            ("00", Digits),
            ("01.10", Digits),
            ("9007199254740992", Integer),
            ("9007199254740993", Long),
            ("-9223372036854775807", Long),
            ("9223372036854775808", Digits),
            ("+1", Text),
            ("1e5", Float),
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
            ("2024-02-29 12:30", Micros),
            ("2024-02-29 24:30", Text),
            ("2024-02-29 1:30", Text),
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
            let mut seen = Looks::default();
            values.iter().for_each(|value| seen.add(value));
            seen.data_type()
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["1", "2.5"]), Some(DataType::Float64));
        assert_eq!(of(&["1", "9007199254740993"]), Some(DataType::Int64));
        assert_eq!(of(&["2.5", "100000000000000000"]), Some(DataType::Float64));
        assert_eq!(of(&["2.5", "9007199254740993"]), Some(DataType::Utf8));
        assert_eq!(of(&["1", "01247"]), Some(DataType::Utf8));
        assert_eq!(of(&["1", "true"]), Some(DataType::Utf8));
        assert_eq!(of(&["2024-01-01", "2024-01-01 00:00:00"]), Some(DataType::Timestamp(TimeUnit::Microsecond, None)));
        assert_eq!(of(&["2024-01-01 00:00:00Z", "2024-01-01 00:00:00"]), Some(DataType::Utf8));
        assert_eq!(of(&["1", "2024-01-01"]), Some(DataType::Utf8));
    }
}

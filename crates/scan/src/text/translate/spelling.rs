//! Numbers, dates and timestamps that are spelled differently than in SQL.

use arrow::datatypes::DataType;
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime};
use pushdowndb_contract::Translation;

/// The kind of translation for the fields of a column.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// Fields stay as they are.
    AsIs,
    /// White space around fields is removed.
    Trimmed,
    Number,
    Date,
    Timestamp,
}

impl Kind {
    /// Returns the kind for a column of this type.
    pub(crate) fn of(data_type: &DataType, translation: &Translation) -> Self {
        let numbers = translation.decimal.is_some() || translation.thousands.is_some();
        match data_type {
            data_type if data_type.is_numeric() && numbers => Self::Number,
            DataType::Date32 | DataType::Date64 if translation.date_format.is_some() => Self::Date,
            DataType::Timestamp(..) if translation.timestamp_format.is_some() => Self::Timestamp,
            data_type if translation.trims && !data_type.is_string() => Self::Trimmed,
            _ => Self::AsIs,
        }
    }

    /// Returns the field in SQL's spelling; `None` if it has not the spelling of the translation.
    pub(crate) fn translate(self, field: &[u8], translation: &Translation) -> Option<String> {
        let text = std::str::from_utf8(field).ok()?;
        let text = if translation.trims { text.trim_ascii() } else { text };
        match self {
            Self::AsIs => None,
            Self::Trimmed => (text.len() < field.len()).then(|| text.to_owned()),
            Self::Number => number(text, translation),
            Self::Date => date(text, translation.date_format.as_deref()?),
            Self::Timestamp => timestamp(text, translation.timestamp_format.as_deref()?),
        }
    }
}

/// Translates the field from any of the spellings, for inference.
pub(crate) fn guess(field: &str, translation: &Translation) -> Option<String> {
    let kinds = [Kind::Date, Kind::Timestamp, Kind::Number];
    let numbers = translation.decimal.is_some() || translation.thousands.is_some();
    let mut kinds = kinds.into_iter().filter(|kind| *kind != Kind::Number || numbers);
    kinds.find_map(|kind| kind.translate(field.as_bytes(), translation))
}

/// Translates a number with groups of three digits and its own decimal separator: `1.234,5` ->
/// `1234.5`.
fn number(text: &str, translation: &Translation) -> Option<String> {
    let decimal = translation.decimal.unwrap_or(b'.');
    let (sign, digits) = match text.as_bytes() {
        [sign @ (b'-' | b'+'), digits @ ..] => (*sign == b'-', digits),
        digits => (false, digits),
    };
    let (digits, exponent) = match digits.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => digits.split_at(at),
        None => (digits, b"".as_slice()),
    };
    let (whole, fraction) = match digits.iter().position(|byte| *byte == decimal) {
        Some(at) => (digits.get(..at)?, digits.get(at + 1..)),
        None => (digits, None),
    };
    let groups: Vec<&[u8]> = match translation.thousands {
        Some(mark) => whole.split(|byte| *byte == mark).collect(),
        None => vec![whole],
    };
    let is_grouped = groups.len() < 2
        || groups.first().is_some_and(|first| (1..=3).contains(&first.len()))
            && groups.iter().skip(1).all(|group| group.len() == 3);
    let all_digits = groups.iter().chain(&fraction).all(|part| part.iter().all(u8::is_ascii_digit));
    let some_digit = groups.iter().chain(&fraction).any(|part| !part.is_empty());
    let exponent = std::str::from_utf8(exponent).ok()?;
    let good_exponent = exponent.get(1..).is_none_or(|exponent| exponent.parse::<i32>().is_ok());
    if !(is_grouped && all_digits && some_digit && good_exponent) {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    if sign {
        out.push('-');
    }
    groups.iter().for_each(|group| out.push_str(std::str::from_utf8(group).unwrap_or_default()));
    if let Some(fraction) = fraction {
        if whole.is_empty() {
            out.push('0');
        }
        out.push('.');
        out.push_str(std::str::from_utf8(fraction).ok()?);
    }
    out.push_str(exponent);
    Some(out)
}

fn date(text: &str, format: &str) -> Option<String> {
    let date = NaiveDate::parse_from_str(text, format).ok()?;
    (0..=9999).contains(&date.year()).then(|| date.format("%Y-%m-%d").to_string())
}

fn timestamp(text: &str, format: &str) -> Option<String> {
    let zoned = || Some(DateTime::parse_from_str(text, format).ok()?.naive_utc()).map(|time| (time, "Z"));
    let local = || NaiveDateTime::parse_from_str(text, format).ok().map(|time| (time, ""));
    let midnight = || NaiveDate::parse_from_str(text, format).ok()?.and_hms_opt(0, 0, 0).map(|time| (time, ""));
    let (time, zone) = zoned().or_else(local).or_else(midnight)?;
    (0..=9999).contains(&time.year()).then(|| format!("{}{zone}", time.format("%Y-%m-%dT%H:%M:%S%.f")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lose_their_separators() {
        let german = Translation { decimal: Some(b','), thousands: Some(b'.'), ..Translation::default() };
        for (text, expected) in [
            ("1.234.567,89", Some("1234567.89")),
            ("-7,5", Some("-7.5")),
            ("+12", Some("12")),
            (",5", Some("0.5")),
            ("1,5e3", Some("1.5e3")),
            ("1.23", None),
            ("1.2345", None),
            ("12.34,5", None),
            ("1,2,3", None),
            ("", None),
            ("-", None),
            ("x", None),
        ] {
            assert_eq!(number(text, &german).as_deref(), expected, "{text}");
        }
        let comma = Translation { decimal: Some(b','), ..Translation::default() };
        assert_eq!(number("1.5", &comma), None);
        assert_eq!(number("1234,5", &comma).as_deref(), Some("1234.5"));
    }

    #[test]
    fn dates_and_times_become_iso() {
        assert_eq!(date("31.12.2024", "%d.%m.%Y").as_deref(), Some("2024-12-31"));
        assert_eq!(date("30.02.2024", "%d.%m.%Y"), None);
        let times = [
            ("01.02.2023 04:05:06", "%d.%m.%Y %H:%M:%S", "2023-02-01T04:05:06"),
            ("02/01/2023 4:05 PM", "%m/%d/%Y %I:%M %p", "2023-02-01T16:05:00"),
            ("01/Feb/2023:10:00:00 +0200", "%d/%b/%Y:%H:%M:%S %z", "2023-02-01T08:00:00Z"),
            ("20230201", "%Y%m%d", "2023-02-01T00:00:00"),
            ("2023-02-01 00:00:00.25", "%Y-%m-%d %H:%M:%S%.f", "2023-02-01T00:00:00.250"),
        ];
        for (text, format, expected) in times {
            assert_eq!(timestamp(text, format).as_deref(), Some(expected), "{text}");
        }
    }
}

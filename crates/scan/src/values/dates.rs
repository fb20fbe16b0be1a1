//! Parsing dates and timestamps.

use arrow::array::types::ArrowTimestampType;
use arrow::compute::kernels::cast_utils::string_to_datetime;
use chrono::{TimeZone, Utc};
use pushdowndb_contract::civil_from_days;

use crate::values::digits::digits;
use crate::values::parse::text;

/// Parses exactly `YYYY-MM-DD` as days since 1970-01-01. Returns `None` if it is not a valid day.
#[inline]
pub(crate) fn date32(bytes: &[u8]) -> Option<i32> {
    let (year_month, day): (&[u8; 8], &[u8]) = bytes.split_first_chunk()?;
    let day: &[u8; 2] = day.try_into().ok()?;
    // The XOR converts every digit character to its digit, and both dashes to 0. The addition sets
    // the high bit of each byte that is greater than 9.
    let year_month = u64::from_le_bytes(*year_month) ^ u64::from_le_bytes(*b"0000-00-");
    let day = u64::from(u16::from_le_bytes(*day) ^ u16::from_le_bytes(*b"00"));
    let over = (year_month.wrapping_add(0x7f76_767f_7676_7676) | year_month | day.wrapping_add(0x7676) | day)
        & 0x8080_8080_8080_8080;
    if over != 0 {
        return None;
    }
    let digit = |word: u64, at: u32| (word >> (at * 8)) as u32 & 0xf;
    let year =
        digit(year_month, 0) * 1000 + digit(year_month, 1) * 100 + digit(year_month, 2) * 10 + digit(year_month, 3);
    days(year, digit(year_month, 5) * 10 + digit(year_month, 6), digit(day, 0) * 10 + digit(day, 1))
}

/// Returns the [`date_key`] of a day. Days outside the years of those keys are mapped to numbers
/// below and above them, in order.
pub(crate) fn date_key_of(days: i32) -> i64 {
    let (year, month, day) = civil_from_days(days.into());
    if year < 0 {
        return i64::from(days) - (1 << 40);
    }
    if year > 9_999 {
        return i64::from(days) + (1 << 62);
    }
    let digits =
        [year / 1000, year / 100, year / 10, year, (month / 10).into(), month.into(), (day / 10).into(), day.into()];
    digits.into_iter().fold(0, |key, digit| (key << 8) | (digit % 10))
}

/// Returns the digits of a date that [`date32`] accepts, the first one in the highest byte. It is a
/// number that is ordered like the dates.
#[inline]
pub(crate) fn date_key(bytes: &[u8]) -> Option<i64> {
    let (year_month, day): (&[u8; 8], &[u8]) = bytes.split_first_chunk()?;
    let day: &[u8; 2] = day.try_into().ok()?;
    // As in `date32`, with the first byte in the highest position.
    let year_month = u64::from_be_bytes(*year_month) ^ u64::from_be_bytes(*b"0000-00-");
    let day = u64::from(u16::from_be_bytes(*day) ^ u16::from_be_bytes(*b"00"));
    let over = (year_month.wrapping_add(0x7676_7676_7f76_767f) | year_month | day.wrapping_add(0x7676) | day)
        & 0x8080_8080_8080_8080;
    if over != 0 {
        return None;
    }
    let month = year_month >> 8 & 0xffff;
    // Days 1 to 28 occur in every month, and days 29 and 30 in all months but February.
    let is_usual = (1..=0x0102).contains(&month)
        && ((1..=0x0208).contains(&day) || (month != 0x0002 && (1..=0x0300).contains(&day)));
    if !is_usual {
        date32(bytes)?;
    }
    Some((year_month & 0xffff_ffff_0000_0000 | month << 16 | day).cast_signed())
}

/// For each month, the number of days before it in a year that begins in March, whose last day is
/// the leap day.
const SINCE_MARCH: [u32; 13] = [0, 306, 337, 0, 31, 61, 92, 122, 153, 184, 214, 245, 275];

/// The number of days of each month, with February of a common year.
const LENGTHS: [u32; 13] = [0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// The number of days from March of the year -400, where the calendar repeats, to 1970-01-01.
const TO_EPOCH: i32 = 719_468 + 146_097;

/// Returns a day of the proleptic Gregorian calendar, of the years 0 to 9999, as days since
/// 1970-01-01.
#[inline]
fn days(year: u32, month: u32, day: u32) -> Option<i32> {
    let month_at = usize::try_from(month).ok().filter(|month| *month >= 1)?;
    let (before, length) = (*SINCE_MARCH.get(month_at)?, *LENGTHS.get(month_at)?);
    let is_leap = || (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    if day == 0 || (day > length && !(month == 2 && day == 29 && is_leap())) {
        return None;
    }
    let year = year + 400 - u32::from(month <= 2);
    let century = year / 100;
    let since = year * 365 + year / 4 - century + century / 4 + before + day - 1;
    i32::try_from(since).ok().map(|days| days - TO_EPOCH)
}

/// Parses an ISO timestamp in units of `T`. A date alone means midnight; a time zone is converted
/// to UTC.
#[inline]
pub(crate) fn timestamp<T: ArrowTimestampType>(bytes: &[u8], zone: &impl TimeZone) -> Option<i64> {
    let instant = string_to_datetime(zone, text(bytes)?).ok()?;
    T::from_naive_datetime(instant.naive_utc(), None)
}

/// Like [`timestamp`], for text in UTC, with a fast path for `YYYY-MM-DDTHH:MM:SS`. Seconds may be
/// omitted.
#[inline]
pub(crate) fn utc_timestamp<T: ArrowTimestampType>(bytes: &[u8]) -> Option<i64> {
    let pair = |a: &u8, b: &u8| digits(&[*a, *b]).and_then(|v| i64::try_from(v).ok());
    if let Some((date, [b'T' | b' ', h1, h2, b':', m1, m2])) = bytes.split_at_checked(10) {
        let (hours, minutes) = (pair(h1, h2)?, pair(m1, m2)?);
        let seconds = i64::from(date32(date)?) * 86_400 + hours * 3_600 + minutes * 60;
        return if hours < 24 && minutes < 60 { seconds.checked_mul(units_per_second::<T>()) } else { None };
    }
    if let Some((date, [b'T' | b' ', h1, h2, b':', m1, m2, b':', s1, s2])) = bytes.split_at_checked(10) {
        let (hours, minutes, seconds) = (pair(h1, h2)?, pair(m1, m2)?, pair(s1, s2)?);
        if hours < 24 && minutes < 60 && seconds < 60 {
            let seconds = i64::from(date32(date)?) * 86_400 + hours * 3_600 + minutes * 60 + seconds;
            return seconds.checked_mul(units_per_second::<T>());
        }
    }
    timestamp::<T>(bytes, &Utc)
}

fn units_per_second<T: ArrowTimestampType>() -> i64 {
    use arrow::datatypes::TimeUnit;
    match T::UNIT {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_days_of_the_calendar() {
        use chrono::{Datelike, NaiveDate};
        let mut day = NaiveDate::from_ymd_opt(0, 1, 1);
        while let Some(date) = day.filter(|d| d.year() < 10_000) {
            let expected = date.signed_duration_since(NaiveDate::default()).num_days();
            let text = format!("{:04}-{:02}-{:02}", date.year(), date.month(), date.day());
            assert_eq!(date32(text.as_bytes()).map(i64::from), Some(expected), "{date}");
            assert_eq!(date_key(text.as_bytes()), Some(date_key_of(expected as i32)), "{date}");
            day = date.succ_opt();
        }
        for bad in [
            "1999-02-29",
            "1900-02-29",
            "2000-13-01",
            "2000-00-10",
            "2000-1-1",
            "20000101",
            "2000-01-01 ",
            "2000/01/01",
            "2000-04-31",
            "2000-01-32",
            "2000-01-00",
            "2001-02-30",
            "200a-02-03",
        ] {
            assert_eq!(date32(bad.as_bytes()), None, "{bad}");
            assert_eq!(date_key(bad.as_bytes()), None, "{bad}");
        }
        assert!(date32(b"2000-02-29").is_some());
        let days = (-800_000..3_000_000).step_by(997).map(date_key_of).collect::<Vec<_>>();
        assert!(days.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn timestamps_take_both_paths_to_the_same_value() {
        use arrow::datatypes::TimestampMicrosecondType as Micros;
        let expected = Some(1_577_934_245_000_000);
        assert_eq!(utc_timestamp::<Micros>(b"2020-01-02T03:04:05"), expected);
        assert_eq!(utc_timestamp::<Micros>(b"2020-01-02 03:04:05"), expected);
        assert_eq!(utc_timestamp::<Micros>(b"2020-01-02T03:04:05.000"), expected);
        assert_eq!(utc_timestamp::<Micros>(b"2020-01-02T05:04:05+02:00"), expected);
        assert_eq!(utc_timestamp::<Micros>(b"2020-01-02"), Some(1_577_923_200_000_000));
        assert_eq!(utc_timestamp::<Micros>(b"2020-01-02 03:04"), Some(1_577_934_240_000_000));
        assert_eq!(utc_timestamp::<Micros>(b"2020-01-02 24:04"), None);
        assert_eq!(utc_timestamp::<Micros>(b"2020-02-30T00:00:00"), None);
    }
}

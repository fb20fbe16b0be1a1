//! Values from text, straight from bytes.
//!
//! One rule for a typed column of a text object and for `CAST(text AS type)`, so that storage and engine agree
//! wherever the cast happens. The common spelling of each type has a short path; anything else goes to the
//! general rule, and what that refuses is `None`.
//!
//! Blanks around numbers are ignored. Decimals are exact: an exponent is understood, digits beyond the scale are
//! rounded half away from zero, digits beyond the precision are refused. Dates are `YYYY-MM-DD` and nothing
//! else, so that the order of the text is the order of the dates.

use super::fields::FieldBytes;
use arrow::array::types::ArrowTimestampType;
use arrow::compute::kernels::cast_utils::{Parser, string_to_datetime};
use arrow::datatypes::{Float32Type, Float64Type, Int64Type, UInt64Type};
use chrono::{TimeZone, Utc};
use pushdown::civil_from_days;

/// Powers of ten that an unsigned 64-bit integer holds.
const POW10: [u64; 20] = {
    let mut table = [1u64; 20];
    let mut i = 1;
    while i < 20 {
        table[i] = table[i - 1] * 10;
        i += 1;
    }
    table
};

/// The longest run of digits that certainly fits into 64 bits.
const SAFE_DIGITS: usize = 18;

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Up to 8 bytes as one word, the last of them in the highest byte and zeros before the first.
#[inline]
fn word(bytes: &[u8]) -> u64 {
    // Two loads that may overlap, rather than a loop: what they share is the same in both.
    let word = match bytes.len() {
        0 => return 0,
        1 => u64::from(bytes[0]),
        2..4 => {
            let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) else { return 0 };
            u64::from(u16::from_le_bytes(*first)) | u64::from(u16::from_le_bytes(*last)) << (bytes.len() * 8 - 16)
        }
        4..8 => {
            let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) else { return 0 };
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << (bytes.len() * 8 - 32)
        }
        _ => return bytes.first_chunk().map_or(0, |all| u64::from_le_bytes(*all)),
    };
    word << (64 - bytes.len() * 8)
}

/// The number that `count` digits in the high bytes of a word spell, 8 at most; the other bytes are zero.
#[inline]
fn eight_digits(word: u64, count: usize) -> Option<u64> {
    const ZEROS: u64 = u64::from_le_bytes(*b"00000000");
    if count == 0 {
        return Some(0);
    }
    // Each byte becomes its digit; what is none is greater than 9 and taken to the high bit by the addition.
    let digits = word ^ (ZEROS << (64 - count.min(8) * 8));
    if (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    // Pairs of digits, then fours, then all eight.
    let pairs = (digits.wrapping_mul(10) + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some((fours.wrapping_mul(10_000) + (fours >> 32)) & 0xffff_ffff)
}

/// All of `bytes`, at most 18, as digits.
#[inline]
fn digits(bytes: &[u8]) -> Option<u64> {
    if bytes.len() <= 8 {
        return eight_digits(word(bytes), bytes.len());
    }
    let mut value = 0u64;
    for byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    Some(value)
}

/// `count` digits, 1 to 8 of them, that are the first of these 16 bytes.
#[inline]
fn digits_ahead(ahead: &[u8; 16], count: usize) -> Option<u64> {
    let (first, _) = ahead.split_first_chunk::<8>()?;
    eight_digits(u64::from_le_bytes(*first) << (64 - count * 8), count)
}

/// A signed integer.
#[inline]
pub(crate) fn int64<'a>(field: impl Into<FieldBytes<'a>>) -> Option<i64> {
    let FieldBytes { bytes, ahead } = field.into();
    if let (1..=8, Some(ahead)) = (bytes.len(), ahead)
        && let Some(value) = digits_ahead(ahead, bytes.len())
    {
        return Some(value as i64);
    }
    let (negative, rest) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    if (1..=SAFE_DIGITS).contains(&rest.len())
        && let Some(value) = digits(rest)
    {
        let value = value as i64;
        return Some(if negative { -value } else { value });
    }
    Int64Type::parse(text(bytes)?)
}

/// An unsigned integer.
#[inline]
pub(crate) fn uint64<'a>(field: impl Into<FieldBytes<'a>>) -> Option<u64> {
    let bytes = field.into().bytes;
    if (1..=SAFE_DIGITS).contains(&bytes.len())
        && let Some(value) = digits(bytes)
    {
        return Some(value);
    }
    UInt64Type::parse(text(bytes)?)
}

/// A double.
#[inline]
pub(crate) fn float64<'a>(field: impl Into<FieldBytes<'a>>) -> Option<f64> {
    let FieldBytes { bytes, ahead } = field.into();
    if let Some(ahead) = ahead
        && let Some((value, places)) = usual_number(bytes.len(), ahead)
    {
        return Some(value as f64 / POW10[places] as f64);
    }
    // Up to 15 digits and 22 places, value and power of ten are doubles exactly and one division rounds right.
    if let Some((negative, value, places)) = short_decimal(bytes)
        && value < 1_000_000_000_000_000
    {
        let value = value as f64 / POW10[places] as f64;
        return Some(if negative { -value } else { value });
    }
    Float64Type::parse(text(bytes)?)
}

/// A float.
#[inline]
pub(crate) fn float32(bytes: &[u8]) -> Option<f32> {
    Float32Type::parse(text(bytes)?)
}

/// `[-]digits[.digits]` of at most 18 digits: sign, digits as one number, digits after the point.
#[inline]
fn short_decimal(bytes: &[u8]) -> Option<(bool, u64, usize)> {
    let (negative, rest) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    match memchr::memchr(b'.', rest) {
        Some(point) => {
            let (whole, fraction) = (rest.get(..point)?, rest.get(point + 1..)?);
            if rest.len() > SAFE_DIGITS + 1 || rest.len() == 1 {
                return None;
            }
            let value = digits(whole)? * POW10[fraction.len()] + digits(fraction)?;
            Some((negative, value, fraction.len()))
        }
        None if (1..=SAFE_DIGITS).contains(&rest.len()) => Some((negative, digits(rest)?, 0)),
        None => None,
    }
}

/// The digits of `digits.digits`, as one number; 1 to 7 on either side and 8 in all. They are the first of these 16
/// bytes.
#[inline]
fn digits_around_point(ahead: &[u8; 16], whole: usize, places: usize) -> Option<u64> {
    let all = u128::from_le_bytes(*ahead);
    let (first, point) = (all as u64, (all >> (whole * 8)) as u64);
    if point as u8 != b'.' {
        return None;
    }
    // The digits before the point directly below those after it, these being the last in the word.
    let word = (first << (64 - whole * 8)) >> (places * 8) | (point >> 8) << (64 - places * 8);
    eight_digits(word, whole + places)
}

/// The usual spelling of a decimal: no sign, as many places as the scale says, 8 digits at most. It is the first
/// `length` of these 16 bytes.
#[inline]
fn usual_decimal(length: usize, ahead: &[u8; 16], scale: i8) -> Option<u64> {
    let places = usize::try_from(scale).ok().filter(|places| (1..=7).contains(places))?;
    let whole = length.checked_sub(places + 1).filter(|whole| (1..=8 - places).contains(whole))?;
    digits_around_point(ahead, whole, places)
}

/// Up to 8 digits without a sign, perhaps with a point between them: as one number, and how many are after the point.
/// They are the first `length` of these 16 bytes.
#[inline]
fn usual_number(length: usize, ahead: &[u8; 16]) -> Option<(u64, usize)> {
    let (first, _) = ahead.split_first_chunk::<8>()?;
    // The lowest byte that is zero is the first point.
    let differs = u64::from_le_bytes(*first) ^ 0x2e2e_2e2e_2e2e_2e2e;
    let points = differs.wrapping_sub(0x0101_0101_0101_0101) & !differs & 0x8080_8080_8080_8080;
    let whole = points.trailing_zeros() as usize / 8;
    if length <= whole {
        let digits = (1..=8).contains(&length).then(|| digits_ahead(ahead, length))?;
        return Some((digits?, 0));
    }
    let places = length - whole - 1;
    let is_usual = whole > 0 && places > 0 && whole + places <= 8;
    Some((is_usual.then(|| digits_around_point(ahead, whole, places))??, places))
}

/// A decimal of this precision and scale, unscaled.
#[inline]
pub(crate) fn decimal128<'a>(field: impl Into<FieldBytes<'a>>, precision: u8, scale: i8) -> Option<i128> {
    let FieldBytes { bytes, ahead } = field.into();
    if let Some(ahead) = ahead
        && let Some(value) = usual_decimal(bytes.len(), ahead, scale)
        && (precision >= 8 || value < POW10[usize::from(precision)])
    {
        return Some(value.into());
    }
    if let Some((negative, value, places)) = short_decimal(bytes)
        && let Ok(scale) = usize::try_from(scale)
        && places <= scale
        && scale - places < POW10.len()
    {
        let value = i128::from(value) * i128::from(POW10[scale - places]);
        let value = if negative { -value } else { value };
        return (value.unsigned_abs() < 10u128.pow(u32::from(precision.min(38)))).then_some(value);
    }
    long_decimal(bytes, precision, scale)
}

/// The general rule: blanks, sign, digits with a point anywhere, exponent, rounding.
fn long_decimal(bytes: &[u8], precision: u8, scale: i8) -> Option<i128> {
    let (negative, rest) = match bytes.trim_ascii() {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let (mantissa, exponent) = match rest.iter().position(|b| matches!(b, b'e' | b'E')) {
        Some(at) => (&rest[..at], exponent(&rest[at + 1..])?),
        None => (rest, 0),
    };
    let mut places = 0i64;
    let mut after_point = false;
    let mut any = false;
    let mut significant = Vec::with_capacity(mantissa.len());
    for byte in mantissa {
        match byte {
            b'.' if !after_point => after_point = true,
            b'0'..=b'9' => {
                any = true;
                places += i64::from(after_point);
                if !significant.is_empty() || *byte != b'0' {
                    significant.push(*byte);
                }
            }
            _ => return None,
        }
    }
    if !any {
        return None;
    }
    if significant.is_empty() {
        return Some(0);
    }
    let shift = exponent - places + i64::from(scale);
    let length = i64::try_from(significant.len()).ok()?;
    if length + shift > 38 {
        return None;
    }
    let value = if shift >= 0 {
        decimal_digits(&significant) * 10i128.pow(u32::try_from(shift).ok()?)
    } else if let Ok(kept) = usize::try_from(length + shift) {
        decimal_digits(&significant[..kept]) + i128::from(significant[kept] >= b'5')
    } else {
        0
    };
    if value.unsigned_abs() >= 10u128.pow(u32::from(precision.min(38))) {
        return None;
    }
    Some(if negative { -value } else { value })
}

/// At most 38 digits as a number.
fn decimal_digits(digits: &[u8]) -> i128 {
    digits.iter().fold(0, |value, digit| value * 10 + i128::from(digit - b'0'))
}

/// A decimal exponent, held within bounds that no decimal reaches.
fn exponent(bytes: &[u8]) -> Option<i64> {
    let (negative, rest) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if rest.is_empty() || !rest.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = rest.iter().fold(0i64, |value, digit| (value * 10 + i64::from(digit - b'0')).min(1 << 40));
    Some(if negative { -value } else { value })
}

/// `true`, `t`, `1` or `false`, `f`, `0`, in any case.
#[inline]
pub(crate) fn boolean(bytes: &[u8]) -> Option<bool> {
    match bytes {
        b"1" | b"t" | b"T" => Some(true),
        b"0" | b"f" | b"F" => Some(false),
        _ if bytes.eq_ignore_ascii_case(b"true") => Some(true),
        _ if bytes.eq_ignore_ascii_case(b"false") => Some(false),
        _ => None,
    }
}

/// Exactly `YYYY-MM-DD`, a day of the calendar, as days since 1970-01-01.
#[inline]
pub(crate) fn date32(bytes: &[u8]) -> Option<i32> {
    let (year_month, day): (&[u8; 8], &[u8]) = bytes.split_first_chunk()?;
    let day: &[u8; 2] = day.try_into().ok()?;
    // After the XOR every byte is its digit, and both dashes are 0. Adding takes whatever is greater to the high bit.
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

/// The key of [`date_key`] of a day; of days of other years, numbers below and above those keys in their order.
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

/// The digits of a date as [`date32`] takes it, the first in the highest byte: a number that orders as the dates do.
#[inline]
pub(crate) fn date_key(bytes: &[u8]) -> Option<i64> {
    let (year_month, day): (&[u8; 8], &[u8]) = bytes.split_first_chunk()?;
    let day: &[u8; 2] = day.try_into().ok()?;
    // As in `date32`, but with the first byte in the highest place.
    let year_month = u64::from_be_bytes(*year_month) ^ u64::from_be_bytes(*b"0000-00-");
    let day = u64::from(u16::from_be_bytes(*day) ^ u16::from_be_bytes(*b"00"));
    let over = (year_month.wrapping_add(0x7676_7676_7f76_767f) | year_month | day.wrapping_add(0x7676) | day)
        & 0x8080_8080_8080_8080;
    if over != 0 {
        return None;
    }
    let month = year_month >> 8 & 0xffff;
    // The 1st to the 28th are in every month, and two more in all but one.
    let is_usual = (1..=0x0102).contains(&month)
        && ((1..=0x0208).contains(&day) || (month != 0x0002 && (1..=0x0300).contains(&day)));
    if !is_usual {
        date32(bytes)?;
    }
    Some((year_month & 0xffff_ffff_0000_0000 | month << 16 | day).cast_signed())
}

/// Days before each month of a year that is not a leap year.
const BEFORE_MONTH: [u32; 13] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];

/// A day of the proleptic Gregorian calendar, years 0 to 9999, as days since 1970-01-01.
#[inline]
fn days(year: u32, month: u32, day: u32) -> Option<i32> {
    let leap = (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    let before = BEFORE_MONTH.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
    let length = BEFORE_MONTH.get(month as usize)? - before + u32::from(leap && month == 2);
    if day == 0 || day > length {
        return None;
    }
    // Leap days of the years before this one; year 0 is a leap year.
    let leaps = if year == 0 { 0 } else { (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400 + 1 };
    let since_year_0 = year * 365 + leaps + before + u32::from(leap && month > 2) + day - 1;
    i32::try_from(since_year_0).ok().map(|days| days - 719_528)
}

/// An ISO timestamp in units of `T`; a date alone is midnight, a zone converts to UTC.
#[inline]
pub(crate) fn timestamp<T: ArrowTimestampType>(bytes: &[u8], zone: &impl TimeZone) -> Option<i64> {
    let instant = string_to_datetime(zone, text(bytes)?).ok()?;
    T::from_naive_datetime(instant.naive_utc(), None)
}

/// [`timestamp`] for text in UTC, the common case, with a short path for `YYYY-MM-DDTHH:MM:SS`.
#[inline]
pub(crate) fn utc_timestamp<T: ArrowTimestampType>(bytes: &[u8]) -> Option<i64> {
    if let Some((date, [b'T' | b' ', h1, h2, b':', m1, m2, b':', s1, s2])) = bytes.split_at_checked(10) {
        let pair = |a: &u8, b: &u8| digits(&[*a, *b]).and_then(|v| i64::try_from(v).ok());
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
    fn integers() {
        for (text, value) in [
            ("0", Some(0)),
            ("-17", Some(-17)),
            ("+5", Some(5)),
            (" 5 ", Some(5)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("", None),
            ("-", None),
            ("1.0", None),
            ("1e3", None),
            ("1 2", None),
        ] {
            assert_eq!(int64(text.as_bytes()), value, "{text}");
        }
        assert_eq!(uint64(b"18446744073709551615".as_slice()), Some(u64::MAX));
        assert_eq!(uint64(b"-1".as_slice()), None);
    }

    #[test]
    fn decimals_are_exact_and_round_half_away_from_zero() {
        for (text, value) in [
            ("1", Some(100)),
            ("-1.5", Some(-150)),
            ("1.25", Some(125)),
            ("0.005", Some(1)),
            ("-0.005", Some(-1)),
            ("0.0049999", Some(0)),
            ("1.", Some(100)),
            (".5", Some(50)),
            (" 7.10 ", Some(710)),
            ("1e3", Some(100_000)),
            ("1.5E-1", Some(15)),
            ("12345e-4", Some(123)),
            ("1e-400", Some(0)),
            ("0e400", Some(0)),
            ("1e400", None),
            ("9999999999999.99", Some(999_999_999_999_999)),
            ("9999999999999.995", None),
            ("10000000000000", None),
            ("00000000000000000000000000000000000001.00", Some(100)),
            ("", None),
            (".", None),
            ("-", None),
            ("1.2.3", None),
            ("e3", None),
            ("1e", None),
            ("--1", None),
            ("abc", None),
        ] {
            assert_eq!(decimal128(text.as_bytes(), 15, 2), value, "{text}");
        }
        let most = "9".repeat(38);
        assert_eq!(decimal128(most.as_bytes(), 38, 0), Some(10i128.pow(38) - 1));
        assert_eq!(decimal128(b"1234".as_slice(), 5, -2), Some(12));
    }

    #[test]
    fn short_paths_agree_with_the_long_ones() {
        let mut state = 7u64;
        let mut next = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for _ in 0..200_000 {
            let alphabet = if next(10) == 0 { b"0123456789.-+e /:".as_slice() } else { b"0123456789.".as_slice() };
            let text: Vec<u8> = (0..next(14)).map(|_| alphabet[next(alphabet.len() as u64) as usize]).collect();
            let shown = String::from_utf8_lossy(&text).into_owned();
            // With other bytes behind it, and with none.
            let mut padded = text.clone();
            padded.extend_from_slice(b"7.9,1234,1995-01-01");
            let inside = FieldBytes { bytes: &text, ahead: padded.first_chunk() };
            for field in [inside, text.as_slice().into()] {
                for (precision, scale) in [(15, 2), (5, 2), (20, 0), (12, 6), (3, 1)] {
                    assert_eq!(decimal128(field, precision, scale), long_decimal(&text, precision, scale), "{shown}");
                }
                assert_eq!(int64(field), Int64Type::parse(&shown), "{shown}");
                assert_eq!(float64(field), Float64Type::parse(&shown), "{shown}");
            }
        }
    }

    #[test]
    fn doubles_agree_with_the_standard_library() {
        for text in ["0", "-0", "1.5", "0.1", "123456.789", "999999999999999", "1e300", "-2.5e-8", "0.000001", "17."] {
            assert_eq!(
                float64(text.as_bytes()).map(f64::to_bits),
                text.parse::<f64>().ok().map(f64::to_bits),
                "{text}"
            );
        }
        assert_eq!(float64(b"x".as_slice()), None);
        assert_eq!(float64(b"".as_slice()), None);
        assert!(float64(b"NaN".as_slice()).is_some_and(f64::is_nan));
    }

    #[test]
    fn dates_are_days_of_the_calendar() {
        use chrono::{Datelike, NaiveDate};
        let mut day = NaiveDate::from_ymd_opt(0, 1, 1);
        while let Some(date) = day.filter(|d| d.year() < 10_000) {
            let expected = date.signed_duration_since(NaiveDate::default()).num_days();
            let text = date.format("%Y-%m-%d").to_string();
            assert_eq!(date32(text.as_bytes()).map(i64::from), Some(expected), "{date}");
            assert_eq!(date_key(text.as_bytes()), Some(date_key_of(expected as i32)), "{date}");
            day = date.checked_add_days(chrono::Days::new(13));
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
        assert_eq!(utc_timestamp::<Micros>(b"2020-02-30T00:00:00"), None);
    }
}

//! Parsing of values from bytes.
//!
//! The same rules apply to a typed column of a text object and to `CAST(text AS type)`, so that
//! storage and engine agree wherever the cast is computed. The common spelling of each type has a
//! fast path. Other spellings follow the general rule, which returns `None` for an invalid value.
//!
//! Blanks around numbers are ignored. Decimals are exact: exponents are accepted, digits beyond the
//! scale are rounded half away from zero, and digits beyond the precision are refused. Dates must
//! be `YYYY-MM-DD`, so that the order of the text is the order of the dates.

use arrow::compute::kernels::cast_utils::Parser;
use arrow::datatypes::{Float32Type, Float64Type, Int64Type, UInt64Type};

use crate::values::digits::{SAFE_DIGITS, digits, digits_ahead, digits_around_point};
use crate::values::fields::FieldBytes;
use crate::values::short_decimal::number::usual_number;

/// The powers of ten that fit into 64 bits.
const POW10: [u64; 20] = {
    let mut table = [1u64; 20];
    let mut i = 1;
    while i < 20 {
        table[i] = table[i - 1] * 10;
        i += 1;
    }
    table
};

/// The number of digits up to which a DOUBLE represents every integer exactly.
const DOUBLE_DIGITS: usize = 15;

pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Returns whether a number begins with a superfluous zero.
pub(crate) fn begins_with_zeros(bytes: &[u8]) -> bool {
    matches!(bytes.strip_prefix(b"-").unwrap_or(bytes), [b'0', b'0'..=b'9', ..])
}

/// Returns whether `integer`, digits with an optional sign, keeps all its digits as a DOUBLE.
pub fn is_exact_as_double(integer: &str) -> bool {
    let digits = integer.strip_prefix('-').unwrap_or(integer);
    digits.len() <= DOUBLE_DIGITS || digits.parse::<f64>().is_ok_and(|double| double.to_string() == digits)
}

/// Returns whether `number` is an integer that a DOUBLE would round.
pub(crate) fn is_rounded(number: &[u8]) -> bool {
    let digits = number.strip_prefix(b"-").unwrap_or(number);
    digits.len() > DOUBLE_DIGITS
        && digits.iter().all(u8::is_ascii_digit)
        && !std::str::from_utf8(digits).is_ok_and(is_exact_as_double)
}

/// Parses a signed integer.
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

/// Parses an unsigned integer.
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

/// Parses a double.
#[inline]
pub(crate) fn float64<'a>(field: impl Into<FieldBytes<'a>>) -> Option<f64> {
    let FieldBytes { bytes, ahead } = field.into();
    if let Some(ahead) = ahead
        && let Some((value, places)) = usual_number(bytes.len(), ahead)
    {
        // Signed integers are converted to doubles by a single instruction.
        return Some(value.cast_signed() as f64 / POW10[places].cast_signed() as f64);
    }
    // With up to 15 digits and 22 decimal places, the value and the power of ten are exact doubles,
    // so a single division rounds correctly.
    if let Some((negative, value, places)) = short_decimal(bytes)
        && value < 1_000_000_000_000_000
    {
        let value = value.cast_signed() as f64 / POW10[places].cast_signed() as f64;
        return Some(if negative { -value } else { value });
    }
    Float64Type::parse(text(bytes)?)
}

/// Parses a float.
#[inline]
pub(crate) fn float32(bytes: &[u8]) -> Option<f32> {
    Float32Type::parse(text(bytes)?)
}

/// Parses `[-]digits[.digits]` with at most 18 digits. Returns whether it is negative, all digits
/// as one number, and the number of decimal places.
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

/// Parses the common spelling of a decimal in the first `length` of these 16 bytes: no sign, as
/// many decimal places as the scale, and at most 8 digits.
#[inline]
fn usual_decimal(length: usize, ahead: &[u8; 16], scale: i8) -> Option<u64> {
    let places = usize::try_from(scale).ok().filter(|places| (1..=7).contains(places))?;
    let whole = length.checked_sub(places + 1).filter(|whole| (1..=8 - places).contains(whole))?;
    digits_around_point(ahead, whole, places)
}

/// Parses a decimal of this precision and scale. Returns its unscaled value.
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

/// Parses a decimal by the general rule: blanks, a sign, digits with a point anywhere, an exponent,
/// and rounding.
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

/// Converts at most 38 digits to a number.
fn decimal_digits(digits: &[u8]) -> i128 {
    digits.iter().fold(0, |value, digit| value * 10 + i128::from(digit - b'0'))
}

/// Parses an exponent, clamped to bounds that no decimal reaches.
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

/// Parses `true`, `t`, `1` or `false`, `f`, `0`, in any case.
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

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

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
        let mut random = StdRng::seed_from_u64(7);
        let mut next = |n: u64| random.random_range(0..n);
        for _ in 0..200_000 {
            let alphabet = if next(10) == 0 { b"0123456789.-+e /:".as_slice() } else { b"0123456789.".as_slice() };
            let text: Vec<u8> = (0..next(14)).map(|_| alphabet[next(alphabet.len() as u64) as usize]).collect();
            let shown = String::from_utf8_lossy(&text).into_owned();
            // With other bytes after it, and with none.
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
}

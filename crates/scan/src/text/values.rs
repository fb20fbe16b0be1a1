//! Values from text, straight from bytes.
//!
//! One rule for a typed column of a text object and for `CAST(text AS type)`, so that storage and engine agree
//! wherever the cast happens. The common spelling of each type has a short path; anything else goes to the
//! general rule, and what that refuses is `None`.
//!
//! Blanks around numbers are ignored. Decimals are exact: an exponent is understood, digits beyond the scale are
//! rounded half away from zero, digits beyond the precision are refused. Dates are `YYYY-MM-DD` and nothing
//! else, so that the order of the text is the order of the dates.

mod dates;
pub(crate) mod usual;

use arrow::compute::kernels::cast_utils::Parser;
use arrow::datatypes::{Float32Type, Float64Type, Int64Type, UInt64Type};

use super::fields::FieldBytes;
pub(crate) use dates::{date_key, date_key_of, date32, timestamp, utc_timestamp};

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
    Some(spelled_by(digits))
}

/// The number that eight digits spell, one in each byte; some number if one is greater than 9.
#[allow(clippy::inline_always, reason = "kernels do this in the lanes of a register")]
#[inline(always)]
fn spelled_by(digits: u64) -> u64 {
    // Pairs of digits, then fours, then all eight.
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    (fours.wrapping_mul(10_000) + (fours >> 32)) & 0xffff_ffff
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
        // A signed number becomes a double by one instruction.
        return Some(value.cast_signed() as f64 / POW10[places].cast_signed() as f64);
    }
    // Up to 15 digits and 22 places, value and power of ten are doubles exactly and one division rounds right.
    if let Some((negative, value, places)) = short_decimal(bytes)
        && value < 1_000_000_000_000_000
    {
        let value = value.cast_signed() as f64 / POW10[places].cast_signed() as f64;
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

/// The most digits of a usual number.
pub(crate) const USUAL_DIGITS: usize = 8;

/// Up to 8 digits without a sign, perhaps with a point between them: as one number, and how many are after the point.
/// They are the first `length` of these 16 bytes.
#[inline(always)]
pub(crate) fn usual_number(length: usize, ahead: &[u8; 16]) -> Option<(u64, usize)> {
    let (first, _) = ahead.split_first_chunk::<8>()?;
    let first = u64::from_le_bytes(*first);
    if !(1..=8).contains(&length) {
        return longer_number(length, first, ahead);
    }
    // The last byte in the highest place, zeros before the first.
    let word = first << (64 - length * 8);
    let point = first_point(word);
    if point == 64 {
        return Some((eight_digits(word, length)?, 0));
    }
    let places = 7 - point / 8;
    if places == 0 || places + 1 == length {
        return None;
    }
    let (before, after) = (!(u64::MAX << point), u64::MAX << (point + 8));
    Some((eight_digits(word & after | (word & before) << 8, length - 1)?, places))
}

/// [`usual_number`] where it is longer than 8 bytes, these being the first.
#[inline]
fn longer_number(length: usize, first: u64, ahead: &[u8; 16]) -> Option<(u64, usize)> {
    let whole = first_point(first) / 8;
    let places = length.checked_sub(whole + 1)?;
    let is_usual = whole > 0 && places > 0 && whole + places <= USUAL_DIGITS;
    Some((is_usual.then(|| digits_around_point(ahead, whole, places))??, places))
}

/// The first bit of the first byte that is a point; 64 if none is.
#[inline(always)]
fn first_point(word: u64) -> usize {
    let differs = word ^ 0x2e2e_2e2e_2e2e_2e2e;
    // The lowest byte that is zero is found right.
    let zeros = differs.wrapping_sub(0x0101_0101_0101_0101) & !differs & 0x8080_8080_8080_8080;
    zeros.trailing_zeros() as usize & !7
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
}

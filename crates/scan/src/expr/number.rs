//! Numbers as in JSON and S3 Select: an integer, decimal or double, depending on how it is written.
//!
//! Integers and decimals are exact with up to 38 digits. Numbers with an exponent or more digits
//! are doubles. A result is an integer if both operands are integers, a double if either is a
//! double, and otherwise a decimal.

use std::cmp::Ordering;

use pushdowndb_contract::{Error, Result};

use crate::error::division_by_zero;
use crate::values::parse::float64;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i64),
    /// An unscaled value and its scale.
    Decimal(i128, u32),
    Float(f64),
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

/// The maximum number of decimal places that a quotient has in addition to those of its operands.
const QUOTIENT_DIGITS: u32 = 16;

const LARGEST: i128 = 10_i128.pow(38) - 1;

fn overflow() -> Error {
    Error::invalid("a number is out of the range of 64-bit integers or of decimals of 38 digits: integer overflow")
        .with_code("IntegerOverflow")
}

impl Number {
    /// Parses a JSON token. Returns `None` if it is not a number.
    pub(crate) fn parse(token: &str) -> Option<Self> {
        let bytes = token.as_bytes();
        if !matches!(bytes.first(), Some(b'-' | b'0'..=b'9')) {
            return None;
        }
        match exact(bytes) {
            Some(number) => Some(number),
            None => float64(bytes).filter(|value| value.is_finite()).map(Self::Float),
        }
    }

    /// Parses a decimal in text. In addition to the forms of [`Self::parse`], it may have blanks
    /// around it, a plus sign, or a leading or trailing point, and an exponent shifts the point.
    /// Returns `None` if the text is not a number or has more than 38 digits.
    pub(crate) fn parse_text(text: &str) -> Option<Self> {
        let text = text.trim_matches([' ', '\t', '\n', '\r']);
        let text = text.strip_prefix('+').filter(|rest| !rest.starts_with(['+', '-'])).unwrap_or(text);
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => {
                let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return None;
                }
                // The exponent exceeds that of any decimal; a zero stays zero.
                (mantissa, exponent.parse::<i32>().unwrap_or(if exponent.starts_with('-') { -1000 } else { 1000 }))
            }
            None => (text, 0),
        };
        let number = exact(mantissa.as_bytes())?;
        if exponent == 0 {
            return Some(number);
        }
        let (value, scale) = number.unscaled()?;
        let scale = i32::try_from(scale).ok()? - exponent;
        let (value, scale) = match u32::try_from(scale) {
            Ok(scale) if scale <= 38 => (value, scale),
            _ if value == 0 => (0, 0),
            Ok(_) => return None,
            Err(_) => (value.checked_mul(10_i128.checked_pow(scale.unsigned_abs())?)?, 0),
        };
        if value.abs() > LARGEST {
            return None;
        }
        Some(Self::of(value, scale))
    }

    /// Creates an integer if there are no decimal places to keep, and otherwise a decimal.
    fn of(value: i128, scale: u32) -> Self {
        match i64::try_from(value) {
            Ok(whole) if scale == 0 => Self::Int(whole),
            _ => Self::Decimal(value, scale),
        }
    }

    fn unscaled(self) -> Option<(i128, u32)> {
        match self {
            Self::Int(value) => Some((value.into(), 0)),
            Self::Decimal(value, scale) => Some((value, scale)),
            Self::Float(_) => None,
        }
    }

    pub(crate) fn to_f64(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            // Converted through text, which yields the nearest double.
            Self::Decimal(..) => self.to_text().parse().unwrap_or(f64::NAN),
            Self::Float(value) => value,
        }
    }

    /// Returns the number as a JSON token.
    pub(crate) fn to_text(self) -> String {
        match self {
            Self::Int(value) => value.to_string(),
            Self::Float(value) => format!("{value:?}"),
            Self::Decimal(value, scale) => {
                let places = usize::try_from(scale).unwrap_or(0);
                let sign = if value < 0 { "-" } else { "" };
                let digits = format!("{:0>width$}", value.unsigned_abs(), width = places + 1);
                let (whole, fraction) = digits.split_at(digits.len().saturating_sub(places));
                if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
            }
        }
    }

    /// Returns the same number without trailing zeros.
    pub(crate) fn trimmed(self) -> Self {
        let Self::Decimal(mut value, mut scale) = self else { return self };
        while scale > 0 && value % 10 == 0 {
            value /= 10;
            scale -= 1;
        }
        Self::of(value, scale)
    }

    /// Compares by value. NaNs are compared by the total order of doubles.
    pub(crate) fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.cmp(&b),
            (Self::Float(_), _) | (_, Self::Float(_)) => {
                let (a, b) = (self.to_f64(), other.to_f64());
                a.partial_cmp(&b).unwrap_or_else(|| a.total_cmp(&b))
            }
            _ => match (self.unscaled(), other.unscaled()) {
                (Some(a), Some(b)) => compare_decimals(a, b),
                _ => Ordering::Equal,
            },
        }
    }

    /// Computes `self op other`. The result is exact unless an operand is a double. Overflow is an
    /// error.
    pub(crate) fn calculate(self, op: Arithmetic, other: Self) -> Result<Self> {
        if let (Self::Int(a), Self::Int(b)) = (self, other) {
            let whole = match op {
                Arithmetic::Add => a.checked_add(b),
                Arithmetic::Subtract => a.checked_sub(b),
                Arithmetic::Multiply => a.checked_mul(b),
                Arithmetic::Divide | Arithmetic::Modulo if b == 0 => return Err(division_by_zero()),
                Arithmetic::Divide => a.checked_div(b),
                Arithmetic::Modulo => Some(a.checked_rem(b).unwrap_or(0)),
            };
            return whole.map(Self::Int).ok_or_else(overflow);
        }
        let (Some((a, a_scale)), Some((b, b_scale))) = (self.unscaled(), other.unscaled()) else {
            return self.calculate_float(op, other.to_f64());
        };
        let scale = a_scale.max(b_scale);
        let aligned = || Some((shifted(a, scale - a_scale)?, shifted(b, scale - b_scale)?));
        let result = match op {
            Arithmetic::Add => aligned().and_then(|(a, b)| a.checked_add(b)).map(|sum| (sum, scale)),
            Arithmetic::Subtract => aligned().and_then(|(a, b)| a.checked_sub(b)).map(|rest| (rest, scale)),
            Arithmetic::Multiply => a.checked_mul(b).map(|product| (product, a_scale + b_scale)),
            Arithmetic::Divide | Arithmetic::Modulo if b == 0 => return Err(division_by_zero()),
            Arithmetic::Modulo => aligned().map(|(a, b)| (a % b, scale)),
            Arithmetic::Divide => return quotient((a, a_scale), (b, b_scale)).ok_or_else(overflow),
        };
        let (value, scale) = result.ok_or_else(overflow)?;
        fitted(value, scale).ok_or_else(overflow)
    }

    fn calculate_float(self, op: Arithmetic, b: f64) -> Result<Self> {
        let a = self.to_f64();
        let value = match op {
            Arithmetic::Add => a + b,
            Arithmetic::Subtract => a - b,
            Arithmetic::Multiply => a * b,
            Arithmetic::Divide | Arithmetic::Modulo if b == 0.0 => return Err(division_by_zero()),
            Arithmetic::Divide => a / b,
            Arithmetic::Modulo => a % b,
        };
        if value.is_finite() { Ok(Self::Float(value)) } else { Err(overflow()) }
    }

    /// Returns the number as a decimal if it is an integer, since sums may exceed 64 bits.
    pub(crate) fn widened(self) -> Self {
        match self {
            Self::Int(value) => Self::Decimal(value.into(), 0),
            other => other,
        }
    }

    /// Divides by `count`, with up to [`QUOTIENT_DIGITS`] additional decimal places.
    pub(crate) fn mean(self, count: u64) -> Result<Self> {
        match self.unscaled() {
            Some(sum) => quotient(sum, (i128::from(count), 0)).ok_or_else(overflow),
            None => Ok(Self::Float(self.to_f64() / count as f64)),
        }
    }

    /// Appends bytes that sort like the numbers.
    pub(crate) fn sort_key(self, out: &mut Vec<u8>) {
        let text = match self {
            Self::Float(value) => format!("{value:e}"),
            _ => self.to_text(),
        };
        let (text, negative) = text.strip_prefix('-').map_or((text.as_str(), false), |rest| (rest, true));
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        let leading = digits.iter().take_while(|digit| **digit == b'0').count();
        let end = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
        let Some(significant) = digits.get(leading..end).filter(|digits| !digits.is_empty()) else {
            out.push(1);
            return;
        };
        // The exponent of the form 0.d1d2d3….
        let point = whole.len() as i64 - leading as i64 + exponent.parse::<i64>().unwrap_or(0);
        let point = u16::try_from(point.clamp(-30_000, 30_000) + 32_768).unwrap_or(0);
        let flip = if negative { 0xff } else { 0 };
        out.push(if negative { 0 } else { 2 });
        out.extend(point.to_be_bytes().iter().chain(significant).chain(&[0]).map(|byte| byte ^ flip));
    }
}

/// Parses up to 38 digits with at most one point, after an optional minus sign.
fn exact(bytes: &[u8]) -> Option<Number> {
    let (negative, digits) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    // This is by far the most common form.
    if digits.len() <= 18 && !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) {
        let value = digits.iter().fold(0i64, |value, digit| value * 10 + i64::from(digit - b'0'));
        return Some(Number::Int(if negative { -value } else { value }));
    }
    let (mut value, mut scale, mut any, mut point) = (0i128, 0u32, false, false);
    for byte in digits {
        match byte {
            b'0'..=b'9' => {
                value = value.checked_mul(10)?.checked_add(i128::from(byte - b'0'))?;
                scale += u32::from(point);
                any = true;
            }
            b'.' if !point => point = true,
            _ => return None,
        }
    }
    if !any || value > LARGEST || scale > 38 {
        return None;
    }
    let value = if negative { -value } else { value };
    Some(Number::of(value, scale))
}

fn shifted(value: i128, places: u32) -> Option<i128> {
    value.checked_mul(10_i128.checked_pow(places)?)
}

fn compare_decimals((a, a_scale): (i128, u32), (b, b_scale): (i128, u32)) -> Ordering {
    if a.signum() != b.signum() {
        return a.signum().cmp(&b.signum());
    }
    let scale = a_scale.max(b_scale);
    match (shifted(a, scale - a_scale), shifted(b, scale - b_scale)) {
        (Some(a), Some(b)) => a.cmp(&b),
        // Scaling overflows for the number with fewer decimal places: its absolute value is the
        // larger one.
        (None, _) => a.cmp(&0),
        (_, None) => 0.cmp(&b),
    }
}

/// Reduces a decimal to at most 38 digits by rounding decimal places.
fn fitted(mut value: i128, mut scale: u32) -> Option<Number> {
    while (value.abs() > LARGEST || scale > 38) && scale > 0 {
        value = rounded(value, 10)?;
        scale -= 1;
    }
    (value.abs() <= LARGEST).then(|| Number::of(value, scale))
}

/// Divides and rounds half away from zero.
fn rounded(value: i128, by: i128) -> Option<i128> {
    let (quotient, rest) = (value.checked_div(by)?, value.checked_rem(by)?);
    let up = rest.unsigned_abs() >= by.unsigned_abs() - rest.unsigned_abs();
    Some(if !up || rest == 0 {
        quotient
    } else if (value < 0) == (by < 0) {
        quotient + 1
    } else {
        quotient - 1
    })
}

fn quotient((a, a_scale): (i128, u32), (b, b_scale): (i128, u32)) -> Option<Number> {
    if a == 0 {
        return Some(Number::Int(0));
    }
    // Tries as many decimal places as fit.
    for places in (0..=QUOTIENT_DIGITS).rev() {
        let scale = a_scale.max(b_scale) + places;
        if let Some(dividend) = shifted(a, scale + b_scale - a_scale) {
            return fitted(rounded(dividend, b)?, scale).map(Number::trimmed);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(token: &str) -> Number {
        Number::parse(token).unwrap_or_else(|| panic!("{token}"))
    }

    #[test]
    fn numbers_keep_what_is_written() {
        for token in ["0", "-17", "17.00", "9223372036854775807", "12345678901234567890", "-0.5", "0.000001"] {
            assert_eq!(number(token).to_text(), token);
        }
        assert_eq!(number("1.5e3"), Number::Float(1500.0));
        assert!(matches!(number(&"9".repeat(50)), Number::Float(_)));
        for token in ["", "\"5\"", "true", "null", "{}"] {
            assert_eq!(Number::parse(token), None, "{token}");
        }
        for (text, expected) in [
            (" 12.50 ", "12.50"),
            ("+5", "5"),
            (".5", "0.5"),
            ("5.", "5"),
            ("1.5e3", "1500"),
            ("15e-1", "1.5"),
            ("0e999", "0"),
        ] {
            assert_eq!(Number::parse_text(text).map(|n| n.to_text()).as_deref(), Some(expected), "{text}");
        }
        for text in ["", "x", "1.2.3", "1e", "1e99", "+-5", "e5", "0x1", "1 2", "NaN"] {
            assert_eq!(Number::parse_text(text), None, "{text}");
        }
    }

    #[test]
    fn arithmetic_is_exact() {
        use Arithmetic::*;
        for (a, op, b, expected) in [
            ("2", Add, "1", "3"),
            ("0.1", Add, "0.2", "0.3"),
            ("1.50", Subtract, "0.5", "1.00"),
            ("1.5", Multiply, "1.5", "2.25"),
            ("7", Divide, "2", "3"),
            ("-7", Divide, "2", "-3"),
            ("7.0", Divide, "2", "3.5"),
            ("10", Divide, "3.0", "3.33333333333333333"),
            ("-7", Modulo, "3", "-1"),
            ("7.5", Modulo, "2", "1.5"),
            ("1e1", Divide, "4", "2.5"),
        ] {
            assert_eq!(number(a).calculate(op, number(b)).unwrap().to_text(), expected, "{a} {op:?} {b}");
        }
        let code = |a: &str, op, b: &str| number(a).calculate(op, number(b)).unwrap_err().code();
        assert_eq!(code("9223372036854775807", Add, "1"), Some("IntegerOverflow"));
        assert_eq!(code("-9223372036854775808", Divide, "-1"), Some("IntegerOverflow"));
        assert_eq!(code("1", Divide, "0"), Some("ExternalEvalException"));
        assert_eq!(code("1.5", Modulo, "0.0"), Some("ExternalEvalException"));
        assert_eq!(code("1e300", Multiply, "1e300"), Some("IntegerOverflow"));
        assert_eq!(number("10").mean(4).unwrap().to_text(), "2.5");
        assert_eq!(number("10").mean(3).unwrap().to_text(), "3.3333333333333333");
        assert_eq!(number("20").mean(3).unwrap().to_text(), "6.6666666666666667");
    }

    #[test]
    fn order_is_by_value_in_both_ways() {
        let ascending = [
            "-1e300",
            "-12345678901234567890",
            "-100",
            "-99.5",
            "-1",
            "-0.5",
            "-0.05",
            "0",
            "0.000001",
            "0.05",
            "0.5",
            "1",
            "1.5",
            "2",
            "9",
            "10",
            "10.5",
            "99",
            "100",
            "12345678901234567890.5",
            "1e300",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(number(a).compare(number(b)), i.cmp(&j), "{a} {b}");
                let key = |token: &str| {
                    let mut key = Vec::new();
                    number(token).sort_key(&mut key);
                    key
                };
                assert_eq!(key(a).cmp(&key(b)), i.cmp(&j), "{a} {b}");
            }
        }
        assert_eq!(number("1.0").compare(number("1")), Ordering::Equal);
        assert_eq!(number("1e0").compare(number("1.0")), Ordering::Equal);
    }
}

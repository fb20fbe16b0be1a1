//! Kinds of values in plain records, and recognition of numbers.

/// The kind of a value in a plain record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Value {
    Null = 1,
    Text = 2,
    Number = 4,
    Integer = 8,
    Boolean = 16,
}

/// Returns the kind of the token with which `text` begins, if it is a number in a common spelling
/// with few digits.
#[inline]
pub(crate) fn number(text: &[u8], token: &[u8]) -> Option<Value> {
    let is_negative = token.first() == Some(&b'-');
    let digits = token.len() - usize::from(is_negative);
    let (whole, places) = match text.get(usize::from(is_negative)..).and_then(<[u8]>::first_chunk) {
        Some(first) if digits <= 8 => {
            let bytes = u64::from_le_bytes(*first) ^ (ONES * u64::from(b'0'));
            let token = u64::MAX.checked_shr(8 * (8 - digits as u32)).unwrap_or(0);
            // Sets the high bit of exactly those bytes of the token that are not a digit: sums of
            // seven bits do not carry.
            let others = (((bytes & SEVEN) + ONES * (0x7f - 9)) | bytes) & !SEVEN & token;
            let whole = if others == 0 { digits } else { others.trailing_zeros() as usize / 8 };
            // There must be only one byte that is not a digit.
            (whole, (others & others.wrapping_sub(1) == 0).then_some(digits - whole))
        }
        _ => {
            let digits = token.get(usize::from(is_negative)..)?;
            let whole = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
            let places = digits.get(whole..)?;
            (whole, places.iter().skip(1).all(u8::is_ascii_digit).then_some(places.len()))
        }
    };
    let first = token.get(usize::from(is_negative));
    let canonical = (1..=18).contains(&whole) && (whole == 1 || first != Some(&b'0'));
    match places? {
        0 => canonical.then_some(Value::Integer),
        // There must be a point and at least one digit.
        1 => None,
        _ => (canonical && token.get(usize::from(is_negative) + whole) == Some(&b'.')).then_some(Value::Number),
    }
}

/// A one in each byte.
pub(crate) const ONES: u64 = u64::MAX / 255;

/// Seven ones in each byte.
pub(crate) const SEVEN: u64 = ONES * 0x7f;

//! Parsing of a single short decimal.

use crate::values::digits::{digits_around_point, eight_digits, first_point};

/// Parses up to 8 digits without a sign, possibly with a point between them, in the first `length`
/// of these 16 bytes. Returns all digits as one number, and the number of decimal places.
#[inline(always)]
pub(crate) fn usual_number(length: usize, ahead: &[u8; 16]) -> Option<(u64, usize)> {
    let (first, _) = ahead.split_first_chunk::<8>()?;
    let first = u64::from_le_bytes(*first);
    if !(1..=8).contains(&length) {
        return longer_number(length, first, ahead);
    }
    // The last byte is the highest, and zeros precede the first byte.
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

/// The maximum number of digits.
pub(crate) const MAX_DIGITS: usize = 8;

/// Like [`usual_number`], for more than 8 bytes. `first` are the first eight of them.
#[inline]
pub(crate) fn longer_number(length: usize, first: u64, ahead: &[u8; 16]) -> Option<(u64, usize)> {
    let whole = first_point(first) / 8;
    let places = length.checked_sub(whole + 1)?;
    let is_usual = whole > 0 && places > 0 && whole + places <= MAX_DIGITS;
    Some((is_usual.then(|| digits_around_point(ahead, whole, places))??, places))
}

//! Walks a plain record from member to member.
//!
//! A plain record is one object without objects, arrays and escapes in it. Most records of a text
//! have the same keys in the same order. So a key is compared with the key at the same index of the
//! previous record, and looked up only if they differ. Keys, colons and commas are validated, but
//! values only if they are requested.

use std::ops::Range;

use memchr::{memchr, memchr3};

use crate::runtime::interrupt::Steps;
use crate::text::json::value::{ONES, Value, number};
use crate::values::json::{STEPS_PER_NAME, number_end, skip_blanks, without_blanks_after};

/// The column to which a key belongs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Whose {
    Nobodys,
    /// The column with this number.
    Members(usize),
    /// Several columns.
    Several,
}

impl Whose {
    /// Creates the value from whether the key belongs to each column.
    pub(crate) fn of(mut members: impl Iterator<Item = bool>) -> Self {
        match members.position(|is_its| is_its) {
            None => Self::Nobodys,
            Some(_) if members.any(|is_its| is_its) => Self::Several,
            Some(number) => Self::Members(number),
        }
    }
}

/// A key as it is written, with its quotes and colon.
pub(crate) struct Key {
    pub(crate) bytes: Vec<u8>,
    /// The first bytes as words, padded with zeros, and a mask of these bytes.
    words: [u64; WORDS],
    masks: [u64; WORDS],
    /// The column of the key.
    pub(crate) whose: Whose,
    /// True if the last value of the key was a string.
    pub(crate) is_string: bool,
}

impl Key {
    fn new(bytes: &[u8], whose: Whose) -> Self {
        let (mut first, mut mask) = ([0; 8 * WORDS], [0; 8 * WORDS]);
        for ((first, mask), byte) in first.iter_mut().zip(&mut mask).zip(bytes) {
            (*first, *mask) = (*byte, u8::MAX);
        }
        Self { bytes: bytes.to_vec(), words: words(&first), masks: words(&mask), whose, is_string: false }
    }

    /// Returns whether `text` begins with the key.
    #[inline]
    fn begins(&self, text: &[u8]) -> bool {
        // Most keys can be compared as words, without calling a function.
        let Some(first) = text.first_chunk() else { return text.starts_with(&self.bytes) };
        let ([low, high], [low_mask, high_mask]) = (words(first), self.masks);
        if [low & low_mask, high & high_mask] != self.words {
            return false;
        }
        self.bytes.len() <= 8 * WORDS || text.starts_with(&self.bytes)
    }
}

/// The maximum number of members of a record that has a shape.
const MAX_MEMBERS: usize = 1024;

/// The number of words of a key that are compared.
const WORDS: usize = 2;

#[inline]
fn words(bytes: &[u8; 8 * WORDS]) -> [u64; WORDS] {
    let (low, high) = bytes.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    [u64::from_le_bytes(*low), high.first_chunk().map_or(0, |high| u64::from_le_bytes(*high))]
}

/// Walks plain records.
#[derive(Default)]
pub(crate) struct Walk {
    /// The keys of the previous record.
    keys: Vec<Key>,
    /// The number of members of the previous record; 0 if it was not plain.
    members: usize,
    steps: Steps,
}

impl Walk {
    /// Walks the members of a record without escapes. `inner` is the text between its braces.
    ///
    /// `whose` returns the column of a key, out of `names` columns. The values of these columns are
    /// passed to `take`, strings without their quotes. Returns `None` if a member is duplicate or
    /// belongs to several columns, if `take` returns `None`, or if the record is malformed or not
    /// plain.
    #[inline]
    pub(crate) fn members(
        &mut self,
        inner: &[u8],
        names: usize,
        whose: &dyn Fn(&[u8]) -> Whose,
        take: &mut impl FnMut(usize, Value, Range<usize>) -> Option<()>,
    ) -> Option<()> {
        // One bit for each column seen. Records for more columns than bits are not walked.
        let mut met = 0u64;
        self.members = 0;
        let mut at = blanks(inner, 0);
        let mut place = 0;
        while at < inner.len() {
            let rest = inner.get(at..)?;
            if !self.keys.get(place).is_some_and(|key| key.begins(rest)) {
                if !self.steps.go_on(STEPS_PER_NAME * names) {
                    return None;
                }
                self.keys.truncate(place);
                self.keys.push(key(rest, whose)?);
            }
            let key = self.keys.get_mut(place)?;
            let from = blanks(inner, at + key.bytes.len());
            key.is_string = inner.get(from) == Some(&b'"');
            at = match key.whose {
                Whose::Nobodys => skip_value(inner, from)?,
                Whose::Members(number) => {
                    let bit = 1u64.checked_shl(u32::try_from(number).ok()?)?;
                    if met & bit != 0 {
                        return None;
                    }
                    met |= bit;
                    let (value, range, next) = value(inner, from)?;
                    take(number, value, range)?;
                    next
                }
                Whose::Several => return None,
            };
            // A member must follow the comma.
            if at < inner.len() {
                at = blanks(inner, at + 1);
                inner.get(at)?;
            }
            place += 1;
        }
        self.members = place;
        Some(())
    }

    /// Returns the keys of the last record in order; `None` if it was not plain or had no members.
    pub(crate) fn last_keys(&self) -> Option<&[Key]> {
        self.keys.get(..self.members).filter(|members| (1..=MAX_MEMBERS).contains(&members.len()))
    }
}

/// Returns the range of the text between the braces of a record.
#[inline]
pub(crate) fn inside(text: &[u8], record: &Range<usize>) -> Option<Range<usize>> {
    let [b'{', inner @ .., b'}'] = without_blanks_after(text.get(record.clone())?) else { return None };
    Some(record.start + 1..record.start + 1 + inner.len())
}

/// Returns whether the text between the braces of a record has no object, array or escape in it.
#[inline]
pub(crate) fn is_plain(inner: &[u8]) -> bool {
    memchr3(b'{', b'[', b'\\', inner).is_none()
}

/// Returns whether the text has no escape in it, as [`Walk::members`] requires.
#[inline]
pub(crate) fn is_unescaped(text: &[u8]) -> bool {
    memchr(b'\\', text).is_none()
}

/// Returns the key with which `text` begins, up to its colon.
#[cold]
fn key(text: &[u8], whose: &dyn Fn(&[u8]) -> Whose) -> Option<Key> {
    let close = 1 + memchr(b'"', text.strip_prefix(b"\"")?)?;
    let colon = skip_blanks(text, close + 1);
    let (name, bytes) = (text.get(..=close)?, text.get(..=colon)?);
    bytes.ends_with(b":").then(|| Key::new(bytes, whose(name)))
}

/// Like [`skip_blanks`], optimized for text without blanks.
#[inline]
pub(crate) fn blanks(text: &[u8], at: usize) -> usize {
    if text.get(at).is_some_and(|byte| *byte > b' ') { at } else { skip_blanks(text, at) }
}

/// Returns the kind of the value at `at`, its range without quotes, and the position of the comma
/// or end that follows it.
pub(crate) fn value(inner: &[u8], at: usize) -> Option<(Value, Range<usize>, usize)> {
    let rest = inner.get(at..)?;
    let (value, range, end) = if let Some(text) = rest.strip_prefix(b"\"") {
        let close = at + 1 + quote(text)?;
        (Value::Text, at + 1..close, close + 1)
    } else {
        let is_end = |byte: &u8| matches!(byte, b',' | b' ' | b'\t' | b'\r' | b'\n');
        let end = at + digits(rest).or_else(|| rest.iter().position(is_end)).unwrap_or(rest.len());
        let value = match inner.get(at..end)? {
            b"null" => Value::Null,
            b"true" | b"false" => Value::Boolean,
            token => number(rest, token).or_else(|| (number_end(inner, at) == Ok(end)).then_some(Value::Number))?,
        };
        (value, at..end, end)
    };
    let next = blanks(inner, end);
    matches!(inner.get(next), None | Some(b',')).then_some((value, range, next))
}

/// Returns the length of a token of digits, signs and points up to a comma; `None` if another byte
/// follows.
#[inline]
pub(crate) fn digits(text: &[u8]) -> Option<usize> {
    let is_end = |byte: &u8| !(b'-'..=b'9').contains(byte);
    let length = match text.first_chunk() {
        Some(first) => {
            let bytes = u64::from_le_bytes(*first);
            // Finds the lowest byte that is less than '-', greater than '9', or not ASCII; higher
            // bytes may be wrong.
            let below = bytes.wrapping_sub(ONES * u64::from(b'-'));
            let above = bytes.wrapping_add(ONES * u64::from(0x7f - b'9'));
            match (below | above | bytes) & (ONES << 7) {
                0 => 8 + text.get(8..)?.iter().position(is_end)?,
                ends => ends.trailing_zeros() as usize / 8,
            }
        }
        None => text.iter().position(is_end)?,
    };
    (text.get(length) == Some(&b',')).then_some(length)
}

/// Returns the position of the first quote. Most texts are too short for calling a search function.
#[inline]
fn quote(text: &[u8]) -> Option<usize> {
    let Some(first) = text.first_chunk::<{ 8 * WORDS }>() else { return memchr(b'"', text) };
    for (number, word) in words(first).into_iter().enumerate() {
        // Finds the lowest zero byte (Warren, "Hacker's Delight", 6-1); higher bytes may be wrong.
        let differs = word ^ (ONES * u64::from(b'"'));
        let zero = differs.wrapping_sub(ONES) & !differs & (ONES << 7);
        if zero != 0 {
            return Some(8 * number + zero.trailing_zeros() as usize / 8);
        }
    }
    Some(first.len() + memchr(b'"', text.get(first.len()..)?)?)
}

/// Returns the position of the comma or end after the value at `at`.
#[inline]
fn skip_value(inner: &[u8], at: usize) -> Option<usize> {
    let rest = inner.get(at..)?;
    if let Some(text) = rest.strip_prefix(b"\"") {
        let next = blanks(inner, at + 2 + quote(text)?);
        return matches!(inner.get(next), None | Some(b',')).then_some(next);
    }
    if let Some(length) = digits(rest).filter(|length| *length > 0) {
        return Some(at + length);
    }
    let stops = |byte: &u8| matches!(byte, b',' | b'"' | b':' | b'{' | b'}' | b'[' | b']');
    let length = rest.iter().position(stops).unwrap_or(rest.len());
    (length > 0 && matches!(rest.get(length), None | Some(b','))).then_some(at + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_ends_of_numbers_are_found_wherever_they_are() {
        for length in 0..40 {
            for at in 0..length {
                // The bytes before and after the quote differ from it in one bit.
                let mut text = vec![b'#'; length];
                text[at] = b'"';
                assert_eq!(quote(&text), Some(at));
                if let Some(next) = text.get_mut(at + 1) {
                    *next = b'"';
                }
                assert_eq!(quote(&text), Some(at), "the first of two");
                text.fill(b'\xa2');
                assert_eq!(quote(&text), None);
            }
        }
        assert_eq!(
            ["-1.50,2", "12", "1 ,", "1e5,", ","].map(|text| digits(text.as_bytes())),
            [Some(5), None, None, None, Some(0)]
        );
    }
}

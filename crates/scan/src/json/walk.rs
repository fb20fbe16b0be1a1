//! A walk through a plain record from member to member.
//!
//! A record is plain if it is one object without objects, arrays and escapes in it. Most records of a text have the
//! same keys in the same order, so a key is compared with the one at its place in the record before; only where they
//! differ is it looked up. Keys, colons and commas are checked, values only if they are asked for.

use std::ops::Range;

use memchr::{memchr, memchr3};

use super::alike::{Place, Shape};
use super::numbers::{ONES, number};
use super::token::{STEPS_A_NAME, number_end, skip_blanks, without_blanks_after};
use crate::interrupt::Steps;

/// A value of a plain record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Value {
    Null = 1,
    Text = 2,
    Number = 4,
    Integer = 8,
    Boolean = 16,
}

/// Whose value a key announces.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Whose {
    Nobodys,
    /// That of the member with this number.
    Members(usize),
    /// That of several.
    Several,
}

impl Whose {
    /// From whether it is that of each member.
    pub(super) fn of(mut members: impl Iterator<Item = bool>) -> Self {
        match members.position(|is_its| is_its) {
            None => Self::Nobodys,
            Some(_) if members.any(|is_its| is_its) => Self::Several,
            Some(number) => Self::Members(number),
        }
    }
}

/// A key as it is written, with its quotes and the colon.
struct Key {
    bytes: Vec<u8>,
    /// The first bytes as words, zero where there are no more, and ones where there are.
    words: [u64; WORDS],
    masks: [u64; WORDS],
    /// Whose it is.
    whose: Whose,
    /// Whether the last value was a string.
    is_string: bool,
}

impl Key {
    fn new(bytes: &[u8], whose: Whose) -> Self {
        let (mut first, mut mask) = ([0; 8 * WORDS], [0; 8 * WORDS]);
        for ((first, mask), byte) in first.iter_mut().zip(&mut mask).zip(bytes) {
            (*first, *mask) = (*byte, u8::MAX);
        }
        Self { bytes: bytes.to_vec(), words: words(&first), masks: words(&mask), whose, is_string: false }
    }

    /// Whether `text` begins with it.
    #[inline]
    fn begins(&self, text: &[u8]) -> bool {
        // Most keys are compared as words, without a call.
        let Some(first) = text.first_chunk() else { return text.starts_with(&self.bytes) };
        let ([low, high], [low_mask, high_mask]) = (words(first), self.masks);
        if [low & low_mask, high & high_mask] != self.words {
            return false;
        }
        self.bytes.len() <= 8 * WORDS || text.starts_with(&self.bytes)
    }
}

/// Records with more members have no shape.
const MOST_MEMBERS: usize = 1024;

/// How many words of a key are compared.
const WORDS: usize = 2;

#[inline]
fn words(bytes: &[u8; 8 * WORDS]) -> [u64; WORDS] {
    let (low, high) = bytes.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    [u64::from_le_bytes(*low), high.first_chunk().map_or(0, |high| u64::from_le_bytes(*high))]
}

/// Goes through plain records.
#[derive(Default)]
pub(super) struct Walk {
    /// The keys of the record before.
    keys: Vec<Key>,
    /// How many of them it had; none if it was not plain.
    members: usize,
    steps: Steps,
}

impl Walk {
    /// Goes through the members of a record without escapes, of which `inner` is what stands between its braces, and gives
    /// those that `whose` knows, of so many names, to `take`, with the text of a string without its quotes. `None` if
    /// a member is there twice
    /// or belongs to several, if `take` says so, or if the record is not plain or not as it should be.
    #[inline]
    pub(super) fn members(
        &mut self,
        inner: &[u8],
        names: usize,
        whose: &dyn Fn(&[u8]) -> Whose,
        take: &mut impl FnMut(usize, Value, Range<usize>) -> Option<()>,
    ) -> Option<()> {
        // One bit for each member that was met; records with more are not walked through.
        let mut met = 0u64;
        self.members = 0;
        let mut at = blanks(inner, 0);
        let mut place = 0;
        while at < inner.len() {
            let rest = inner.get(at..)?;
            if !self.keys.get(place).is_some_and(|key| key.begins(rest)) {
                if !self.steps.go_on(STEPS_A_NAME * names) {
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
            // A comma, after which there must be a member.
            if at < inner.len() {
                at = blanks(inner, at + 1);
                inner.get(at)?;
            }
            place += 1;
        }
        self.members = place;
        Some(())
    }

    /// What the last record was like; `None` if it was not plain, or had no members.
    pub(super) fn shape(&self) -> Option<Shape> {
        let members = self.keys.get(..self.members).filter(|members| (1..=MOST_MEMBERS).contains(&members.len()))?;
        let places = members.iter().map(|key| Place::new(&key.bytes, key.whose, key.is_string));
        places.collect::<Option<_>>().map(Shape::new)
    }
}

/// Where what stands between the braces of a record lies in the text.
#[inline]
pub(super) fn inside(text: &[u8], record: &Range<usize>) -> Option<Range<usize>> {
    let [b'{', inner @ .., b'}'] = without_blanks_after(text.get(record.clone())?) else { return None };
    Some(record.start + 1..record.start + 1 + inner.len())
}

/// Whether no object, array or escape begins in what stands between the braces of a record.
#[inline]
pub(super) fn is_plain(inner: &[u8]) -> bool {
    memchr3(b'{', b'[', b'\\', inner).is_none()
}

/// Whether no escape is in what [`Walk::members`] goes through.
#[inline]
pub(super) fn is_unescaped(text: &[u8]) -> bool {
    memchr(b'\\', text).is_none()
}

/// The key that `text` begins with, up to its colon.
#[cold]
fn key(text: &[u8], whose: &dyn Fn(&[u8]) -> Whose) -> Option<Key> {
    let close = 1 + memchr(b'"', text.strip_prefix(b"\"")?)?;
    let colon = skip_blanks(text, close + 1);
    let (name, bytes) = (text.get(..=close)?, text.get(..=colon)?);
    bytes.ends_with(b":").then(|| Key::new(bytes, whose(name)))
}

/// [`skip_blanks`], mostly of none.
#[inline]
pub(super) fn blanks(text: &[u8], at: usize) -> usize {
    if text.get(at).is_some_and(|byte| *byte > b' ') { at } else { skip_blanks(text, at) }
}

/// The value at `at`, where it lies without its quotes, and where the comma after it or the end is.
pub(super) fn value(inner: &[u8], at: usize) -> Option<(Value, Range<usize>, usize)> {
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

/// The length of a token of digits, signs and points up to its comma; `None` if something else follows.
#[inline]
fn digits(text: &[u8]) -> Option<usize> {
    let is_end = |byte: &u8| !(b'-'..=b'9').contains(byte);
    let length = match text.first_chunk() {
        Some(first) => {
            let bytes = u64::from_le_bytes(*first);
            // The lowest byte that is below '-' or above '9', or not of ASCII; those above it may be told wrongly.
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

/// Where the first quote is. Most texts are short, for which a search is not worth its call.
#[inline]
fn quote(text: &[u8]) -> Option<usize> {
    let Some(first) = text.first_chunk::<{ 8 * WORDS }>() else { return memchr(b'"', text) };
    for (number, word) in words(first).into_iter().enumerate() {
        // The lowest byte that is zero (Warren, "Hacker's Delight", 6-1); bytes above it may be told wrongly.
        let differs = word ^ (ONES * u64::from(b'"'));
        let zero = differs.wrapping_sub(ONES) & !differs & (ONES << 7);
        if zero != 0 {
            return Some(8 * number + zero.trailing_zeros() as usize / 8);
        }
    }
    Some(first.len() + memchr(b'"', text.get(first.len()..)?)?)
}

/// Where the value at `at` ends, up to the comma after it or the end.
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
                // Bytes that differ from a quote in one bit, before and behind it.
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

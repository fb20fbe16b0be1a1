//! Whether a token spells a number in the common way, with few digits: of one, and of many at a time.

#![allow(clippy::inline_always, reason = "what is not inlined into a kernel is compiled without its features")]

use super::commas::TOGETHER;
use super::walk::Value;

/// A one in each byte.
pub(super) const ONES: u64 = u64::MAX / 255;

/// Seven ones in each byte.
const SEVEN: u64 = ONES * 0x7f;

/// What a token, with which `text` begins, is that spells a number in the common way, with few digits.
#[inline]
pub(super) fn number(text: &[u8], token: &[u8]) -> Option<Value> {
    let is_negative = token.first() == Some(&b'-');
    let digits = token.len() - usize::from(is_negative);
    let (whole, places) = match text.get(usize::from(is_negative)..).and_then(<[u8]>::first_chunk) {
        Some(first) if digits <= 8 => {
            let bytes = u64::from_le_bytes(*first) ^ (ONES * u64::from(b'0'));
            let token = u64::MAX.checked_shr(8 * (8 - digits as u32)).unwrap_or(0);
            // The high bit of each byte of the token that is no digit: exactly, since sums of seven bits do not carry.
            let others = (((bytes & SEVEN) + ONES * (0x7f - 9)) | bytes) & !SEVEN & token;
            let whole = if others == 0 { digits } else { others.trailing_zeros() as usize / 8 };
            // The point is the only one.
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
        // The point, and at least a digit.
        1 => None,
        _ => (canonical && token.get(usize::from(is_negative) + whole) == Some(&b'.')).then_some(Value::Number),
    }
}

/// Tokens that are looked at together.
pub(super) struct Tokens {
    /// The eight bytes up to where each ends.
    endings: [u64; TOGETHER],
    /// How long they are; zero where there is none.
    lengths: [u64; TOGETHER],
}

impl Default for Tokens {
    fn default() -> Self {
        Self { endings: [0; TOGETHER], lengths: [0; TOGETHER] }
    }
}

impl Tokens {
    /// Takes the token with this number, which lies there in the text.
    #[inline(always)]
    pub(super) fn put(&mut self, number: usize, text: &[u8], from: usize, end: usize) {
        let ending = end.checked_sub(8).and_then(|first| text.get(first..end)?.first_chunk());
        if let (Some(ending), Some(into), Some(length)) =
            (ending, self.endings.get_mut(number), self.lengths.get_mut(number))
        {
            (*into, *length) = (u64::from_le_bytes(*ending), (end - from) as u64);
        }
    }

    /// A bit for each that is an integer, and for each that is another number: without a sign, of at most 8 bytes. Those that
    /// are neither are left to [`number`].
    #[inline(always)]
    pub(super) fn numbers(&self) -> (u64, u64) {
        let (mut integers, mut others) = ([0u64; TOGETHER], [0u64; TOGETHER]);
        let tokens = self.endings.iter().zip(&self.lengths);
        for ((ending, length), (integer, other)) in tokens.zip(integers.iter_mut().zip(&mut others)) {
            let is_short = *length >= 1 && *length <= 8;
            let first = 64u32.wrapping_sub(8 * *length as u32) & 63;
            let mask = u64::MAX << first;
            let bytes = ending ^ (ONES * u64::from(b'0'));
            // The high bit of each byte that is no digit, and that is no point, exactly: sums of seven bits do not carry.
            let no_digits = (((bytes & SEVEN) + ONES * (0x7f - 9)) | bytes) & !SEVEN & mask;
            let points = bytes ^ (ONES * u64::from(b'0' ^ b'.'));
            let points = !(((points & SEVEN) + SEVEN) | points) & !SEVEN & mask;
            let (first_bit, last_bit) = (0x80 << first, 0x80 << 56);
            // Nothing but a zero begins with one.
            let is_zero_first = (bytes >> first) & 0xff == 0;
            let is_canonical = !is_zero_first || *length == 1 || points == first_bit << 8;
            let is_one_point = no_digits & no_digits.wrapping_sub(1) == 0 && no_digits & (first_bit | last_bit) == 0;
            let is_number = is_short & is_canonical & is_one_point & (no_digits == points);
            *integer = u64::from(is_number & (no_digits == 0));
            *other = u64::from(is_number & (no_digits != 0));
        }
        (bits(&integers), bits(&others))
    }
}

/// A bit for each that is one and not zero.
#[inline(always)]
fn bits(flags: &[u64; TOGETHER]) -> u64 {
    flags.iter().enumerate().fold(0, |bits, (number, flag)| bits | flag << number)
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::json::token::number_end;

    #[test]
    fn many_are_told_as_one_by_one_and_as_json_has_them() {
        let mut random = StdRng::seed_from_u64(11);
        let mut next = |n: usize| random.random_range(0..n);
        let mut found = 0;
        for _ in 0..4_000 {
            let (mut text, mut spans) = (vec![b'7'; 8], Vec::new());
            let mut tokens = Tokens::default();
            for token in 0..TOGETHER {
                let from = text.len();
                match next(3) {
                    0 => text.extend((0..next(11)).map(|_| b"00123456789..-e +/:\xae\xb0"[next(21)])),
                    1 => text.extend(format!("{}.{}", next(3_000), next(300)).bytes()),
                    _ => text.extend(next(200_000_000).to_string().bytes()),
                }
                tokens.put(token, &text, from, text.len());
                spans.push(from..text.len());
            }
            text.extend(b",");
            let (integers, others) = tokens.numbers();
            assert_eq!(integers & others, 0);
            for (token, span) in spans.into_iter().enumerate() {
                let rest = [&text[span.clone()], b",\"next\":1.5"].concat();
                let one = number(&rest, &rest[..span.len()]);
                let many = match (integers >> token & 1, others >> token & 1) {
                    (1, _) => Some(Value::Integer),
                    (_, 1) => Some(Value::Number),
                    _ => None,
                };
                let shown = String::from_utf8_lossy(&rest);
                if span.len() <= 8 && rest.first() != Some(&b'-') {
                    assert_eq!(many, one, "{shown}");
                } else {
                    assert_eq!(many, None, "{shown}");
                }
                if one.is_some() {
                    found += 1;
                    assert_eq!(number_end(&rest, 0), Ok(span.len()), "{shown}");
                }
            }
        }
        // Else this would prove little.
        assert!(found > 100_000, "{found}");
    }
}

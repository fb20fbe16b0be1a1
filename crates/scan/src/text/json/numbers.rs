//! Recognition of numbers in a common spelling, many tokens at a time.

#![allow(clippy::inline_always, reason = "what is not inlined into a kernel is compiled without its features")]

use crate::text::json::commas::GROUP_RECORDS;
use crate::text::json::value::{ONES, SEVEN};

/// The maximum number of digits of an integer that is written with an exponent.
const MOST_DIGITS: usize = 40;

/// Returns the digits, after a sign, of an integer that is written with a point or an exponent,
/// such as `17.0` or `1.5e1`. Returns `None` if the number is not an integer.
pub(crate) fn whole(token: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(token).ok()?;
    let (sign, unsigned) = if let Some(rest) = text.strip_prefix('-') { ("-", rest) } else { ("", text) };
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let after = after.trim_end_matches('0');
    let is_number = before.bytes().chain(after.bytes()).all(|byte| byte.is_ascii_digit()) && !before.is_empty();
    let exponent: i64 = exponent.parse().ok().filter(|_| is_number)?;
    let digits = format!("{before}{after}");
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return Some("0".to_owned());
    }
    // The number of zeros to append to the digits, or, if negative, of digits after the point.
    let zeros = exponent - i64::try_from(after.len()).ok()?;
    let whole = match usize::try_from(zeros) {
        Ok(zeros) if significant.len() + zeros <= MOST_DIGITS => format!("{significant}{}", "0".repeat(zeros)),
        Ok(_) => return None,
        Err(_) => {
            let places = usize::try_from(zeros.unsigned_abs()).ok()?;
            let end = significant.len().checked_sub(places)?;
            let (whole, cut) = significant.split_at_checked(end)?;
            cut.bytes().all(|byte| byte == b'0').then(|| whole.to_owned())?
        }
    };
    Some(format!("{sign}{whole}"))
}

/// A group of tokens that are classified together.
pub(crate) struct Tokens {
    /// The last eight bytes of each token.
    endings: [u64; GROUP_RECORDS],
    /// The length of each token; zero if there is none.
    lengths: [u64; GROUP_RECORDS],
}

impl Default for Tokens {
    fn default() -> Self {
        Self { endings: [0; GROUP_RECORDS], lengths: [0; GROUP_RECORDS] }
    }
}

impl Tokens {
    /// Sets the token with this number.
    #[inline(always)]
    pub(crate) fn put(&mut self, number: usize, text: &[u8], from: usize, end: usize) {
        let ending = end.checked_sub(8).and_then(|first| text.get(first..end)?.first_chunk());
        if let (Some(ending), Some(into), Some(length)) =
            (ending, self.endings.get_mut(number), self.lengths.get_mut(number))
        {
            (*into, *length) = (u64::from_le_bytes(*ending), (end - from) as u64);
        }
    }

    /// Returns masks of the integers and of the other numbers, among tokens of at most 8 bytes
    /// without a sign. Other tokens are left to [`number`].
    #[inline(always)]
    pub(crate) fn numbers(&self) -> (u64, u64) {
        let (mut integers, mut others) = ([0u64; GROUP_RECORDS], [0u64; GROUP_RECORDS]);
        let tokens = self.endings.iter().zip(&self.lengths);
        for ((ending, length), (integer, other)) in tokens.zip(integers.iter_mut().zip(&mut others)) {
            let is_short = *length >= 1 && *length <= 8;
            let first = 64u32.wrapping_sub(8 * *length as u32) & 63;
            let mask = u64::MAX << first;
            let bytes = ending ^ (ONES * u64::from(b'0'));
            // Sets the high bit of exactly those bytes that are neither a digit nor a point: sums
            // of seven bits do not carry.
            let no_digits = (((bytes & SEVEN) + ONES * (0x7f - 9)) | bytes) & !SEVEN & mask;
            let points = bytes ^ (ONES * u64::from(b'0' ^ b'.'));
            let points = !(((points & SEVEN) + SEVEN) | points) & !SEVEN & mask;
            let (first_bit, last_bit) = (0x80 << first, 0x80 << 56);
            // Only zero may begin with a zero.
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

/// Returns a bit for each value, set if the value is not zero.
#[inline(always)]
fn bits(flags: &[u64; GROUP_RECORDS]) -> u64 {
    flags.iter().enumerate().fold(0, |bits, (number, flag)| bits | flag << number)
}

#[cfg(test)]
mod tests {
    use crate::text::json::value::Value;
    use crate::text::json::value::number;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::values::json::number_end;

    #[test]
    fn integers_are_found_however_they_are_written() {
        for (token, integer) in [
            ("17", Some("17")),
            ("17.0", Some("17")),
            ("-17.00", Some("-17")),
            ("1.5e1", Some("15")),
            ("1E3", Some("1000")),
            ("120e-1", Some("12")),
            ("-0.0", Some("0")),
            ("0.5e1", Some("5")),
            ("0e999999999999", Some("0")),
            ("9223372036854775807.000", Some("9223372036854775807")),
            ("2.5", None),
            ("0.1", None),
            ("125e-1", None),
            ("1e-5", None),
            ("1e100", None),
            ("x", None),
            ("", None),
            ("1e", None),
        ] {
            assert_eq!(whole(token.as_bytes()).as_deref(), integer, "{token}");
        }
    }

    #[test]
    fn many_are_told_as_one_by_one_and_as_json_has_them() {
        let mut random = StdRng::seed_from_u64(11);
        let mut next = |n: usize| random.random_range(0..n);
        let mut found = 0;
        for _ in 0..4_000 {
            let (mut text, mut spans) = (vec![b'7'; 8], Vec::new());
            let mut tokens = Tokens::default();
            for token in 0..GROUP_RECORDS {
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
        // With fewer numbers, this test would prove little.
        assert!(found > 100_000, "{found}");
    }
}

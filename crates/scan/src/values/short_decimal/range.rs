//! Conditions on short decimals, decided without their values.
//!
//! Among texts with the same number of decimal places, the number formed by all digits is ordered
//! like the values, whatever the type. So the selected texts are a range of these numbers. A binary
//! search, with the rule of the type, finds the ends of the range.

use std::ops::RangeInclusive;

use crate::values::fields::FieldBytes;
use crate::values::nulls::Nulls;
use crate::values::short_decimal::number::{MAX_DIGITS, usual_number};

/// The largest number of [`MAX_DIGITS`] digits, plus one.
const BEYOND: u32 = 10u32.pow(MAX_DIGITS as u32);

pub(crate) struct ShortDecimals {
    /// For each number of decimal places, the least selected number and the count of selected
    /// numbers; `None` if the general rule decides.
    wanted: [Option<(u32, u32)>; MAX_DIGITS],
}

impl ShortDecimals {
    /// Returns the short decimals whose keys are in `keys`. `key` returns the key of a number that
    /// is not NULL; it must be monotonic.
    pub(crate) fn new(
        key: impl Fn(FieldBytes<'_>) -> Option<i64>,
        nulls: &Nulls,
        keys: RangeInclusive<i64>,
    ) -> Option<Self> {
        let is_usual = |text: &[u8]| {
            let mut ahead = [0; 16];
            ahead.iter_mut().zip(text).for_each(|(ahead, byte)| *ahead = *byte);
            usual_number(text.len(), &ahead).is_some()
        };
        if nulls.text.as_deref().is_some_and(is_usual) {
            return None;
        }
        let wanted = std::array::from_fn(|places| {
            let key_of = |digits| {
                let (text, length) = spelled(digits, places);
                key(FieldBytes { bytes: text.get(..length)?, ahead: Some(&text) })
            };
            // A type that accepts the greatest number accepts all of them.
            key_of(BEYOND - 1)?;
            let first = |is_beyond: fn(i64, i64) -> bool, bound| {
                first_where(|digits| key_of(digits).is_none_or(|key| is_beyond(key, bound)))
            };
            let (from, to) =
                (first(|key, least| key >= least, *keys.start()), first(|key, most| key > most, *keys.end()));
            Some((from, to.saturating_sub(from)))
        });
        wanted.iter().any(Option::is_some).then_some(Self { wanted })
    }

    /// Returns whether the number in the first `length` of these bytes is selected; `None` if it is
    /// not a short decimal.
    #[inline(always)]
    pub(crate) fn decide(&self, length: usize, ahead: &[u8; 16]) -> Option<bool> {
        let (digits, places) = usual_number(length, ahead)?;
        let (least, count) = (*self.wanted.get(places)?)?;
        Some((digits as u32).wrapping_sub(least) < count)
    }
}

/// Returns a text with these digits and a point before the last `places` of them, and its length.
fn spelled(mut digits: u32, places: usize) -> ([u8; 16], usize) {
    let length = MAX_DIGITS + usize::from(places > 0);
    let mut text = [0; 16];
    for (behind, byte) in text.iter_mut().take(length).rev().enumerate() {
        if places > 0 && behind == places {
            *byte = b'.';
            continue;
        }
        *byte = b'0' + (digits % 10) as u8;
        digits /= 10;
    }
    (text, length)
}

/// Returns the first number for which `holds` is true; [`BEYOND`] if there is none. `holds` must be
/// monotonic.
fn first_where(holds: impl Fn(u32) -> bool) -> u32 {
    let (mut from, mut to) = (0, BEYOND);
    while from < to {
        let middle = from.midpoint(to);
        if holds(middle) { to = middle } else { from = middle + 1 }
    }
    from
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::values::parse::{decimal128, float32, float64, int64};

    type Key = fn(FieldBytes<'_>) -> Option<i64>;

    /// A rule for each type, with keys in the order in which values are compared.
    const RULES: [(&str, Key); 6] = [
        ("double", |field| Some(float64(field)?.to_bits().cast_signed())),
        ("float", |field| Some(float32(field.bytes)?.to_bits().into())),
        ("integer", |field| int64(field)),
        ("small integer", |field| i8::try_from(int64(field)?).ok().map(i64::from)),
        ("decimal", |field| i64::try_from(decimal128(field, 15, 2)?).ok()),
        ("small decimal", |field| i64::try_from(decimal128(field, 5, 2)?).ok()),
    ];

    #[test]
    fn usual_numbers_are_decided_as_the_rule_does() {
        let mut random = StdRng::seed_from_u64(5);
        let mut next = |n: u64| random.random_range(0..n);
        let (mut decided, mut all) = (0, 0);
        for (name, key) in RULES {
            for _ in 0..400 {
                let mut bound = || {
                    let most = [2, 100, 100_000][next(3) as usize];
                    let (whole, places) = (next(most).to_string(), next(1000));
                    let text = format!("{whole}.{places}");
                    key(text.as_bytes().into()).or(key(whole.as_bytes().into())).unwrap_or(i64::MAX)
                };
                let ranges = [bound()..=bound(), i64::MIN..=bound(), bound()..=i64::MAX];
                let range = &ranges[next(3) as usize];
                let usual = ShortDecimals::new(key, &Nulls::never(), range.clone());
                for _ in 0..200 {
                    let text: Vec<u8> = match next(3) {
                        0 => (0..next(11)).map(|_| b"0123456789.."[next(12) as usize]).collect(),
                        1 => format!("{}.{:02}", next(200_000), next(100)).into_bytes(),
                        _ => next(300).to_string().into_bytes(),
                    };
                    let mut padded = [b'7'; 16];
                    padded[..text.len()].copy_from_slice(&text);
                    let expected = key(text.as_slice().into()).map(|key| range.contains(&key));
                    all += 1;
                    if let Some(is_wanted) = usual.as_ref().and_then(|usual| usual.decide(text.len(), &padded)) {
                        decided += 1;
                        assert_eq!(Some(is_wanted), expected, "{name} {range:?} {}", String::from_utf8_lossy(&text));
                    }
                }
            }
        }
        // With fewer decided fields, this test would prove little.
        assert!(decided * 3 > all, "{decided} of {all}");
    }

    #[test]
    fn a_null_that_is_a_number_is_left_to_the_rule() {
        let nulls = |text: &[u8]| Nulls { text: Some(text.to_vec()), ..Nulls::never() };
        let usual = |text: &[u8]| ShortDecimals::new(|field| int64(field), &nulls(text), 0..=9).is_some();
        assert!(usual(b"-1") && usual(b"\\N") && usual(b""));
        assert!(!usual(b"0") && !usual(b"9.9"));
    }
}

//! Short decimals, decoded in groups in the lanes of a register.

#![allow(clippy::inline_always, reason = "what is not inlined into a kernel is compiled without its features")]

use arrow::datatypes::DataType;

use crate::simd::{self, Kernel, Lanes};
use crate::values::digits::spelled_by;
use crate::values::fields::FieldColumn;
use crate::values::nulls::{Nulls, Spelling};

/// The number of fields in a group.
pub(crate) const GROUP: usize = 32;

const POINTS: u64 = u64::from_ne_bytes([b'.'; 8]);
const ZEROS: u64 = u64::from_ne_bytes([b'0'; 8]);
const HIGH_BITS: u64 = u64::from_ne_bytes([0x80; 8]);

/// The short decimals of a column: 1 to 8 digits without a sign. The point is before the last
/// digits, as many as the type has decimal places; there is none if it has no decimal places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortDecimal {
    places: u32,
    /// True if no number other than zero may begin with a zero.
    keeps_zeros: bool,
}

impl ShortDecimal {
    /// Returns the short decimals of a type if all of them are in its range. Returns `None` for
    /// other types, and if one of them means NULL.
    pub(crate) fn of(data_type: &DataType, nulls: &Nulls, spelling: Spelling) -> Option<Self> {
        let places = match data_type {
            DataType::Int32 | DataType::Int64 | DataType::UInt32 | DataType::UInt64 => 0,
            DataType::Decimal128(8.., scale) => u32::try_from(*scale).ok().filter(|places| *places <= 6)?,
            _ => return None,
        };
        let spells = |text: &[u8]| text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.'));
        let keeps_zeros = spelling == Spelling::Inferred;
        if keeps_zeros && places > 0 {
            return None;
        }
        let is_null = nulls.text.as_deref().is_some_and(|text| !text.is_empty() && spells(text));
        (!is_null).then_some(Self { places, keeps_zeros })
    }

    /// Decodes a group of fields, starting at `row`, to numbers without the point. Also returns a
    /// mask of the fields that are not short decimals; their numbers are arbitrary.
    #[inline]
    pub(crate) fn numbers(self, fields: &FieldColumn<'_>, row: usize) -> ([u64; GROUP], u32) {
        simd::run(Numbers { spelling: self, fields, row })
    }
}

struct Numbers<'a, 'f> {
    spelling: ShortDecimal,
    fields: &'a FieldColumn<'f>,
    row: usize,
}

impl Kernel for Numbers<'_, '_> {
    type Output = ([u64; GROUP], u32);

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) -> Self::Output {
        let Self { spelling: ShortDecimal { places, keeps_zeros }, fields, row } = self;
        let (mut words, mut lengths) = ([0u64; GROUP], [0u64; GROUP]);
        for (number, (word, length)) in words.iter_mut().zip(&mut lengths).enumerate() {
            if let Some((ending, bytes)) = fields.ending(fields.span(row + number)) {
                (*word, *length) = (u64::from_le_bytes(*ending), bytes as u64);
            }
        }
        // The point is before the highest bytes, as many as there are decimal places.
        let (point, least) = if places == 0 { (64, 1) } else { (56 - 8 * places, u64::from(places) + 2) };
        let below = u64::MAX.checked_shr(64 - point).unwrap_or(0);
        let above = if places == 0 { 0 } else { u64::MAX << (point + 8) };
        let at_point = !(below | above);
        let mut others = [0u64; GROUP];
        for ((word, length), other) in words.iter_mut().zip(&lengths).zip(&mut others) {
            let is_short = u64::from(*length < least || *length > 8);
            // Ones in the bytes of the number.
            let mask = u64::MAX.wrapping_shl(64u32.wrapping_sub(8 * *length as u32));
            let own = *word & mask;
            let misplaced = (own ^ POINTS) & at_point;
            // Moves the digits before the point directly below those after it.
            let shift = if places == 0 { 0 } else { 8 };
            let digits = (own & above | (own & below) << shift) ^ (ZEROS & (mask << shift));
            // The first of several digits is the lowest byte.
            let first = digits.wrapping_shr(64u32.wrapping_sub(8 * *length as u32)) & 0xff;
            let padded = u64::from(keeps_zeros) & u64::from(*length > 1) & u64::from(first == 0);
            // Other characters become greater than 9, and set the high bit in the addition.
            *other = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & HIGH_BITS | misplaced | is_short | padded;
            // It is arbitrary for fields with a bit in the mask.
            *word = spelled_by(digits);
        }
        let mut mask = 0;
        for (number, other) in others.iter().enumerate() {
            mask |= u32::from(*other != 0) << number;
        }
        (words, mask)
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::values::fields::{Quoting, Span};
    use crate::values::parse::{begins_with_zeros, decimal128, int64};

    #[test]
    fn a_group_has_the_numbers_that_its_fields_have_one_by_one() {
        let mut random = StdRng::seed_from_u64(9);
        let mut next = |n: usize| random.random_range(0..n);
        let (mut told, mut all) = (0, 0);
        for round in 0..4_000 {
            let places = next(8);
            let data_type = if places == 0 { DataType::Int64 } else { DataType::Decimal128(15, places as i8) };
            let spelling = if round % 3 == 0 { Spelling::Inferred } else { Spelling::Declared };
            let Some(usual) = ShortDecimal::of(&data_type, &Nulls::never(), spelling) else {
                assert!(places == 7 || places > 0 && spelling == Spelling::Inferred, "{data_type}");
                continue;
            };
            let (mut data, mut spans) = (vec![b'7'; next(3)], Vec::new());
            for _ in 0..GROUP {
                let start = data.len();
                match next(4) {
                    _ if round % 2 == 0 => data.extend(format!("{:.places$}", next(20_000) as f64 / 7.0).bytes()),
                    0 => data.extend((0..next(11)).map(|_| b"0123456789.. -+e:/TV\xae"[next(21)])),
                    1 => data.extend((0..next(11)).map(|_| b"0123456789"[next(10)])),
                    2 => data.extend(format!("{:.places$}", next(1_000_000) as f64 / 1_000.0).bytes()),
                    _ => data.extend(next(100_000_000).to_string().bytes()),
                }
                let end = data.len();
                data.extend(&b",.7"[next(3)..]);
                spans.push(match next(40) {
                    0 => Span::MISSING,
                    1 => Span::raw(start, end),
                    _ => Span::plain(start, end),
                });
            }
            let quoting = Quoting { quote: b'"', escape: None };
            let fields = FieldColumn { data: &data, spans: &spans, stride: 1, column: 0, rows: None, quoting };
            let (numbers, others) = usual.numbers(&fields, 0);
            for (number, span) in spans.iter().enumerate() {
                all += 1;
                if others >> number & 1 == 1 {
                    continue;
                }
                told += 1;
                let mut scratch = Vec::new();
                let field = fields.bytes(*span, &mut scratch).unwrap();
                assert!(spelling == Spelling::Declared || !begins_with_zeros(field), "{}", fields.shown(*span));
                let expected = match places {
                    0 => int64(field).map(i128::from),
                    _ => decimal128(field, 15, places as i8),
                };
                assert_eq!(expected, Some(numbers[number].into()), "{data_type} {}", fields.shown(*span));
            }
        }
        // With fewer decided fields, this test would prove little.
        assert!(told * 4 > all, "{told} of {all}");
    }

    #[test]
    fn a_null_that_is_a_number_is_left_to_the_rule() {
        let usual = |text: &[u8]| {
            let nulls = Nulls { text: Some(text.to_vec()), ..Nulls::never() };
            ShortDecimal::of(&DataType::Decimal128(15, 2), &nulls, Spelling::Declared).is_some()
        };
        assert!(usual(b"\\N") && usual(b"-1.00") && usual(b""));
        assert!(!usual(b"0.00") && !usual(b"9"));
    }
}

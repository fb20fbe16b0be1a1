//! Conditions on text.

use std::cmp::Ordering;

use datafusion_common::ScalarValue;
use pushdowndb_contract::Result;

use crate::runtime::interrupt::Steps;
use crate::text::predicate::wanted::{Atom, FieldCondition, Wanted, select_where};
use crate::values::fields::{FieldBytes, FieldColumn};
use crate::values::nulls::{BadField, Nulls};

/// The number of bytes at the start of a text that are compared as one number.
const FIRST: usize = size_of::<u128>();

/// Returns the first bytes of a text, padded with zeros, as a number that is ordered like the text.
#[inline(always)]
fn first_bytes(text: FieldBytes<'_>) -> u128 {
    let length = text.bytes.len().min(FIRST);
    let first = match text.ahead {
        Some(ahead) => *ahead,
        None => {
            let mut first = [0; FIRST];
            first.iter_mut().zip(text.bytes).for_each(|(first, byte)| *first = *byte);
            first
        }
    };
    let beyond = u128::MAX.checked_shr(8 * length as u32).unwrap_or(0);
    u128::from_be_bytes(first) & !beyond
}

/// Returns whether the text is ASCII. `first` are its first bytes.
#[inline(always)]
fn is_ascii(text: &[u8], first: u128) -> bool {
    const HIGH: u128 = u128::from_ne_bytes([0x80; FIRST]);
    if text.len() <= FIRST { first & HIGH == 0 } else { text.is_ascii() }
}

/// A bound of a range of texts.
struct TextBound {
    text: Vec<u8>,
    first: u128,
    /// True if the bound is inclusive.
    held: bool,
}

impl TextBound {
    fn new((text, held): (Vec<u8>, bool)) -> Self {
        let first = first_bytes(FieldBytes::from(text.as_slice()));
        Self { text, first, held }
    }

    /// Compares a field with the bound. `first` are the first bytes of the field.
    #[inline(always)]
    fn compare(&self, field: &[u8], first: u128) -> Ordering {
        first.cmp(&self.first).then_with(|| field.cmp(&self.text))
    }
}

pub(crate) struct TextCondition {
    wanted: Wanted<Vec<u8>>,
    least: Option<TextBound>,
    most: Option<TextBound>,
    nulls: Nulls,
}

impl TextCondition {
    pub(crate) fn new(atoms: Vec<Atom>, nulls: &Nulls) -> Option<Self> {
        let value = |value: ScalarValue| Some(value.try_as_str()??.as_bytes().to_vec());
        let mut wanted = Wanted::new(atoms, value)?;
        if !wanted.among.is_empty() {
            return None;
        }
        let (least, most) = (wanted.least.take().map(TextBound::new), wanted.most.take().map(TextBound::new));
        Some(Self { wanted, least, most, nulls: nulls.clone() })
    }

    #[inline(always)]
    fn holds(&self, field: &[u8], first: u128, steps: &mut Steps) -> bool {
        let Wanted { null, one_of, none_of, likes, .. } = &self.wanted;
        let beyond = |bound: &TextBound, side: Ordering| match bound.compare(field, first) {
            Ordering::Equal => bound.held,
            other => other == side,
        };
        let is_one = |list: &Vec<Vec<u8>>| match list.as_slice() {
            [one] => field == one,
            more => more.binary_search_by(|value| value.as_slice().cmp(field)).is_ok(),
        };
        !null
            && self.least.as_ref().is_none_or(|least| beyond(least, Ordering::Greater))
            && self.most.as_ref().is_none_or(|most| beyond(most, Ordering::Less))
            && one_of.as_ref().is_none_or(is_one)
            && (none_of.is_empty() || none_of.binary_search_by(|value| value.as_slice().cmp(field)).is_err())
            && likes.iter().all(|(pattern, negated)| pattern.matches(field, steps) != *negated)
    }
}

impl FieldCondition for TextCondition {
    fn select(&self, fields: &FieldColumn<'_>, selected: &mut Vec<u32>, steps: &mut Steps) -> Result<(), BadField> {
        let mut scratch = Vec::new();
        let mut ascii = true;
        select_where(fields.len(), selected, |row| {
            let span = fields.span(row);
            let Some(field) = fields.field(span, &mut scratch) else {
                self.nulls.check(None, span)?;
                return Ok(self.wanted.null);
            };
            let (bytes, first) = (field.bytes, first_bytes(field));
            ascii &= is_ascii(bytes, first);
            if self.nulls.is_null(fields, span, bytes) {
                self.nulls.check(Some(bytes), span)?;
                return Ok(self.wanted.null);
            }
            Ok(self.holds(bytes, first, steps))
        })?;
        if !ascii {
            for row in 0..fields.len() {
                let span = fields.span(row);
                if fields.bytes(span, &mut scratch).is_some_and(|field| std::str::from_utf8(field).is_err()) {
                    return Err(BadField { span, null: false });
                }
            }
        }
        Ok(())
    }

    fn cost(&self) -> f64 {
        1.0 + self.wanted.likes.len() as f64 * 4.0
    }
}

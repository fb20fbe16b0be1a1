//! Conditions on one field, decided from its bytes without building a column.
//!
//! Every value of a primitive type is mapped to an integer, its *key*, in the order in which Arrow
//! compares the values, so that comparisons are comparisons of keys. The key of a field comes from
//! the rule that decodes the field ([`with_parser`]), whatever its spelling. For dates, which have
//! a single spelling, the key is their digits. Text is compared as it is. Errors of decoding the
//! column are reported here, too: NULL in a NOT NULL column, fields that are not valid for the
//! type, and text that is not UTF-8.
//!
//! Conditions are recognized in lowered form, in which operands have the types in which they are
//! compared. Other conditions are evaluated on columns.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::ArrowPrimitiveType;
use arrow::array::types::Date32Type;
use arrow::datatypes::{ArrowNativeType, DataType, ToByteSlice};
use datafusion_common::ScalarValue;
use foldhash::fast::RandomState;
use pushdowndb_contract::Result;

use crate::expr::bloom::Asked;
use crate::expr::physical::Physical;
use crate::runtime::interrupt::Steps;
use crate::text::predicate::text::TextCondition;
use crate::text::predicate::wanted::{Atom, FieldCondition, Wanted, select_where};
use crate::values::builders::{WithParser, with_parser};
use crate::values::fields::{FieldBytes, FieldColumn, Span};
use crate::values::nulls::{BadField, Nulls, Spelling};
use crate::values::short_decimal::range::ShortDecimals;

/// Returns the conjunction of `conjuncts`, over a schema with only this column. Returns `None` if
/// one of them cannot be decided here.
pub(crate) fn field_condition(
    conjuncts: &[Physical],
    data_type: &DataType,
    nulls: &Nulls,
    spelling: Spelling,
) -> Result<Option<Box<dyn FieldCondition>>> {
    let atoms: Option<Vec<Atom>> = conjuncts.iter().map(Atom::of).collect();
    let Some(atoms) = atoms.filter(|atoms| !atoms.is_empty()) else { return Ok(None) };
    if data_type.is_string() {
        return Ok(TextCondition::new(atoms, nulls).map(|text| Box::new(text) as Box<dyn FieldCondition>));
    }
    Ok(with_parser(data_type, spelling, KeyConditionOf { atoms, nulls })?.flatten())
}

/// Returns the range of values that a conjunction on a single column selects, as the integers that
/// binary formats store: days of a date, unscaled decimals. Returns `None` if the selection is not
/// a range, or for other types.
pub(crate) fn stored_range(conjuncts: &[Physical], data_type: &DataType) -> Option<RangeInclusive<i64>> {
    let atoms: Vec<Atom> = conjuncts.iter().map(Atom::of).collect::<Option<_>>()?;
    let value = |value: ScalarValue| match value {
        _ if value.data_type() != *data_type => None,
        ScalarValue::Int32(value) | ScalarValue::Date32(value) => value.map(i64::from),
        ScalarValue::Int64(value) => value,
        ScalarValue::Decimal128(value, ..) => i64::try_from(value?).ok(),
        _ => None,
    };
    let wanted = KeyWanted::new(atoms, value)?;
    (!wanted.null && wanted.is_range()).then_some(wanted.least..=wanted.most)
}

/// Creates the condition with the parser of the type.
struct KeyConditionOf<'a> {
    atoms: Vec<Atom>,
    nulls: &'a Nulls,
}

impl WithParser for KeyConditionOf<'_> {
    type Output = Option<Box<dyn FieldCondition>>;

    fn make<T, P>(self, data_type: &DataType, parse: P) -> Self::Output
    where
        T: ArrowPrimitiveType,
        P: Fn(FieldBytes<'_>) -> Option<T::Native> + Send + 'static,
    {
        let nulls = self.nulls.clone();
        // Filters and long lists contain values, not keys.
        let is_number = data_type.is_integer() && *data_type != DataType::UInt64;
        if !is_number && self.atoms.iter().any(|atom| matches!(atom, Atom::Among(_))) {
            return None;
        }
        if T::DATA_TYPE == Date32Type::DATA_TYPE {
            let value = |value| match value {
                ScalarValue::Date32(Some(days)) => Some(crate::values::dates::date_key_of(days)),
                _ => None,
            };
            let wanted = KeyWanted::new(self.atoms, value)?;
            let key = move |field: FieldBytes<'_>| match crate::values::dates::date_key(field.bytes) {
                Some(key) => Some(key),
                // A cast accepts other spellings, too.
                None => Some(crate::values::dates::date_key_of(i32::try_from(parse(field)?.to_i64()?).ok()?)),
            };
            return Some(Box::new(KeyCondition { wanted, nulls, key, usual: None }));
        }
        if matches!(data_type, DataType::Decimal128(precision, _) if *precision > 18) {
            return None;
        }
        // Lists distinguish the two zeros.
        if data_type.is_floating() && self.atoms.iter().any(|atom| matches!(atom, Atom::OneOf { .. })) {
            return None;
        }
        let value = |value: ScalarValue| {
            let array = (value.data_type() == *data_type).then(|| value.to_array().ok()).flatten()?;
            key_of::<T>(array.as_any().downcast_ref::<arrow::array::PrimitiveArray<T>>()?.value(0))
        };
        let wanted = KeyWanted::new(self.atoms, value)?;
        let key = move |field: FieldBytes<'_>| key_of::<T>(parse(field)?);
        let usual = (data_type.is_numeric() && wanted.is_range() && !wanted.null)
            .then(|| ShortDecimals::new(&key, &nulls, wanted.least..=wanted.most));
        Some(Box::new(KeyCondition { wanted, nulls, key, usual: usual.flatten() }))
    }
}

/// Returns an integer that is ordered like the values of the type are compared: floats by total
/// order, with equal zeros. Adding zero makes them equal.
#[inline(always)]
fn key_of<T: ArrowPrimitiveType>(value: T::Native) -> Option<i64> {
    let total_order = |bits: i64| bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed();
    // Uses a reference to a constant: to compare and drop a type would take a call for every field.
    match const { &T::DATA_TYPE } {
        DataType::Float64 => {
            let value = f64::from_le_bytes(value.to_byte_slice().try_into().ok()?);
            Some(total_order((value + 0.0).to_bits().cast_signed()))
        }
        DataType::Float32 => {
            let value = f32::from_le_bytes(value.to_byte_slice().try_into().ok()?);
            Some(total_order(f64::from(value + 0.0).to_bits().cast_signed()))
        }
        DataType::UInt64 => {
            let value = u64::from_le_bytes(value.to_byte_slice().try_into().ok()?);
            Some((value ^ 1 << 63).cast_signed())
        }
        DataType::Decimal128(..) => i64::try_from(i128::from_le_bytes(value.to_byte_slice().try_into().ok()?)).ok(),
        _ => value.to_i64(),
    }
}

/// A set of keys. Most keys are not in it, since the keys of a join drop nearly all rows. With a
/// binary search, the branches could not be predicted.
type Keys = HashSet<i64, RandomState>;

/// The keys that are selected: a range, possibly with exceptions.
struct KeyWanted {
    null: bool,
    least: i64,
    most: i64,
    one_of: Option<Keys>,
    none_of: Keys,
    among: Vec<Arc<Asked>>,
}

impl KeyWanted {
    fn new(atoms: Vec<Atom>, value: impl Fn(ScalarValue) -> Option<i64>) -> Option<Self> {
        let Wanted { null, least, most, one_of, none_of, among, likes } = Wanted::new(atoms, value)?;
        if !likes.is_empty() {
            return None;
        }
        let mut least = match least {
            Some((bound, held)) => bound.checked_add(i64::from(!held))?,
            None => i64::MIN,
        };
        let mut most = match most {
            Some((bound, held)) => bound.checked_sub(i64::from(!held))?,
            None => i64::MAX,
        };
        let one_of = match one_of.as_deref() {
            // A single value is a range, and so is no value.
            Some([]) => {
                (least, most) = (i64::MAX, i64::MIN);
                None
            }
            Some([one]) => {
                (least, most) = (least.max(*one), most.min(*one));
                None
            }
            _ => one_of.map(Keys::from_iter),
        };
        Some(Self { null, least, most, one_of, none_of: Keys::from_iter(none_of), among })
    }

    /// Returns whether the selection is just a range.
    fn is_range(&self) -> bool {
        self.one_of.is_none() && self.none_of.is_empty() && self.among.is_empty()
    }
}

/// The estimated cost of a lookup in a list or filter, relative to a comparison. It decides the
/// order of stages that drop about the same number of rows.
const LOOK_UP_COST: f64 = 1.0;

struct KeyCondition<K> {
    wanted: KeyWanted,
    nulls: Nulls,
    key: K,
    /// The ranges of short decimals, if the selection is a range of numbers.
    usual: Option<ShortDecimals>,
}

impl<K: Fn(FieldBytes<'_>) -> Option<i64>> KeyCondition<K> {
    /// Evaluates the condition for a field. Inlined into the loops over fields.
    #[inline(always)]
    fn is_wanted(
        &self,
        fields: &FieldColumn<'_>,
        span: Span,
        only_range: bool,
        scratch: &mut Vec<u8>,
    ) -> Result<bool, BadField> {
        let Self { wanted: KeyWanted { null, least, most, one_of, none_of, among }, nulls, key, .. } = self;
        let field = fields.field(span, scratch);
        let Some(field) = field.filter(|f| !nulls.is_null(fields, span, f.bytes)) else {
            nulls.check(field.map(|f| f.bytes), span)?;
            return Ok(*null);
        };
        let key = key(field).ok_or(BadField { span, null: false })?;
        let inside = (*least <= key) & (key <= *most) & !*null;
        if only_range {
            return Ok(inside);
        }
        Ok(inside
            && one_of.as_ref().is_none_or(|keys| keys.contains(&key))
            && (none_of.is_empty() || !none_of.contains(&key))
            && among.iter().all(|asked| asked.may_hold_number(key)))
    }

    /// The same, for a range of numbers and a field that is not a short decimal.
    #[inline(never)]
    fn is_unusual_wanted(&self, fields: &FieldColumn<'_>, span: Span, scratch: &mut Vec<u8>) -> Result<bool, BadField> {
        self.is_wanted(fields, span, true, scratch)
    }
}

impl<K: Fn(FieldBytes<'_>) -> Option<i64> + Send> FieldCondition for KeyCondition<K> {
    fn select(&self, fields: &FieldColumn<'_>, selected: &mut Vec<u32>, _: &mut Steps) -> Result<(), BadField> {
        let mut scratch = Vec::new();
        let Some(usual) = &self.usual else {
            let only_range = self.wanted.is_range();
            return select_where(fields.len(), selected, |row| {
                self.is_wanted(fields, fields.span(row), only_range, &mut scratch)
            });
        };
        select_where(fields.len(), selected, |row| {
            let span = fields.span(row);
            match fields.ahead(span).and_then(|(length, ahead)| usual.decide(length, ahead)) {
                Some(is_wanted) => Ok(is_wanted),
                None => self.is_unusual_wanted(fields, span, &mut scratch),
            }
        })
    }

    fn cost(&self) -> f64 {
        1.0 + if self.wanted.is_range() { 0.0 } else { LOOK_UP_COST }
    }
}

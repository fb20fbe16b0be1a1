//! Conditions on one field, decided from its bytes: no column is built of fields that only a condition reads.
//!
//! Every value of a primitive type is one of a range of whole numbers, its *key*, in the order in which Arrow compares
//! the values, so that a comparison is one of keys. A field's key comes from the rule that decodes it
//! ([`with_parser`]), whatever its spelling; for dates, which have one spelling, the key is their digits. Text is compared
//! as it is. What decoding the column would report is reported here: fields that are NULL and may not be, that spell
//! no value, that are no UTF-8.
//!
//! A condition is recognised in its lowered form, in which operands have the types they are compared in; what is
//! not recognised is evaluated on columns.

mod text;
mod usual;

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::ArrowPrimitiveType;
use arrow::array::types::Date32Type;
use arrow::datatypes::{ArrowNativeType, DataType, ToByteSlice};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::ScalarFunctionExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Column, InListExpr, IsNullExpr, Literal, NotExpr};
use foldhash::fast::RandomState;
use pushdown::Result;

use super::columns::{BadField, Nulls, Spelling, WithParser, with_parser};
use super::fields::{FieldBytes, FieldColumn, Span};
use super::like::Pattern;
use super::values;
use crate::evaluate::bloom::{Asked, Probe};
use crate::evaluate::like::Like;
use crate::evaluate::lower::Physical;
use crate::interrupt::Steps;
use text::TextCondition;
use usual::UsualNumbers;

/// A condition on one column, ready to be decided from its fields.
pub(crate) trait FieldCondition: Send {
    /// Which of the fields it is TRUE for, by their number. Work that is not a small part of what the fields take
    /// anyway
    /// is counted in `steps`; once they end, anything may be selected.
    fn select(&self, fields: &FieldColumn<'_>, selected: &mut Vec<u32>, steps: &mut Steps) -> Result<(), BadField>;

    /// What deciding it for one field costs, compared with a number.
    fn cost(&self) -> f64;
}

/// The condition that is all of these, over a schema of this one column; `None` if one is of a kind that is not decided
/// here.
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

/// The values that the condition which is all of these asks for, of the only column of a schema, as the whole numbers
/// that binary formats store: days of a date, a decimal without its point. `None` where it asks for something else than
/// a range, or the type is another one.
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

/// A condition that compares the column with constants.
enum Atom {
    Compare(Operator, ScalarValue),
    OneOf {
        list: Vec<ScalarValue>,
        negated: bool,
    },
    IsNull,
    IsNotNull,
    /// A Bloom filter or a long list may hold it.
    Among(Arc<Asked>),
    Like {
        pattern: Arc<Pattern>,
        negated: bool,
    },
}

impl Atom {
    fn of(expr: &Physical) -> Option<Self> {
        let is_column = |expr: &Physical| expr.is::<Column>();
        let constant = |expr: &Physical| {
            let value = expr.downcast_ref::<Literal>()?.value();
            (!value.is_null()).then(|| value.clone())
        };
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            let (op, left, right) = (*binary.op(), binary.left(), binary.right());
            return if is_column(left) {
                Some(Self::Compare(op, constant(right)?))
            } else if is_column(right) {
                Some(Self::Compare(op.swap()?, constant(left)?))
            } else {
                None
            };
        }
        if let Some(within) = expr.downcast_ref::<InListExpr>().filter(|within| is_column(within.expr())) {
            let list = within.list().iter().map(constant).collect::<Option<_>>()?;
            return Some(Self::OneOf { list, negated: within.negated() });
        }
        if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
            if let Some(like) = call.fun().inner().downcast_ref::<Like>() {
                let (pattern, negated) = like.pattern()?;
                let pattern = Arc::clone(pattern);
                return call.args().first().is_some_and(is_column).then_some(Self::Like { pattern, negated });
            }
            let asked = call.fun().inner().downcast_ref::<Probe>()?.of_one_value()?;
            return call.args().iter().all(is_column).then(|| Self::Among(Arc::clone(asked)));
        }
        if let Some(null) = expr.downcast_ref::<IsNullExpr>() {
            return is_column(null.arg()).then_some(Self::IsNull);
        }
        let not = expr.downcast_ref::<NotExpr>()?.arg().downcast_ref::<IsNullExpr>()?;
        is_column(not.arg()).then_some(Self::IsNotNull)
    }
}

/// What a condition asks of values that are ordered.
struct Wanted<T> {
    /// NULL is wanted and nothing else.
    null: bool,
    /// At least, and whether the bound itself is wanted.
    least: Option<(T, bool)>,
    most: Option<(T, bool)>,
    /// Sorted; one of them.
    one_of: Option<Vec<T>>,
    /// Sorted; none of them.
    none_of: Vec<T>,
    /// Each of these filters and long lists may hold it.
    among: Vec<Arc<Asked>>,
    likes: Vec<(Arc<Pattern>, bool)>,
}

impl<T: Ord> Wanted<T> {
    fn new(atoms: Vec<Atom>, value: impl Fn(ScalarValue) -> Option<T>) -> Option<Self> {
        let (among, likes) = Default::default();
        let mut wanted = Self { null: false, least: None, most: None, one_of: None, none_of: vec![], among, likes };
        let mut not_null = false;
        for atom in atoms {
            not_null |= !matches!(atom, Atom::IsNull);
            match atom {
                Atom::Compare(op, with) => wanted.compare(op, value(with)?)?,
                Atom::OneOf { list, negated: false } => {
                    wanted.one_of(list.into_iter().map(&value).collect::<Option<_>>()?);
                }
                Atom::OneOf { list, negated: true } => {
                    wanted.none_of.extend(list.into_iter().map(&value).collect::<Option<Vec<T>>>()?);
                }
                Atom::IsNull => wanted.null = true,
                Atom::IsNotNull => {}
                Atom::Among(asked) => wanted.among.push(asked),
                Atom::Like { pattern, negated } => wanted.likes.push((pattern, negated)),
            }
        }
        wanted.none_of.sort_unstable();
        // A condition that is never TRUE is not worth a case of its own.
        (!(wanted.null && not_null)).then_some(wanted)
    }

    fn compare(&mut self, op: Operator, with: T) -> Option<()> {
        match op {
            Operator::Eq => self.one_of(vec![with]),
            Operator::NotEq => self.none_of.push(with),
            Operator::Lt | Operator::LtEq => {
                let bound = (with, op == Operator::LtEq);
                // The lesser of two, and of equal ones the one that is not wanted itself.
                self.most = Some(match self.most.take() {
                    Some(most) => most.min(bound),
                    None => bound,
                });
            }
            Operator::Gt | Operator::GtEq => {
                let bound = (with, op == Operator::GtEq);
                self.least = Some(match self.least.take() {
                    Some(least) if least.0 == bound.0 => (least.0, least.1 && bound.1),
                    Some(least) => least.max(bound),
                    None => bound,
                });
            }
            _ => return None,
        }
        Some(())
    }

    fn one_of(&mut self, mut list: Vec<T>) {
        list.sort_unstable();
        self.one_of = Some(match self.one_of.take() {
            Some(before) => before.into_iter().filter(|value| list.binary_search(value).is_ok()).collect(),
            None => list,
        });
    }
}

/// Numbers of `0..length` for which `is_wanted`, without a branch on it.
#[inline(always)]
fn select_where(
    length: usize,
    selected: &mut Vec<u32>,
    mut is_wanted: impl FnMut(usize) -> Result<bool, BadField>,
) -> Result<(), BadField> {
    selected.clear();
    selected.resize(length, 0);
    let mut count = 0;
    for row in 0..length {
        let wanted = is_wanted(row)?;
        if let Some(place) = selected.get_mut(count) {
            *place = row as u32;
        }
        count += usize::from(wanted);
    }
    selected.truncate(count);
    Ok(())
}

/// Makes the condition when the rule of the type is known.
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
        // They hold the values, and not what orders as these do.
        let is_number = data_type.is_integer() && *data_type != DataType::UInt64;
        if !is_number && self.atoms.iter().any(|atom| matches!(atom, Atom::Among(_))) {
            return None;
        }
        if T::DATA_TYPE == Date32Type::DATA_TYPE {
            let value = |value| match value {
                ScalarValue::Date32(Some(days)) => Some(values::date_key_of(days)),
                _ => None,
            };
            let wanted = KeyWanted::new(self.atoms, value)?;
            let key = move |field: FieldBytes<'_>| match values::date_key(field.bytes) {
                Some(key) => Some(key),
                // Other spellings, where a cast takes them.
                None => Some(values::date_key_of(i32::try_from(parse(field)?.to_i64()?).ok()?)),
            };
            return Some(Box::new(KeyCondition { wanted, nulls, key, usual: None }));
        }
        if matches!(data_type, DataType::Decimal128(precision, _) if *precision > 18) {
            return None;
        }
        // Lists do not take both zeros for one.
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
            .then(|| UsualNumbers::new(&key, &nulls, (wanted.least, wanted.most)));
        Some(Box::new(KeyCondition { wanted, nulls, key, usual: usual.flatten() }))
    }
}

/// A number that orders as values of the type are compared: floats by their total order, but both zeros are one. Adding
/// a zero makes them so.
#[inline(always)]
fn key_of<T: ArrowPrimitiveType>(value: T::Native) -> Option<i64> {
    let total_order = |bits: i64| bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed();
    // By reference to a constant: comparing and dropping a type would be a call for every field.
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

/// Keys to look a key up in. Most are not there, as those of a join drop nearly all rows: a search through a list would take
/// steps that nobody can foretell.
type Keys = HashSet<i64, RandomState>;

/// What is asked of keys: a range in which there may be holes.
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
            // One value is a range; so is none.
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

    /// Whether a range is all that is asked.
    fn is_range(&self) -> bool {
        self.one_of.is_none() && self.none_of.is_empty() && self.among.is_empty()
    }
}

/// What looking a key up, in a list or a filter, costs beside a comparison: reckoned, not measured. It decides between stages
/// that drop about as many rows.
const LOOK_UP_COST: f64 = 1.0;

struct KeyCondition<K> {
    wanted: KeyWanted,
    nulls: Nulls,
    key: K,
    /// Where numbers in a range are all that is asked.
    usual: Option<UsualNumbers>,
}

impl<K: Fn(FieldBytes<'_>) -> Option<i64>> KeyCondition<K> {
    /// Whether it is TRUE for a field. Inlined for what asks it of every field.
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
        let Some(field) = field.filter(|f| !nulls.is_null(f.bytes)) else {
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

    /// The same where a range is all that is asked of a number, and it is not written as usual.
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

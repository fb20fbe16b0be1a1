//! The values of one column that a condition selects.

use std::sync::Arc;

use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::ScalarFunctionExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Column, InListExpr, IsNullExpr, Literal, NotExpr};
use pushdowndb_contract::Result;

use crate::expr::bloom::{Asked, Probe};
use crate::expr::functions::like::Like;
use crate::expr::physical::Physical;
use crate::runtime::interrupt::Steps;
use crate::values::fields::FieldColumn;
use crate::values::nulls::BadField;
use crate::values::pattern::Pattern;

/// A condition that compares the column with constants.
pub(crate) enum Atom {
    Compare(Operator, ScalarValue),
    OneOf {
        list: Vec<ScalarValue>,
        negated: bool,
    },
    IsNull,
    IsNotNull,
    /// The value is in a Bloom filter or a long list.
    Among(Arc<Asked>),
    Like {
        pattern: Arc<Pattern>,
        negated: bool,
    },
}

impl Atom {
    pub(crate) fn of(expr: &Physical) -> Option<Self> {
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

/// The selected values of an ordered type.
pub(crate) struct Wanted<T> {
    /// True if only NULL is selected.
    pub(crate) null: bool,
    /// The lower bound, and whether it is inclusive; then the same for the upper bound.
    pub(crate) least: Option<(T, bool)>,
    pub(crate) most: Option<(T, bool)>,
    /// If given, the value must be one of these, which are sorted.
    pub(crate) one_of: Option<Vec<T>>,
    /// The value must not be one of these, which are sorted.
    pub(crate) none_of: Vec<T>,
    /// The value must be in each of these filters and long lists.
    pub(crate) among: Vec<Arc<Asked>>,
    pub(crate) likes: Vec<(Arc<Pattern>, bool)>,
}

impl<T: Ord> Wanted<T> {
    pub(crate) fn new(atoms: Vec<Atom>, value: impl Fn(ScalarValue) -> Option<T>) -> Option<Self> {
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
        // A condition that is never TRUE needs no special case.
        (!(wanted.null && not_null)).then_some(wanted)
    }

    fn compare(&mut self, op: Operator, with: T) -> Option<()> {
        match op {
            Operator::Eq => self.one_of(vec![with]),
            Operator::NotEq => self.none_of.push(with),
            Operator::Lt | Operator::LtEq => {
                let bound = (with, op == Operator::LtEq);
                // Takes the smaller of two bounds, and of equal bounds the exclusive one.
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

/// Selects the numbers in `0..length` for which `is_wanted` is true, without a branch.
#[inline(always)]
pub(crate) fn select_where(
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

/// A condition on one column that is evaluated on its fields.
pub(crate) trait FieldCondition: Send {
    /// Selects the numbers of the fields for which the condition is TRUE. Work other than reading
    /// the fields is counted in `steps`; if those run out, any result is allowed.
    fn select(&self, fields: &FieldColumn<'_>, selected: &mut Vec<u32>, steps: &mut Steps) -> Result<(), BadField>;

    /// Returns the cost of evaluation for one field, relative to comparing a number.
    fn cost(&self) -> f64;
}

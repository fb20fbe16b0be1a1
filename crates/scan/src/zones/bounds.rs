//! Pruning by bounds: decides whether a set of rows with a known smallest and largest value of each
//! column can contain a row for which a predicate is TRUE.
//!
//! A set that contains such a row is never excluded. A missing bound is NULL and excludes nothing.

use arrow::array::{Array, ArrayRef, AsArray, make_comparator, new_empty_array};
use arrow::compute::{SortOptions, cast, concat, sort_limit};
use arrow::datatypes::{DataType, Field, Schema};
use pushdowndb_contract::{CompareOp, Expr, Literal, Result};

use crate::batch::record_batch;
use crate::error::from_arrow;
use crate::expr::evaluator::Evaluator;
use crate::expr::lower::{arrays_of, scalar};
use crate::runtime::interrupt::check_interrupt;
use crate::types::is_exact_number;

/// A necessary condition on the bounds of a set of rows for a predicate to be TRUE for one of them.
#[derive(Debug)]
pub(crate) enum Possible {
    All(Vec<Self>),
    Any(Vec<Self>),
    /// A comparison of one bound of a column with a constant.
    Compare {
        bound: Bound,
        column: usize,
        op: CompareOp,
        with: Expr,
    },
    /// One of these values lies between the bounds of the column. They are sorted and have the
    /// column's type. There may be many thousands of them, if they are keys of a join.
    OneOf {
        column: usize,
        values: ArrayRef,
    },
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Bound {
    Smallest,
    Largest,
}

impl Possible {
    /// Returns the condition for `predicate`; `None` if bounds cannot exclude anything.
    pub(crate) fn of(predicate: &Expr, schema: &Schema) -> Option<Self> {
        match predicate {
            Expr::And(all) => {
                let known: Vec<Self> = all.iter().filter_map(|e| Self::of(e, schema)).collect();
                (!known.is_empty()).then_some(Self::All(known))
            }
            Expr::Or(all) if !all.is_empty() => {
                all.iter().map(|e| Self::of(e, schema)).collect::<Option<_>>().map(Self::Any)
            }
            Expr::Compare(op, a, b) => match (&**a, &**b) {
                (Expr::Column(column), Expr::Literal(value)) => Self::compare(*op, *column, value, schema),
                (Expr::Literal(value), Expr::Column(column)) => Self::compare(op.swap(), *column, value, schema),
                _ => None,
            },
            Expr::InList { expr, list, negated: false } => match &**expr {
                Expr::Column(column) => Self::one_of(*column, list, schema),
                _ => None,
            },
            _ => None,
        }
    }

    fn compare(op: CompareOp, column: usize, value: &Literal, schema: &Schema) -> Option<Self> {
        let data_type = schema.fields().get(column)?.data_type();
        if !comparable(data_type, &scalar(value).data_type()) {
            return None;
        }
        let compare = |bound, op| Self::Compare { bound, column, op, with: Expr::Literal(value.clone()) };
        match op {
            CompareOp::Lt | CompareOp::LtEq => Some(compare(Bound::Smallest, op)),
            CompareOp::Gt | CompareOp::GtEq => Some(compare(Bound::Largest, op)),
            CompareOp::Eq => Some(Self::All(vec![
                compare(Bound::Smallest, CompareOp::LtEq),
                compare(Bound::Largest, CompareOp::GtEq),
            ])),
            CompareOp::NotEq => None,
        }
    }

    fn one_of(column: usize, list: &[Expr], schema: &Schema) -> Option<Self> {
        let data_type = schema.fields().get(column)?.data_type();
        let known = list.iter().map(|item| match item {
            Expr::Literal(value) if *value == Literal::Null || may_equal(data_type, &scalar(value).data_type()) => {
                Some(value)
            }
            _ => None,
        });
        let values = sorted(&known.collect::<Option<Vec<_>>>()?, data_type).ok()?;
        Some(Self::OneOf { column, values })
    }

    /// Returns for each of `rows` sets of rows whether it may contain a matching row. `bounds_of`
    /// returns the smallest and the largest value of a column in each set.
    pub(crate) fn holds(
        &self,
        rows: usize,
        bounds_of: &impl Fn(usize) -> Option<(ArrayRef, ArrayRef)>,
    ) -> Result<Vec<bool>> {
        check_interrupt()?;
        match self {
            Self::All(all) => all.iter().try_fold(vec![true; rows], |so_far, part| {
                let part = part.holds(rows, bounds_of)?;
                Ok(so_far.into_iter().zip(part).map(|(a, b)| a & b).collect())
            }),
            Self::Any(all) => all.iter().try_fold(vec![false; rows], |so_far, part| {
                let part = part.holds(rows, bounds_of)?;
                Ok(so_far.into_iter().zip(part).map(|(a, b)| a | b).collect())
            }),
            Self::Compare { bound, column, op, with } => {
                let Some((smallest, largest)) = bounds_of(*column) else { return Ok(vec![true; rows]) };
                let bound = if *bound == Bound::Smallest { smallest } else { largest };
                let schema = Schema::new(vec![Field::new("bound", bound.data_type().clone(), true)]).into();
                let condition = Evaluator::expr(&Expr::compare(*op, Expr::Column(0), with.clone()), &schema)?;
                let result = condition.evaluate(&record_batch(&schema, vec![bound], rows)?)?;
                let Some(result) = result.as_boolean_opt() else { return Ok(vec![true; rows]) };
                Ok(result.iter().map(|holds| holds != Some(false)).collect())
            }
            Self::OneOf { column, values } => match bounds_of(*column) {
                Some((smallest, largest)) => any_within(values, &smallest, &largest),
                None => Ok(vec![true; rows]),
            },
        }
    }
}

/// Converts the values to `data_type`, ascending. NULL, and values that exceed the type, equal none
/// of its values and are omitted. A value that the cast rounds equals none either, but it stays,
/// rounded, which only excludes less.
fn sorted(list: &[&Literal], data_type: &DataType) -> Result<ArrayRef> {
    let cast = |run: &ArrayRef| cast(run, data_type).map_err(from_arrow);
    let runs = arrays_of(list)?.iter().map(cast).collect::<Result<Vec<_>>>()?;
    if runs.is_empty() {
        return Ok(new_empty_array(data_type));
    }
    let values = concat(&runs.iter().map(|run| run.as_ref()).collect::<Vec<_>>()).map_err(from_arrow)?;
    let order = SortOptions { descending: false, nulls_first: false };
    sort_limit(&values, Some(order), Some(values.len() - values.null_count())).map_err(from_arrow)
}

/// Returns for each pair of bounds whether one of the sorted values lies between them.
fn any_within(values: &ArrayRef, smallest: &ArrayRef, largest: &ArrayRef) -> Result<Vec<bool>> {
    let with_smallest = make_comparator(values, smallest, SortOptions::default()).map_err(from_arrow)?;
    let with_largest = make_comparator(values, largest, SortOptions::default()).map_err(from_arrow)?;
    let within = |set: usize| {
        let mut first = 0..values.len();
        while !smallest.is_null(set) && !first.is_empty() {
            let middle = first.start + first.len() / 2;
            match with_smallest(middle, set).is_lt() {
                true => first.start = middle + 1,
                false => first.end = middle,
            }
        }
        let first = first.start;
        first < values.len() && (largest.is_null(set) || with_largest(first, set).is_le())
    };
    Ok((0..smallest.len()).map(within).collect())
}

/// Returns whether a value of type `column` can equal a value of type `value` only if it is the
/// result of casting that value.
fn may_equal(column: &DataType, value: &DataType) -> bool {
    match (column, value) {
        // The time zones may differ.
        (DataType::Timestamp(_, one), DataType::Timestamp(_, other)) => one == other,
        _ => comparable(column, value),
    }
}

/// Returns whether comparison in the literal's type keeps the order of the column's type.
fn comparable(column: &DataType, literal: &DataType) -> bool {
    column == literal
        || (column.is_string() && literal.is_string())
        || (is_exact_number(column) && is_exact_number(literal))
        || (column.is_temporal() && literal.is_temporal())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn only_what_bounds_decide_is_kept() {
        let schema =
            Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("f", DataType::Float64, true)]);
        let a = |op, n| Expr::compare(op, Expr::Column(0), Expr::int(n));
        let f =
            Expr::compare(CompareOp::Gt, Expr::Column(1), Expr::Literal(pushdowndb_contract::Literal::Float64(1.0)));
        let unknown = Expr::Not(Box::new(a(CompareOp::Gt, 5)));
        let known = |predicate: &Expr| Possible::of(predicate, &schema).is_some();
        assert!(known(&a(CompareOp::Lt, 5)));
        assert!(known(&a(CompareOp::Lt, 5).and(unknown.clone())));
        assert!(!known(&Expr::Or(vec![a(CompareOp::Lt, 5), unknown.clone()])));
        assert!(!known(&unknown));
        // Bounds of floats that ignore NaN must not be passed to this function.
        assert!(known(&f));
    }

    #[test]
    fn a_list_is_possible_where_one_of_it_lies_between_the_bounds() {
        use arrow::array::{Decimal128Array, Int32Array, StringArray};
        let possible = |list: Vec<Literal>, smallest: ArrayRef, largest: ArrayRef| {
            let schema = Schema::new(vec![Field::new("c", smallest.data_type().clone(), true)]);
            let list = list.into_iter().map(Expr::Literal).collect();
            let predicate = Expr::InList { expr: Box::new(Expr::Column(0)), list, negated: false };
            let possible = Possible::of(&predicate, &schema)?;
            let rows = smallest.len();
            Some(possible.holds(rows, &|_| Some((smallest.clone(), largest.clone()))).unwrap())
        };
        let int = |values: &[Option<i32>]| -> ArrayRef { Arc::new(Int32Array::from(values.to_vec())) };
        let least = int(&[Some(1), Some(5), Some(6), None, Some(10), None, Some(-9)]);
        let most = int(&[Some(4), Some(5), Some(8), Some(4), None, None, Some(i32::MAX)]);
        // Unsorted, duplicate, too large for the column, and NULL.
        let list = [9, 5, 5, i64::MAX].map(Literal::Int64).into_iter().chain([Literal::Null]).collect();
        let held = vec![false, true, false, false, false, true, true];
        assert_eq!(possible(list, Arc::clone(&least), Arc::clone(&most)), Some(held));
        assert_eq!(possible(vec![Literal::Null], Arc::clone(&least), Arc::clone(&most)), Some(vec![false; 7]));
        let rounded = possible(vec![Literal::Decimal(45, 2, 1)], Arc::clone(&least), Arc::clone(&most)).unwrap();
        assert!(
            rounded.iter().filter(|may| !**may).count() >= 2,
            "equal to nothing, and at most one too many: {rounded:?}"
        );
        assert_eq!(possible(vec![Literal::Utf8("5".into())], least, most), None, "another order");

        let decimal = |value| -> ArrayRef {
            Arc::new(Decimal128Array::from(vec![value]).with_precision_and_scale(12, 2).unwrap())
        };
        let mixed = vec![Literal::Int64(3), Literal::Decimal(15, 2, 1), Literal::Decimal(995, 3, 2)];
        assert_eq!(possible(mixed.clone(), decimal(149), decimal(150)), Some(vec![true]));
        assert_eq!(possible(mixed.clone(), decimal(300), decimal(301)), Some(vec![true]));
        assert_eq!(possible(mixed, decimal(301), decimal(994)), Some(vec![false]));
        let text = |value| -> ArrayRef { Arc::new(StringArray::from(vec![value])) };
        let names = || vec![Literal::Utf8("b".into()), Literal::Utf8("ä".into())];
        assert_eq!(possible(names(), text("ba"), text("z")), Some(vec![false]));
        assert_eq!(possible(names(), text("ba"), text("ß")), Some(vec![false]));
        assert_eq!(possible(names(), text("ba"), text("ö")), Some(vec![true]));
    }
}

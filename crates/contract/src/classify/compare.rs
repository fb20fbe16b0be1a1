//! Classification of comparisons, IN lists and LIKE: where they are exact, and how they are
//! weakened.

use super::classifier::{Classifier, Exactness, constant};
use super::value::Class;
use crate::{CompareOp, Expr, LikePart, Literal, like_parts};

/// The number of digits up to which distinct decimals are distinct doubles in the same order.
const DOUBLE_DIGITS: u8 = 15;
/// The number of decimal places up to which distinct decimals differ by more than the tolerance of
/// MinIO's `=`.
const TOLERANT_PLACES: i8 = 5;
/// The largest integer up to which every integer is an exact double.
const DOUBLE_INTEGERS: u64 = 1 << 53;

impl Classifier<'_> {
    pub(super) fn compare(&self, op: CompareOp, left: Expr, right: Expr) -> Exactness {
        if is_null(&left) || is_null(&right) {
            return constant(false);
        }
        let (Some(a), Some(b)) = (self.value(&left), self.value(&right)) else {
            return Exactness::Unsupported;
        };
        let simple = is_simple(&left) && is_simple(&right);
        if !a.compares_with(b) || !(simple || self.dialect.three_valued) {
            return Exactness::Unsupported;
        }
        if self.dialect.same_evaluator {
            return Exactness::Exact(Expr::compare(op, left, right));
        }
        match (a, b) {
            (Class::Float, _) | (_, Class::Float) => weaken_floats(op, left, right),
            _ if a.is_exact_number() && !self.dialect.decimals => self.compare_as_doubles(op, (left, a), (right, b)),
            (Class::Boolean, _) if !matches!(op, CompareOp::Eq | CompareOp::NotEq) => Exactness::Unsupported,
            _ => Exactness::Exact(Expr::compare(op, left, right)),
        }
    }

    /// Classifies a comparison of integers or decimals that a backend without decimals evaluates as
    /// doubles.
    fn compare_as_doubles(&self, op: CompareOp, left: (Expr, Class), right: (Expr, Class)) -> Exactness {
        let ((left, a), (right, b)) = (left, right);
        let equality = matches!(op, CompareOp::Eq | CompareOp::NotEq);
        let exact = if a == Class::Integer && b == Class::Integer {
            true
        } else {
            // Integers above 2^53 are inexact as doubles, but no literal of 15 digits is close to
            // them.
            let literal = matches!(left, Expr::Literal(_)) || matches!(right, Expr::Literal(_));
            let fits = |expr: &Expr| {
                let (digits, places) = self.spread(expr);
                let column = literal && matches!(expr, Expr::Column(_)) && places == 0;
                (digits <= DOUBLE_DIGITS || column && digits <= 19)
                    && (!equality || !self.dialect.equality_tolerance || places <= TOLERANT_PLACES)
            };
            fits(&left) && fits(&right)
        };
        if exact {
            return Exactness::Exact(Expr::compare(op, left, right));
        }
        // Rounding is monotone: it can make neighboring values equal, but not swap them.
        match weaker(op) {
            Some(op) => Exactness::Inexact(Expr::compare(op, left, right)),
            None => Exactness::Unsupported,
        }
    }

    /// Returns the maximum number of digits of a simple value, and how many of them follow the
    /// decimal point.
    fn spread(&self, expr: &Expr) -> (u8, i8) {
        match expr {
            // A cast to a wider type does not change the value.
            Expr::Cast(inner, _) => self.spread(inner),
            Expr::Literal(Literal::Int64(value)) => (count_digits(value.unsigned_abs().into()), 0),
            Expr::Literal(Literal::Decimal(value, _, scale)) => (count_digits(value.unsigned_abs()), *scale),
            other => match self.value(other) {
                Some(Class::Decimal { precision, scale }) => (precision, scale),
                Some(Class::Integer) => (19, 0),
                _ => (u8::MAX, 0),
            },
        }
    }

    /// Classifies `expr [NOT] IN (list)` as a disjunction of equalities that stays a list.
    pub(super) fn in_list(&self, expr: Expr, list: Vec<Expr>, negated: bool) -> Exactness {
        let nulls = list.iter().any(is_null);
        if is_null(&expr) || (negated && nulls) {
            // It is never TRUE. A NOT IN with an empty list cannot be written in SQL.
            return constant(false);
        }
        let list: Vec<Expr> = list.into_iter().filter(|item| !is_null(item)).collect();
        if list.is_empty() {
            return constant(negated);
        }
        let op = if negated { CompareOp::NotEq } else { CompareOp::Eq };
        let mut exact = true;
        for item in &list {
            // Without decimals, the backend compares the integers of an IN list as doubles.
            let near = match item {
                Expr::Literal(Literal::Int64(value)) => value.unsigned_abs() >= DOUBLE_INTEGERS,
                Expr::Literal(_) => false,
                _ => return Exactness::Unsupported,
            };
            match self.compare(op, expr.clone(), item.clone()) {
                Exactness::Exact(_) if near && !self.dialect.decimals && negated => return Exactness::Unsupported,
                Exactness::Exact(_) => exact &= !near || self.dialect.decimals,
                Exactness::Inexact(_) if !negated => exact = false,
                Exactness::Inexact(_) | Exactness::Unsupported => return Exactness::Unsupported,
            }
        }
        let expr = Expr::InList { expr: Box::new(expr), list, negated };
        if exact { Exactness::Exact(expr) } else { Exactness::Inexact(expr) }
    }

    /// Classifies `expr [NOT] LIKE pattern` with a constant pattern.
    pub(super) fn like(&self, expr: Expr, pattern: Expr, negated: bool) -> Exactness {
        if is_null(&expr) || is_null(&pattern) {
            return constant(false);
        }
        let Expr::Literal(Literal::Utf8(text)) = &pattern else {
            return Exactness::Unsupported;
        };
        let Some(parts) = like_parts(text, Some('\\')) else {
            return Exactness::Unsupported;
        };
        let spelled = self.value(&pattern).is_some() && self.value(&expr) == Some(Class::Text);
        if !spelled || !(is_simple(&expr) || self.dialect.three_valued) {
            return Exactness::Unsupported;
        }
        let ascii = text.is_ascii();
        let (expr, pattern) = (Box::new(expr), Box::new(pattern));
        let like = Expr::Like { expr, pattern, negated, case_insensitive: false };
        if self.dialect.like {
            return Exactness::Exact(like);
        }
        // A backend without backtracking and ESCAPE cannot express escaped wildcards.
        let escaped = parts.iter().any(|part| matches!(part, LikePart::Char('%' | '_')));
        let mut after_run = parts.iter().skip_while(|part| **part != LikePart::AnyRun);
        if escaped || after_run.any(|part| *part == LikePart::AnyChar) {
            return Exactness::Unsupported;
        }
        // A matcher without backtracking may end too early if the pattern is not ASCII. It then
        // matches more texts, never fewer.
        match (ascii, negated) {
            (true, _) => Exactness::Exact(like),
            (false, false) => Exactness::Inexact(like),
            (false, true) => Exactness::Unsupported,
        }
    }
}

/// Weakens a comparison of floats for a backend with IEEE 754 comparisons. There, `-0 = 0` and NaN
/// is neither less nor greater than any value, whereas the engine's order is total: −0 is less than
/// 0, and NaN is greater than all other values.
fn weaken_floats(op: CompareOp, left: Expr, right: Expr) -> Exactness {
    let (op, column, constant) = match (left, right) {
        (column @ Expr::Column(_), constant @ Expr::Literal(_)) => (op, column, constant),
        (constant @ Expr::Literal(_), column @ Expr::Column(_)) => (op.swap(), column, constant),
        _ => return Exactness::Unsupported,
    };
    let compare = |op| Expr::compare(op, column.clone(), constant.clone());
    match op {
        CompareOp::Eq => Exactness::Inexact(compare(CompareOp::Eq)),
        CompareOp::Lt | CompareOp::LtEq => Exactness::Inexact(compare(CompareOp::LtEq)),
        // Rows with NaN must pass; with IEEE 754 comparisons, only a negation is TRUE for NaN.
        CompareOp::Gt | CompareOp::GtEq => Exactness::Inexact(Expr::Not(Box::new(compare(CompareOp::Lt)))),
        CompareOp::NotEq => Exactness::Unsupported,
    }
}

/// Returns the operator that still holds after both sides are rounded, if `op` holds before.
fn weaker(op: CompareOp) -> Option<CompareOp> {
    match op {
        CompareOp::Lt | CompareOp::LtEq => Some(CompareOp::LtEq),
        CompareOp::Gt | CompareOp::GtEq => Some(CompareOp::GtEq),
        CompareOp::Eq => Some(CompareOp::Eq),
        CompareOp::NotEq => None,
    }
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(Literal::Null))
}

/// Returns whether `expr` is a column or a constant, possibly cast to a wider type.
fn is_simple(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::Literal(_) => true,
        Expr::Cast(inner, _) => is_simple(inner),
        _ => false,
    }
}

fn count_digits(value: u128) -> u8 {
    value.checked_ilog10().map_or(1, |log| u8::try_from(log + 1).unwrap_or(u8::MAX))
}

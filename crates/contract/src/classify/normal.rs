//! Negation normal form, in which NOT is applied only to expressions without an opposite.
//!
//! Each step preserves the value in three-valued logic: `NOT (a AND b)` becomes `NOT a OR NOT b`,
//! `NOT (a < b)` becomes `a >= b` (the engine's order is total, NaN included), NOT IN and NOT LIKE
//! negate IN and LIKE.

use crate::{CompareOp, Expr, Literal};

/// Pushes every NOT of a predicate inwards.
pub(super) fn normal(expr: Expr) -> Expr {
    push(expr, false)
}

fn push(expr: Expr, negate: bool) -> Expr {
    match expr {
        Expr::Not(inner) => push(*inner, !negate),
        Expr::And(all) if negate => Expr::Or(all.into_iter().map(|e| push(e, true)).collect()),
        Expr::Or(all) if negate => Expr::conjunction(all.into_iter().map(|e| push(e, true)).collect()),
        Expr::And(all) => Expr::conjunction(all.into_iter().flat_map(|e| push(e, false).into_conjuncts()).collect()),
        Expr::Or(all) => Expr::Or(all.into_iter().map(|e| push(e, false)).collect()),
        Expr::Literal(Literal::Boolean(value)) => Expr::Literal(Literal::Boolean(value != negate)),
        null @ Expr::Literal(Literal::Null) => null,
        Expr::Compare(op, a, b) => Expr::Compare(if negate { opposite(op) } else { op }, a, b),
        Expr::InList { expr, list, negated } => Expr::InList { expr, list, negated: negated != negate },
        Expr::Like { expr, pattern, negated, case_insensitive } => {
            Expr::Like { expr, pattern, negated: negated != negate, case_insensitive }
        }
        atom if negate => Expr::Not(Box::new(atom)),
        atom => atom,
    }
}

/// Returns the operator that holds exactly if `op` does not, for values other than NULL.
fn opposite(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Eq => CompareOp::NotEq,
        CompareOp::NotEq => CompareOp::Eq,
        CompareOp::Lt => CompareOp::GtEq,
        CompareOp::LtEq => CompareOp::Gt,
        CompareOp::Gt => CompareOp::LtEq,
        CompareOp::GtEq => CompareOp::Lt,
    }
}

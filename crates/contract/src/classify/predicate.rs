//! Classification of predicates: conjunctions, disjunctions and atoms.

use super::classifier::{Classifier, Exactness, constant};
use super::empty;
use super::value::Class;
use crate::{Expr, Literal};

/// The parts of a conjunction or disjunction that the backend evaluates.
struct Parts {
    kept: Vec<Expr>,
    /// True if all of `kept` are exact.
    is_exact: bool,
    /// True if no part was dropped.
    is_complete: bool,
}

impl Parts {
    fn into_exactness(self, join: fn(Vec<Expr>) -> Expr) -> Exactness {
        let joined = join(self.kept);
        if self.is_exact && self.is_complete { Exactness::Exact(joined) } else { Exactness::Inexact(joined) }
    }
}

impl Classifier<'_> {
    /// Classifies a predicate in negation normal form.
    pub(super) fn predicate(&self, expr: Expr) -> Exactness {
        match expr {
            Expr::And(all) => match self.parts(all) {
                parts if parts.kept.is_empty() && !parts.is_complete => Exactness::Unsupported,
                parts => parts.into_exactness(Expr::conjunction),
            },
            Expr::Or(all) => match self.parts(all) {
                parts if !parts.is_complete => Exactness::Unsupported,
                parts => parts.into_exactness(Expr::Or),
            },
            atom => self.atom(atom),
        }
    }

    /// Classifies each part in `all` and collects the parts that the backend evaluates.
    fn parts(&self, all: Vec<Expr>) -> Parts {
        let mut parts = Parts { kept: Vec::with_capacity(all.len()), is_exact: true, is_complete: true };
        for part in all {
            match self.predicate(part) {
                Exactness::Exact(part) => parts.kept.push(part),
                Exactness::Inexact(part) => {
                    parts.is_exact = false;
                    parts.kept.push(part);
                }
                Exactness::Unsupported => parts.is_complete = false,
            }
        }
        parts
    }

    /// Classifies an atom. If the atom depends on a column in which the backend does not
    /// distinguish empty text from NULL, the result is weakened so that rows with an empty field
    /// pass too.
    fn atom(&self, atom: Expr) -> Exactness {
        let ambiguous = self.ambiguous(&atom);
        match self.atom_of_distinct_texts(atom) {
            Exactness::Exact(atom) | Exactness::Inexact(atom) if !ambiguous.is_empty() => {
                let empty = ambiguous.into_iter().map(|column| Expr::IsNull(Box::new(Expr::Column(column))));
                let others: Vec<Expr> = empty.filter(|empty| *empty != atom).collect();
                Exactness::Inexact(match others.is_empty() {
                    true => atom,
                    false => Expr::Or(std::iter::once(atom).chain(others).collect()),
                })
            }
            other => other,
        }
    }

    pub(super) fn ambiguous(&self, expr: &Expr) -> Vec<usize> {
        empty::ambiguous(expr, &|column| empty::has_empty_and_null(column, self.schema, self.format))
    }

    fn atom_of_distinct_texts(&self, atom: Expr) -> Exactness {
        match atom {
            Expr::Literal(Literal::Boolean(value)) => constant(value),
            Expr::Literal(Literal::Null) => constant(false),
            Expr::Compare(op, left, right) => self.compare(op, *left, *right),
            Expr::InList { expr, list, negated } => self.in_list(*expr, list, negated),
            Expr::Like { expr, pattern, negated, case_insensitive: false } => self.like(*expr, *pattern, negated),
            Expr::Like { .. } => Exactness::Unsupported,
            Expr::IsNull(inner) => match self.is_null(&inner) {
                Some(true) => Exactness::Exact(Expr::IsNull(inner)),
                Some(false) => constant(false),
                None => Exactness::Unsupported,
            },
            Expr::Not(inner) => match *inner {
                Expr::IsNull(inner) => match self.is_null(&inner) {
                    Some(true) => Exactness::Exact(Expr::Not(Box::new(Expr::IsNull(inner)))),
                    Some(false) => constant(true),
                    None => Exactness::Unsupported,
                },
                inner => self.boolean(inner, true),
            },
            other => self.boolean(other, false),
        }
    }

    /// Returns `Some(true)` if the backend can evaluate `expr IS NULL`, `Some(false)` if `expr` is
    /// never NULL, and `None` otherwise.
    fn is_null(&self, expr: &Expr) -> Option<bool> {
        match expr {
            Expr::Column(index) => self.schema.fields().get(*index).map(|field| field.is_nullable()),
            other => (self.dialect.three_valued && self.value(other).is_some()).then_some(true),
        }
    }

    /// Classifies a Boolean value used as a predicate.
    fn boolean(&self, expr: Expr, negated: bool) -> Exactness {
        let simple = matches!(expr, Expr::Column(_));
        if self.value(&expr) != Some(Class::Boolean) || !(simple || self.dialect.three_valued) {
            return Exactness::Unsupported;
        }
        Exactness::Exact(if negated { Expr::Not(Box::new(expr)) } else { expr })
    }
}

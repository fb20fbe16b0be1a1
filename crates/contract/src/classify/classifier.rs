//! The state of a classification, and its result.

use arrow_schema::Schema;

use crate::{Dialect, Expr, Format, Literal};

/// How exactly a backend evaluates a predicate.
#[derive(Clone, Debug, PartialEq)]
pub enum Exactness {
    /// Exact. Contains the predicate in a form that the backend understands.
    Exact(Expr),
    /// Inexact. Contains a weaker predicate, which is TRUE for every row for which the requested
    /// predicate is TRUE, and possibly for others.
    Inexact(Expr),
    /// Not evaluated by the backend.
    Unsupported,
}

pub(super) struct Classifier<'a> {
    pub(super) schema: &'a Schema,
    pub(super) format: &'a Format,
    pub(super) dialect: &'a Dialect,
}

/// Returns a classification that is exact: TRUE for every row, or FALSE for every row.
pub(super) fn constant(value: bool) -> Exactness {
    Exactness::Exact(Expr::Literal(Literal::Boolean(value)))
}

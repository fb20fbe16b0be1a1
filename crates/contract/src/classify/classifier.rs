//! The state of a classification, and its result.

use arrow_schema::Schema;

use crate::{Dialect, Expr, Format, Literal};

/// The exactness with which a backend evaluates a predicate.
#[derive(Clone, Debug, PartialEq)]
pub enum Exactness {
    /// Exact. Holds the predicate in a form that the backend understands.
    Exact(Expr),
    /// Inexact. Holds a weaker predicate, which is TRUE for every row for which the requested one
    /// is.
    Inexact(Expr),
    /// Not evaluated by the backend.
    Unsupported,
}

pub(super) struct Classifier<'a> {
    pub(super) schema: &'a Schema,
    pub(super) format: &'a Format,
    pub(super) dialect: &'a Dialect,
}

/// Exactly TRUE, or exactly FALSE, for every row.
pub(super) fn constant(value: bool) -> Exactness {
    Exactness::Exact(Expr::Literal(Literal::Boolean(value)))
}

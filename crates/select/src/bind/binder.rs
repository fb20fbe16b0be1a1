//! The state of binding a statement.

use pushdowndb_contract::{AggregateCall, Expr, NamedExpr, limits};

use super::columns::Columns;
use super::kind::Kind;
use crate::ast::{Ast, Name};
use crate::{Extensions, SelectError};

/// The groups and aggregates of a statement.
#[derive(Default)]
pub(super) struct Grouping {
    pub(super) groups: Vec<(Ast, NamedExpr, Kind)>,
    pub(super) calls: Vec<(AggregateCall, Kind)>,
    /// True while the argument of an aggregate is bound, since the argument is an expression over
    /// rows.
    pub(super) inside: bool,
}

/// Binds expressions, and collects the columns that they use.
pub(super) struct Binder<'a> {
    pub(super) columns: Columns<'a>,
    pub(super) alias: Option<&'a Name>,
    /// True if the input distinguishes NULL values from missing fields.
    pub(super) has_nulls: bool,
    /// The groups, while the select list of a statement with aggregates is bound.
    pub(super) grouping: Option<Grouping>,
    pub(super) extensions: Extensions,
    pub(super) now: String,
    /// The number of expression nodes added so far by repeating operands.
    pub(super) copied: usize,
}

impl Binder<'_> {
    /// Counts `times` additional copies of an operand. Returns an error if there are too many.
    pub(super) fn copy(&mut self, operand: &Expr, times: usize) -> Result<(), SelectError> {
        self.copied = self.copied.saturating_add(operand.size().saturating_mul(times));
        if self.copied <= limits::EXPRESSION_COPIES {
            return Ok(());
        }
        let message = "BETWEEN, IN, NULLIF and CASE with an operand nest too deeply in each other";
        Err(SelectError::new("MaxOperatorsExceeded", message))
    }
}

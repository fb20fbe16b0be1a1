//! How exactly a backend evaluates an expression.
//!
//! A predicate is first brought into negation normal form ([`normal`]), so that from then on every part
//! stands positively and a row passes exactly when enough parts are TRUE; NULL and FALSE need no telling
//! apart. In that form weakening is monotone: an atom may be replaced by one that holds for more rows, a
//! conjunct may be dropped, and the whole still holds for every row it should. Anything not provably so is
//! [`Exactness::Unsupported`]; a missing claim costs bytes, a wrong one costs rows.
//!
//! What the `select` crate renders for an atom is TRUE exactly where the atom is, NULLs included; the
//! classification relies on that and on nothing else about the SQL.
//!
//! | atom | exact where | otherwise |
//! | --- | --- | --- |
//! | integers compared | everywhere | |
//! | decimals compared | `decimals`, or up to 15 digits (and 5 places for `=`, `<>` with `equality_tolerance`) | `<` becomes `<=`, `<>` is dropped |
//! | floats compared | `same_evaluator` | weakened for −0 and NaN |
//! | text, dates, booleans compared | everywhere | |
//! | LIKE | `like`, or no `_` after a `%` and nothing escaped | dropped |
//! | timestamps, f32, nested | nowhere | dropped |

mod compare;
mod normal;
mod value;

use arrow_schema::Schema;

use crate::{AggregateCall, AggregateFunction, Dialect, Expr, Format, Literal};
use value::Class;

/// How exactly a backend evaluates a predicate.
#[derive(Clone, Debug, PartialEq)]
pub enum Exactness {
    /// As the engine would: this predicate, the same one in a form the backend understands.
    Exact(Expr),
    /// This weaker predicate, which holds for every row that the asked one holds for.
    Inexact(Expr),
    /// Not at all.
    Unsupported,
}

/// Classifies a predicate over the columns of `schema`, as they stand in an object of this format.
///
/// A conjunction is exact if each part is; parts that the backend cannot evaluate are dropped from it.
pub fn classify(expr: &Expr, schema: &Schema, format: &Format, dialect: &Dialect) -> Exactness {
    if !dialect.reads(format) {
        return Exactness::Unsupported;
    }
    Classifier { schema, format, dialect }.predicate(normal::normal(expr.clone()))
}

/// Whether the backend computes exactly the engine's value of this aggregate.
pub fn classify_aggregate(call: &AggregateCall, schema: &Schema, format: &Format, dialect: &Dialect) -> bool {
    dialect.reads(format) && Classifier { schema, format, dialect }.aggregate(call)
}

struct Classifier<'a> {
    schema: &'a Schema,
    format: &'a Format,
    dialect: &'a Dialect,
}

impl Classifier<'_> {
    /// Classifies a predicate in negation normal form.
    fn predicate(&self, expr: Expr) -> Exactness {
        match expr {
            Expr::And(all) => {
                let (asked, mut kept, mut exact) = (all.len(), Vec::with_capacity(all.len()), true);
                for part in all {
                    match self.predicate(part) {
                        Exactness::Exact(part) => kept.push(part),
                        Exactness::Inexact(part) => {
                            exact = false;
                            kept.push(part);
                        }
                        Exactness::Unsupported => {}
                    }
                }
                match (kept.len() == asked && exact, kept.is_empty()) {
                    (true, _) => Exactness::Exact(Expr::conjunction(kept)),
                    (false, true) => Exactness::Unsupported,
                    (false, false) => Exactness::Inexact(Expr::conjunction(kept)),
                }
            }
            Expr::Or(all) => {
                let (mut kept, mut exact) = (Vec::with_capacity(all.len()), true);
                for part in all {
                    match self.predicate(part) {
                        Exactness::Exact(part) => kept.push(part),
                        Exactness::Inexact(part) => {
                            exact = false;
                            kept.push(part);
                        }
                        Exactness::Unsupported => return Exactness::Unsupported,
                    }
                }
                if exact { Exactness::Exact(Expr::Or(kept)) } else { Exactness::Inexact(Expr::Or(kept)) }
            }
            atom => self.atom(atom),
        }
    }

    fn atom(&self, atom: Expr) -> Exactness {
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

    /// Whether IS NULL of this can be asked: `Some(false)` if it never is NULL.
    fn is_null(&self, expr: &Expr) -> Option<bool> {
        match expr {
            Expr::Column(index) => self.schema.fields().get(*index).map(|field| field.is_nullable()),
            other => (self.dialect.three_valued && self.value(other).is_some()).then_some(true),
        }
    }

    /// A Boolean value in the place of a predicate.
    fn boolean(&self, expr: Expr, negated: bool) -> Exactness {
        let simple = matches!(expr, Expr::Column(_));
        if self.value(&expr) != Some(Class::Boolean) || !(simple || self.dialect.three_valued) {
            return Exactness::Unsupported;
        }
        Exactness::Exact(if negated { Expr::Not(Box::new(expr)) } else { expr })
    }

    fn aggregate(&self, call: &AggregateCall) -> bool {
        let Some(argument) = &call.argument else {
            return call.function == AggregateFunction::Count;
        };
        let never_null = match argument {
            Expr::Column(index) => self.schema.fields().get(*index).is_some_and(|field| !field.is_nullable()),
            _ => false,
        };
        let Some(class) = self.value(argument) else {
            return false;
        };
        let dialect = self.dialect;
        match call.function {
            AggregateFunction::Count => never_null || dialect.three_valued,
            AggregateFunction::Sum => match class {
                Class::Integer => dialect.exact_sums && dialect.three_valued,
                Class::Decimal { .. } => dialect.exact_sums && dialect.decimals && dialect.three_valued,
                Class::Float => dialect.same_evaluator,
                _ => false,
            },
            AggregateFunction::Min | AggregateFunction::Max => match class {
                // As text an integer comes back as it is, whereas a double may come back with an exponent.
                Class::Integer => dialect.three_valued || (never_null && matches!(self.format, Format::Csv(_))),
                Class::Decimal { .. } => dialect.decimals && dialect.three_valued,
                // AWS takes numbers only, and in JSON everybody does: a token tells its type row by row.
                Class::Float | Class::Text | Class::Date | Class::Boolean => {
                    dialect.same_evaluator && !matches!(self.format, Format::Json(_))
                }
            },
            // Partial averages cannot be merged: engines ask for SUM and COUNT.
            AggregateFunction::Avg => false,
            // S3 Select has no such functions.
            AggregateFunction::Mean | AggregateFunction::SquaredDeviations => false,
        }
    }
}

/// TRUE for every row, or for none.
fn constant(value: bool) -> Exactness {
    Exactness::Exact(Expr::Literal(Literal::Boolean(value)))
}

#[cfg(test)]
mod tests;

//! Classification of expressions by how exactly a backend evaluates them.
//!
//! A predicate is first converted to negation normal form ([`normal`]). Then no NOT stands above a
//! conjunction or disjunction, so NULL and FALSE are equivalent, and weakening is monotone: an atom
//! may be replaced by one that holds for more rows, and a conjunct may be dropped, and the whole
//! still holds for every row for which it should. A predicate that cannot be weakened like this is
//! [`Exactness::Unsupported`]: a missing claim costs bytes, a wrong claim loses rows.
//!
//! The classification relies on one property of the SQL that the `select` crate renders for an
//! atom: it is TRUE for exactly the rows for which the atom is TRUE, even if some values are NULL.
//!
//! | atom | exact where | otherwise |
//! | --- | --- | --- |
//! | integers compared | everywhere | |
//! | decimals compared | `decimals`, or up to 15 digits [^1] | `<` becomes `<=`, `<>` is dropped |
//! | floats compared | `same_evaluator` | weakened for −0 and NaN |
//! | text, dates, booleans compared | everywhere | |
//! | LIKE | `like`, or no `_` after a `%` and no escapes | dropped |
//! | timestamps, f32, nested | nowhere | dropped |
//! | any of them on text in CSV | no [`has_empty_and_null`] | or the field is empty |
//!
//! [^1]: And 5 places for `=` and `<>` with `equality_tolerance`.

mod aggregate;
mod classifier;
mod compare;
mod empty;
mod normal;
mod predicate;
mod value;

use arrow_schema::Schema;

use crate::{AggregateCall, Dialect, Expr, Format};
use classifier::Classifier;
pub use classifier::Exactness;
pub use empty::has_empty_and_null;

/// Classifies a predicate over the columns of `schema`, for an object of this `format`.
///
/// Parts of a conjunction that the backend cannot evaluate are dropped. The result is exact if no
/// part was dropped and each part is exact.
pub fn classify(expr: &Expr, schema: &Schema, format: &Format, dialect: &Dialect) -> Exactness {
    if !dialect.reads(format) {
        return Exactness::Unsupported;
    }
    Classifier { schema, format, dialect }.predicate(normal::normal(expr.clone()))
}

/// Returns whether the backend computes an aggregate with exactly the engine's result.
pub fn classify_aggregate(call: &AggregateCall, schema: &Schema, format: &Format, dialect: &Dialect) -> bool {
    dialect.reads(format) && Classifier { schema, format, dialect }.aggregate(call)
}

#[cfg(test)]
mod tests;

//! The names that stand for columns until they are known ([`super::columns`]).

use std::hash::{BuildHasher, Hasher, RandomState};

use datafusion::sql::sqlparser::ast::{Expr, Ident};

use super::visit::any_expression;

/// Prefix of such a name. It has a character for private use, which is in no column's name.
pub(super) const MARK: &str = "\u{f8fb}columns ";

/// Prefix of the text of a name that stands for all columns as arguments of a call.
pub(super) const UNPACKED: &str = "arguments ";

/// Returns a name, in quotes, that stands for all columns as arguments of a call; a different one
/// each time.
pub(super) fn unpacked() -> String {
    let number = RandomState::new().build_hasher().finish();
    Ident::with_quote('"', format!("{MARK}{number} {UNPACKED}*")).to_string()
}

/// Whether `expr` stands for columns.
pub(super) fn is_marked(expr: &Expr) -> bool {
    any_expression(expr, &mut |expr| matches!(expr, Expr::Identifier(name) if name.value.starts_with(MARK)))
}

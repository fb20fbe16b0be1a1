//! Comparisons of rows, `(a, b) < (c, d)`, as comparisons of their fields.
//!
//! DataFusion 55.2 compares structs, in which a NULL is less than anything. SQL compares field by
//! field, and the result may be unknown:
//!
//! ```text
//! (a, b) = (c, d)                 a = c AND b = d
//! (a, b) < (c, d)                 a < c OR (a = c AND b < d)
//! (a, b) IN ((1, 2), (3, 4))      (a = 1 AND b = 2) OR (a = 3 AND b = 4)
//! ```

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

/// Returns the equivalent comparison of fields; `None` unless `expr` compares rows of the same
/// length.
pub(crate) fn by_fields(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::BinaryOp { left, op, right } => compare(fields(left)?, op, fields(right)?),
        Expr::InList { expr, list, negated } => {
            let left = fields(expr)?;
            let equal = list.iter().map(|row| compare(left, &BinaryOperator::Eq, fields(row)?));
            let any = all_of(equal.collect::<Option<Vec<_>>>()?, &BinaryOperator::Or)?;
            Some(if *negated {
                Expr::UnaryOp { op: UnaryOperator::Not, expr: nested(any).into() }
            } else {
                nested(any)
            })
        }
        _ => None,
    }
}

fn fields(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Tuple(fields) => Some(fields),
        Expr::Nested(inner) => fields(inner),
        _ => None,
    }
}

fn compare(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Option<Expr> {
    use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
    if left.len() != right.len() {
        return None;
    }
    let of = |op: &BinaryOperator, (left, right): (&Expr, &Expr)| Expr::BinaryOp {
        left: nested(left.clone()).into(),
        op: op.clone(),
        right: nested(right.clone()).into(),
    };
    let pairs = || left.iter().zip(right);
    let compared = match op {
        Eq => all_of(pairs().map(|pair| of(&Eq, pair)).collect(), &And),
        NotEq => all_of(pairs().map(|pair| of(&NotEq, pair)).collect(), &Or),
        Lt | LtEq | Gt | GtEq => {
            // Only the last fields may be compared for equality, too.
            let strict = if matches!(op, Lt | LtEq) { &Lt } else { &Gt };
            let cases = (0..left.len()).map(|at| {
                let op = if at + 1 == left.len() { op } else { strict };
                let equal = pairs().take(at).map(|pair| of(&Eq, pair));
                all_of(equal.chain(pairs().nth(at).map(|pair| of(op, pair))).collect(), &And)
            });
            all_of(cases.collect::<Option<Vec<_>>>()?, &Or)
        }
        _ => None,
    };
    compared.map(nested)
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn all_of(all: Vec<Expr>, op: &BinaryOperator) -> Option<Expr> {
    let joined = |left: Expr, right: Expr| Expr::BinaryOp { left: left.into(), op: op.clone(), right: right.into() };
    all.into_iter().map(nested).reduce(joined)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn written(sql: &str) -> Option<String> {
        let expr = Parser::new(&GenericDialect {}).try_with_sql(sql).unwrap().parse_expr().unwrap();
        by_fields(&expr).map(|expr| expr.to_string().replace(['(', ')'], ""))
    }

    #[test]
    fn rows_are_compared_field_by_field() {
        for (sql, expected) in [
            ("(a, b) = (1, 2)", "a = 1 AND b = 2"),
            ("(a, b) <> (1, 2)", "a <> 1 OR b <> 2"),
            ("(a, b, c) <= (1, 2, 3)", "a < 1 OR a = 1 AND b < 2 OR a = 1 AND b = 2 AND c <= 3"),
            ("(a, b) > ((1, 2))", "a > 1 OR a = 1 AND b > 2"),
            ("(a, b) IN ((1, 2), (3, 4))", "a = 1 AND b = 2 OR a = 3 AND b = 4"),
            ("(a, b) NOT IN ((1, 2))", "NOT a = 1 AND b = 2"),
        ] {
            assert_eq!(written(sql).as_deref(), Some(expected), "{sql}");
        }
        for other in ["a < b", "(a, b) = (1, 2, 3)", "a IN (1, 2)", "(a, b) + (1, 2)", "(a, b) IN (c)"] {
            assert_eq!(written(other), None, "{other}");
        }
    }
}

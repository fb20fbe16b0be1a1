//! The operators and casts of JSON: `j -> 'a'`, `j ->> 'a'`, `x::JSON`.
//!
//! The parser gives `->` a lower precedence than comparisons: it reads `j ->> ('a' = 'x')` and `(x
//! = j) ->> 'a'`. Here it has the highest precedence of all operators, so that `j ->> 'a' = 'x'`
//! means what it means in PostgreSQL, and `j ->> 'a'::INT` casts the value. Only after BETWEEN, an
//! arrow needs brackets.

use datafusion::sql::sqlparser::ast::{BinaryOperator, CastKind, DataType, Expr, TypedString, Value};

use super::calls::call;

/// Replaces the operators and casts of JSON by calls of functions.
pub(super) fn rewrite(expr: &mut Expr) {
    match expr {
        Expr::BinaryOp { op, .. } if is_arrow(op) => *expr = regrouped(take(expr)),
        Expr::Cast { kind, expr: value, data_type: DataType::JSON | DataType::JSONB, .. } => {
            let name = if matches!(kind, CastKind::TryCast | CastKind::SafeCast) { "try_json" } else { "json" };
            *expr = call(name, [take(value)]);
        }
        Expr::TypedString(TypedString { data_type: DataType::JSON | DataType::JSONB, value, .. }) => {
            *expr = call("json", [Expr::Value(value.clone())]);
        }
        _ => {}
    }
}

fn is_arrow(op: &BinaryOperator) -> bool {
    matches!(op, BinaryOperator::Arrow | BinaryOperator::LongArrow)
}

fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::value(Value::Null))
}

/// Returns the expression with each arrow applied to the operands next to it.
fn regrouped(expr: Expr) -> Expr {
    match expr {
        Expr::BinaryOp { left, op, right } if is_arrow(&op) => before(regrouped(*left), &op, *right),
        other => other,
    }
}

/// Returns `left op right`, where the arrow applies only to the first operand of `right`.
fn before(left: Expr, op: &BinaryOperator, mut right: Expr) -> Expr {
    let first = match &mut right {
        Expr::BinaryOp { left, .. } => left,
        Expr::IsNull(of)
        | Expr::IsNotNull(of)
        | Expr::IsTrue(of)
        | Expr::IsNotTrue(of)
        | Expr::IsFalse(of)
        | Expr::IsNotFalse(of)
        | Expr::IsUnknown(of)
        | Expr::IsNotUnknown(of)
        | Expr::IsDistinctFrom(of, _)
        | Expr::IsNotDistinctFrom(of, _)
        | Expr::InList { expr: of, .. }
        | Expr::InSubquery { expr: of, .. }
        | Expr::InUnnest { expr: of, .. }
        | Expr::Between { expr: of, .. }
        | Expr::Like { expr: of, .. }
        | Expr::ILike { expr: of, .. }
        | Expr::SimilarTo { expr: of, .. }
        | Expr::RLike { expr: of, .. }
        | Expr::Cast { kind: CastKind::DoubleColon, expr: of, .. } => of,
        _ => return behind(left, op, right),
    };
    let key = take(first);
    **first = before(left, op, key);
    right
}

/// Returns `left op right`, where the arrow applies only to the last operand of `left`.
fn behind(mut left: Expr, op: &BinaryOperator, right: Expr) -> Expr {
    let last = match &mut left {
        Expr::BinaryOp { right, .. }
        | Expr::UnaryOp { expr: right, .. }
        | Expr::IsDistinctFrom(_, right)
        | Expr::IsNotDistinctFrom(_, right)
        | Expr::Between { high: right, .. }
        | Expr::Like { pattern: right, .. }
        | Expr::ILike { pattern: right, .. }
        | Expr::SimilarTo { pattern: right, .. } => right,
        _ => {
            let name = if *op == BinaryOperator::Arrow { "json_extract" } else { "json_extract_string" };
            return call(name, [left, right]);
        }
    };
    let document = take(last);
    **last = behind(document, op, right);
    left
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn read(sql: &str) -> String {
        let mut expr = Parser::new(&GenericDialect {}).try_with_sql(sql).unwrap().parse_expr().unwrap();
        rewrite(&mut expr);
        expr.to_string().replace("json_extract_string", "text").replace("json_extract", "json")
    }

    #[test]
    fn arrows_bind_more_than_all_others() {
        for (sql, expected) in [
            ("j -> 'a'", "json(j, 'a')"),
            ("j -> 'a' ->> 'b'", "text(json(j, 'a'), 'b')"),
            ("j ->> 'a' = 'x'", "text(j, 'a') = 'x'"),
            ("j -> 'a' ->> 'b' = k ->> 'c'", "text(json(j, 'a'), 'b') = text(k, 'c')"),
            ("x = j ->> 'a'", "x = text(j, 'a')"),
            ("j ->> 'a' IS NOT NULL", "text(j, 'a') IS NOT NULL"),
            ("j ->> 'a' IN ('x', 'y')", "text(j, 'a') IN ('x', 'y')"),
            ("j ->> 'a' LIKE 'x%'", "text(j, 'a') LIKE 'x%'"),
            ("j ->> 'a' BETWEEN 'b' AND 'c'", "text(j, 'a') BETWEEN 'b' AND 'c'"),
            ("j ->> 'a'::INT", "text(j, 'a')::INT"),
            ("'x' || j ->> 'a'", "'x' || text(j, 'a')"),
            ("x::JSON", "json(x)"),
        ] {
            assert_eq!(read(sql), expected, "{sql}");
        }
    }
}

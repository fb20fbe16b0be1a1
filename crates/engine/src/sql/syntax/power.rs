//! `a ^ b` and `a ** b`, a power in DuckDB and PostgreSQL.
//!
//! The parser gives `^` a lower precedence than `+`. Here it has a higher precedence than all
//! operators except signs, and is left-associative: `-2 ^ 2` is 4, `2 * 3 ^ 2` is 18. So the
//! parser's tree of an expression with a power has a power at its top, whose operands contain the
//! operators that bind less.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value};

use super::calls::call;

/// Replaces the powers in `expr` by calls of `power`.
pub(super) fn rewrite(expr: &mut Expr) {
    if let Expr::BinaryOp { op: BinaryOperator::BitwiseXor, .. } = expr {
        let (operands, operators) = flatten(std::mem::replace(expr, Expr::value(Value::Null)));
        *expr = grouped(operands, operators);
    }
}

/// Returns the precedence of an operator that is regrouped around a power; `None` for other
/// operators.
fn binding(op: &BinaryOperator) -> Option<u8> {
    Some(match op {
        BinaryOperator::BitwiseXor => 4,
        BinaryOperator::Multiply
        | BinaryOperator::Divide
        | BinaryOperator::Modulo
        | BinaryOperator::DuckIntegerDivide
        | BinaryOperator::MyIntegerDivide => 3,
        BinaryOperator::Plus | BinaryOperator::Minus => 2,
        BinaryOperator::StringConcat => 1,
        _ => return None,
    })
}

/// Returns the operands and the operators between them, in the order in which they are written. It
/// is a loop, since the tree of a long sum is as deep as the sum is long.
fn flatten(expr: Expr) -> (Vec<Expr>, Vec<BinaryOperator>) {
    let (mut operands, mut operators) = (Vec::new(), Vec::new());
    // What stands further right, each part with the operator before it.
    let mut rest: Vec<(BinaryOperator, Expr)> = Vec::new();
    let mut next = expr;
    loop {
        match next {
            Expr::BinaryOp { left, op, right } if binding(&op).is_some() => {
                rest.push((op, *right));
                next = *left;
                continue;
            }
            operand => operands.push(operand),
        }
        let Some((op, right)) = rest.pop() else { return (operands, operators) };
        operators.push(op);
        next = right;
    }
}

/// Builds the expression of operands and the operators between them. Operators of the same
/// precedence are left-associative.
fn grouped(operands: Vec<Expr>, operators: Vec<BinaryOperator>) -> Expr {
    let mut operands = operands.into_iter();
    let mut stack = vec![operands.next().unwrap_or_else(|| Expr::value(Value::Null))];
    let mut open: Vec<BinaryOperator> = Vec::new();
    for (op, operand) in operators.into_iter().zip(operands) {
        while open.last().is_some_and(|last| binding(last) >= binding(&op)) {
            close(&mut stack, &mut open);
        }
        open.push(op);
        stack.push(operand);
    }
    while !open.is_empty() {
        close(&mut stack, &mut open);
    }
    stack.pop().unwrap_or_else(|| Expr::value(Value::Null))
}

/// Combines the last two operands by the last operator.
fn close(stack: &mut Vec<Expr>, open: &mut Vec<BinaryOperator>) {
    if let (Some(op), Some(right), Some(left)) = (open.pop(), stack.pop(), stack.pop()) {
        stack.push(match op {
            BinaryOperator::BitwiseXor => call("power", [left, right]),
            op => Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) },
        });
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    #[test]
    fn powers_bind_more_than_other_operators() {
        for (sql, expected) in [
            ("a ^ 2", "power(a, 2)"),
            ("a * b ^ 2 + c", "a * power(b, 2) + c"),
            ("a ^ 2 * b", "power(a, 2) * b"),
            ("2 ^ 3 ^ 2", "power(power(2, 3), 2)"),
            ("-2 ^ 2", "power(-2, 2)"),
            ("a + 1 ^ b - c", "a + power(1, b) - c"),
            ("2 ^ 3 + 2 ^ 2 * 3", "power(2, 3) + power(2, 2) * 3"),
            ("a - b ^ 2 / c ^ 2 || d", "a - power(b, 2) / power(c, 2) || d"),
            ("(a + 1) ^ 2 > 3", "power((a + 1), 2) > 3"),
        ] {
            let mut expr = Parser::new(&GenericDialect {}).try_with_sql(sql).unwrap().parse_expr().unwrap();
            if let Expr::BinaryOp {
                op: BinaryOperator::Gt | BinaryOperator::Plus | BinaryOperator::Minus, left, ..
            } = &mut expr
            {
                rewrite(left);
            }
            rewrite(&mut expr);
            assert_eq!(expr.to_string(), expected, "{sql}");
        }
    }

    #[test]
    fn long_sums_are_no_deep_recursion() {
        let sql = format!("a{} ^ 2", " + 1".repeat(5000));
        let mut expr = Parser::new(&GenericDialect {}).try_with_sql(&sql).unwrap().parse_expr().unwrap();
        let ran = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
            rewrite(&mut expr);
            // Dropping it would recurse as deep as it is long.
            std::mem::forget(expr);
        });
        ran.unwrap().join().unwrap();
    }
}

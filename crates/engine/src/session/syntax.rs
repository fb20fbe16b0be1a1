//! What a statement says, where the parser (sqlparser 0.62) takes it for something else.
//!
//! **`a IS [NOT] DISTINCT FROM b AND c`** means `(a IS DISTINCT FROM b) AND c`, as comparisons do; the parser makes all that
//! follows the right operand (apache/datafusion-sqlparser-rs#2436).
//!
//! **Numbers of more digits than a decimal has**, such as `1e300`, are floating-point numbers, and not an error.

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, UnaryOperator, Value, ValueWithSpan, VisitMut,
    VisitorMut,
};
use pushdown::{Error, Result};

/// The digits of the widest decimal.
const DECIMAL_DIGITS: u64 = 76;

/// Makes the statement what it is meant to be.
pub(super) fn settle(statement: &mut Statement) -> Result<()> {
    let settle_all = &mut Settle;
    let done = match statement {
        Statement::Statement(statement) => statement.visit(settle_all),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => query.visit(settle_all),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::Explain(explain) => return settle(&mut explain.statement),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    };
    match done {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

struct Settle;

impl VisitorMut for Settle {
    type Break = Box<Error>;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        match expr {
            Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) if is_wider_than_decimals(number) => {
                if number.parse().is_ok_and(f64::is_infinite) {
                    let message = format!("{number} is larger than any number, of which the largest is 1.8e308");
                    return ControlFlow::Break(Box::new(Error::invalid(message)));
                }
                let text = Value::SingleQuotedString(std::mem::take(number));
                *expr = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(Expr::value(text)),
                    data_type: DataType::Double(ExactNumberInfo::None),
                    array: false,
                    format: None,
                };
            }
            _ if swallows(expr) => {
                let mut words = Vec::new();
                take_apart(std::mem::replace(expr, Expr::value(Value::Null)), &mut words);
                let mut words = words.into_iter().peekable();
                if let Some(regrouped) = operand(&mut words, 0) {
                    *expr = regrouped;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn is_wider_than_decimals(number: &str) -> bool {
    let (digits, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let digits = digits.bytes().filter(u8::is_ascii_digit).count() as u64;
    let exponent = exponent.parse::<i64>().map_or(u64::MAX, i64::unsigned_abs);
    digits.saturating_add(exponent) > DECIMAL_DIGITS
}

/// How strongly operators of truth values bind; `None` of all others, which bind more strongly than IS.
fn strength(op: &BinaryOperator) -> Option<u8> {
    match op {
        BinaryOperator::Or => Some(1),
        BinaryOperator::Xor => Some(2),
        BinaryOperator::And => Some(3),
        _ => None,
    }
}

/// What NOT takes: more than AND.
const NOT: u8 = 4;

/// Whether the right operand of an IS DISTINCT FROM in it has operators that bind less than that.
fn swallows(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryOp { left, op, right } if strength(op).is_some() => swallows(left) || swallows(right),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => swallows(expr),
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => {
            matches!(right.as_ref(), Expr::BinaryOp { op, .. } if strength(op).is_some()) || swallows(right)
        }
        _ => false,
    }
}

/// Conditions and what joins them, as they are written.
enum Word {
    Not,
    Operator(BinaryOperator),
    Condition(Box<Expr>),
}

fn take_apart(expr: Expr, words: &mut Vec<Word>) {
    match expr {
        Expr::BinaryOp { left, op, right } if strength(&op).is_some() => {
            take_apart(*left, words);
            words.push(Word::Operator(op));
            take_apart(*right, words);
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
            words.push(Word::Not);
            take_apart(*expr, words);
        }
        Expr::IsDistinctFrom(left, right) => distinct(left, right, Expr::IsDistinctFrom, words),
        Expr::IsNotDistinctFrom(left, right) => distinct(left, right, Expr::IsNotDistinctFrom, words),
        condition => words.push(Word::Condition(Box::new(condition))),
    }
}

/// The first condition on the right is the right operand; one that begins with NOT is left as it is.
fn distinct(left: Box<Expr>, right: Box<Expr>, made: fn(Box<Expr>, Box<Expr>) -> Expr, words: &mut Vec<Word>) {
    let first = words.len();
    take_apart(*right, words);
    if let Some(word) = words.get_mut(first) {
        match std::mem::replace(word, Word::Not) {
            Word::Condition(right) => *word = Word::Condition(Box::new(made(left, right))),
            other => {
                *word = other;
                let mut swallowed = words.split_off(first).into_iter().peekable();
                if let Some(right) = operand(&mut swallowed, 0) {
                    words.push(Word::Condition(Box::new(made(left, Box::new(right)))));
                }
            }
        }
    }
}

/// The operand that comes next, with the operators after it that bind more than `least`.
fn operand(words: &mut std::iter::Peekable<std::vec::IntoIter<Word>>, least: u8) -> Option<Expr> {
    let mut all = match words.next()? {
        Word::Condition(condition) => *condition,
        Word::Not => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(operand(words, NOT)?) },
        Word::Operator(_) => return None,
    };
    let binds = |word: &Word| match word {
        Word::Operator(op) => strength(op).is_some_and(|strength| strength > least),
        _ => false,
    };
    while let Some(Word::Operator(op)) = words.next_if(binds) {
        let right = operand(words, strength(&op)?)?;
        all = Expr::BinaryOp { left: Box::new(all), op, right: Box::new(right) };
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::*;

    fn parsed(sql: &str) -> Statement {
        DFParser::parse_sql(sql).unwrap().pop_front().unwrap()
    }

    /// The conditions with a bracket around each operator.
    fn bracketed(expr: &Expr) -> String {
        let distinct =
            |left: &Expr, how: &str, right: &Expr| format!("[{} {how} {}]", bracketed(left), bracketed(right));
        match expr {
            Expr::BinaryOp { left, op, right } => distinct(left, &op.to_string(), right),
            Expr::UnaryOp { op, expr } => format!("[{op} {}]", bracketed(expr)),
            Expr::IsDistinctFrom(left, right) => distinct(left, "<>", right),
            Expr::IsNotDistinctFrom(left, right) => distinct(left, "==", right),
            Expr::Nested(inner) => format!("({})", bracketed(inner)),
            other => other.to_string(),
        }
    }

    fn condition(sql: &str) -> String {
        struct First(Option<String>);
        impl VisitorMut for First {
            type Break = ();
            fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
                self.0 = Some(bracketed(expr));
                ControlFlow::Break(())
            }
        }
        let mut first = First(None);
        let mut statement = parsed(&format!("SELECT {sql}"));
        settle(&mut statement).unwrap();
        let Statement::Statement(mut statement) = statement else { panic!("{sql}") };
        let _ = statement.visit(&mut first);
        first.0.unwrap()
    }

    #[test]
    fn distinct_from_binds_as_a_comparison_does() {
        for (sql, expected) in [
            ("a IS DISTINCT FROM b", "[a <> b]"),
            ("a IS DISTINCT FROM b + 1 AND c", "[[a <> [b + 1]] AND c]"),
            ("a IS NOT DISTINCT FROM b OR c AND d", "[[a == b] OR [c AND d]]"),
            ("x AND a IS DISTINCT FROM b OR c", "[[x AND [a <> b]] OR c]"),
            ("x OR a IS DISTINCT FROM b AND c", "[x OR [[a <> b] AND c]]"),
            ("NOT a IS DISTINCT FROM b AND c", "[[NOT [a <> b]] AND c]"),
            ("a IS DISTINCT FROM b AND c IS NOT DISTINCT FROM d AND e", "[[[a <> b] AND [c == d]] AND e]"),
            ("a IS DISTINCT FROM (b AND c)", "[a <> ([b AND c])]"),
            ("(a IS DISTINCT FROM b AND c) OR d", "[([[a <> b] AND c]) OR d]"),
            ("a AND b OR NOT c AND d", "[[a AND b] OR [[NOT c] AND d]]"),
        ] {
            assert_eq!(condition(sql), expected, "{sql}");
        }
    }

    #[test]
    fn large_numbers_are_floating() {
        assert_eq!(condition("1e300"), "CAST('1e300' AS DOUBLE)");
        assert_eq!(condition("5e-324"), "CAST('5e-324' AS DOUBLE)");
        assert_eq!(condition("1.5e7"), "1.5e7");
        assert_eq!(condition("0.05"), "0.05");
        let error = settle(&mut parsed("EXPLAIN SELECT a FROM t WHERE b < 1e400")).unwrap_err().to_string();
        assert!(error.contains("1e400 is larger"), "{error}");
    }
}

//! `a IS [NOT] DISTINCT FROM b AND c`, which means `(a IS DISTINCT FROM b) AND c`. The parser takes
//! everything that follows as the right operand (apache/datafusion-sqlparser-rs#2436).

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};

/// Moves what does not belong to the right operand out of it.
pub(crate) fn regroup(expr: &mut Expr) {
    if !swallows(expr) {
        return;
    }
    let mut words = Vec::new();
    take_apart(std::mem::replace(expr, Expr::value(Value::Null)), &mut words);
    let mut words = words.into_iter().peekable();
    if let Some(regrouped) = operand(&mut words, 0) {
        *expr = regrouped;
    }
}

/// The precedence of logical operators; `None` for others, which bind more tightly than IS.
fn strength(op: &BinaryOperator) -> Option<u8> {
    match op {
        BinaryOperator::Or => Some(1),
        BinaryOperator::Xor => Some(2),
        BinaryOperator::And => Some(3),
        _ => None,
    }
}

/// The precedence of NOT: above AND.
const NOT_STRENGTH: u8 = 4;

/// Returns whether the right operand of an IS DISTINCT FROM contains operators that bind less
/// tightly.
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

/// A condition or an operator, in the order of the text.
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

/// Takes apart what the parser read as `a IS DISTINCT FROM (b AND c)`, so that it becomes `(a IS
/// DISTINCT FROM b) AND c`. `made` builds the comparison. A right side that begins with NOT is the
/// operand as a whole.
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

/// Parses the next operand, with the operators after it that bind more tightly than `least`.
fn operand(words: &mut std::iter::Peekable<std::vec::IntoIter<Word>>, least: u8) -> Option<Expr> {
    let mut all = match words.next()? {
        Word::Condition(condition) => *condition,
        Word::Not => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(operand(words, NOT_STRENGTH)?) },
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

//! Chains of operators, `a + b + …`, whose trees are as deep as they are long.
//!
//! Trees are walked, copied and dropped by recursion, so their depth is bounded by the stack.
//! Chains of AND and OR may be long, since programs write such; they become balanced trees. Chains
//! of other operators have at most [`MAX_OPERATORS`]: planning takes up to 16 KiB of stack for each
//! operator.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value, VisitorMut};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use pushdowndb_contract::{Error, Result};

use super::visit::visit;

/// Maximum number of operators in a row, other than AND and OR, and of queries in a UNION.
const MAX_OPERATORS: usize = 400;

/// Maximum number of conditions in a row, joined by AND and OR.
const MAX_CONDITIONS: usize = 10_000;

/// Minimum number of operands of AND or OR that become a balanced tree.
const MIN_HALVED: usize = 64;

/// The state inside a pair of brackets, or outside of all.
#[derive(Default)]
struct Level {
    /// The depth of the deepest expression that has ended.
    deepest: usize,
    /// The number of operators in the current expression.
    operators: usize,
    /// The depth of the deepest brackets in the current expression.
    inner: usize,
    conditions: usize,
    queries: usize,
}

impl Level {
    /// Ends the current expression.
    fn end(&mut self) {
        self.deepest = self.deepest.max(self.operators + self.inner);
        (self.operators, self.inner) = (0, 0);
    }
}

/// Checks, before a statement is parsed, that none of its expressions is deeper than the stack
/// allows.
///
/// # Errors
///
/// Returns an error if a chain of operators, conditions or queries is too long.
pub(crate) fn check(tokens: &[TokenWithSpan]) -> Result<()> {
    let too_many = |count: usize, most: usize, what: &str, instead: &str| {
        if count <= most {
            return Ok(());
        }
        Err(Error::unsupported(format!("this statement has more than {most} {what}; {instead}")))
    };
    let mut levels = vec![Level::default()];
    for token in tokens {
        let Some(level) = levels.last_mut() else { break };
        match &token.token {
            Token::Whitespace(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::Placeholder(_)
            | Token::EOF => {}
            Token::Word(word) if word.quote_style.is_some() => {}
            Token::Word(word) => match word.keyword {
                Keyword::AND | Keyword::OR => {
                    level.conditions += 1;
                    level.end();
                }
                Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT => level.queries += 1,
                Keyword::SELECT
                | Keyword::FROM
                | Keyword::WHERE
                | Keyword::ON
                | Keyword::WHEN
                | Keyword::THEN
                | Keyword::ELSE
                | Keyword::GROUP
                | Keyword::HAVING
                | Keyword::ORDER
                | Keyword::VALUES => {
                    level.end();
                    level.conditions = 0;
                }
                Keyword::IS
                | Keyword::IN
                | Keyword::LIKE
                | Keyword::ILIKE
                | Keyword::BETWEEN
                | Keyword::COLLATE
                | Keyword::AT
                | Keyword::NOT => level.operators += 1,
                _ => {}
            },
            Token::Comma => {
                level.end();
                level.conditions = 0;
            }
            opened @ (Token::LParen | Token::LBracket | Token::LBrace) => {
                // `a[1][2]` is a chain, too.
                level.operators += usize::from(*opened == Token::LBracket);
                levels.push(Level::default());
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                level.end();
                let depth = level.deepest + 1;
                if levels.len() > 1 {
                    levels.pop();
                }
                if let Some(outer) = levels.last_mut() {
                    outer.inner = outer.inner.max(depth);
                }
            }
            _ => level.operators += 1,
        }
        let Some(level) = levels.last() else { break };
        let depth = level.operators + level.inner;
        too_many(
            depth,
            MAX_OPERATORS,
            "operators in a row, or brackets in each other",
            "cut it into columns of subqueries",
        )?;
        too_many(
            level.conditions,
            MAX_CONDITIONS,
            "conditions in a row",
            "compare with IN and a list, or join a table",
        )?;
        too_many(level.queries, MAX_OPERATORS, "queries in a UNION", "cut it into several, or read a list of files")?;
    }
    Ok(())
}

/// Converts the long chains of AND and OR in a statement to balanced trees.
pub(crate) fn halve(statement: &mut Statement) {
    let done = visit(statement, &mut Halve);
    debug_assert!(done.is_continue(), "nothing breaks off");
}

struct Halve;

impl VisitorMut for Halve {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } = expr {
            let op = op.clone();
            if is_long(expr, &op) {
                let operands = flatten(std::mem::replace(expr, Expr::value(Value::Null)), &op);
                *expr = halves(operands, &op);
            }
        }
        ControlFlow::Continue(())
    }
}

/// Returns whether a chain of `op` has at least [`MIN_HALVED`] operands. The parser nests all but
/// the last on the left.
fn is_long(expr: &Expr, op: &BinaryOperator) -> bool {
    let mut next = expr;
    for _ in 1..MIN_HALVED {
        match next {
            Expr::BinaryOp { left, op: found, .. } if found == op => next = left,
            _ => return false,
        }
    }
    true
}

/// Returns the operands of a chain of `op`, in the order in which they are written.
fn flatten(expr: Expr, op: &BinaryOperator) -> Vec<Expr> {
    let mut operands = Vec::new();
    let mut next = expr;
    loop {
        match next {
            Expr::BinaryOp { left, op: found, right } if found == *op => {
                operands.push(*right);
                next = *left;
            }
            first => {
                operands.push(first);
                operands.reverse();
                return operands;
            }
        }
    }
}

/// Joins the operands by `op` into a balanced tree.
fn halves(mut operands: Vec<Expr>, op: &BinaryOperator) -> Expr {
    while operands.len() > 1 {
        let mut joined = Vec::with_capacity(operands.len().div_ceil(2));
        let mut rest = operands.into_iter();
        while let Some(left) = rest.next() {
            joined.push(match rest.next() {
                Some(right) => Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) },
                None => left,
            });
        }
        operands = joined;
    }
    operands.pop().unwrap_or_else(|| Expr::value(Value::Null))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::*;
    use crate::sql::Statement as Text;

    fn checked(sql: &str) -> Result<()> {
        check(&Text::parse(sql).unwrap().tokens)
    }

    #[test]
    fn chains_are_bounded_and_lists_are_not() {
        let many = |text: &str, count: usize| vec![text; count].join("");
        for long in [
            format!("SELECT 1{}", many(" + 1", 401)),
            format!("SELECT 1{}", many("::INT", 401)),
            format!("SELECT a{}", many("[1]", 401)),
            format!("SELECT (((a{}){}))", many(" + 1", 300), many(" || 'b'", 150)),
            format!("SELECT 1{}", many(" UNION ALL SELECT 1", 401)),
            format!("SELECT 1 WHERE a = 1{}", many(" OR a = 1", 10_001)),
        ] {
            let error = checked(&long).unwrap_err().to_string();
            assert!(error.contains("more than"), "{error}");
        }
        for short in [
            format!("SELECT 1{}", many(" + 1", 400)),
            format!("SELECT 1{}", many(", a + 1", 5000)),
            format!("SELECT 1 WHERE a = 1{} OR a IN (1{})", many(" OR a = 1", 5000), many(", -1", 5000)),
            format!("SELECT CASE{} END", many(" WHEN a = 1 THEN -1", 5000)),
            format!("INSERT INTO t VALUES (1, 2){}", many(", (1 + 1, -1)", 5000)),
            format!("SELECT f((a{})) + f((a{}))", many(" + 1", 300), many(" + 1", 300)),
        ] {
            checked(&short).unwrap();
        }
    }

    #[test]
    fn long_conditions_are_halved() {
        let conditions: Vec<_> = (0..1000).map(|n| format!("a = {n} AND b = {n}")).collect();
        let sql = format!("SELECT 1 FROM t WHERE {}", conditions.join(" OR "));
        let mut statement = DFParser::parse_sql(&sql).unwrap().pop_front().unwrap();
        halve(&mut statement);
        let Statement::Statement(tree) = statement else { panic!("{sql}") };
        assert_eq!(tree.to_string(), sql);
        fn depth(expr: &Expr) -> usize {
            match expr {
                Expr::BinaryOp { left, right, .. } => 1 + depth(left).max(depth(right)),
                _ => 0,
            }
        }
        let mut deepest = 0;
        let mut tree = tree;
        super::super::visit::each_expression(&mut tree, &mut |expr| deepest = deepest.max(depth(expr)));
        // 1000 operands in 10 halvings, AND and the comparison.
        assert_eq!(deepest, 12);
    }
}

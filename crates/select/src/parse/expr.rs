//! Parsing of expressions by recursive descent, with one function for each level of precedence,
//! loosest first.
//!
//! Chains of AND and OR become one flat node. All other nesting counts towards the depth limit.
//! That includes chains of arithmetic, whose trees are as deep as the chains are long.

use pushdowndb_contract::{ArithmeticOp, CompareOp, Timestamp, limits};

use super::Parser;
use crate::SelectError;
use crate::ast::{Ast, Step};
use crate::lexer::Token;

impl Parser {
    /// Parses an expression of any precedence.
    pub(super) fn expression(&mut self) -> Result<Ast, SelectError> {
        self.deeper()?;
        let expr = self.disjunction();
        self.depth -= 1;
        expr
    }

    fn deeper(&mut self) -> Result<(), SelectError> {
        self.depth += 1;
        if self.depth > limits::EXPRESSION_DEPTH {
            return Err(self.error("UnsupportedSqlStructure", "the expression nests more than 128 levels deep"));
        }
        Ok(())
    }

    fn disjunction(&mut self) -> Result<Ast, SelectError> {
        let first = self.conjunction()?;
        let mut all = vec![first];
        while self.keyword("OR") {
            all.push(self.conjunction()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Ast::Or(all) })
    }

    fn conjunction(&mut self) -> Result<Ast, SelectError> {
        let first = self.negation()?;
        let mut all = vec![first];
        while self.keyword("AND") {
            all.push(self.negation()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Ast::And(all) })
    }

    fn negation(&mut self) -> Result<Ast, SelectError> {
        if !self.keyword("NOT") {
            return self.predicate();
        }
        self.deeper()?;
        let inner = self.negation()?;
        self.depth -= 1;
        Ok(Ast::Not(Box::new(inner)))
    }

    /// Parses `=` and `<>`, which bind looser than all other comparisons.
    fn predicate(&mut self) -> Result<Ast, SelectError> {
        let mut left = self.relation()?;
        let depth = self.depth;
        loop {
            let op = match self.peek() {
                Token::Symbol("=") => CompareOp::Eq,
                Token::Symbol("<>" | "!=") => CompareOp::NotEq,
                _ => break,
            };
            self.advance();
            self.deeper()?;
            left = Ast::Compare(op, Box::new(left), Box::new(self.relation()?));
        }
        self.depth = depth;
        Ok(left)
    }

    fn relation(&mut self) -> Result<Ast, SelectError> {
        let mut left = self.sum()?;
        let depth = self.depth;
        loop {
            let op = match self.peek() {
                Token::Symbol("<") => CompareOp::Lt,
                Token::Symbol("<=") => CompareOp::LtEq,
                Token::Symbol(">") => CompareOp::Gt,
                Token::Symbol(">=") => CompareOp::GtEq,
                Token::Word(word)
                    if ["IS", "NOT", "IN", "BETWEEN", "LIKE"].iter().any(|w| word.eq_ignore_ascii_case(w)) =>
                {
                    self.deeper()?;
                    left = self.word_predicate(left)?;
                    continue;
                }
                _ => break,
            };
            self.advance();
            self.deeper()?;
            left = Ast::Compare(op, Box::new(left), Box::new(self.sum()?));
        }
        self.depth = depth;
        Ok(left)
    }

    /// Parses IS, IN, BETWEEN and LIKE after their `left` operand.
    fn word_predicate(&mut self, left: Ast) -> Result<Ast, SelectError> {
        let left = Box::new(left);
        if self.keyword("IS") {
            let negated = self.keyword("NOT");
            let test = if self.keyword("NULL") {
                Ast::IsNull(left)
            } else if self.keyword("MISSING") {
                Ast::IsMissing(left)
            } else {
                return Err(self.error("ParseExpectedTypeName", "expected NULL or MISSING after IS"));
            };
            return Ok(if negated { Ast::Not(Box::new(test)) } else { test });
        }
        let negated = self.keyword("NOT");
        if self.keyword("IN") {
            self.expect("(")?;
            if self.word().as_deref() == Some("SELECT") {
                return Err(self.error("ParseUnsupportedSelect", "subqueries are not supported"));
            }
            return Ok(Ast::In { expr: left, list: self.list(")")?, negated });
        }
        if self.keyword("BETWEEN") {
            let low = Box::new(self.sum()?);
            if !self.keyword("AND") {
                return Err(self.error("ParseExpectedKeyword", "expected AND after BETWEEN"));
            }
            let between = Ast::Between { expr: left, low, high: Box::new(self.sum()?) };
            return Ok(if negated { Ast::Not(Box::new(between)) } else { between });
        }
        if self.keyword("LIKE") {
            let pattern = Box::new(self.sum()?);
            let escape = if self.keyword("ESCAPE") { Some(Box::new(self.sum()?)) } else { None };
            return Ok(Ast::Like { expr: left, pattern, escape, negated });
        }
        Err(self.error("ParseExpectedKeyword", "expected IN, BETWEEN or LIKE after NOT"))
    }

    fn sum(&mut self) -> Result<Ast, SelectError> {
        let mut left = self.product()?;
        let depth = self.depth;
        loop {
            let op = match self.peek() {
                Token::Symbol("+") => Some(ArithmeticOp::Add),
                Token::Symbol("-") => Some(ArithmeticOp::Subtract),
                Token::Symbol("||") => None,
                _ => break,
            };
            self.advance();
            self.deeper()?;
            let right = self.product()?;
            left = match op {
                Some(op) => Ast::Arithmetic(op, Box::new(left), Box::new(right)),
                None => Ast::Call("CONCAT", vec![left, right]),
            };
        }
        self.depth = depth;
        Ok(left)
    }

    fn product(&mut self) -> Result<Ast, SelectError> {
        let mut left = self.factor()?;
        let depth = self.depth;
        loop {
            let op = match self.peek() {
                Token::Symbol("*") => ArithmeticOp::Multiply,
                Token::Symbol("/") => ArithmeticOp::Divide,
                Token::Symbol("%") => ArithmeticOp::Modulo,
                _ => break,
            };
            self.advance();
            self.deeper()?;
            left = Ast::Arithmetic(op, Box::new(left), Box::new(self.factor()?));
        }
        self.depth = depth;
        Ok(left)
    }

    fn factor(&mut self) -> Result<Ast, SelectError> {
        let negative = match self.peek() {
            Token::Symbol("-") => true,
            Token::Symbol("+") => false,
            _ => return self.primary(),
        };
        self.advance();
        self.deeper()?;
        let inner = self.factor()?;
        self.depth -= 1;
        Ok(match inner {
            inner if !negative => inner,
            // The sign becomes part of the number, since the least integer can only be written with
            // it.
            Ast::Number(digits) if !digits.starts_with('-') => Ast::Number(format!("-{digits}")),
            inner => Ast::Negate(Box::new(inner)),
        })
    }

    fn primary(&mut self) -> Result<Ast, SelectError> {
        let literal = match self.peek() {
            Token::Number(digits) => Ast::Number(digits.clone()),
            Token::Text(text) => Ast::Text(text.clone()),
            Token::Ion(text) => self.ion(text)?,
            Token::Symbol("(") => {
                self.advance();
                if self.word().as_deref() == Some("SELECT") {
                    return Err(self.error("ParseUnsupportedSelect", "subqueries are not supported"));
                }
                let inner = self.expression()?;
                self.expect(")")?;
                return Ok(inner);
            }
            Token::Quoted(_) => return self.path(),
            Token::Word(_) => match self.word().as_deref() {
                Some("TRUE") => Ast::Bool(true),
                Some("FALSE") => Ast::Bool(false),
                Some("NULL") => Ast::Null,
                Some("MISSING") => Ast::Missing,
                Some("CASE") => return self.case(),
                Some("CAST") if *self.ahead(1) != Token::Symbol("(") => {
                    return match self.ahead(1) {
                        Token::Text(_) | Token::Number(_) | Token::Ion(_) => {
                            Err(self.error("ParseExpectedLeftParenAfterCast", "expected CAST(… AS type)"))
                        }
                        _ => self.path(),
                    };
                }
                _ if *self.ahead(1) == Token::Symbol("(") => return self.call(),
                _ => return self.path(),
            },
            _ => return Err(self.error("ParseExpectedExpression", "expected an expression")),
        };
        self.advance();
        Ok(literal)
    }

    /// Parses a value in backticks: a timestamp, a number, a text, a truth value or null.
    fn ion(&self, written: &str) -> Result<Ast, SelectError> {
        let text = written.trim();
        if let Some(timestamp) = Timestamp::parse(text) {
            // A number in Ion's form does not parse as a timestamp.
            return Ok(Ast::Timestamp(timestamp.to_string()));
        }
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
            && digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'))
            && digits.parse::<f64>().is_ok();
        let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        Ok(match (text, quoted) {
            ("true", _) => Ast::Bool(true),
            ("false", _) => Ast::Bool(false),
            ("null", _) => Ast::Null,
            (_, Some(quoted)) if !quoted.contains(['"', '\\']) => Ast::Text(quoted.to_owned()),
            (number, _) if is_number => Ast::Number(number.to_owned()),
            _ => {
                let message = "a value in backticks is a timestamp, a number, a text, true, false or null of Ion";
                return Err(self.error("LexerInvalidIONLiteral", message));
            }
        })
    }

    fn path(&mut self) -> Result<Ast, SelectError> {
        let mut steps = vec![Step::Name(self.name()?)];
        loop {
            if self.symbol(".") {
                if *self.peek() == Token::Symbol("*") {
                    return Err(self.error("ParseInvalidContextForWildcardInSelectList", "* stands alone"));
                }
                steps.push(Step::Name(self.name()?));
            } else if self.symbol("[") {
                steps.push(match self.peek() {
                    Token::Number(digits) => match digits.parse() {
                        Ok(index) => Step::Index(index),
                        Err(_) => return Err(self.error("ParseInvalidPathComponent", "expected an index or a name")),
                    },
                    Token::Symbol("*") => {
                        let message = "a path with a wildcard stands in FROM";
                        return Err(self.error("ParseInvalidContextForWildcardInSelectList", message));
                    }
                    Token::Text(name) => Step::Name(crate::ast::Name { text: name.clone(), exact: true }),
                    _ => return Err(self.error("ParseInvalidPathComponent", "expected an index or a name")),
                });
                self.advance();
                if !self.symbol("]") {
                    return Err(self.error("ParseInvalidPathComponent", "expected ']'"));
                }
            } else {
                break;
            }
            if steps.len() > limits::EXPRESSION_DEPTH {
                return Err(self.error("ParseInvalidPathComponent", "the path has more than 128 steps"));
            }
        }
        Ok(Ast::Path(steps))
    }

    fn case(&mut self) -> Result<Ast, SelectError> {
        self.advance();
        let operand = match self.word().as_deref() {
            Some("WHEN") => None,
            _ => Some(Box::new(self.expression()?)),
        };
        let mut branches = Vec::new();
        while self.keyword("WHEN") {
            let when = self.expression()?;
            if !self.keyword("THEN") {
                return Err(self.error("ParseExpectedKeyword", "expected THEN"));
            }
            branches.push((when, self.expression()?));
        }
        if branches.is_empty() {
            return Err(self.error("ParseExpectedWhenClause", "expected WHEN after CASE"));
        }
        let otherwise = if self.keyword("ELSE") { Some(Box::new(self.expression()?)) } else { None };
        if !self.keyword("END") {
            return Err(self.error("ParseExpectedKeyword", "expected END"));
        }
        Ok(Ast::Case { operand, branches, otherwise })
    }

    /// Parses comma-separated expressions up to and including the symbol `close`.
    pub(super) fn list(&mut self, close: &str) -> Result<Vec<Ast>, SelectError> {
        let mut all = Vec::new();
        if self.symbol(close) {
            return Ok(all);
        }
        loop {
            all.push(self.expression()?);
            if self.symbol(close) {
                return Ok(all);
            }
            if !self.symbol(",") {
                return Err(self.error("ParseExpectedArgumentDelimiter", &format!("expected ',' or '{close}'")));
            }
        }
    }

    pub(super) fn expect(&mut self, symbol: &str) -> Result<(), SelectError> {
        if self.symbol(symbol) {
            return Ok(());
        }
        Err(self.error("ParseUnexpectedToken", &format!("expected '{symbol}'")))
    }
}

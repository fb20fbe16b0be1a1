//! Binding of expressions: each gets a kind, and conversions become explicit. Functions are in
//! [`super::call`].

use arrow_schema::DataType;
use pushdowndb_contract::{ArithmeticOp, CompareOp, Expr, Function, Literal, like_with_backslash};

use super::binder::Binder;
use super::compare::{compare, meet, unify};
use super::constant;
use super::kind::{Kind, Typed, call};
use crate::SelectError;
use crate::ast::Ast;

impl Binder<'_> {
    pub(super) fn expr(&mut self, ast: &Ast) -> Result<Typed, SelectError> {
        if let Some(of_group) = self.of_group(ast)? {
            return Ok(of_group);
        }
        Ok(match ast {
            Ast::Number(written) => constant::number(written)?,
            Ast::Text(text) => Typed::new(Expr::text(text.clone()), Kind::Text),
            Ast::Bool(value) => Typed::boolean(Expr::Literal(Literal::Boolean(*value))),
            // As an operand, MISSING is NULL.
            Ast::Null | Ast::Missing => Typed::null(),
            Ast::Timestamp(text) => Typed::new(Expr::text(text.clone()), Kind::Ion),
            Ast::Path(steps) => {
                let (index, data_type) = self.columns.find(steps)?;
                match data_type {
                    None => Typed::new(Expr::Column(index), Kind::Token),
                    // Old files store text as binary, without an annotation.
                    Some(binary) if is_binary(&binary) => {
                        Typed::new(super::kind::cast(Expr::Column(index), DataType::Utf8), Kind::Text)
                    }
                    Some(data_type) => Typed::new(Expr::Column(index), Kind::of(&data_type)),
                }
            }
            Ast::Negate(inner) => {
                let inner = self.expr(inner)?.number()?;
                match inner.kind {
                    kind if kind.is_token() => {
                        Typed::new(call(Function::TokenSubtract, vec![Expr::text("0"), inner.expr]), Kind::Number)
                    }
                    Kind::Null => inner,
                    kind => Typed::new(Expr::Negate(Box::new(inner.expr)), kind),
                }
            }
            Ast::Not(inner) => Typed::boolean(Expr::Not(Box::new(self.condition(inner)?))),
            Ast::And(all) => Typed::boolean(Expr::And(self.conditions(all)?)),
            Ast::Or(all) => Typed::boolean(Expr::Or(self.conditions(all)?)),
            Ast::Compare(op, a, b) => {
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                compare(*op, a, b)?
            }
            Ast::Between { expr, low, high } => {
                let (expr, low, high) = (self.expr(expr)?, self.expr(low)?, self.expr(high)?);
                self.copy(&expr.expr, 1)?;
                let above = compare(CompareOp::GtEq, expr.clone(), low)?;
                Typed::boolean(Expr::And(vec![above.expr, compare(CompareOp::LtEq, expr, high)?.expr]))
            }
            Ast::Arithmetic(op, a, b) => self.arithmetic(*op, a, b)?,
            Ast::IsNull(inner) => Typed::boolean(Expr::IsNull(Box::new(self.expr(inner)?.value().expr))),
            Ast::IsMissing(inner) => self.is_missing(inner)?,
            Ast::In { expr, list, negated } => self.in_list(expr, list, *negated)?,
            Ast::Like { expr, pattern, escape, negated } => self.like(expr, pattern, escape.as_deref(), *negated)?,
            Ast::Cast(inner, to) => self.cast(inner, *to)?,
            Ast::Case { operand, branches, otherwise } => {
                self.case(operand.as_deref(), branches, otherwise.as_deref())?
            }
            Ast::Bloom(inner, filter) => self.bloom(inner, filter)?,
            Ast::Call(name, args) => self.call(name, args)?,
            Ast::Aggregate(function, _) => {
                let message = format!("{} stands in the select list and in ORDER BY only", function.sql());
                return Err(SelectError::structure(message));
            }
        })
    }

    /// Binds a predicate.
    pub(super) fn condition(&mut self, ast: &Ast) -> Result<Expr, SelectError> {
        let typed = self.expr(ast)?;
        match typed.kind {
            Kind::Bool | Kind::Null => Ok(typed.expr),
            Kind::Token => Ok(call(Function::JsonBoolean, vec![typed.expr])),
            other => Err(SelectError::types(format!("a condition is TRUE or FALSE; this is {other}"))),
        }
    }

    fn conditions(&mut self, all: &[Ast]) -> Result<Vec<Expr>, SelectError> {
        all.iter().map(|ast| self.condition(ast)).collect()
    }

    fn arithmetic(&mut self, op: ArithmeticOp, a: &Ast, b: &Ast) -> Result<Typed, SelectError> {
        let (a, b) = (self.expr(a)?.number()?, self.expr(b)?.number()?);
        let is_decimal = |typed: &Typed| matches!(typed.kind, Kind::Decimal(_));
        let is_float = |typed: &Typed| typed.kind == Kind::Float;
        // A quotient of decimals has as many digits as it needs, whatever the types of its
        // operands.
        let quotient = op == ArithmeticOp::Divide
            && (is_decimal(&a) || is_decimal(&b))
            && ![&a, &b].into_iter().any(|side| is_float(side) || side.kind == Kind::Null);
        if a.kind.is_token() || b.kind.is_token() || quotient {
            let function = match op {
                ArithmeticOp::Add => Function::TokenAdd,
                ArithmeticOp::Subtract => Function::TokenSubtract,
                ArithmeticOp::Multiply => Function::TokenMultiply,
                ArithmeticOp::Divide => Function::TokenDivide,
                ArithmeticOp::Modulo => Function::TokenModulo,
            };
            return Ok(Typed::new(call(function, vec![a.token(), b.token()]), Kind::Number));
        }
        let kind = match (a.kind, b.kind) {
            // NULL with any other operand is NULL, also in a division by zero.
            (Kind::Null, _) | (_, Kind::Null) => return Ok(Typed::null()),
            (Kind::Float, _) | (_, Kind::Float) => Kind::Float,
            (Kind::Int, Kind::Int) => Kind::Int,
            _ => Kind::Decimal(None),
        };
        Ok(Typed::new(Expr::Arithmetic(op, Box::new(a.expr), Box::new(b.expr)), kind))
    }

    /// Binds IS MISSING, which is true for a field that a record lacks: a path that a JSON record
    /// does not have, or a field beyond the end of a short CSV record.
    fn is_missing(&mut self, inner: &Ast) -> Result<Typed, SelectError> {
        if *inner == Ast::Missing {
            return Ok(Typed::boolean(Expr::Literal(Literal::Boolean(true))));
        }
        let inner = self.expr(inner)?;
        Ok(Typed::boolean(match inner.expr {
            // A JSON `null` is still a token here, not yet NULL.
            column @ Expr::Column(_) if !self.has_nulls => Expr::IsNull(Box::new(column)),
            _ => Expr::Literal(Literal::Boolean(false)),
        }))
    }

    fn in_list(&mut self, expr: &Ast, list: &[Ast], negated: bool) -> Result<Typed, SelectError> {
        let expr = self.expr(expr)?;
        let list = list.iter().map(|item| self.expr(item)).collect::<Result<Vec<_>, _>>()?;
        if list.is_empty() {
            return Err(SelectError::new("ParseExpectedExpression", "IN takes at least one value"));
        }
        self.copy(&expr.expr, list.len())?;
        let dynamic = expr.kind.is_token() || list.iter().any(|item| item.kind.is_token());
        if !dynamic && let Some((left, items)) = one_type(&expr, &list)? {
            return Ok(Typed::boolean(Expr::InList { expr: Box::new(left), list: items, negated }));
        }
        let equal = |item| compare(CompareOp::Eq, expr.clone(), item).map(|typed| typed.expr);
        let any = Expr::Or(list.into_iter().map(equal).collect::<Result<_, _>>()?);
        Ok(Typed::boolean(if negated { Expr::Not(Box::new(any)) } else { any }))
    }

    /// Binds LIKE. In the bound pattern the escape character is a backslash, as the evaluator
    /// expects.
    fn like(&mut self, expr: &Ast, pattern: &Ast, escape: Option<&Ast>, negated: bool) -> Result<Typed, SelectError> {
        let invalid = |message: &str| SelectError::new("LikeInvalidInputs", message);
        let no_text = |error: SelectError| SelectError::new("LikeInvalidInputs", error.message);
        let expr = self.expr(expr)?.text().map_err(no_text)?;
        let escape = match escape {
            None => None,
            Some(Ast::Text(text)) => {
                let mut chars = text.chars();
                match (chars.next(), chars.next()) {
                    (Some(c), None) => Some(c),
                    _ => return Err(invalid("ESCAPE takes one character")),
                }
            }
            Some(_) => return Err(invalid("ESCAPE takes one character")),
        };
        let pattern = match pattern {
            Ast::Text(pattern) => {
                let pattern = like_with_backslash(pattern, escape).ok_or_else(|| {
                    let message = "the escape of LIKE stands only before %, _ and itself";
                    SelectError::new("EvaluatorLikePatternInvalidEscapeSequence", message)
                })?;
                Expr::text(pattern)
            }
            Ast::Null | Ast::Missing => return Ok(Typed::null()),
            other => {
                let pattern = self.expr(other)?.text().map_err(no_text)?;
                let escape = Expr::text(escape.map(String::from).unwrap_or_default());
                call(Function::LikePattern, vec![pattern.expr, escape])
            }
        };
        Ok(Typed::boolean(Expr::Like {
            expr: Box::new(expr.expr),
            pattern: Box::new(pattern),
            negated,
            case_insensitive: false,
        }))
    }

    fn case(
        &mut self,
        operand: Option<&Ast>,
        branches: &[(Ast, Ast)],
        otherwise: Option<&Ast>,
    ) -> Result<Typed, SelectError> {
        let operand = operand.map(|operand| self.expr(operand)).transpose()?;
        if let Some(operand) = &operand {
            self.copy(&operand.expr, branches.len())?;
        }
        let (mut conditions, mut results) = (Vec::with_capacity(branches.len()), Vec::with_capacity(branches.len()));
        for (when, then) in branches {
            conditions.push(match &operand {
                None => self.condition(when)?,
                Some(operand) => {
                    let when = self.expr(when)?;
                    compare(CompareOp::Eq, operand.clone(), when)?.expr
                }
            });
            results.push(self.expr(then)?);
        }
        let has_else = otherwise.is_some();
        if let Some(otherwise) = otherwise {
            results.push(self.expr(otherwise)?);
        }
        let (mut results, kind) = unify(results)?;
        let otherwise = if has_else { results.pop().map(Box::new) } else { None };
        let case = Expr::Case { branches: conditions.into_iter().zip(results).collect(), otherwise };
        Ok(Typed::new(case, kind).value())
    }
}

/// Converts the operands of IN to one common type. Returns `None` if there is no such type.
fn one_type(expr: &Typed, list: &[Typed]) -> Result<Option<(Expr, Vec<Expr>)>, SelectError> {
    let mut left: Option<Expr> = None;
    let mut items = Vec::with_capacity(list.len());
    for item in list {
        if item.kind == Kind::Null || expr.kind == Kind::Null {
            items.push(item.expr.clone());
            continue;
        }
        let (met, item) = meet(expr.clone(), item.clone(), false)?;
        match &left {
            None => left = Some(met.expr),
            Some(left) if *left == met.expr => {}
            Some(_) => return Ok(None),
        }
        items.push(item.expr);
    }
    let left = left.unwrap_or_else(|| expr.expr.clone());
    // A constant on the left side would be converted to the type of each item separately.
    let constant = matches!(left, Expr::Literal(_)) && expr.kind != Kind::Null;
    Ok((!constant).then_some((left, items)))
}

fn is_binary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_))
}

//! Expressions: each bound with its kind, conversions made explicit.

use arrow_schema::{DataType, TimeUnit};
use pushdown::{ArithmeticOp, CompareOp, Expr, Function, Literal, like_parts, like_pattern};

use super::compare::{meet, unify};
use super::kind::{Kind, Typed};
use super::{Binder, constant};
use crate::SelectError;
use crate::ast::{Ast, TypeName};

impl Binder<'_> {
    pub(super) fn expr(&mut self, ast: &Ast) -> Result<Typed, SelectError> {
        Ok(match ast {
            Ast::Number(written) => constant::number(written)?,
            Ast::Text(text) => Typed::new(Expr::text(text.clone()), Kind::Text),
            Ast::Bool(value) => Typed::new(Expr::Literal(Literal::Boolean(*value)), Kind::Bool),
            Ast::Null => Typed::null(),
            Ast::Path(steps) => {
                let (index, data_type) = self.columns.find(steps)?;
                Typed::new(Expr::Column(index), data_type.map_or(Kind::Token, |data_type| Kind::of(&data_type)))
            }
            Ast::Negate(inner) => {
                let inner = self.expr(inner)?.number()?;
                Typed::new(Expr::Negate(Box::new(inner.expr)), inner.kind)
            }
            Ast::Not(inner) => boolean(Expr::Not(Box::new(self.condition(inner)?))),
            Ast::And(all) => boolean(Expr::And(self.conditions(all)?)),
            Ast::Or(all) => boolean(Expr::Or(self.conditions(all)?)),
            Ast::Compare(op, a, b) => {
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                compare(*op, a, b)?
            }
            Ast::Between { expr, low, high } => {
                let (expr, low, high) = (self.expr(expr)?, self.expr(low)?, self.expr(high)?);
                let above = compare(CompareOp::GtEq, expr.clone(), low)?;
                boolean(Expr::And(vec![above.expr, compare(CompareOp::LtEq, expr, high)?.expr]))
            }
            Ast::Arithmetic(op, a, b) => self.arithmetic(*op, a, b)?,
            Ast::IsNull(inner) => boolean(Expr::IsNull(Box::new(self.expr(inner)?.opened().expr))),
            Ast::IsMissing(inner) => self.is_missing(inner)?,
            Ast::In { expr, list, negated } => self.in_list(expr, list, *negated)?,
            Ast::Like { expr, pattern, escape, negated } => self.like(expr, pattern, escape.as_deref(), *negated)?,
            Ast::Cast(inner, to) => self.cast(inner, *to)?,
            Ast::Case { operand, branches, otherwise } => {
                self.case(operand.as_deref(), branches, otherwise.as_deref())?
            }
            Ast::Call(name, args) => self.call(name, args)?,
            Ast::Aggregate(function, _) => {
                let message = format!("{} stands alone in the select list", function.sql());
                return Err(SelectError::structure(message));
            }
        })
    }

    fn conditions(&mut self, all: &[Ast]) -> Result<Vec<Expr>, SelectError> {
        all.iter().map(|ast| self.condition(ast)).collect()
    }

    fn arithmetic(&mut self, op: ArithmeticOp, a: &Ast, b: &Ast) -> Result<Typed, SelectError> {
        let (a, b) = (self.expr(a)?.number()?, self.expr(b)?.number()?);
        let kind = match (a.kind, b.kind) {
            (Kind::Float, _) | (_, Kind::Float) => Kind::Float,
            (Kind::Int, Kind::Int) => Kind::Int,
            (Kind::Null, other) | (other, Kind::Null) => other,
            _ => Kind::Decimal(None),
        };
        Ok(Typed::new(Expr::Arithmetic(op, Box::new(a.expr), Box::new(b.expr)), kind))
    }

    /// MISSING is what a record lacks: a path of JSON, a field of a short record.
    fn is_missing(&mut self, inner: &Ast) -> Result<Typed, SelectError> {
        let inner = self.expr(inner)?;
        Ok(boolean(match inner.expr {
            // A JSON null is a token, which is not NULL yet.
            column @ Expr::Column(_) => Expr::IsNull(Box::new(column)),
            _ => Expr::Literal(Literal::Boolean(false)),
        }))
    }

    fn in_list(&mut self, expr: &Ast, list: &[Ast], negated: bool) -> Result<Typed, SelectError> {
        let expr = self.expr(expr)?;
        let mut left: Option<Expr> = None;
        let mut items = Vec::with_capacity(list.len());
        for item in list {
            let item = self.expr(item)?;
            let null = item.kind == Kind::Null;
            let (met, item) = meet(expr.clone(), item, false)?;
            match &left {
                _ if null => {}
                None => left = Some(met.expr),
                Some(left) if *left == met.expr => {}
                Some(_) => return Err(SelectError::types("the values of an IN list must be of one type")),
            }
            items.push(item.expr);
        }
        let left = left.unwrap_or_else(|| expr.opened().expr);
        Ok(boolean(Expr::InList { expr: Box::new(left), list: items, negated }))
    }

    /// Patterns are constants; afterwards a backslash escapes, as the evaluator has it.
    fn like(&mut self, expr: &Ast, pattern: &Ast, escape: Option<&Ast>, negated: bool) -> Result<Typed, SelectError> {
        let invalid = |message: &str| SelectError::new("LikeInvalidInputs", message);
        let expr = self.expr(expr)?.text()?;
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
            Ast::Text(pattern) => pattern,
            Ast::Null => return Ok(Typed::null()),
            _ => return Err(invalid("the pattern of LIKE must be a constant text")),
        };
        let parts = like_parts(pattern, escape).ok_or_else(|| {
            let message = "the escape of LIKE stands only before %, _ and itself";
            SelectError::new("EvaluatorLikePatternInvalidEscapeSequence", message)
        })?;
        Ok(boolean(Expr::Like {
            expr: Box::new(expr.expr),
            pattern: Box::new(Expr::text(like_pattern(&parts, Some('\\')))),
            escape: None,
            negated,
            case_insensitive: false,
        }))
    }

    fn cast(&mut self, inner: &Ast, to: TypeName) -> Result<Typed, SelectError> {
        match inner {
            Ast::Text(text) | Ast::Number(text) => return constant::cast(text, to),
            _ => {}
        }
        let inner = self.expr(inner)?.opened();
        let (data_type, kind) = match to {
            TypeName::Bool => (DataType::Boolean, Kind::Bool),
            TypeName::Int => (DataType::Int64, Kind::Int),
            TypeName::Float => (DataType::Float64, Kind::Float),
            TypeName::Decimal(p, s) => (DataType::Decimal128(p, s), Kind::Decimal(Some((p, s)))),
            TypeName::Text => (DataType::Utf8, Kind::Text),
            TypeName::Timestamp => {
                (DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())), Kind::Timestamp { utc: true })
            }
        };
        Ok(match (inner.kind, kind) {
            (Kind::Null, _) => inner,
            (from, to) if from == to => inner,
            // A date is a timestamp of whole days and compares as one.
            (Kind::Date | Kind::Timestamp { .. }, Kind::Timestamp { .. }) => inner,
            (Kind::Other, _) | (Kind::Bool | Kind::Date, Kind::Float | Kind::Decimal(_) | Kind::Int | Kind::Bool) => {
                return Err(SelectError::new("InvalidCast", format!("{} cannot be cast to {kind}", inner.kind)));
            }
            _ => Typed::new(Expr::Cast(Box::new(inner.expr), data_type), kind),
        })
    }

    fn case(
        &mut self,
        operand: Option<&Ast>,
        branches: &[(Ast, Ast)],
        otherwise: Option<&Ast>,
    ) -> Result<Typed, SelectError> {
        let operand = operand.map(|operand| self.expr(operand)).transpose()?;
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
        Ok(Typed::new(Expr::Case { branches: conditions.into_iter().zip(results).collect(), otherwise }, kind))
    }

    fn call(&mut self, name: &str, args: &[Ast]) -> Result<Typed, SelectError> {
        if let ("TO_TIMESTAMP", [argument]) = (name, args) {
            return self.cast(argument, TypeName::Timestamp);
        }
        let mut bound: Vec<Typed> = args.iter().map(|arg| self.expr(arg)).collect::<Result<_, _>>()?;
        let (function, kind) = match name {
            "NULLIF" => {
                let (Some(b), Some(a)) = (bound.pop(), bound.pop()) else {
                    return Err(arity(name));
                };
                let (a, b) = meet(a, b, false)?;
                return Ok(Typed::new(Expr::Call(Function::NullIf, vec![a.expr, b.expr]), a.kind));
            }
            "COALESCE" => {
                let (exprs, kind) = unify(bound)?;
                return Ok(Typed::new(Expr::Call(Function::Coalesce, exprs), kind));
            }
            "LOWER" => (Function::Lower, Kind::Text),
            "UPPER" => (Function::Upper, Kind::Text),
            "CHAR_LENGTH" => (Function::CharLength, Kind::Int),
            "TRIM" => (Function::Trim, Kind::Text),
            "LTRIM" => (Function::TrimLeading, Kind::Text),
            "RTRIM" => (Function::TrimTrailing, Kind::Text),
            "CONCAT" => (Function::Concat, Kind::Text),
            "SUBSTRING" => (Function::Substring, Kind::Text),
            _ => return Err(SelectError::new("UnsupportedFunction", format!("{name} is not supported"))),
        };
        let mut exprs = Vec::with_capacity(bound.len());
        for (index, argument) in bound.into_iter().enumerate() {
            let number = function == Function::Substring && index > 0;
            let wrong = |error: SelectError| {
                SelectError::new("IncorrectSqlFunctionArgumentType", format!("{name}: {}", error.message))
            };
            exprs.push(if number { whole(argument) } else { argument.text() }.map_err(wrong)?.expr);
        }
        Ok(Typed::new(Expr::Call(function, exprs), kind))
    }
}

fn arity(name: &str) -> SelectError {
    SelectError::new("EvaluatorInvalidArguments", format!("{name} takes two arguments"))
}

fn boolean(expr: Expr) -> Typed {
    Typed::new(expr, Kind::Bool)
}

fn whole(typed: Typed) -> Result<Typed, SelectError> {
    match typed.kind {
        Kind::Int | Kind::Null => Ok(typed),
        other => Err(SelectError::types(format!("a whole number is needed here, not {other}"))),
    }
}

fn compare(op: CompareOp, a: Typed, b: Typed) -> Result<Typed, SelectError> {
    let ordered = !matches!(op, CompareOp::Eq | CompareOp::NotEq);
    let (a, b) = meet(a, b, ordered)?;
    Ok(boolean(Expr::compare(op, a.expr, b.expr)))
}

//! Binding of casts and functions.

use std::sync::Arc;

use arrow_schema::DataType;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pushdowndb_contract::{BloomFilter, CompareOp, DatePart, Expr, Function, Literal, Pattern};

use super::binder::Binder;
use super::compare::{compare, unify};
use super::constant;
use super::kind::{Kind, Typed, call, cast};
use crate::ast::{Ast, TypeName};
use crate::{Extensions, SelectError};

impl Binder<'_> {
    pub(super) fn cast(&mut self, inner: &Ast, to: TypeName) -> Result<Typed, SelectError> {
        match (inner, to) {
            (Ast::Text(text), _) => return constant::cast_text(text, to),
            // The cast applies to the digits as they are written.
            (Ast::Number(text), TypeName::Text | TypeName::Number | TypeName::Decimal(..)) => {
                return constant::cast_text(text, to);
            }
            _ => {}
        }
        let inner = self.expr(inner)?;
        let refused =
            |kind: Kind, to: &str| Err(SelectError::new("InvalidCast", format!("{kind} cannot be cast to {to}")));
        let whole = |bool: Expr| cast(bool, DataType::Int64);
        Ok(match to {
            TypeName::Bool => match inner.kind {
                Kind::Bool => inner,
                Kind::Token => Typed::boolean(cast(call(Function::JsonTruth, vec![inner.expr]), DataType::Boolean)),
                Kind::Null | Kind::Text => Typed::boolean(cast(inner.expr, DataType::Boolean)),
                Kind::Int | Kind::Decimal(_) | Kind::Float | Kind::Number => {
                    compare(CompareOp::NotEq, inner, Typed::new(Expr::int(0), Kind::Int))?
                }
                kind => return refused(kind, "BOOL"),
            },
            TypeName::Int => match inner.kind {
                Kind::Int => Typed::new(inner.expr, Kind::Int),
                Kind::Token => Typed::new(whole(call(Function::JsonWhole, vec![inner.expr])), Kind::Int),
                Kind::Null | Kind::Text | Kind::Bool | Kind::Decimal(_) | Kind::Float => {
                    Typed::new(whole(inner.expr), Kind::Int)
                }
                // The fraction is truncated; a cast from text would refuse it.
                Kind::Number => Typed::new(whole(cast(inner.expr, DataType::Decimal128(38, 10))), Kind::Int),
                kind => return refused(kind, "INT"),
            },
            TypeName::Float => match inner.kind {
                Kind::Float => inner,
                Kind::Bool => Typed::new(cast(whole(inner.expr), DataType::Float64), Kind::Float),
                Kind::Null | Kind::Text | Kind::Token | Kind::Int | Kind::Decimal(_) | Kind::Number => {
                    Typed::new(cast(inner.opened().expr, DataType::Float64), Kind::Float)
                }
                kind => return refused(kind, "FLOAT"),
            },
            TypeName::Decimal(precision, scale) => {
                let (data_type, kind) =
                    (DataType::Decimal128(precision, scale), Kind::Decimal(Some((precision, scale))));
                match inner.kind {
                    same if same == kind => inner,
                    Kind::Bool => Typed::new(cast(whole(inner.expr), data_type), kind),
                    Kind::Null
                    | Kind::Text
                    | Kind::Token
                    | Kind::Int
                    | Kind::Decimal(_)
                    | Kind::Float
                    | Kind::Number => Typed::new(cast(inner.opened().expr, data_type), kind),
                    kind => return refused(kind, "DECIMAL"),
                }
            }
            TypeName::Number => match inner.kind {
                Kind::Number => inner,
                Kind::Null => Typed::new(cast(inner.expr, DataType::Utf8), Kind::Number).value(),
                Kind::Text | Kind::Token => {
                    Typed::new(call(Function::ToNumber, vec![inner.opened().expr]), Kind::Number)
                }
                Kind::Bool => Typed::new(call(Function::ToToken, vec![whole(inner.expr)]), Kind::Number),
                Kind::Int | Kind::Decimal(_) => Typed::new(call(Function::ToToken, vec![inner.expr]), Kind::Number),
                Kind::Float => Typed::new(call(Function::ToNumber, vec![inner.expr]), Kind::Number),
                kind => return refused(kind, "DECIMAL"),
            },
            TypeName::Text => match inner.kind {
                Kind::Text => inner,
                Kind::Null | Kind::Token | Kind::Bool | Kind::Int | Kind::Decimal(_) | Kind::Float => {
                    let opened = inner.opened();
                    match opened.kind {
                        Kind::Text => opened,
                        _ => Typed::new(cast(opened.expr, DataType::Utf8), Kind::Text),
                    }
                }
                Kind::Ion | Kind::Number => Typed::new(inner.expr, Kind::Text),
                Kind::Date | Kind::Timestamp { .. } => {
                    Typed::new(call(Function::ToTimestamp, vec![inner.expr]), Kind::Text)
                }
                Kind::Other => return refused(inner.kind, "STRING"),
            },
            TypeName::Timestamp => match inner.kind {
                // A date is a timestamp at midnight and compares as one.
                Kind::Ion | Kind::Date | Kind::Timestamp { .. } => inner,
                Kind::Text | Kind::Token => {
                    Typed::new(call(Function::ToTimestamp, vec![inner.opened().expr]), Kind::Ion)
                }
                Kind::Null => Typed::new(cast(inner.expr, DataType::Utf8), Kind::Ion),
                kind => return refused(kind, "TIMESTAMP"),
            },
        })
    }

    pub(super) fn call(&mut self, name: &str, args: &[Ast]) -> Result<Typed, SelectError> {
        let wrong = |error: SelectError| {
            SelectError::new("IncorrectSqlFunctionArgumentType", format!("{name}: {}", error.message))
        };
        match (name, args) {
            ("UTCNOW", []) => return Ok(Typed::new(Expr::text(self.now.clone()), Kind::Ion)),
            ("NULLIF", [a, b]) => return self.null_if(a, b),
            ("COALESCE", _) => {
                let bound = args.iter().map(|arg| self.expr(arg)).collect::<Result<Vec<_>, _>>()?;
                let (exprs, kind) = unify(bound)?;
                return Ok(Typed::new(call(Function::Coalesce, exprs), kind).value());
            }
            ("TO_TIMESTAMP", [text]) => {
                let text = self.expr(text)?;
                return match (&text.kind, &text.expr) {
                    (Kind::Null, _) => Ok(Typed::new(cast(text.expr, DataType::Utf8), Kind::Ion)),
                    (Kind::Text, Expr::Literal(Literal::Utf8(written))) => {
                        let timestamp = constant::timestamp(written)?;
                        Ok(Typed::new(Expr::text(timestamp.to_string()), Kind::Ion))
                    }
                    (kind, _) if kind.is_time() => Ok(text),
                    _ => Ok(Typed::new(call(Function::ToTimestamp, vec![text.text().map_err(wrong)?.expr]), Kind::Ion)),
                };
            }
            ("TO_TIMESTAMP", [text, pattern]) => {
                let text = self.expr(text)?.text().map_err(wrong)?;
                let pattern = self.pattern(pattern, true)?.map_err(wrong)?;
                return Ok(Typed::new(call(Function::ReadTimestamp, vec![text.expr, pattern]), Kind::Ion));
            }
            ("TO_STRING", [time, pattern]) => {
                let time = self.expr(time)?.time().map_err(wrong)?;
                let pattern = self.pattern(pattern, false)?.map_err(wrong)?;
                return Ok(Typed::new(call(Function::FormatTimestamp, vec![time.expr, pattern]), Kind::Text));
            }
            ("DATE_ADD", [part, count, time]) => {
                let count = whole(self.expr(count)?).map_err(wrong)?;
                let time = self.expr(time)?.time().map_err(wrong)?;
                return Ok(Typed::new(
                    call(Function::DateAdd, vec![part_name(part), count.expr, time.expr]),
                    Kind::Ion,
                ));
            }
            ("DATE_DIFF", [part, from, to]) => {
                let from = self.expr(from)?.time().map_err(wrong)?;
                let to = self.expr(to)?.time().map_err(wrong)?;
                return Ok(Typed::new(call(Function::DateDiff, vec![part_name(part), from.expr, to.expr]), Kind::Int));
            }
            ("EXTRACT", [part, time]) => {
                let time = self.expr(time)?.time().map_err(wrong)?;
                return Ok(Typed::new(call(Function::Extract, vec![part_name(part), time.expr]), Kind::Int));
            }
            _ => {}
        }
        let (function, kind) = match name {
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
        let mut exprs = Vec::with_capacity(args.len());
        for (index, argument) in args.iter().enumerate() {
            let argument = self.expr(argument)?;
            let number = function == Function::Substring && index > 0;
            exprs.push(if number { whole(argument) } else { argument.text() }.map_err(wrong)?.expr);
        }
        Ok(Typed::new(call(function, exprs), kind))
    }

    fn null_if(&mut self, a: &Ast, b: &Ast) -> Result<Typed, SelectError> {
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        if a.kind == b.kind && !a.kind.is_token() && !a.kind.is_time() {
            return Ok(Typed::new(call(Function::NullIf, vec![a.expr, b.expr]), a.kind));
        }
        self.copy(&a.expr, 1)?;
        let equal = compare(CompareOp::Eq, a.clone(), b)?;
        let a = a.value();
        let null = Expr::Literal(Literal::Null);
        let case = Expr::Case { branches: vec![(equal.expr, null)], otherwise: Some(Box::new(a.expr)) };
        Ok(Typed::new(case, a.kind).value())
    }

    /// Binds the pattern of TO_STRING or TO_TIMESTAMP. A constant pattern is checked here.
    #[allow(clippy::type_complexity, reason = "the outer error has a code of its own, the inner gets one")]
    fn pattern(&mut self, pattern: &Ast, reading: bool) -> Result<Result<Expr, SelectError>, SelectError> {
        if let Ast::Text(text) = pattern {
            let checked = Pattern::parse(text).and_then(|parsed| if reading { parsed.for_reading() } else { Ok(()) });
            checked.map_err(|error| {
                let code = error.code().unwrap_or("EvaluatorInvalidTimestampFormatPattern");
                SelectError::new(code, error.message())
            })?;
        }
        Ok(self.expr(pattern)?.text().map(|text| text.expr))
    }

    pub(super) fn bloom(&mut self, inner: &Ast, filter: &str) -> Result<Typed, SelectError> {
        if self.extensions == Extensions::Off {
            return Err(SelectError::new("UnsupportedFunction", "BLOOM_CONTAINS is an extension that is turned off"));
        }
        let inner = self.expr(inner)?;
        if inner.kind == Kind::Other {
            let message = format!("BLOOM_CONTAINS does not take {}", inner.kind);
            return Err(SelectError::new("IncorrectSqlFunctionArgumentType", message));
        }
        let invalid = |why: String| SelectError::new("IllegalSqlFunctionArgument", format!("BLOOM_CONTAINS: {why}"));
        let bytes = STANDARD.decode(filter).map_err(|error| invalid(format!("the filter is no base64: {error}")))?;
        let filter = BloomFilter::from_bytes(&bytes).map_err(|error| invalid(format!("the filter {error}")))?;
        let keys = vec![inner.instant().value().expr];
        Ok(Typed::boolean(Expr::Bloom { keys, filter: Arc::new(filter) }))
    }
}

/// Returns the name of a date part, which the parser has validated.
fn part_name(part: &Ast) -> Expr {
    match part {
        Ast::Text(name) => Expr::text(name.clone()),
        _ => Expr::text(DatePart::Year.name()),
    }
}

fn whole(typed: Typed) -> Result<Typed, SelectError> {
    match typed.kind {
        Kind::Int => Ok(typed),
        Kind::Null => Ok(Typed::new(cast(typed.expr, DataType::Int64), Kind::Int)),
        // A number with a fraction is an error for its record.
        Kind::Token | Kind::Number => Ok(Typed::new(cast(typed.opened().expr, DataType::Int64), Kind::Int)),
        other => Err(SelectError::types(format!("a whole number is needed here, not {other}"))),
    }
}

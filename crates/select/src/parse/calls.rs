//! Parsing of function calls. Most functions have comma-separated arguments; CAST, SUBSTRING, TRIM
//! and date functions have keywords of their own.

use pushdowndb_contract::{AggregateFunction, DatePart};

use super::Parser;
use crate::SelectError;
use crate::ast::{Ast, TypeName};
use crate::lexer::Token;

impl Parser {
    /// Parses a function call. Expects the next two tokens to be a word and `(`.
    pub(super) fn call(&mut self) -> Result<Ast, SelectError> {
        let name = self.word().unwrap_or_default();
        let here = self.next;
        self.advance();
        self.advance();
        let aggregate = match name.as_str() {
            "COUNT" => AggregateFunction::Count,
            "SUM" => AggregateFunction::Sum,
            "MIN" => AggregateFunction::Min,
            "MAX" => AggregateFunction::Max,
            "AVG" => AggregateFunction::Avg,
            "CAST" => return self.cast(),
            "SUBSTRING" => return self.substring(),
            "TRIM" => return self.trim(),
            "DATE_ADD" | "DATE_DIFF" => return self.date_function(&name),
            "EXTRACT" => return self.extract(),
            "BLOOM_CONTAINS" => return self.bloom(),
            other => {
                let (function, arity) = match other {
                    "NULLIF" => ("NULLIF", 2..=2),
                    "COALESCE" => ("COALESCE", 1..=usize::MAX),
                    "LOWER" => ("LOWER", 1..=1),
                    "UPPER" => ("UPPER", 1..=1),
                    "CHAR_LENGTH" | "CHARACTER_LENGTH" => ("CHAR_LENGTH", 1..=1),
                    "TO_TIMESTAMP" => ("TO_TIMESTAMP", 1..=2),
                    "TO_STRING" => ("TO_STRING", 2..=2),
                    "UTCNOW" => ("UTCNOW", 0..=0),
                    _ => {
                        self.next = here;
                        return Err(self.error("UnsupportedFunction", &format!("{name} is not supported")));
                    }
                };
                let args = self.list(")")?;
                if !arity.contains(&args.len()) {
                    self.next = here;
                    let message = format!("{name} does not take {} arguments", args.len());
                    return Err(self.error("EvaluatorInvalidArguments", &message));
                }
                return Ok(Ast::Call(function, args));
            }
        };
        if self.symbol("*") {
            if aggregate != AggregateFunction::Count {
                return Err(self.error("ParseUnsupportedCallWithStar", "only COUNT takes *"));
            }
            self.expect(")")?;
            return Ok(Ast::Aggregate(aggregate, None));
        }
        if matches!(self.word().as_deref(), Some("DISTINCT" | "ALL")) {
            return Err(self.error("UnsupportedSqlStructure", "aggregates of distinct values are not supported"));
        }
        let mut args = self.list(")")?;
        match (args.pop(), args.is_empty()) {
            (Some(argument), true) => Ok(Ast::Aggregate(aggregate, Some(Box::new(argument)))),
            _ => Err(self.error("ParseNonUnaryAgregateFunctionCall", &format!("{name} takes one argument"))),
        }
    }

    fn cast(&mut self) -> Result<Ast, SelectError> {
        let expr = self.expression()?;
        if !self.keyword("AS") {
            return Err(self.error("ParseExpectedKeyword", "expected CAST(… AS type)"));
        }
        let name = match self.word() {
            Some(name) => name,
            None => return Err(self.error("ParseExpectedTypeName", "expected a type")),
        };
        let to = match name.as_str() {
            "BOOL" | "BOOLEAN" => TypeName::Bool,
            "INT" | "INTEGER" => TypeName::Int,
            "FLOAT" => TypeName::Float,
            "STRING" => TypeName::Text,
            "TIMESTAMP" => TypeName::Timestamp,
            "DECIMAL" | "NUMERIC" => TypeName::Number,
            _ => {
                let message = "the types are BOOL, INT, FLOAT, DECIMAL(p, s), STRING and TIMESTAMP";
                return Err(self.error("ParseExpectedTypeName", message));
            }
        };
        self.advance();
        let to = match to {
            TypeName::Number if self.symbol("(") => {
                let precision = self.type_parameter()?;
                let scale = if self.symbol(",") { self.type_parameter()? } else { 0 };
                self.expect(")")?;
                if !(1..=38).contains(&precision) || scale > precision {
                    let message = "the precision of a DECIMAL is 1 to 38, its scale at most that";
                    return Err(self.error("ParseInvalidTypeParam", message));
                }
                TypeName::Decimal(precision, i8::try_from(scale).unwrap_or(i8::MAX))
            }
            to => to,
        };
        match self.peek() {
            Token::Symbol(",") => Err(self.error("ParseCastArity", "CAST takes one argument")),
            _ => {
                self.expect(")")?;
                Ok(Ast::Cast(Box::new(expr), to))
            }
        }
    }

    fn type_parameter(&mut self) -> Result<u8, SelectError> {
        match self.peek() {
            Token::Number(digits) => match digits.parse() {
                Ok(value) => {
                    self.advance();
                    Ok(value)
                }
                Err(_) => Err(self.error("ParseInvalidTypeParam", "expected a number of digits")),
            },
            _ => Err(self.error("ParseInvalidTypeParam", "expected a number of digits")),
        }
    }

    /// Parses `SUBSTRING(text FROM start FOR length)`, or the same with commas.
    fn substring(&mut self) -> Result<Ast, SelectError> {
        let mut args = vec![self.expression()?];
        let words = self.keyword("FROM");
        if !words {
            self.expect(",")?;
        }
        args.push(self.expression()?);
        if if words { self.keyword("FOR") } else { self.symbol(",") } {
            args.push(self.expression()?);
        }
        self.expect(")")?;
        Ok(Ast::Call("SUBSTRING", args))
    }

    /// Parses `TRIM([[LEADING | TRAILING | BOTH] [chars] FROM] text)`.
    fn trim(&mut self) -> Result<Ast, SelectError> {
        let function = match self.word().as_deref() {
            Some("LEADING") => Some("LTRIM"),
            Some("TRAILING") => Some("RTRIM"),
            Some("BOTH") => Some("TRIM"),
            _ => None,
        };
        if function.is_some() {
            self.advance();
        }
        let mut args = Vec::new();
        if function.is_some() && self.keyword("FROM") {
            args.push(self.expression()?);
        } else {
            args.push(self.expression()?);
            if self.keyword("FROM") {
                args.insert(0, self.expression()?);
            } else if function.is_some() {
                return Err(self.error("ParseExpectedKeyword", "expected FROM in TRIM"));
            }
        }
        self.expect(")")?;
        Ok(Ast::Call(function.unwrap_or("TRIM"), args))
    }

    /// Parses `DATE_ADD(part, count, timestamp)` and `DATE_DIFF(part, timestamp, timestamp)`.
    fn date_function(&mut self, name: &str) -> Result<Ast, SelectError> {
        let mut args = vec![self.date_part(&[DatePart::TimezoneHour, DatePart::TimezoneMinute])?];
        for _ in 0..2 {
            if !self.symbol(",") {
                let message = format!("{name} takes a date part and two more arguments");
                return Err(self.error("EvaluatorInvalidArguments", &message));
            }
            args.push(self.expression()?);
        }
        self.expect(")")?;
        Ok(Ast::Call(if name == "DATE_ADD" { "DATE_ADD" } else { "DATE_DIFF" }, args))
    }

    /// Parses `EXTRACT(part FROM timestamp)`.
    fn extract(&mut self) -> Result<Ast, SelectError> {
        let part = self.date_part(&[])?;
        if !self.keyword("FROM") {
            return Err(self.error("ParseExpectedKeyword", "expected EXTRACT(part FROM timestamp)"));
        }
        let args = vec![part, self.expression()?];
        self.expect(")")?;
        Ok(Ast::Call("EXTRACT", args))
    }

    /// Parses the name of a date part. Returns an error for one that is listed in `not`.
    fn date_part(&mut self, not: &[DatePart]) -> Result<Ast, SelectError> {
        match self.word().as_deref().and_then(DatePart::from_name).filter(|part| !not.contains(part)) {
            Some(part) => {
                self.advance();
                Ok(Ast::Text(part.name().to_owned()))
            }
            None => Err(self.error("ParseExpectedDatePart", "expected YEAR, MONTH, DAY, HOUR, MINUTE or SECOND")),
        }
    }

    /// Parses `BLOOM_CONTAINS(expr, 'base64')`.
    fn bloom(&mut self) -> Result<Ast, SelectError> {
        let expr = Box::new(self.expression()?);
        self.expect(",")?;
        let Token::Text(filter) = self.peek().clone() else {
            return Err(self.error("EvaluatorInvalidArguments", "the filter of BLOOM_CONTAINS is a constant text"));
        };
        self.advance();
        self.expect(")")?;
        Ok(Ast::Bloom(expr, filter))
    }
}

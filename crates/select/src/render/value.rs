//! Rendering of values: typed columns, constants, arithmetic and functions.

use arrow_schema::DataType;
use pushdowndb_contract::{Expr, Format, Function, Literal, Result};

use super::{Renderer, cast_type, quoted, unsupported};

/// The largest integer up to which every integer is exact as a double.
const DOUBLE_INTEGERS: u64 = 1 << 53;

impl Renderer<'_> {
    pub(super) fn value(&self, expr: &Expr) -> Result<String> {
        Ok(match expr {
            Expr::Column(index) => self.column(*index, self.field(*index)?.data_type())?,
            Expr::Literal(literal) => self.literal(literal)?,
            Expr::Cast(inner, to) => self.cast(inner, to)?,
            Expr::Negate(inner) => format!("(-{})", self.value(inner)?),
            Expr::Arithmetic(op, a, b) => format!("({} {} {})", self.value(a)?, op.sql(), self.value(b)?),
            Expr::Case { branches, otherwise } => {
                let mut sql = "CASE".to_owned();
                for (when, then) in branches {
                    sql.push_str(&format!(" WHEN {} THEN {}", self.predicate(when)?, self.value(then)?));
                }
                if let Some(otherwise) = otherwise {
                    sql.push_str(&format!(" ELSE {}", self.value(otherwise)?));
                }
                sql + " END"
            }
            Expr::Call(function, args) => self.call(*function, args)?,
            Expr::Bloom { .. } => return Err(unsupported("BLOOM_CONTAINS")),
            condition => format!("({})", self.condition(condition)?),
        })
    }

    /// Renders a column with its own type, or with a wider one.
    fn column(&self, index: usize, data_type: &DataType) -> Result<String> {
        if self.fragment.format == Format::Parquet {
            return self.raw(index);
        }
        let text = self.guarded(index)?;
        Ok(match cast_type(data_type, self.dialect)? {
            Some(name) => format!("CAST({text} AS {name})"),
            // In JSON, a number in a text column means its digits as text; S3 Select would treat it
            // as a number.
            None if matches!(self.fragment.format, Format::Json(_)) => format!("CAST({text} AS STRING)"),
            None => text,
        })
    }

    fn cast(&self, inner: &Expr, to: &DataType) -> Result<String> {
        let number = |data_type: &DataType| data_type.is_integer() || matches!(data_type, DataType::Decimal128(..));
        if let Expr::Column(index) = inner {
            let from = self.field(*index)?.data_type();
            if number(from) && number(to) {
                // Without decimals, both types are plain numbers, which compare with each other.
                let to = if self.dialect.decimals { to } else { from };
                return match self.fragment.format {
                    Format::Parquet if from == to => self.raw(*index),
                    Format::Parquet => self.cast_to(&self.raw(*index)?, to),
                    _ => self.column(*index, to),
                };
            }
        }
        if !self.dialect.decimals && matches!(to, DataType::Decimal128(..)) {
            return self.value(inner);
        }
        self.cast_to(&self.value(inner)?, to)
    }

    fn cast_to(&self, sql: &str, to: &DataType) -> Result<String> {
        let name = match to {
            DataType::Date32 => return Err(unsupported("a cast to DATE")),
            to => cast_type(to, self.dialect)?.unwrap_or_else(|| "STRING".to_owned()),
        };
        Ok(format!("CAST({sql} AS {name})"))
    }

    pub(super) fn literal(&self, literal: &Literal) -> Result<String> {
        Ok(match literal {
            Literal::Utf8(text) => quoted(text, '\''),
            Literal::Int64(value) if !self.dialect.decimals && value.unsigned_abs() > DOUBLE_INTEGERS => {
                format!("CAST('{value}' AS INT)")
            }
            Literal::Float64(value) => format!("CAST('{value:?}' AS FLOAT)"),
            Literal::Date(_) => {
                let text = literal.to_text().unwrap_or_default();
                match self.fragment.format {
                    Format::Parquet => format!("CAST('{text}T' AS TIMESTAMP)"),
                    _ => quoted(&text, '\''),
                }
            }
            Literal::Timestamp(..) => return Err(unsupported("a timestamp")),
            Literal::Null | Literal::Boolean(_) | Literal::Int64(_) | Literal::Decimal(..) => literal.to_string(),
        })
    }

    fn call(&self, function: Function, args: &[Expr]) -> Result<String> {
        let args: Vec<String> = args.iter().map(|arg| self.value(arg)).collect::<Result<_>>()?;
        Ok(match (function, args.as_slice()) {
            (Function::Concat, [a, b]) => format!("({a} || {b})"),
            (Function::Trim, [text]) => format!("TRIM({text})"),
            (Function::TrimLeading, [text]) => format!("TRIM(LEADING FROM {text})"),
            (Function::TrimTrailing, [text]) => format!("TRIM(TRAILING FROM {text})"),
            (Function::Trim, [text, chars]) => format!("TRIM(BOTH {chars} FROM {text})"),
            (Function::TrimLeading, [text, chars]) => format!("TRIM(LEADING {chars} FROM {text})"),
            (Function::TrimTrailing, [text, chars]) => format!("TRIM(TRAILING {chars} FROM {text})"),
            (Function::Substring, [text, start]) => format!("SUBSTRING({text} FROM {start})"),
            (Function::Substring, [text, start, length]) => format!("SUBSTRING({text} FROM {start} FOR {length})"),
            (Function::NullIf, [a, b]) => format!("NULLIF({a}, {b})"),
            (Function::Coalesce, [_, ..]) => format!("COALESCE({})", args.join(", ")),
            (Function::Lower | Function::Upper | Function::CharLength, [text]) => format!("{}({text})", function.sql()),
            _ => return Err(unsupported(function.sql())),
        })
    }
}

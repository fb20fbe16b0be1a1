//! Expressions and literals formatted as SQL.

use std::fmt;

use arrow_schema::Schema;

use super::{Expr, Literal};
use crate::civil_from_days;
use crate::decimal::decimal_text;

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Boolean(value) => f.write_str(if *value { "TRUE" } else { "FALSE" }),
            Self::Int64(value) => write!(f, "{value}"),
            Self::Decimal(value, _, scale) => f.write_str(&decimal_text(*value, *scale)),
            Self::Float64(value) => write!(f, "{value:?}"),
            Self::Utf8(value) => write!(f, "'{}'", value.replace('\'', "''")),
            Self::Date(days) => write!(f, "DATE '{}'", date_text(*days)),
            Self::Timestamp(micros, utc) => write!(f, "TIMESTAMP '{}'", timestamp_text(*micros, *utc)),
        }
    }
}

impl Literal {
    /// Formats the value as CSV: ISO dates, decimals with their scale; `None` for NULL.
    pub fn to_text(&self) -> Option<String> {
        Some(match self {
            Self::Null => return None,
            Self::Utf8(value) => value.clone(),
            Self::Date(days) => date_text(*days),
            Self::Timestamp(micros, utc) => timestamp_text(*micros, *utc),
            other => other.to_string(),
        })
    }
}

/// Formats days since 1970-01-01 as `YYYY-MM-DD`.
fn date_text(days: i32) -> String {
    let (year, month, day) = civil_from_days(i64::from(days));
    format!("{year:04}-{month:02}-{day:02}")
}

fn timestamp_text(micros: i64, utc: bool) -> String {
    let days = micros.div_euclid(86_400_000_000);
    let in_day = micros.rem_euclid(86_400_000_000);
    let (seconds, fraction) = (in_day / 1_000_000, in_day % 1_000_000);
    let mut text = format!(
        "{}T{:02}:{:02}:{:02}",
        date_text(i32::try_from(days).unwrap_or(i32::MAX)),
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    );
    if fraction != 0 {
        text.push_str(format!(".{fraction:06}").trim_end_matches('0'));
    }
    if utc {
        text.push('Z');
    }
    text
}

/// The length from which a text literal is truncated, in bytes.
const MAX_SHOWN_BYTES: usize = 200;

impl Expr {
    /// Formats the expression as SQL, with the column names of `schema` in place of indexes.
    pub fn display<'a>(&'a self, schema: &'a Schema) -> impl fmt::Display + 'a {
        Shown { expr: self, schema }
    }
}

struct Shown<'a> {
    expr: &'a Expr,
    schema: &'a Schema,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |expr| Shown { expr, schema: self.schema };
        let list = |f: &mut fmt::Formatter<'_>, all: &[Expr], separator: &str| -> fmt::Result {
            for (i, expr) in all.iter().enumerate() {
                if i > 0 {
                    f.write_str(separator)?;
                }
                let parens = separator != ", " && matches!(expr, Expr::And(_) | Expr::Or(_));
                if parens {
                    write!(f, "({})", Shown { expr, schema: self.schema })?;
                } else {
                    write!(f, "{}", Shown { expr, schema: self.schema })?;
                }
            }
            Ok(())
        };
        match self.expr {
            Expr::Column(index) => match self.schema.fields().get(*index) {
                Some(field) => f.write_str(field.name()),
                None => write!(f, "_{}", index + 1),
            },
            Expr::Literal(Literal::Utf8(text)) if text.len() > MAX_SHOWN_BYTES => {
                let start: String = text.chars().take(8).collect();
                write!(f, "'{}…'", start.replace('\'', "''"))
            }
            Expr::Literal(value) => write!(f, "{value}"),
            Expr::Compare(op, a, b) => write!(f, "{} {} {}", show(a), op.sql(), show(b)),
            Expr::And(all) if all.is_empty() => f.write_str("TRUE"),
            Expr::Or(all) if all.is_empty() => f.write_str("FALSE"),
            Expr::And(all) => list(f, all, " AND "),
            Expr::Or(all) => list(f, all, " OR "),
            Expr::Not(a) => match &**a {
                Expr::IsNull(inner) => write!(f, "{} IS NOT NULL", show(inner)),
                _ => write!(f, "NOT ({})", show(a)),
            },
            Expr::IsNull(a) => write!(f, "{} IS NULL", show(a)),
            Expr::Arithmetic(op, a, b) => write!(f, "({} {} {})", show(a), op.sql(), show(b)),
            Expr::Negate(a) => write!(f, "-({})", show(a)),
            Expr::InList { expr, list: values, negated } => {
                write!(f, "{}{} IN (", show(expr), if *negated { " NOT" } else { "" })?;
                if values.len() > 12 {
                    list(f, &values[..8], ", ")?;
                    write!(f, ", … {} more)", values.len() - 8)
                } else {
                    list(f, values, ", ")?;
                    f.write_str(")")
                }
            }
            Expr::Like { expr, pattern, negated, case_insensitive } => {
                let not = if *negated { " NOT" } else { "" };
                let like = if *case_insensitive { "ILIKE" } else { "LIKE" };
                write!(f, "{}{not} {like} {}", show(expr), show(pattern))
            }
            Expr::Cast(a, to) => write!(f, "CAST({} AS {to})", show(a)),
            Expr::Case { branches, otherwise } => {
                f.write_str("CASE")?;
                for (when, then) in branches {
                    write!(f, " WHEN {} THEN {}", show(when), show(then))?;
                }
                if let Some(otherwise) = otherwise {
                    write!(f, " ELSE {}", show(otherwise))?;
                }
                f.write_str(" END")
            }
            Expr::Call(function, args) => {
                write!(f, "{}(", function.sql())?;
                list(f, args, ", ")?;
                f.write_str(")")
            }
            Expr::Bloom { keys, filter } => {
                f.write_str("BLOOM_CONTAINS(")?;
                list(f, keys, ", ")?;
                write!(f, ", {} bytes)", filter.size_bytes())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_read_as_sql() {
        assert_eq!(Literal::Decimal(-5, 15, 2).to_string(), "-0.05");
        assert_eq!(Literal::Decimal(12_345, 15, 2).to_string(), "123.45");
        assert_eq!(Literal::Decimal(7, 3, -2).to_string(), "700");
        assert_eq!(Literal::Date(0).to_string(), "DATE '1970-01-01'");
        assert_eq!(Literal::Date(-1).to_string(), "DATE '1969-12-31'");
        assert_eq!(Literal::Date(11_016).to_string(), "DATE '2000-02-29'");
        assert_eq!(Literal::Timestamp(1_500_000, true).to_text().as_deref(), Some("1970-01-01T00:00:01.5Z"));
        assert_eq!(Literal::Utf8("it's".into()).to_string(), "'it''s'");
    }
}

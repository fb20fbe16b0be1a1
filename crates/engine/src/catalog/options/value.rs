//! Values of options: texts in OPTIONS, and literals in the arguments of reading functions.

use std::fmt;

use chrono::format::{Item, StrftimeItems};
use datafusion::sql::sqlparser::ast::{Expr, UnaryOperator, Value, ValueWithSpan};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use pushdowndb_contract::{Compression, Error, Result};

/// The value of an option.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OptionValue {
    /// Text, a number, TRUE or FALSE, as it is written.
    Text(String),
    /// `['a', 'b']`.
    List(Vec<OptionValue>),
    /// `{'a': 'b'}`, in its order.
    Map(Vec<(String, OptionValue)>),
}

impl OptionValue {
    /// Converts a literal in SQL; `None` if `expr` is not a literal.
    pub(crate) fn of(expr: &Expr) -> Option<Self> {
        Some(match expr {
            Expr::Value(ValueWithSpan { value, .. }) => Self::Text(match value {
                Value::Number(number, _) => number.clone(),
                Value::Boolean(boolean) => boolean.to_string(),
                Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => text.clone(),
                Value::DollarQuotedString(text) => text.value.clone(),
                _ => return None,
            }),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match Self::of(expr)? {
                Self::Text(number) => Self::Text(format!("-{number}")),
                _ => return None,
            },
            // A word without quotes is text: on, auto.
            Expr::Identifier(word) => Self::Text(word.value.clone()),
            Expr::Nested(inner) => return Self::of(inner),
            Expr::Array(array) => Self::List(array.elem.iter().map(Self::of).collect::<Option<_>>()?),
            Expr::Dictionary(fields) => {
                let field = |field: &datafusion::sql::sqlparser::ast::DictionaryField| {
                    Some((field.key.value.clone(), Self::of(&field.value)?))
                };
                Self::Map(fields.iter().map(field).collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }

    /// Parses the text of a value in OPTIONS, which may be a list or a map.
    pub(crate) fn parse(text: &str) -> Self {
        let trimmed = text.trim();
        let is_literal = trimmed.starts_with("['") || trimmed.starts_with("{'") || trimmed.starts_with("[\"");
        let parsed = is_literal.then(|| Parser::new(&GenericDialect).try_with_sql(trimmed).ok()?.parse_expr().ok());
        parsed.flatten().as_ref().and_then(Self::of).unwrap_or_else(|| Self::Text(text.to_owned()))
    }

    /// Returns the text of a single value. Fails for a list or a map.
    pub(crate) fn text(&self) -> Result<&str> {
        match self {
            Self::Text(text) => Ok(text),
            other => Err(Error::invalid(format!("{other} is no single value"))),
        }
    }

    /// Returns the texts of a list; a single value counts as a list of one.
    pub(crate) fn texts(&self) -> Result<Vec<String>> {
        match self {
            Self::Text(text) => Ok(vec![text.clone()]),
            Self::List(values) => values.iter().map(|value| value.text().map(str::to_owned)).collect(),
            Self::Map(_) => Err(Error::invalid(format!("{self} is no list"))),
        }
    }

    /// Returns the names and texts of a map.
    pub(crate) fn named_texts(&self) -> Result<Vec<(String, String)>> {
        let Self::Map(fields) = self else {
            return Err(Error::invalid(format!("{self} is no map; write {{'name': 'TYPE', …}}")));
        };
        fields.iter().map(|(name, value)| Ok((name.clone(), value.text()?.to_owned()))).collect()
    }
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "'{text}'"),
            Self::List(values) => {
                let values: Vec<String> = values.iter().map(Self::to_string).collect();
                write!(f, "[{}]", values.join(", "))
            }
            Self::Map(fields) => {
                let fields: Vec<String> = fields.iter().map(|(name, value)| format!("'{name}': {value}")).collect();
                write!(f, "{{{}}}", fields.join(", "))
            }
        }
    }
}

/// Parses the format of dates or timestamps: the directives of `strftime`, in which `%f` and `%g`
/// after a point are fractions of a second, as in DuckDB.
pub(super) fn time_format(value: &str) -> Result<String> {
    let format = value.replace(".%f", "%.f").replace(".%g", "%.3f");
    let is_unknown = |item: Item<'_>| matches!(item, Item::Error);
    if format.is_empty() || !format.contains('%') || StrftimeItems::new(&format).any(is_unknown) {
        return Err(Error::invalid(format!("'{value}' is no format of times: write %d.%m.%Y or %Y-%m-%d %H:%M:%S")));
    }
    if format.replace("%.f", "").contains("%f") {
        return Err(Error::unsupported(format!("'{value}': %f must follow a point")));
    }
    Ok(format)
}

/// Parses the separator of a number.
pub(super) fn separator(value: &str) -> Result<u8> {
    match value.as_bytes() {
        [one] if one.is_ascii_punctuation() && !matches!(one, b'-' | b'+') || *one == b' ' => Ok(*one),
        _ => Err(Error::invalid(format!("'{value}' is no separator of numbers: use one of , . ' _ or a space"))),
    }
}

/// Parses the `value` of an option that is true or false.
pub(crate) fn boolean(value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err(Error::invalid(format!("'{value}' is neither true nor false"))),
    }
}

/// Parses one ASCII character, or one of its usual spellings.
pub(super) fn byte(value: &str) -> Result<u8> {
    match value {
        "\\t" | "tab" => Ok(b'\t'),
        "\\n" => Ok(b'\n'),
        "\\r" => Ok(b'\r'),
        "\\\\" => Ok(b'\\'),
        "\\0" => Ok(0),
        _ => match value.as_bytes() {
            [one] if one.is_ascii() => Ok(*one),
            _ => Err(Error::invalid(format!("'{value}' is not one ASCII character"))),
        },
    }
}

pub(super) fn compression(value: &str) -> Result<Compression> {
    match value.to_ascii_lowercase().as_str() {
        "" | "none" | "uncompressed" => Ok(Compression::None),
        "gzip" | "gz" => Ok(Compression::Gzip),
        "bzip2" | "bz2" => Ok(Compression::Bzip2),
        "zstd" | "zst" => Ok(Compression::Zstd),
        other => Err(Error::unsupported(format!("'{other}': known are none, gzip, bzip2 and zstd"))),
    }
}

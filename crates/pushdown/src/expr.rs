//! Expressions that may be pushed to storage: a closed set with the meaning of Arrow and DataFusion.
//!
//! Both sides evaluate them with the same physical expressions (`scan`), so NULL, NaN, decimals, dates
//! and collation agree. What S3 Select means differently is a [`Function`] of its own, never a second
//! evaluator.

use std::fmt;
use std::sync::Arc;

use arrow_schema::DataType;

use crate::{BloomFilter, civil_from_days};

/// A typed constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// NULL without a type of its own; takes the type of what it meets.
    Null,
    /// TRUE or FALSE.
    Boolean(bool),
    /// A 64-bit integer.
    Int64(i64),
    /// A decimal: unscaled value, precision, scale.
    Decimal(i128, u8, i8),
    /// A double.
    Float64(f64),
    /// Text.
    Utf8(String),
    /// A calendar date, in days since 1970-01-01.
    Date(i32),
    /// An instant or local time, in microseconds since 1970-01-01T00:00; `true` when it is an instant (UTC).
    Timestamp(i64, bool),
}

/// A comparison that yields NULL when either side is NULL.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum CompareOp {
    /// `=`
    Eq,
    /// `<>`
    NotEq,
    /// `<`
    Lt,
    /// `<=`
    LtEq,
    /// `>`
    Gt,
    /// `>=`
    GtEq,
}

impl CompareOp {
    /// The operator in SQL.
    pub fn sql(self) -> &'static str {
        match self {
            Self::Eq => "=",
            Self::NotEq => "<>",
            Self::Lt => "<",
            Self::LtEq => "<=",
            Self::Gt => ">",
            Self::GtEq => ">=",
        }
    }

    /// The operator that holds for `(b, a)` exactly when this one holds for `(a, b)`.
    #[must_use]
    pub fn swap(self) -> Self {
        match self {
            Self::Lt => Self::Gt,
            Self::LtEq => Self::GtEq,
            Self::Gt => Self::Lt,
            Self::GtEq => Self::LtEq,
            same => same,
        }
    }
}

/// Arithmetic on numbers, with DataFusion's result types.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ArithmeticOp {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
}

impl ArithmeticOp {
    /// The operator in SQL.
    pub fn sql(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
        }
    }
}

/// A function from the allow-list.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Function {
    /// `NULLIF(a, b)`: NULL where they are equal, else `a`.
    NullIf,
    /// `COALESCE(a, …)`: the first that is not NULL.
    Coalesce,
    /// `LOWER(text)`.
    Lower,
    /// `UPPER(text)`.
    Upper,
    /// `CHAR_LENGTH(text)`, in characters.
    CharLength,
    /// `SUBSTRING(text FROM start [FOR length])`, in characters, starting at 1.
    Substring,
    /// `TRIM(BOTH chars FROM text)`; chars default to blanks.
    Trim,
    /// `TRIM(LEADING chars FROM text)`.
    TrimLeading,
    /// `TRIM(TRAILING chars FROM text)`.
    TrimTrailing,
    /// `a || b`: NULL if either is.
    Concat,
    /// S3 Select over JSON: the scalar inside a JSON token, as text (`"a"` gives `a`; `null` gives NULL).
    JsonText,
    /// S3 Select over JSON: the text inside a JSON token; NULL for anything that is no string.
    JsonString,
    /// S3 Select over JSON: the truth value inside a JSON token; NULL for anything else.
    JsonBoolean,
    /// S3 Select over JSON: the token itself, with NULL for `null`.
    JsonValue,
    /// A value as a JSON token: numbers with every digit, text in quotes, `true` and `false`.
    ToToken,
    /// `CAST(x AS DECIMAL)` without precision: text or a JSON token as a token of a number with every digit.
    ToNumber,
    /// Whether two JSON tokens are equal: by value within a kind, FALSE between kinds, NULL if either is NULL.
    TokenEq,
    /// Whether one JSON token is less than another; NULL between kinds.
    TokenLt,
    /// Whether one JSON token is less than or equal to another; NULL between kinds.
    TokenLtEq,
    /// Bytes that sort as JSON tokens do: truth values, numbers by value, text, the rest.
    TokenOrder,
    /// `a + b` of two JSON tokens, exact unless either is a double; NULL if either is no number.
    TokenAdd,
    /// `a - b`.
    TokenSubtract,
    /// `a * b`.
    TokenMultiply,
    /// `a / b`; of two whole numbers a whole number.
    TokenDivide,
    /// `a % b`, with the sign of `a`.
    TokenModulo,
    /// A pattern of LIKE with its escape, or an empty text for none, as the evaluator has it: a backslash escapes.
    LikePattern,
    /// `CAST(x AS TIMESTAMP)` of S3 Select: the text of a [`crate::Timestamp`].
    ToTimestamp,
    /// `TO_TIMESTAMP(text, pattern)`: text read by a [`crate::Pattern`].
    ReadTimestamp,
    /// `TO_STRING(timestamp, pattern)`.
    FormatTimestamp,
    /// `DATE_ADD(part, count, timestamp)`; the part is a constant text.
    DateAdd,
    /// `DATE_DIFF(part, timestamp, timestamp)`.
    DateDiff,
    /// `EXTRACT(part FROM timestamp)`.
    Extract,
}

impl Function {
    /// The function's name in SQL.
    pub fn sql(self) -> &'static str {
        match self {
            Self::NullIf => "NULLIF",
            Self::Coalesce => "COALESCE",
            Self::Lower => "LOWER",
            Self::Upper => "UPPER",
            Self::CharLength => "CHAR_LENGTH",
            Self::Substring => "SUBSTRING",
            Self::Trim => "TRIM",
            Self::TrimLeading => "LTRIM",
            Self::TrimTrailing => "RTRIM",
            Self::Concat => "CONCAT",
            Self::JsonText => "JSON_TEXT",
            Self::JsonString => "JSON_STRING",
            Self::JsonBoolean => "JSON_BOOLEAN",
            Self::JsonValue => "JSON_VALUE",
            Self::ToToken => "TO_TOKEN",
            Self::ToNumber => "TO_NUMBER",
            Self::TokenEq => "TOKEN_EQ",
            Self::TokenLt => "TOKEN_LT",
            Self::TokenLtEq => "TOKEN_LT_EQ",
            Self::TokenOrder => "TOKEN_ORDER",
            Self::TokenAdd => "TOKEN_ADD",
            Self::TokenSubtract => "TOKEN_SUBTRACT",
            Self::TokenMultiply => "TOKEN_MULTIPLY",
            Self::TokenDivide => "TOKEN_DIVIDE",
            Self::TokenModulo => "TOKEN_MODULO",
            Self::LikePattern => "LIKE_PATTERN",
            Self::ToTimestamp => "TO_TIMESTAMP",
            Self::ReadTimestamp => "READ_TIMESTAMP",
            Self::FormatTimestamp => "TO_STRING",
            Self::DateAdd => "DATE_ADD",
            Self::DateDiff => "DATE_DIFF",
            Self::Extract => "EXTRACT",
        }
    }
}

impl Function {
    /// Whether the result is the text of a JSON value: a number, a text in quotes, a truth value.
    pub fn yields_token(self) -> bool {
        matches!(
            self,
            Self::JsonValue
                | Self::ToToken
                | Self::ToNumber
                | Self::TokenAdd
                | Self::TokenSubtract
                | Self::TokenMultiply
                | Self::TokenDivide
                | Self::TokenModulo
        )
    }
}

/// An expression over the columns of one table.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A column of the fragment's schema, by its index there.
    Column(usize),
    /// A constant.
    Literal(Literal),
    /// A comparison.
    Compare(CompareOp, Box<Expr>, Box<Expr>),
    /// All of them, with three-valued logic; empty is TRUE.
    And(Vec<Expr>),
    /// Any of them, with three-valued logic; empty is FALSE.
    Or(Vec<Expr>),
    /// NOT.
    Not(Box<Expr>),
    /// IS NULL, never NULL itself.
    IsNull(Box<Expr>),
    /// Arithmetic.
    Arithmetic(ArithmeticOp, Box<Expr>, Box<Expr>),
    /// Unary minus.
    Negate(Box<Expr>),
    /// `expr [NOT] IN (list)`.
    InList {
        /// What is looked for.
        expr: Box<Expr>,
        /// Where.
        list: Vec<Expr>,
        /// NOT IN.
        negated: bool,
    },
    /// `expr [NOT] LIKE pattern [ESCAPE escape]`.
    Like {
        /// The text.
        expr: Box<Expr>,
        /// The pattern: `%` any run, `_` any character.
        pattern: Box<Expr>,
        /// Takes the meaning from the character after it; a backslash where none is given to the evaluator.
        escape: Option<char>,
        /// NOT LIKE.
        negated: bool,
        /// ILIKE.
        case_insensitive: bool,
    },
    /// A strict cast: a value that does not fit is an error, never NULL.
    Cast(Box<Expr>, DataType),
    /// `CASE WHEN … THEN … ELSE … END`; no ELSE gives NULL.
    Case {
        /// Condition and result, first match wins.
        branches: Vec<(Expr, Expr)>,
        /// ELSE.
        otherwise: Option<Box<Expr>>,
    },
    /// A function of the allow-list.
    Call(Function, Vec<Expr>),
    /// Whether a Bloom filter may hold the values, several of them as one key; NULL if one is NULL. Of a JSON token, the
    /// value inside.
    Bloom {
        /// What is looked for; not empty.
        keys: Vec<Expr>,
        /// Where.
        filter: Arc<BloomFilter>,
    },
}

impl Expr {
    /// A text constant.
    pub fn text(value: impl Into<String>) -> Self {
        Self::Literal(Literal::Utf8(value.into()))
    }

    /// An integer constant.
    pub fn int(value: i64) -> Self {
        Self::Literal(Literal::Int64(value))
    }

    /// A comparison.
    pub fn compare(op: CompareOp, left: Expr, right: Expr) -> Self {
        Self::Compare(op, Box::new(left), Box::new(right))
    }

    /// Both, flattening nested conjunctions.
    #[must_use]
    pub fn and(self, other: Expr) -> Self {
        let mut all = self.into_conjuncts();
        all.extend(other.into_conjuncts());
        Self::conjunction(all)
    }

    /// The conjunction of these; TRUE when there are none.
    pub fn conjunction(mut all: Vec<Expr>) -> Self {
        if all.len() == 1 { all.remove(0) } else { Self::And(all) }
    }

    /// The parts that all must hold.
    pub fn conjuncts(&self) -> Vec<&Expr> {
        match self {
            Self::And(all) => all.iter().flat_map(Self::conjuncts).collect(),
            one => vec![one],
        }
    }

    /// [`Self::conjuncts`], each on its own.
    pub fn into_conjuncts(self) -> Vec<Expr> {
        match self {
            Self::And(all) => all.into_iter().flat_map(Self::into_conjuncts).collect(),
            one => vec![one],
        }
    }

    /// The expressions directly below this one.
    pub fn children(&self) -> Vec<&Expr> {
        match self {
            Self::Column(_) | Self::Literal(_) => vec![],
            Self::Compare(_, a, b) | Self::Arithmetic(_, a, b) => vec![a, b],
            Self::And(all) | Self::Or(all) | Self::Call(_, all) | Self::Bloom { keys: all, .. } => all.iter().collect(),
            Self::Not(a) | Self::IsNull(a) | Self::Negate(a) | Self::Cast(a, _) => vec![a],
            Self::InList { expr, list, .. } => std::iter::once(&**expr).chain(list).collect(),
            Self::Like { expr, pattern, .. } => vec![expr, pattern],
            Self::Case { branches, otherwise } => {
                branches.iter().flat_map(|(when, then)| [when, then]).chain(otherwise.as_deref()).collect()
            }
        }
    }

    /// The same expression with each direct child replaced.
    pub fn map_children<E>(self, f: &mut impl FnMut(Expr) -> Result<Expr, E>) -> Result<Expr, E> {
        let boxed = |e: Box<Expr>, f: &mut dyn FnMut(Expr) -> Result<Expr, E>| f(*e).map(Box::new);
        Ok(match self {
            leaf @ (Self::Column(_) | Self::Literal(_)) => leaf,
            Self::Compare(op, a, b) => Self::Compare(op, boxed(a, f)?, boxed(b, f)?),
            Self::Arithmetic(op, a, b) => Self::Arithmetic(op, boxed(a, f)?, boxed(b, f)?),
            Self::And(all) => Self::And(all.into_iter().map(f).collect::<Result<_, E>>()?),
            Self::Or(all) => Self::Or(all.into_iter().map(f).collect::<Result<_, E>>()?),
            Self::Call(function, all) => Self::Call(function, all.into_iter().map(f).collect::<Result<_, E>>()?),
            Self::Not(a) => Self::Not(boxed(a, f)?),
            Self::IsNull(a) => Self::IsNull(boxed(a, f)?),
            Self::Negate(a) => Self::Negate(boxed(a, f)?),
            Self::Cast(a, to) => Self::Cast(boxed(a, f)?, to),
            Self::Bloom { keys, filter } => {
                Self::Bloom { keys: keys.into_iter().map(f).collect::<Result<_, E>>()?, filter }
            }
            Self::InList { expr, list, negated } => Self::InList {
                expr: boxed(expr, f)?,
                list: list.into_iter().map(f).collect::<Result<_, E>>()?,
                negated,
            },
            Self::Like { expr, pattern, escape, negated, case_insensitive } => {
                Self::Like { expr: boxed(expr, f)?, pattern: boxed(pattern, f)?, escape, negated, case_insensitive }
            }
            Self::Case { branches, otherwise } => Self::Case {
                branches: branches.into_iter().map(|(w, t)| Ok((f(w)?, f(t)?))).collect::<Result<_, E>>()?,
                otherwise: otherwise.map(|e| boxed(e, f)).transpose()?,
            },
        })
    }

    /// The indexes of the columns this expression reads, ascending, each once.
    pub fn columns(&self) -> Vec<usize> {
        fn visit(expr: &Expr, into: &mut Vec<usize>) {
            if let Expr::Column(index) = expr {
                into.push(*index);
            }
            expr.children().into_iter().for_each(|child| visit(child, into));
        }
        let mut columns = Vec::new();
        visit(self, &mut columns);
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Whether the value is the text of a JSON value, see [`Function::yields_token`]. A column of raw JSON is one
    /// too, which only its table tells.
    pub fn is_token(&self) -> bool {
        matches!(self, Self::Call(function, _) if function.yields_token())
    }

    /// The number of nodes, 1 for a leaf.
    pub fn size(&self) -> usize {
        1 + self.children().into_iter().map(Self::size).sum::<usize>()
    }

    /// The number of levels, 1 for a leaf.
    pub fn depth(&self) -> usize {
        1 + self.children().into_iter().map(Self::depth).max().unwrap_or(0)
    }

    /// The expression as people read it, with column names in place of indexes.
    pub fn display<'a>(&'a self, schema: &'a arrow_schema::Schema) -> impl fmt::Display + 'a {
        Shown { expr: self, schema }
    }
}

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
    /// The value as it stands in CSV: ISO dates, decimals with their scale; `None` for NULL.
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

/// A decimal with its scale: `(12345, 2)` is `123.45`.
pub(crate) fn decimal_text(value: i128, scale: i8) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let digits = value.unsigned_abs().to_string();
    match usize::try_from(scale) {
        Ok(0) => format!("{sign}{digits}"),
        Ok(scale) => {
            let digits = format!("{digits:0>width$}", width = scale + 1);
            let (whole, fraction) = digits.split_at(digits.len() - scale);
            format!("{sign}{whole}.{fraction}")
        }
        Err(_) => format!("{sign}{digits}{}", "0".repeat(usize::from(scale.unsigned_abs()))),
    }
}

/// Days since the epoch as `YYYY-MM-DD`.
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

/// Longer constants are cut where people read them.
const LONGEST_SHOWN: usize = 200;

struct Shown<'a> {
    expr: &'a Expr,
    schema: &'a arrow_schema::Schema,
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
            Expr::Literal(Literal::Utf8(text)) if text.len() > LONGEST_SHOWN => {
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
            Expr::Like { expr, pattern, escape, negated, case_insensitive } => {
                let not = if *negated { " NOT" } else { "" };
                let like = if *case_insensitive { "ILIKE" } else { "LIKE" };
                write!(f, "{}{not} {like} {}", show(expr), show(pattern))?;
                escape.map_or(Ok(()), |c| write!(f, " ESCAPE '{c}'"))
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

    #[test]
    fn conjunctions_flatten() {
        let all = Expr::Column(0).and(Expr::Column(1).and(Expr::Column(2)));
        assert_eq!(all.columns(), [0, 1, 2]);
        assert_eq!(all.conjuncts().len(), 3);
        assert_eq!(all.into_conjuncts().len(), 3);
    }
}

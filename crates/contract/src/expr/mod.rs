//! Expressions that may be pushed to storage: a closed set with the semantics of Arrow and
//! DataFusion.
//!
//! Both sides evaluate them with the same physical expressions (`scan`), so NULL, NaN, decimals,
//! dates and collation agree. Semantics that only S3 Select has are separate [`Function`]s, not a
//! second evaluator.

mod display;

use std::sync::Arc;

use arrow_schema::DataType;

use crate::{BloomFilter, Function};

/// A typed constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// NULL without a type; it takes the type of the other operand.
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
    /// An instant or local time, in microseconds since 1970-01-01T00:00; `true` for an instant
    /// (UTC).
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

    /// Returns the operator that holds for `(b, a)` if and only if this one holds for `(a, b)`.
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

/// An expression over the columns of one table.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A column of the fragment's schema, by its index there.
    Column(usize),
    /// A constant.
    Literal(Literal),
    /// A comparison.
    Compare(CompareOp, Box<Expr>, Box<Expr>),
    /// Conjunction in three-valued logic; empty is TRUE.
    And(Vec<Expr>),
    /// Disjunction in three-valued logic; empty is FALSE.
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
        /// The value to look up.
        expr: Box<Expr>,
        /// The values to compare with.
        list: Vec<Expr>,
        /// NOT IN.
        negated: bool,
    },
    /// `expr [NOT] LIKE pattern`.
    Like {
        /// The text.
        expr: Box<Expr>,
        /// The pattern: `%` matches any run, `_` any character; a backslash escapes the next
        /// character.
        pattern: Box<Expr>,
        /// NOT LIKE.
        negated: bool,
        /// ILIKE.
        case_insensitive: bool,
    },
    /// A strict cast: a value that does not fit is an error, never NULL.
    Cast(Box<Expr>, DataType),
    /// `CASE WHEN … THEN … ELSE … END`; no ELSE gives NULL.
    Case {
        /// Conditions and results; the first match wins.
        branches: Vec<(Expr, Expr)>,
        /// ELSE.
        otherwise: Option<Box<Expr>>,
    },
    /// A function of the allow-list.
    Call(Function, Vec<Expr>),
    /// True if a Bloom filter may contain the values, combined into one key; NULL if one of them is
    /// NULL. For a JSON token, the value inside the token is looked up.
    Bloom {
        /// The values to look up; not empty.
        keys: Vec<Expr>,
        /// The filter to probe.
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

    /// Returns the conjunction of both, with nested conjunctions flattened.
    #[must_use]
    pub fn and(self, other: Expr) -> Self {
        let mut all = self.into_conjuncts();
        all.extend(other.into_conjuncts());
        Self::conjunction(all)
    }

    /// Returns the conjunction of two optional predicates; `None` is TRUE.
    #[must_use]
    pub fn and_opt(one: Option<Expr>, other: Option<Expr>) -> Option<Expr> {
        match (one, other) {
            (Some(one), Some(other)) => Some(one.and(other)),
            (one, other) => one.or(other),
        }
    }

    /// Returns the conjunction of `all`; TRUE if there are none.
    pub fn conjunction(mut all: Vec<Expr>) -> Self {
        if all.len() == 1 { all.remove(0) } else { Self::And(all) }
    }

    /// Returns the conjuncts, nested conjunctions flattened.
    pub fn conjuncts(&self) -> Vec<&Expr> {
        match self {
            Self::And(all) => all.iter().flat_map(Self::conjuncts).collect(),
            one => vec![one],
        }
    }

    /// Returns the owned [`Self::conjuncts`].
    pub fn into_conjuncts(self) -> Vec<Expr> {
        match self {
            Self::And(all) => all.into_iter().flat_map(Self::into_conjuncts).collect(),
            one => vec![one],
        }
    }

    /// Returns the operands.
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

    /// Replaces each column by the result of `f` for its index.
    pub fn replace_columns<E>(self, f: &mut dyn FnMut(usize) -> Result<Expr, E>) -> Result<Expr, E> {
        match self {
            Self::Column(index) => f(index),
            other => other.map_children(&mut |child| child.replace_columns(f)),
        }
    }

    /// Replaces each operand by the result of `f`.
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
            Self::Like { expr, pattern, negated, case_insensitive } => {
                Self::Like { expr: boxed(expr, f)?, pattern: boxed(pattern, f)?, negated, case_insensitive }
            }
            Self::Case { branches, otherwise } => Self::Case {
                branches: branches.into_iter().map(|(w, t)| Ok((f(w)?, f(t)?))).collect::<Result<_, E>>()?,
                otherwise: otherwise.map(|e| boxed(e, f)).transpose()?,
            },
        })
    }

    /// Returns the indexes of the columns that the expression reads, ascending and distinct.
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

    /// Returns whether the value is a JSON token, see [`Function::yields_token`]. A column of raw
    /// JSON is a token, too, but that depends on the options of the table.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conjunctions_flatten() {
        let all = Expr::Column(0).and(Expr::Column(1).and(Expr::Column(2)));
        assert_eq!(all.columns(), [0, 1, 2]);
        assert_eq!(all.conjuncts().len(), 3);
        assert_eq!(all.into_conjuncts().len(), 3);
    }
}

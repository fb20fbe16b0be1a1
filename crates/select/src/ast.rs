//! The syntax tree of a statement, before it is bound to an input.

use pushdowndb_contract::{AggregateFunction, ArithmeticOp, CompareOp, JsonStep};

/// A query: `SELECT items FROM S3Object[*].path alias WHERE filter GROUP BY groups ORDER BY order
/// LIMIT limit`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Query {
    pub items: Items,
    /// The path to the records in each value of a JSON object.
    pub from: Vec<JsonStep>,
    /// The alias of a row. The name `s3object` refers to the row, too.
    pub alias: Option<Name>,
    pub filter: Option<Ast>,
    /// The keys of GROUP BY, an extension of AWS's dialect.
    pub groups: Vec<Ast>,
    /// The keys of ORDER BY, an extension of AWS's dialect.
    pub order: Vec<OrderKey>,
    pub limit: Option<u64>,
}

/// One key of ORDER BY.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OrderKey {
    pub expr: Ast,
    pub descending: bool,
    pub nulls_first: bool,
}

/// The select list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Items {
    /// `*` or `alias.*`.
    All,
    Some(Vec<Item>),
}

/// One selected expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub expr: Ast,
    pub alias: Option<String>,
}

/// A name. In double quotes it is matched exactly, otherwise case is ignored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Name {
    pub text: String,
    pub exact: bool,
}

impl Name {
    /// Returns whether this name matches `other`.
    pub(crate) fn means(&self, other: &str) -> bool {
        if self.exact { self.text == other } else { self.text.to_lowercase() == other.to_lowercase() }
    }
}

/// One step of a path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    Name(Name),
    Index(u64),
}

/// A type to cast to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TypeName {
    Bool,
    Int,
    Float,
    Decimal(u8, i8),
    /// DECIMAL without a precision, which keeps every digit.
    Number,
    Text,
    Timestamp,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ast {
    /// A number as it is written, perhaps with a minus sign.
    Number(String),
    Text(String),
    Bool(bool),
    Null,
    Missing,
    /// A timestamp in the text form of Amazon Ion.
    Timestamp(String),
    /// `alias.name`, `name`, `alias.a.b[0]`.
    Path(Vec<Step>),
    Negate(Box<Ast>),
    Not(Box<Ast>),
    And(Vec<Ast>),
    Or(Vec<Ast>),
    Compare(CompareOp, Box<Ast>, Box<Ast>),
    Arithmetic(ArithmeticOp, Box<Ast>, Box<Ast>),
    IsNull(Box<Ast>),
    IsMissing(Box<Ast>),
    In {
        expr: Box<Ast>,
        list: Vec<Ast>,
        negated: bool,
    },
    Between {
        expr: Box<Ast>,
        low: Box<Ast>,
        high: Box<Ast>,
    },
    Like {
        expr: Box<Ast>,
        pattern: Box<Ast>,
        escape: Option<Box<Ast>>,
        negated: bool,
    },
    Cast(Box<Ast>, TypeName),
    Case {
        operand: Option<Box<Ast>>,
        branches: Vec<(Ast, Ast)>,
        otherwise: Option<Box<Ast>>,
    },
    /// `BLOOM_CONTAINS(expr, 'base64')`.
    Bloom(Box<Ast>, String),
    /// A function by its name in capitals, with its arguments. The name of a date part is an
    /// [`Ast::Text`].
    Call(&'static str, Vec<Ast>),
    /// An aggregate with its argument; `COUNT(*)` has none.
    Aggregate(AggregateFunction, Option<Box<Ast>>),
}

impl Ast {
    /// Calls `found` for every path in the expression.
    pub fn for_each_path(&self, found: &mut dyn FnMut(&[Step])) {
        if let Self::Path(steps) = self {
            found(steps);
        }
        self.for_each_child(&mut |child| child.for_each_path(found));
    }

    /// Calls `f` for every operand.
    pub fn for_each_child(&self, f: &mut dyn FnMut(&Self)) {
        match self {
            Self::Number(_)
            | Self::Text(_)
            | Self::Bool(_)
            | Self::Null
            | Self::Missing
            | Self::Timestamp(_)
            | Self::Path(_)
            | Self::Aggregate(_, None) => {}
            Self::Negate(a)
            | Self::Not(a)
            | Self::IsNull(a)
            | Self::IsMissing(a)
            | Self::Cast(a, _)
            | Self::Bloom(a, _) => f(a),
            Self::Aggregate(_, Some(a)) => f(a),
            Self::And(all) | Self::Or(all) | Self::Call(_, all) => all.iter().for_each(f),
            Self::Compare(_, a, b) | Self::Arithmetic(_, a, b) => {
                f(a);
                f(b);
            }
            Self::In { expr, list, .. } => {
                f(expr);
                list.iter().for_each(f);
            }
            Self::Between { expr, low, high } => [expr, low, high].into_iter().for_each(|a| f(a)),
            Self::Like { expr, pattern, escape, .. } => {
                [Some(expr), Some(pattern), escape.as_ref()].into_iter().flatten().for_each(|a| f(a));
            }
            Self::Case { operand, branches, otherwise } => {
                operand.iter().chain(otherwise).for_each(|a| f(a));
                for (when, then) in branches {
                    f(when);
                    f(then);
                }
            }
        }
    }
}

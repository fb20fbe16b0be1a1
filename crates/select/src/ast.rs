//! A statement as it is written, before anything is known of its input.

use pushdown::{AggregateFunction, ArithmeticOp, CompareOp, JsonStep};

/// `SELECT items FROM S3Object[*].path alias WHERE filter GROUP BY groups ORDER BY order LIMIT limit`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Query {
    pub items: Items,
    /// Where the records are in each value of a JSON object.
    pub from: Vec<JsonStep>,
    /// The name rows go by; `s3object` works besides.
    pub alias: Option<Name>,
    pub filter: Option<Ast>,
    /// An extension.
    pub groups: Vec<Ast>,
    /// An extension.
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

/// What is selected.
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

/// A name: in double quotes it is exact, else case does not matter.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Name {
    pub text: String,
    pub exact: bool,
}

impl Name {
    /// Whether this name means `other`.
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
    /// DECIMAL without precision: every digit is kept.
    Number,
    Text,
    Timestamp,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ast {
    /// A number as it is written, perhaps with a minus.
    Number(String),
    Text(String),
    Bool(bool),
    Null,
    Missing,
    /// A timestamp as Ion writes it.
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
    /// A function by its name in capitals; the name of a date part is a text.
    Call(&'static str, Vec<Ast>),
    /// An aggregate; no argument is `COUNT(*)`.
    Aggregate(AggregateFunction, Option<Box<Ast>>),
}

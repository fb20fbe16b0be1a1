//! Bound expressions with the kind of value they have, as far as S3 Select tells kinds apart.

use std::fmt;

use arrow_schema::DataType;
use pushdown::{Expr, Function};

use crate::SelectError;

/// What kind of value an expression has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Null,
    Bool,
    Int,
    /// With precision and scale, where they are known.
    Decimal(Option<(u8, i8)>),
    Float,
    Text,
    Date,
    Timestamp {
        utc: bool,
    },
    /// A value of JSON whose kind shows only in each record.
    Token,
    /// A type that only comes out as it is: lists, structs, binary.
    Other,
}

impl Kind {
    /// The kind of a column of this type.
    pub(super) fn of(data_type: &DataType) -> Self {
        match data_type {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Bool,
            DataType::Decimal128(precision, scale) => Self::Decimal(Some((*precision, *scale))),
            DataType::Float16 | DataType::Float32 | DataType::Float64 => Self::Float,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Date32 => Self::Date,
            DataType::Timestamp(_, zone) => Self::Timestamp { utc: zone.is_some() },
            integer if integer.is_integer() => Self::Int,
            _ => Self::Other,
        }
    }

    pub(super) fn is_number(self) -> bool {
        matches!(self, Self::Int | Self::Decimal(_) | Self::Float)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "NULL",
            Self::Bool => "a Boolean",
            Self::Int => "an integer",
            Self::Decimal(_) => "a decimal",
            Self::Float => "a float",
            Self::Text => "text",
            Self::Date => "a date",
            Self::Timestamp { .. } => "a timestamp",
            Self::Token => "a value of JSON",
            Self::Other => "a value of another type",
        })
    }
}

/// A bound expression.
#[derive(Clone, Debug)]
pub(super) struct Typed {
    pub(super) expr: Expr,
    pub(super) kind: Kind,
    /// A number as it is written: what it compares as when the other side is text.
    pub(super) written: Option<String>,
}

impl Typed {
    pub(super) fn new(expr: Expr, kind: Kind) -> Self {
        Self { expr, kind, written: None }
    }

    pub(super) fn null() -> Self {
        Self::new(Expr::Literal(pushdown::Literal::Null), Kind::Null)
    }

    /// A token of JSON as text; anything else as it is.
    pub(super) fn opened(self) -> Self {
        match self.kind {
            Kind::Token => Self::new(Expr::Call(Function::JsonText, vec![self.expr]), Kind::Text),
            _ => self,
        }
    }

    /// As text, for functions of text.
    pub(super) fn text(self) -> Result<Self, SelectError> {
        match self.kind {
            Kind::Token => Ok(self.opened()),
            Kind::Text | Kind::Null => Ok(self),
            other => Err(SelectError::types(format!("text is needed here, not {other}: write CAST(… AS STRING)"))),
        }
    }

    /// As a number, for arithmetic and sums.
    pub(super) fn number(self) -> Result<Self, SelectError> {
        match self.kind {
            Kind::Token => {
                let number = Expr::Call(Function::ToNumber, vec![Expr::Call(Function::JsonText, vec![self.expr])]);
                let wide = arrow_schema::DataType::Decimal128(38, 10);
                Ok(Self::new(Expr::Cast(Box::new(number), wide), Kind::Decimal(Some((38, 10)))))
            }
            Kind::Int | Kind::Decimal(_) | Kind::Float | Kind::Null => Ok(self),
            other => Err(SelectError::types(format!("a number is needed here, not {other}: write CAST(… AS DECIMAL)"))),
        }
    }
}

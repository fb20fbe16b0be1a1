//! Bound expressions and the kinds of their values, as S3 Select distinguishes them.

use std::fmt;

use arrow_schema::{DataType, TimeUnit};
use pushdowndb_contract::{Expr, Function, Literal, Timestamp, token};

use crate::SelectError;

/// The kind of an expression's value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Null,
    Bool,
    Int,
    /// A decimal with precision and scale, if known.
    Decimal(Option<(u8, i8)>),
    Float,
    Text,
    Date,
    Timestamp {
        utc: bool,
    },
    /// A timestamp as text in Ion's form, which keeps its precision and offset.
    Ion,
    /// A JSON token, whose kind differs from record to record.
    Token,
    /// A JSON token that is a number or NULL.
    Number,
    /// A type that can only be returned, not computed with: lists and structs.
    Other,
}

impl Kind {
    /// Returns the kind of a column of this type.
    pub(super) fn of(data_type: &DataType) -> Self {
        match data_type {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Bool,
            DataType::Decimal128(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal32(precision, scale) => Self::Decimal(Some((*precision, *scale))),
            DataType::Float16 | DataType::Float32 | DataType::Float64 => Self::Float,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Timestamp(_, zone) => Self::Timestamp { utc: zone.is_some() },
            DataType::Dictionary(_, values) => Self::of(values),
            integer if integer.is_integer() => Self::Int,
            _ => Self::Other,
        }
    }

    pub(super) fn is_number(self) -> bool {
        matches!(self, Self::Int | Self::Decimal(_) | Self::Float)
    }

    /// Returns whether values of this kind are represented as tokens.
    pub(super) fn is_token(self) -> bool {
        matches!(self, Self::Token | Self::Number)
    }

    pub(super) fn is_time(self) -> bool {
        matches!(self, Self::Date | Self::Timestamp { .. } | Self::Ion)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "NULL",
            Self::Bool => "a Boolean",
            Self::Int => "an integer",
            Self::Decimal(_) | Self::Number => "a decimal",
            Self::Float => "a float",
            Self::Text => "text",
            Self::Date => "a date",
            Self::Timestamp { .. } | Self::Ion => "a timestamp",
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
    /// The digits of a number as written. A comparison for equality with text uses them.
    pub(super) written: Option<String>,
}

pub(super) fn call(function: Function, args: Vec<Expr>) -> Expr {
    Expr::Call(function, args)
}

pub(super) fn cast(expr: Expr, to: DataType) -> Expr {
    Expr::Cast(Box::new(expr), to)
}

/// Returns the type to which timestamps are converted to be compared.
pub(super) fn instant_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()))
}

impl Typed {
    pub(super) fn new(expr: Expr, kind: Kind) -> Self {
        Self { expr, kind, written: None }
    }

    pub(super) fn null() -> Self {
        Self::new(Expr::Literal(Literal::Null), Kind::Null)
    }

    pub(super) fn boolean(expr: Expr) -> Self {
        Self::new(expr, Kind::Bool)
    }

    /// Returns the value with a JSON `null` converted to NULL.
    pub(super) fn value(self) -> Self {
        match self.kind {
            kind if kind.is_token() && !self.expr.is_token() => {
                Self::new(call(Function::JsonValue, vec![self.expr]), self.kind)
            }
            _ => self,
        }
    }

    /// Returns the value as a CAST to STRING converts it: any scalar token as text.
    pub(super) fn opened(self) -> Self {
        match self.kind {
            Kind::Token => Self::new(call(Function::JsonText, vec![self.expr]), Kind::Text),
            Kind::Number => Self::new(self.expr, Kind::Text),
            _ => self,
        }
    }

    /// Returns the value as text, for functions of text. A token that is not text becomes NULL.
    pub(super) fn text(self) -> Result<Self, SelectError> {
        match self.kind {
            Kind::Token => Ok(Self::new(call(Function::JsonString, vec![self.expr]), Kind::Text)),
            Kind::Text => Ok(self),
            Kind::Null => Ok(Self::new(cast(self.expr, DataType::Utf8), Kind::Text)),
            other => Err(SelectError::types(format!("text is needed here, not {other}: write CAST(… AS STRING)"))),
        }
    }

    /// Checks that the value may be a number, for arithmetic and sums. Arithmetic treats a token
    /// that is not a number as NULL.
    pub(super) fn number(self) -> Result<Self, SelectError> {
        match self.kind {
            Kind::Int | Kind::Decimal(_) | Kind::Float | Kind::Null | Kind::Token | Kind::Number => Ok(self),
            other => Err(SelectError::types(format!("a number is needed here, not {other}: write CAST(… AS DECIMAL)"))),
        }
    }

    /// Checks that the value may be a timestamp, for functions of dates.
    pub(super) fn time(self) -> Result<Self, SelectError> {
        match self.kind {
            Kind::Null => Ok(Self::new(cast(self.expr, DataType::Utf8), Kind::Ion)),
            kind if kind.is_time() => Ok(self),
            other => {
                Err(SelectError::types(format!("a timestamp is needed here, not {other}: write CAST(… AS TIMESTAMP)")))
            }
        }
    }

    /// Converts the value to a token, to combine it with values of other kinds.
    pub(super) fn token(self) -> Expr {
        let constant = match &self.expr {
            _ if self.kind.is_token() => return self.expr,
            Expr::Literal(Literal::Null) => return self.expr,
            Expr::Literal(Literal::Utf8(text)) => Some(token::quoted(text)),
            Expr::Literal(literal @ (Literal::Boolean(_) | Literal::Int64(_) | Literal::Decimal(..))) => {
                Some(literal.to_string().to_lowercase())
            }
            _ => None,
        };
        match constant {
            Some(token) => Expr::text(token),
            None => call(Function::ToToken, vec![self.expr]),
        }
    }

    /// Converts a timestamp in text form to an instant, which can be compared. Other kinds are
    /// unchanged.
    pub(super) fn instant(self) -> Self {
        if self.kind != Kind::Ion {
            return self;
        }
        let kind = Kind::Timestamp { utc: true };
        let expr = match self.expr {
            Expr::Literal(Literal::Utf8(text)) => match Timestamp::parse(&text) {
                Some(timestamp) => Expr::Literal(Literal::Timestamp(timestamp.micros(), true)),
                None => cast(Expr::text(text), instant_type()),
            },
            // The cast accepts the same texts as the function, and decoders evaluate it.
            Expr::Call(Function::ToTimestamp, mut args) if args.len() == 1 => cast(args.remove(0), instant_type()),
            other => cast(other, instant_type()),
        };
        Self::new(expr, kind)
    }
}

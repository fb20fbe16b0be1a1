//! Values that a backend computes exactly, and the classes by which they are compared.

use arrow_schema::DataType;

use super::classifier::{Classifier, Exactness};
use super::normal::normal;
use crate::{ArithmeticOp, Expr, Function, Literal};

/// The class of a value. Values of one class can be compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Class {
    Integer,
    Decimal { precision: u8, scale: i8 },
    Float,
    Text,
    Date,
    Boolean,
}

impl Class {
    /// Returns the class of a type; `None` for a type whose meaning differs between S3 Select and
    /// Arrow.
    fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32 => Self::Integer,
            DataType::Decimal128(precision, scale) if *scale >= 0 => {
                Self::Decimal { precision: *precision, scale: *scale }
            }
            DataType::Float64 => Self::Float,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Date32 => Self::Date,
            DataType::Boolean => Self::Boolean,
            _ => return None,
        })
    }

    pub(super) fn is_exact_number(self) -> bool {
        matches!(self, Self::Integer | Self::Decimal { .. })
    }

    pub(super) fn is_number(self) -> bool {
        self.is_exact_number() || self == Self::Float
    }

    /// Returns whether values of the two classes can be compared without a cast.
    pub(super) fn compares_with(self, other: Self) -> bool {
        self == other || (self.is_number() && other.is_number())
    }
}

impl Classifier<'_> {
    /// Returns the class of `expr` if the backend computes it exactly, including NULL; otherwise
    /// `None`.
    pub(super) fn value(&self, expr: &Expr) -> Option<Class> {
        let dialect = self.dialect;
        match expr {
            Expr::Column(index) => Class::of(self.schema.fields().get(*index)?.data_type()),
            Expr::Literal(literal) => literal_class(literal),
            // SQL servers have only 64-bit integers, so a cast to a narrower type does not fail
            // there.
            Expr::Cast(inner, to) if is_narrow(to) && !self.fits(inner, to) => None,
            Expr::Cast(inner, to) => {
                let (from, to) = (self.value(inner)?, Class::of(to)?);
                // A date is text in CSV and a timestamp elsewhere, so there is no DATE to cast to.
                let dates = from == Class::Date || to == Class::Date;
                (from == to || widens(from, to) || (dialect.same_evaluator && !dates)).then_some(to)
            }
            Expr::Negate(inner) if self.is_narrow(inner) => None,
            Expr::Negate(inner) => self.value(inner).filter(|class| self.computes(*class)),
            Expr::Arithmetic(op, a, b) => self.arithmetic(*op, a, b),
            Expr::Case { branches, otherwise } => {
                let first = self.value(&branches.first()?.1)?;
                let conditions = branches.iter().all(|(when, _)| self.is_exact(when));
                let results = branches.iter().map(|(_, then)| then).chain(otherwise.as_deref());
                let alike = results.into_iter().all(|then| {
                    matches!(then, Expr::Literal(Literal::Null))
                        || self
                            .value(then)
                            .is_some_and(|class| class == first || (class.is_exact_number() && first.is_exact_number()))
                });
                (dialect.case && dialect.three_valued && conditions && alike).then_some(first)
            }
            Expr::Call(function, args) => self.call(*function, args),
            Expr::Bloom { .. } => None,
            Expr::Compare(..)
            | Expr::And(_)
            | Expr::Or(_)
            | Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::InList { .. }
            | Expr::Like { .. } => (dialect.three_valued && self.is_exact(expr)).then_some(Class::Boolean),
        }
    }

    fn arithmetic(&self, op: ArithmeticOp, left: &Expr, right: &Expr) -> Option<Class> {
        let dialect = self.dialect;
        let alike = match (op, floored(op, left, right)) {
            (_, Some(dividend)) => {
                return (self.value(dividend)? == Class::Integer && self.computes(Class::Integer))
                    .then_some(Class::Integer);
            }
            // The scale and rounding of a quotient of decimals differ between servers.
            (ArithmeticOp::Divide, _) => dialect.same_evaluator,
            // The sign of a remainder differs between servers.
            (ArithmeticOp::Modulo, _) => dialect.same_evaluator || (is_counted(left) && is_positive(right)),
            _ => true,
        };
        // SQL servers compute in 64 bits and do not notice an overflow of the engine's narrower
        // type.
        if self.is_narrow(left) && self.is_narrow(right) {
            return None;
        }
        let (a, b) = (self.value(left)?, self.value(right)?);
        let decimal = [a, b].iter().any(|class| matches!(class, Class::Decimal { .. }));
        let same = alike && !(op == ArithmeticOp::Divide && decimal);
        (same && self.computes(a) && self.computes(b)).then(|| result_class(a, b))
    }

    /// Returns whether the integer type `to` certainly holds every value of `expr`.
    fn fits(&self, expr: &Expr, to: &DataType) -> bool {
        let from = match expr {
            Expr::Column(index) => self.schema.fields().get(*index).map(|field| field.data_type()),
            Expr::Cast(_, from) => Some(from),
            // The engine writes literals of narrow types as casts.
            Expr::Literal(Literal::Int64(_)) => return true,
            _ => None,
        };
        from.is_some_and(|from| {
            let signs = from.is_signed_integer() == to.is_signed_integer();
            is_narrow(from) && signs && from.primitive_width() <= to.primitive_width()
        })
    }

    /// Returns whether the engine computes `expr` with integers of less than 64 bits.
    fn is_narrow(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Column(index) => self.schema.fields().get(*index).is_some_and(|field| is_narrow(field.data_type())),
            Expr::Cast(_, to) => is_narrow(to),
            Expr::Negate(inner) => self.is_narrow(inner),
            Expr::Arithmetic(_, a, b) => self.is_narrow(a) && self.is_narrow(b),
            Expr::Case { branches, otherwise } => {
                let mut results = branches.iter().map(|(_, then)| then).chain(otherwise.as_deref());
                results.all(|then| matches!(then, Expr::Literal(Literal::Null)) || self.is_narrow(then))
            }
            Expr::Call(Function::NullIf | Function::Coalesce, args) => args.iter().all(|arg| self.is_narrow(arg)),
            _ => false,
        }
    }

    /// True if the backend evaluates `predicate` exactly.
    fn is_exact(&self, predicate: &Expr) -> bool {
        matches!(self.predicate(normal(predicate.clone())), Exactness::Exact(_))
    }

    /// Returns whether the backend's arithmetic on values of this class is exact.
    fn computes(&self, class: Class) -> bool {
        match class {
            Class::Integer => self.dialect.exact_sums,
            Class::Decimal { .. } => self.dialect.exact_sums && self.dialect.decimals,
            Class::Float => self.dialect.same_evaluator,
            _ => false,
        }
    }

    fn call(&self, function: Function, args: &[Expr]) -> Option<Class> {
        let dialect = self.dialect;
        if !dialect.string_functions || !dialect.three_valued {
            return None;
        }
        let classes: Vec<Class> = args.iter().map(|arg| self.value(arg)).collect::<Option<_>>()?;
        let text = |count: usize| classes.len() == count && classes.iter().all(|class| *class == Class::Text);
        match function {
            // Case mapping beyond ASCII differs between languages and Unicode versions.
            Function::Lower | Function::Upper => (text(1) && dialect.same_evaluator).then_some(Class::Text),
            Function::CharLength => text(1).then_some(Class::Integer),
            Function::Trim | Function::TrimLeading | Function::TrimTrailing => match args {
                [_] => text(1).then_some(Class::Text),
                [_, Expr::Literal(Literal::Utf8(chars))] => (text(2) && !chars.is_empty()).then_some(Class::Text),
                _ => None,
            },
            Function::Concat => text(2).then_some(Class::Text),
            // Positions before the first character differ between dialects.
            Function::Substring => match args {
                [_, start, rest @ ..] if is_position(start) && classes.get(1) == Some(&Class::Integer) => {
                    let length = match rest {
                        [] => true,
                        [Expr::Literal(Literal::Int64(length))] => *length >= 0,
                        _ => false,
                    };
                    (length && classes.first() == Some(&Class::Text)).then_some(Class::Text)
                }
                _ => None,
            },
            Function::NullIf => match *classes {
                [a, b] if a == b && a != Class::Float => Some(a),
                _ => None,
            },
            Function::Coalesce => {
                let first = *classes.first()?;
                classes.iter().all(|class| *class == first).then_some(first)
            }
            // Functions of S3 Select alone: JSON without a schema, timestamps as text.
            Function::JsonText
            | Function::JsonWhole
            | Function::JsonTruth
            | Function::JsonString
            | Function::JsonBoolean
            | Function::JsonValue
            | Function::ToToken
            | Function::ToNumber
            | Function::TokenEq
            | Function::TokenLt
            | Function::TokenLtEq
            | Function::TokenOrder
            | Function::TokenAdd
            | Function::TokenSubtract
            | Function::TokenMultiply
            | Function::TokenDivide
            | Function::TokenModulo
            | Function::LikePattern
            | Function::ToTimestamp
            | Function::ReadTimestamp
            | Function::FormatTimestamp
            | Function::DateAdd
            | Function::DateDiff
            | Function::Extract => None,
        }
    }
}

fn literal_class(literal: &Literal) -> Option<Class> {
    match literal {
        Literal::Null | Literal::Timestamp(..) => None,
        Literal::Boolean(_) => Some(Class::Boolean),
        Literal::Int64(_) => Some(Class::Integer),
        Literal::Decimal(_, precision, scale) => {
            (*scale >= 0).then_some(Class::Decimal { precision: *precision, scale: *scale })
        }
        Literal::Float64(value) => value.is_finite().then_some(Class::Float),
        Literal::Utf8(text) => is_xml_text(text).then_some(Class::Text),
        // Dates are compared as `YYYY-MM-DD` text, so their years must have four digits.
        Literal::Date(days) => (-719_528..=2_932_896).contains(days).then_some(Class::Date),
    }
}

/// True if `text` can be written in a request, which is XML 1.0.
fn is_xml_text(text: &str) -> bool {
    text.chars().all(|c| (c >= ' ' && !matches!(c, '\u{fffe}' | '\u{ffff}')) || matches!(c, '\t' | '\n' | '\r'))
}

/// Returns whether every value of class `from` has the same value in class `to`.
fn widens(from: Class, to: Class) -> bool {
    match (from, to) {
        (Class::Integer, Class::Decimal { precision, scale }) => i16::from(precision) - i16::from(scale) >= 19,
        (Class::Decimal { precision: p, scale: s }, Class::Decimal { precision, scale }) => {
            scale >= s && i16::from(precision) - i16::from(scale) >= i16::from(p) - i16::from(s)
        }
        _ => false,
    }
}

/// True for an integer type of less than 64 bits.
fn is_narrow(data_type: &DataType) -> bool {
    data_type.is_integer() && !matches!(data_type, DataType::Int64 | DataType::UInt64)
}

/// Returns `x` if the expression is `((x % n) + n) % n`, which does not depend on the sign of the
/// remainder.
fn floored<'a>(op: ArithmeticOp, left: &'a Expr, n: &Expr) -> Option<&'a Expr> {
    match left {
        Expr::Arithmetic(ArithmeticOp::Add, remainder, added) if op == ArithmeticOp::Modulo && **added == *n => {
            match &**remainder {
                Expr::Arithmetic(ArithmeticOp::Modulo, x, divisor) => (**divisor == *n && is_positive(n)).then_some(x),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns whether `expr` is an integer that is never negative, whatever the values of columns.
fn is_counted(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(Literal::Int64(value)) => *value >= 0,
        Expr::Arithmetic(ArithmeticOp::Add | ArithmeticOp::Multiply, a, b) => is_counted(a) && is_counted(b),
        Expr::Arithmetic(op @ ArithmeticOp::Modulo, a, n) => {
            floored(*op, a, n).is_some() || (is_counted(a) && is_positive(n))
        }
        _ => false,
    }
}

fn is_positive(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(Literal::Int64(1..)))
}

/// Returns whether `expr` is certainly a valid position of a character, that is, at least 1.
fn is_position(expr: &Expr) -> bool {
    match expr {
        Expr::Arithmetic(ArithmeticOp::Add, a, b) => is_counted(a) && is_positive(b),
        other => is_positive(other),
    }
}

/// Returns the class of arithmetic on `a` and `b`. The precision of a decimal result is an upper
/// bound: it matters only for comparisons as doubles, which exclude arithmetic.
fn result_class(a: Class, b: Class) -> Class {
    match (a, b) {
        (Class::Float, _) | (_, Class::Float) => Class::Float,
        (Class::Integer, Class::Integer) => Class::Integer,
        (Class::Decimal { scale: a, .. }, Class::Decimal { scale: b, .. }) => {
            Class::Decimal { precision: 38, scale: a.saturating_add(b).min(38) }
        }
        (decimal, Class::Integer) => decimal,
        (_, decimal) => decimal,
    }
}

//! How two values are brought together before they are compared.
//!
//! AWS documents one rule: without a CAST all input is text. So text compares with text, as bytes. A number
//! beside text is taken as it is written where only equality is asked (`_1 = 100`); where order is asked that
//! would put '9' behind '10', so the statement is refused with the way out. JSON and Parquet have types of
//! their own, and constants adapt to them.

use arrow_schema::{DataType, TimeUnit};
use pushdown::{Expr, Literal};

use super::constant;
use super::kind::{Kind, Typed};
use crate::SelectError;

const DAY: i64 = 86_400_000_000;

/// Two values made comparable; `ordered` if more than equality is asked.
pub(super) fn meet(a: Typed, b: Typed, ordered: bool) -> Result<(Typed, Typed), SelectError> {
    match (a.kind, b.kind) {
        (Kind::Null, _) | (_, Kind::Null) | (Kind::Token, Kind::Token | Kind::Text) => Ok((a.opened(), b.opened())),
        (Kind::Token, _) => meet_token(a, b),
        (Kind::Text, Kind::Text)
        | (Kind::Bool, Kind::Bool)
        | (Kind::Date, Kind::Date)
        | (Kind::Timestamp { .. }, Kind::Timestamp { .. }) => Ok(same_zone(a, b)),
        (left, right) if left.is_number() && right.is_number() => {
            let (left, right) =
                (adapt(&a, right).unwrap_or_else(|| a.clone()), adapt(&b, left).unwrap_or_else(|| b.clone()));
            Ok((left, right))
        }
        (Kind::Text, right) if right.is_number() => match (&b.written, ordered) {
            (Some(written), false) => Ok((a, Typed::new(Expr::text(written.clone()), Kind::Text))),
            _ => Err(SelectError::types(
                "text is compared with a number: write CAST(… AS INT), DECIMAL or FLOAT to compare as numbers, or \
                 put the number in single quotes to compare as text",
            )),
        },
        (Kind::Date, Kind::Text) => {
            let date = date_constant(&b)?;
            Ok((a, date))
        }
        (Kind::Date, Kind::Timestamp { .. }) => match b.expr {
            Expr::Literal(Literal::Timestamp(micros, _)) if micros % DAY == 0 => Ok((a, date(micros / DAY)?)),
            _ => {
                let to = DataType::Timestamp(TimeUnit::Microsecond, None);
                let a = Typed::new(Expr::Cast(Box::new(a.expr), to), Kind::Timestamp { utc: false });
                Ok(same_zone(a, b))
            }
        },
        (Kind::Timestamp { utc }, Kind::Text) => match &b.expr {
            Expr::Literal(Literal::Utf8(text)) => {
                let literal = Expr::Literal(Literal::Timestamp(constant::timestamp(text)?, utc));
                Ok((a, Typed::new(literal, Kind::Timestamp { utc })))
            }
            _ => Err(mismatch(a.kind, b.kind)),
        },
        // The other way around is the same, once.
        (left, right) if rank(left) > rank(right) => meet(b, a, ordered).map(|(b, a)| (a, b)),
        (left, right) => Err(mismatch(left, right)),
    }
}

/// Kinds in the order in which [`meet`] expects them.
fn rank(kind: Kind) -> u8 {
    match kind {
        Kind::Token => 0,
        Kind::Date => 1,
        Kind::Timestamp { .. } => 2,
        Kind::Text => 3,
        _ => 4,
    }
}

fn mismatch(left: Kind, right: Kind) -> SelectError {
    SelectError::types(format!("{left} does not compare with {right}: write a CAST"))
}

/// A token of JSON takes the kind of what it meets.
fn meet_token(token: Typed, other: Typed) -> Result<(Typed, Typed), SelectError> {
    match other.kind {
        Kind::Bool => {
            let text = match other.expr {
                Expr::Literal(Literal::Boolean(value)) => Expr::text(value.to_string()),
                expr => Expr::Cast(Box::new(expr), DataType::Utf8),
            };
            Ok((token.opened(), Typed::new(text, Kind::Text)))
        }
        Kind::Float if other.written.is_none() => {
            let float = Expr::Cast(Box::new(token.opened().expr), DataType::Float64);
            Ok((Typed::new(float, Kind::Float), other))
        }
        Kind::Int | Kind::Decimal(_) | Kind::Float => {
            let number = token.number()?;
            let other = adapt(&other, number.kind).unwrap_or(other);
            Ok((number, other))
        }
        Kind::Date | Kind::Timestamp { .. } => {
            let to = match other.kind {
                Kind::Date => DataType::Date32,
                _ => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
            };
            Ok((Typed::new(Expr::Cast(Box::new(token.opened().expr), to), other.kind), other))
        }
        kind => Err(mismatch(Kind::Token, kind)),
    }
}

/// A constant number in the type of the other side, if it is the same number there. The evaluator then
/// compares values as they are instead of widening a whole column.
fn adapt(constant: &Typed, to: Kind) -> Option<Typed> {
    let literal = match (&constant.expr, to) {
        (Expr::Literal(Literal::Int64(value)), Kind::Decimal(Some((precision, scale)))) => {
            Literal::Decimal(constant::rescale((*value).into(), 0, precision, scale)?, precision, scale)
        }
        (Expr::Literal(Literal::Decimal(value, _, from)), Kind::Decimal(Some((precision, scale)))) => {
            Literal::Decimal(constant::rescale(*value, *from, precision, scale)?, precision, scale)
        }
        (Expr::Literal(Literal::Int64(_) | Literal::Decimal(..)), Kind::Float) => {
            Literal::Float64(constant.written.as_ref()?.parse().ok()?)
        }
        _ => return None,
    };
    Some(Typed { expr: Expr::Literal(literal), kind: to, written: constant.written.clone() })
}

/// Timestamps with and without a zone: a constant takes that of the other side.
fn same_zone(mut a: Typed, mut b: Typed) -> (Typed, Typed) {
    let kinds = (a.kind, b.kind);
    for (one, other) in [(&mut a, kinds.1), (&mut b, kinds.0)] {
        if let (Expr::Literal(Literal::Timestamp(_, utc)), Kind::Timestamp { utc: wanted }) = (&mut one.expr, other) {
            *utc = wanted;
            one.kind = other;
        }
    }
    (a, b)
}

/// A text constant as a date.
fn date_constant(typed: &Typed) -> Result<Typed, SelectError> {
    match &typed.expr {
        Expr::Literal(Literal::Utf8(text)) => match constant::timestamp(text)? {
            micros if micros % DAY == 0 => date(micros / DAY),
            _ => Err(SelectError::types(format!("'{text}' is no date: write CAST(… AS TIMESTAMP)"))),
        },
        _ => Err(mismatch(Kind::Date, typed.kind)),
    }
}

fn date(days: i64) -> Result<Typed, SelectError> {
    let days = i32::try_from(days).map_err(|_| SelectError::types("the date is out of range"))?;
    Ok(Typed::new(Expr::Literal(Literal::Date(days)), Kind::Date))
}

/// Several values that stand for one, as in CASE and COALESCE: all of one kind afterwards.
pub(super) fn unify(all: Vec<Typed>) -> Result<(Vec<Expr>, Kind), SelectError> {
    let numbers = all.iter().any(|typed| typed.kind.is_number());
    let texts = all.iter().any(|typed| typed.kind == Kind::Text);
    let mut kind = Kind::Null;
    let mut exprs = Vec::with_capacity(all.len());
    for typed in all {
        let typed = match (typed.kind, &typed.written) {
            (Kind::Token, _) if numbers && !texts => typed.number()?,
            (Kind::Token, _) => typed.opened(),
            (_, Some(written)) if texts => Typed::new(Expr::text(written.clone()), Kind::Text),
            _ => typed,
        };
        kind = match (kind, typed.kind) {
            (Kind::Null, other) | (other, Kind::Null) => other,
            (a, b) if a == b => a,
            (a, b) if a.is_number() && b.is_number() => {
                if a == Kind::Float || b == Kind::Float {
                    Kind::Float
                } else {
                    Kind::Decimal(None)
                }
            }
            (a, b) => return Err(SelectError::types(format!("results must be of one type, not {a} and {b}"))),
        };
        exprs.push(typed.expr);
    }
    Ok((exprs, kind))
}

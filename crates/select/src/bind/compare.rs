//! Conversion of operands to a common kind before they are compared.
//!
//! AWS documents one rule: without a CAST, all input is text. So text is compared with text,
//! bytewise. For equality, a number that is compared with text stands for its digits as written:
//! `_1 = 100` means `_1 = '100'`. For other comparisons that would sort '9' after '10', so the
//! statement is refused, and the error names the CAST to add. JSON values are compared by their
//! kinds in each record. Parquet columns have types, and constants are converted to them.

use arrow_schema::{DataType, TimeUnit};
use pushdowndb_contract::{CompareOp, Expr, Function, Literal};

use super::constant;
use super::kind::{Kind, Typed, call, cast, instant_type};
use crate::SelectError;

const DAY: i64 = 86_400_000_000;

/// Binds a comparison of two values.
pub(super) fn compare(op: CompareOp, a: Typed, b: Typed) -> Result<Typed, SelectError> {
    let ordered = !matches!(op, CompareOp::Eq | CompareOp::NotEq);
    if a.kind == Kind::Null || b.kind == Kind::Null {
        return Ok(Typed::boolean(Expr::compare(op, a.opened().expr, b.opened().expr)));
    }
    if (a.kind.is_token() && !b.kind.is_time()) || (b.kind.is_token() && !a.kind.is_time()) {
        return compare_tokens(op, a, b);
    }
    if !ordered && constants_of_two_kinds(&a, &b) {
        return Ok(Typed::boolean(Expr::Literal(Literal::Boolean(op == CompareOp::NotEq))));
    }
    let (a, b) = meet(a, b, ordered)?;
    Ok(Typed::boolean(Expr::compare(op, a.expr, b.expr)))
}

/// Returns whether one value is a number literal and the other a text literal. Such literals always
/// differ, whatever their digits.
fn constants_of_two_kinds(a: &Typed, b: &Typed) -> bool {
    let text = |typed: &Typed| matches!(typed.expr, Expr::Literal(Literal::Utf8(_))) && typed.kind == Kind::Text;
    (text(a) && b.written.is_some()) || (text(b) && a.written.is_some())
}

fn compare_tokens(op: CompareOp, a: Typed, b: Typed) -> Result<Typed, SelectError> {
    if let (Kind::Number, other @ (Kind::Text | Kind::Bool)) | (other @ (Kind::Text | Kind::Bool), Kind::Number) =
        (a.kind, b.kind)
    {
        return Err(mismatch(Kind::Number, other));
    }
    let (a, b) = (a.token(), b.token());
    Ok(Typed::boolean(match op {
        CompareOp::Eq => call(Function::TokenEq, vec![a, b]),
        CompareOp::NotEq => Expr::Not(Box::new(call(Function::TokenEq, vec![a, b]))),
        CompareOp::Lt => call(Function::TokenLt, vec![a, b]),
        CompareOp::LtEq => call(Function::TokenLtEq, vec![a, b]),
        CompareOp::Gt => call(Function::TokenLt, vec![b, a]),
        CompareOp::GtEq => call(Function::TokenLtEq, vec![b, a]),
    }))
}

/// Converts two values to types that can be compared. `ordered` is true for comparisons other than
/// `=` and `<>`.
///
/// Expects that a token is compared with a date or timestamp; [`compare`] handles other tokens.
pub(super) fn meet(a: Typed, b: Typed, ordered: bool) -> Result<(Typed, Typed), SelectError> {
    match (a.kind, b.kind) {
        (Kind::Null, _) | (_, Kind::Null) => Ok((a, b)),
        (Kind::Token, time) if time.is_time() => {
            let text = a.opened().expr;
            let a = match time {
                Kind::Date => Typed::new(cast(text, DataType::Date32), time),
                _ => Typed::new(cast(text, instant_type()), Kind::Timestamp { utc: true }),
            };
            meet(a, b, ordered)
        }
        (Kind::Ion, _) => meet_ion(a, b, ordered),
        (_, Kind::Ion) => meet_ion(b, a, ordered).map(|(b, a)| (a, b)),
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
                let a = Typed::new(cast(a.expr, to), Kind::Timestamp { utc: false });
                Ok(same_zone(a, b))
            }
        },
        (Kind::Timestamp { utc }, Kind::Text) => match &b.expr {
            Expr::Literal(Literal::Utf8(text)) => {
                let literal = Expr::Literal(Literal::Timestamp(constant::timestamp(text)?.micros(), utc));
                Ok((a, Typed::new(literal, Kind::Timestamp { utc })))
            }
            _ => Err(mismatch(a.kind, b.kind)),
        },
        // Swapping the operands, at most once, reduces the other cases to those above.
        (left, right) if rank(left) > rank(right) => meet(b, a, ordered).map(|(b, a)| (a, b)),
        (left, right) => Err(mismatch(left, right)),
    }
}

/// Like [`meet`], for a timestamp in text form ([`Kind::Ion`]) and another value.
fn meet_ion(ion: Typed, other: Typed, ordered: bool) -> Result<(Typed, Typed), SelectError> {
    let ion = ion.instant();
    match other.kind {
        Kind::Date | Kind::Timestamp { .. } | Kind::Text | Kind::Token => meet(ion, other, ordered),
        Kind::Ion => Ok((ion, other.instant())),
        kind => Err(mismatch(Kind::Ion, kind)),
    }
}

/// Orders kinds as the cases of [`meet`] expect them, lower ranks on the left.
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

/// Converts a constant number to the type of the other operand, so that the evaluator need not
/// widen a whole column. Returns `None` if `constant` is not a literal or the conversion is not
/// exact.
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

/// Aligns two timestamps with and without a zone: a constant takes over the zone of the other
/// operand.
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

/// Converts a text constant to a date.
fn date_constant(typed: &Typed) -> Result<Typed, SelectError> {
    match &typed.expr {
        Expr::Literal(Literal::Utf8(text)) => match constant::timestamp(text)?.micros() {
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

/// Converts the values of a CASE or COALESCE to one kind, to tokens if necessary.
pub(super) fn unify(all: Vec<Typed>) -> Result<(Vec<Expr>, Kind), SelectError> {
    let mut kind = Kind::Null;
    for typed in &all {
        kind = match (kind, typed.kind) {
            (Kind::Null, other) | (other, Kind::Null) => other,
            (a, b) if a == b => a,
            (Kind::Number, b) | (b, Kind::Number) if b.is_number() => Kind::Number,
            (a, b) if a.is_number() && b.is_number() => match (a, b) {
                (Kind::Float, _) | (_, Kind::Float) => Kind::Float,
                _ => Kind::Decimal(None),
            },
            (a, b) if a.is_time() && b.is_time() => Kind::Timestamp { utc: true },
            (Kind::Other, b) | (b, Kind::Other) => {
                return Err(SelectError::types(format!("results must be of one type, not {} and {b}", Kind::Other)));
            }
            _ => Kind::Token,
        };
    }
    let exprs = all.into_iter().map(|typed| match kind {
        _ if typed.kind == Kind::Null => typed.expr,
        Kind::Token | Kind::Number => typed.value().token(),
        Kind::Timestamp { .. } if typed.kind == Kind::Ion => typed.instant().expr,
        _ => typed.expr,
    });
    Ok((exprs.collect(), kind))
}

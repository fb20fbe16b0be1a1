//! Constants: numbers as they are written, timestamps in text, and casts of text.

use arrow_schema::DataType;
use pushdowndb_contract::{Expr, Function, Literal, Timestamp};

use super::kind::{Kind, Typed, cast};
use crate::SelectError;
use crate::ast::TypeName;

/// Binds a number as it is written: as an integer if it fits, else as a decimal of up to 38 digits,
/// else as a float.
pub(super) fn number(written: &str) -> Result<Typed, SelectError> {
    let (literal, kind) = if let Ok(value) = written.parse() {
        (Literal::Int64(value), Kind::Int)
    } else if let Some((value, precision, scale)) = decimal(written) {
        (Literal::Decimal(value, precision, scale), Kind::Decimal(Some((precision, scale))))
    } else {
        match written.parse::<f64>() {
            Ok(value) if value.is_finite() => (Literal::Float64(value), Kind::Float),
            _ => return Err(SelectError::new("NumberFormatError", format!("{written} is out of range"))),
        }
    };
    Ok(Typed { expr: Expr::Literal(literal), kind, written: Some(written.to_owned()) })
}

/// Parses a decimal: `-12.50` is (-1250, 4, 2). Returns `None` for an exponent or more than 38
/// digits.
fn decimal(written: &str) -> Option<(i128, u8, i8)> {
    let (sign, digits) = match written.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, written.strip_prefix('+').unwrap_or(written)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    if all.is_empty() || !all.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let significant = all.trim_start_matches('0').len().max(fraction.len()).max(1);
    if significant > 38 {
        return None;
    }
    let value: i128 = all.parse().ok()?;
    Some((sign * value, u8::try_from(significant).ok()?, i8::try_from(fraction.len()).ok()?))
}

/// Changes the scale of a decimal. Returns `None` if the value is not exact at the new scale or
/// does not fit into `precision`.
pub(super) fn rescale(value: i128, from: i8, precision: u8, to: i8) -> Option<i128> {
    let shift = i32::from(to) - i32::from(from);
    let power = 10_i128.checked_pow(shift.unsigned_abs())?;
    let value = if shift >= 0 {
        value.checked_mul(power)?
    } else if value % power == 0 {
        value / power
    } else {
        return None;
    };
    (value.unsigned_abs() < 10_u128.checked_pow(precision.into())?).then_some(value)
}

/// Binds a CAST of a constant text. Common spellings are converted here, once; for other spellings
/// the cast is left to the evaluator, as it is for columns.
pub(super) fn cast_text(text: &str, to: TypeName) -> Result<Typed, SelectError> {
    let trimmed = text.trim_ascii();
    let evaluated = |data_type, kind| Ok(Typed::new(cast(Expr::text(text), data_type), kind));
    let (literal, kind) = match to {
        TypeName::Text => (Literal::Utf8(text.to_owned()), Kind::Text),
        TypeName::Bool => match trimmed.to_ascii_lowercase().as_str() {
            "true" => (Literal::Boolean(true), Kind::Bool),
            "false" => (Literal::Boolean(false), Kind::Bool),
            _ => return evaluated(DataType::Boolean, Kind::Bool),
        },
        TypeName::Int => match trimmed.parse() {
            Ok(value) => (Literal::Int64(value), Kind::Int),
            Err(_) => return evaluated(DataType::Int64, Kind::Int),
        },
        TypeName::Float => match trimmed.parse() {
            Ok(value) => (Literal::Float64(value), Kind::Float),
            Err(_) => return evaluated(DataType::Float64, Kind::Float),
        },
        TypeName::Decimal(precision, scale) => {
            let kind = Kind::Decimal(Some((precision, scale)));
            let value = decimal(trimmed).and_then(|(value, _, from)| rounded(value, from, precision, scale));
            match value {
                Some(value) => (Literal::Decimal(value, precision, scale), kind),
                None => return evaluated(DataType::Decimal128(precision, scale), kind),
            }
        }
        TypeName::Number => {
            let number = Expr::Call(Function::ToNumber, vec![Expr::text(text)]);
            return Ok(Typed::new(number, Kind::Number));
        }
        TypeName::Timestamp => {
            let timestamp = Timestamp::parse(trimmed).ok_or_else(|| {
                let message = format!("'{text}' is no TIMESTAMP; one looks like 2007-04-05T or 2007-04-05T14:30:00Z");
                SelectError::new("CastFailed", message)
            })?;
            (Literal::Utf8(timestamp.to_string()), Kind::Ion)
        }
    };
    Ok(Typed::new(Expr::Literal(literal), kind))
}

/// Changes the scale of a decimal, rounding half away from zero as casts of columns do.
fn rounded(value: i128, from: i8, precision: u8, to: i8) -> Option<i128> {
    let dropped = i32::from(from) - i32::from(to);
    if dropped <= 0 {
        return rescale(value, from, precision, to);
    }
    let power = 10_i128.checked_pow(dropped.unsigned_abs())?;
    let (quotient, rest) = (value / power, value % power);
    let up = i128::from(rest.unsigned_abs() * 2 >= power.unsigned_abs());
    let value = quotient + up * value.signum();
    (value.unsigned_abs() < 10_u128.checked_pow(precision.into())?).then_some(value)
}

/// Parses a text constant that is compared with timestamps.
pub(super) fn timestamp(text: &str) -> Result<Timestamp, SelectError> {
    Timestamp::parse(text.trim()).ok_or_else(|| {
        let message = format!("'{text}' is no timestamp; one looks like 2007-04-05T or 2007-04-05T14:30:00Z");
        SelectError::new("ValueParseFailure", message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_every_digit() {
        let literal = |text| number(text).unwrap().expr;
        assert_eq!(literal("24"), Expr::int(24));
        assert_eq!(literal("0.05"), Expr::Literal(Literal::Decimal(5, 2, 2)));
        assert_eq!(literal("-12.50"), Expr::Literal(Literal::Decimal(-1250, 4, 2)));
        assert_eq!(literal("9223372036854775808"), Expr::Literal(Literal::Decimal(9_223_372_036_854_775_808, 19, 0)));
        assert_eq!(literal("1e3"), Expr::Literal(Literal::Float64(1000.0)));
        assert_eq!(number("1e999").unwrap_err().code, "NumberFormatError");
    }

    #[test]
    fn casts_round_as_those_of_columns() {
        let cast = |text, to| cast_text(text, to).map(|typed| typed.expr).map_err(|error| error.code);
        let to = TypeName::Decimal(5, 2);
        assert_eq!(cast("1.005", to), Ok(Expr::Literal(Literal::Decimal(101, 5, 2))));
        assert_eq!(cast("-1.005", to), Ok(Expr::Literal(Literal::Decimal(-101, 5, 2))));
        assert_eq!(cast("1.5", to), Ok(Expr::Literal(Literal::Decimal(150, 5, 2))));
        let evaluated = |text| Ok(Expr::Cast(Box::new(Expr::text(text)), DataType::Decimal128(5, 2)));
        assert_eq!(cast("1000", to), evaluated("1000"), "which says that it does not fit");
        assert_eq!(cast("1e2", to), evaluated("1e2"));
        assert_eq!(cast("2007T", TypeName::Timestamp), Ok(Expr::text("2007T")));
        assert_eq!(cast("2007", TypeName::Timestamp), Err("CastFailed"));
    }
}

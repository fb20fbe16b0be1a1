//! Values of parameters as literals.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::sql::sqlparser::ast::{
    Array, ArrayElemTypeDef, CastKind, DataType as SqlType, ExactNumberInfo, Expr, TimezoneInfo, Value,
};
use pushdowndb_contract::{Error, Result};

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum ParameterValue {
    /// NULL.
    Null,
    /// A value as text that casts to the parameter's type: `12.50`, `2024-02-29`, `true`.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// The elements of a list.
    List(Vec<ParameterValue>),
}

/// Returns the literal of a value of this type.
///
/// # Errors
///
/// Returns an error if SQL has no such type, or the value does not belong to it.
pub(super) fn of(value: &ParameterValue, data_type: &DataType) -> Result<Expr> {
    if let DataType::Dictionary(_, values) = data_type {
        return of(value, values);
    }
    let own_type = || sql_type(data_type);
    Ok(match value {
        ParameterValue::Null => cast(Expr::value(Value::Null), own_type()?),
        ParameterValue::Bytes(bytes) => {
            let digits = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            Expr::value(Value::HexStringLiteral(digits))
        }
        ParameterValue::List(values) => {
            let (DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _)) =
                data_type
            else {
                return Err(Error::invalid(format!("a list is no value of the type {data_type}")));
            };
            let elem = values.iter().map(|value| of(value, element.data_type())).collect::<Result<_>>()?;
            cast(Expr::Array(Array { elem, named: true }), own_type()?)
        }
        ParameterValue::Text(text) => match data_type {
            // Kept as written, since a cast would round it to the scale of a column.
            DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..)
                if is_plain_number(text) =>
            {
                Expr::Nested(Box::new(number(text)))
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => string(text),
            _ => cast(string(text), own_type()?),
        },
    })
}

fn string(text: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(text.to_owned()))
}

fn number(text: &str) -> Expr {
    let digits = |text: &str| Expr::value(Value::Number(text.to_owned(), false));
    match text.strip_prefix('-') {
        Some(rest) => {
            Expr::UnaryOp { op: datafusion::sql::sqlparser::ast::UnaryOperator::Minus, expr: Box::new(digits(rest)) }
        }
        None => digits(text),
    }
}

/// Whether a text is a number without an exponent.
fn is_plain_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let points = digits.bytes().filter(|byte| *byte == b'.').count();
    points <= 1 && digits.bytes().any(|b| b.is_ascii_digit()) && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

fn cast(expr: Expr, data_type: SqlType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// Returns the SQL type that is planned as this type.
fn sql_type(data_type: &DataType) -> Result<SqlType> {
    let decimal = |precision: u8, scale: i8| {
        SqlType::Decimal(ExactNumberInfo::PrecisionAndScale(u64::from(precision), i64::from(scale)))
    };
    Ok(match data_type {
        DataType::Boolean => SqlType::Boolean,
        DataType::Int8 => SqlType::TinyInt(None),
        DataType::Int16 => SqlType::SmallInt(None),
        DataType::Int32 => SqlType::Int(None),
        DataType::Int64 => SqlType::BigInt(None),
        DataType::UInt8 => SqlType::TinyIntUnsigned(None),
        DataType::UInt16 => SqlType::SmallIntUnsigned(None),
        DataType::UInt32 => SqlType::IntUnsigned(None),
        DataType::UInt64 => SqlType::BigIntUnsigned(None),
        DataType::Float16 | DataType::Float32 => SqlType::Real,
        DataType::Float64 => SqlType::DoublePrecision,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => decimal(*precision, *scale),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => SqlType::Varchar(None),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            SqlType::Bytea
        }
        DataType::Date32 | DataType::Date64 => SqlType::Date,
        DataType::Time32(_) | DataType::Time64(_) => SqlType::Time(None, TimezoneInfo::None),
        DataType::Timestamp(unit, zone) => {
            let zone = if zone.is_some() { TimezoneInfo::WithTimeZone } else { TimezoneInfo::None };
            let digits = match unit {
                TimeUnit::Second => Some(0),
                TimeUnit::Millisecond => Some(3),
                TimeUnit::Microsecond => Some(6),
                TimeUnit::Nanosecond => None,
            };
            SqlType::Timestamp(digits, zone)
        }
        DataType::Interval(_) | DataType::Duration(_) => SqlType::Interval { fields: None, precision: None },
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            SqlType::Array(ArrayElemTypeDef::SquareBracket(Box::new(sql_type(element.data_type())?), None))
        }
        DataType::Dictionary(_, values) => sql_type(values)?,
        other => return Err(Error::unsupported(format!("a parameter of the type {other}"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_literals() {
        let written = |value: &str, data_type: &DataType| {
            of(&ParameterValue::Text(value.to_owned()), data_type).unwrap().to_string()
        };
        assert_eq!(written("it's", &DataType::Utf8), "'it''s'");
        assert_eq!(written("7", &DataType::Int32), "CAST('7' AS INT)");
        let decimal = DataType::Decimal128(15, 2);
        assert_eq!(written("-1.005", &decimal), "(-1.005)");
        // Text that is not a number must not become a piece of SQL.
        assert_eq!(written("1) OR (1=1", &decimal), "CAST('1) OR (1=1' AS DECIMAL(15,2))");
        assert_eq!(of(&ParameterValue::Null, &DataType::Date32).unwrap().to_string(), "CAST(NULL AS DATE)");
        assert_eq!(of(&ParameterValue::Bytes(vec![0, 255]), &DataType::Binary).unwrap().to_string(), "X'00ff'");
    }
}

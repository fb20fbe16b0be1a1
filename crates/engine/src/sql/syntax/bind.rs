//! Parameters of a statement: `?`, `$1` and `:name`.
//!
//! A value replaces its parameter in the syntax tree, as a literal. It is never parsed as text, and
//! every statement may have parameters wherever it may have an expression.
//!
//! [`number`] gives `?` a number before parsing, and [`replace`] puts expressions in the place of
//! parameters. Callers differ in what the expressions are: [`bind`] has values of a program,
//! [`super::parameters`] those of `EXECUTE`, and `session/prepare` those of a protocol.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use arrow::datatypes::{DataType, IntervalMonthDayNano, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Array, CastKind, DataType as SqlType, ExactNumberInfo, Expr, Interval, TimezoneInfo, UnaryOperator, Value,
    ValueWithSpan, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use pushdowndb_contract::{Error, Result};

use super::visit::visit;
use crate::error::from_datafusion;

/// Maximum number of parameters of a statement.
pub(crate) const MAX_PARAMETERS: usize = 65_535;

/// The values of a statement's parameters.
#[derive(Clone, Debug, Default)]
pub enum Parameters {
    /// The statement has no parameters.
    #[default]
    None,
    /// The values of `?` in their order, or of `$1`, `$2` and so on.
    Positional(Vec<ScalarValue>),
    /// The values of `:name` or `$name`. Values that no parameter names are ignored.
    Named(BTreeMap<String, ScalarValue>),
}

/// Numbers the parameters that are written `?`, in the order of the text: `?` becomes `$1`. If the
/// values have names, `?` stays as it is.
///
/// # Errors
///
/// Returns an error if the statement also has parameters with numbers, or if the number of
/// parameters differs from that of values.
pub(crate) fn number(tokens: &mut [TokenWithSpan], parameters: &Parameters) -> Result<()> {
    if matches!(parameters, Parameters::Named(_)) {
        return Ok(());
    }
    let (mut unnumbered, mut highest) = (0, 0);
    for token in tokens {
        let Token::Placeholder(name) = &mut token.token else { continue };
        match name.split_at_checked(1) {
            Some(("?", "")) => {
                unnumbered += 1;
                *name = format!("${unnumbered}");
            }
            Some(("?" | "$", number)) => highest = highest.max(number.parse().unwrap_or(0)),
            _ => {}
        }
    }
    if unnumbered > 0 && highest > 0 {
        return Err(Error::invalid("the parameters ? and $1 cannot be mixed in a statement"));
    }
    let wanted = unnumbered.max(highest);
    match parameters {
        Parameters::Positional(values) if values.len() != wanted => {
            Err(Error::invalid(format!("the statement has {wanted} parameters, and {} values", values.len())))
        }
        _ => Ok(()),
    }
}

/// Replaces the parameters by their values.
///
/// # Errors
///
/// Returns an error if a parameter has no value, or a value has no literal.
pub(crate) fn bind(statement: &mut Statement, parameters: &Parameters) -> Result<()> {
    if matches!(parameters, Parameters::None) {
        return Ok(());
    }
    replace(statement, &|parameter| {
        let value = parameters.value(parameter);
        let value = value.ok_or_else(|| Error::invalid(format!("the parameter {parameter} has no value")))?;
        let bound = literal(value).map_err(|error| error.context(format!("the value of the parameter {parameter}")));
        bound.map(Some)
    })
}

impl Parameters {
    /// Returns the value of the parameter that is written `$1` or `:name`.
    fn value(&self, parameter: &str) -> Option<&ScalarValue> {
        match self {
            Self::None => None,
            Self::Positional(values) => values.get(place(parameter).ok()?),
            Self::Named(values) => values.get(parameter.get(1..)?),
        }
    }
}

/// Replaces each parameter by the expression that `by` returns for its name, such as `$1`. If `by`
/// returns `None`, the parameter stays.
///
/// # Errors
///
/// Returns the first error of `by`.
pub(crate) fn replace(statement: &mut Statement, by: &dyn Fn(&str) -> Result<Option<Expr>>) -> Result<()> {
    match visit(statement, &mut Replace(by)) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

struct Replace<'a>(&'a dyn Fn(&str) -> Result<Option<Expr>>);

impl VisitorMut for Replace<'_> {
    type Break = Box<Error>;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        let Some(parameter) = name_of(expr) else { return ControlFlow::Continue(()) };
        match self.0(parameter) {
            Ok(Some(other)) => *expr = other,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(Box::new(error)),
        }
        ControlFlow::Continue(())
    }
}

/// Returns the name of a parameter as written; `None` if `expr` is not a parameter.
pub(crate) fn name_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) => Some(name),
        _ => None,
    }
}

/// Returns the index of the parameter `name`, which is 0 for `$1`.
///
/// # Errors
///
/// Returns an error if the name has another form or the number is too high.
pub(crate) fn place(name: &str) -> Result<usize> {
    let number = name.strip_prefix(['$', '?']).and_then(|digits| digits.parse::<usize>().ok());
    match number {
        Some(number @ 1..=MAX_PARAMETERS) => Ok(number - 1),
        _ => Err(Error::invalid(format!("{name} is no parameter: write ?, or $1 to ${MAX_PARAMETERS}"))),
    }
}

/// Returns a literal of `value`.
fn literal(value: &ScalarValue) -> Result<Expr> {
    if value.is_null() {
        return Ok(Expr::value(Value::Null));
    }
    Ok(match value {
        ScalarValue::Boolean(Some(yes)) => Expr::value(Value::Boolean(*yes)),
        ScalarValue::Binary(Some(bytes)) | ScalarValue::LargeBinary(Some(bytes)) => {
            let digits = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            Expr::value(Value::HexStringLiteral(digits))
        }
        ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano { months, days, nanoseconds })) => {
            let text = format!("{months} months {days} days {nanoseconds} nanoseconds");
            Expr::Interval(Interval {
                value: Box::new(Expr::value(Value::SingleQuotedString(text))),
                leading_field: None,
                leading_precision: None,
                last_field: None,
                fractional_seconds_precision: None,
            })
        }
        ScalarValue::List(list) => {
            let values = list.value(0);
            let element = |row| literal(&ScalarValue::try_from_array(&values, row).map_err(from_datafusion)?);
            Expr::Array(Array { elem: (0..values.len()).map(element).collect::<Result<_>>()?, named: true })
        }
        value => by_text(value)?,
    })
}

/// Returns the literal of a value that its text represents exactly.
fn by_text(value: &ScalarValue) -> Result<Expr> {
    let text = match value.cast_to(&DataType::Utf8).map_err(from_datafusion)? {
        ScalarValue::Utf8(Some(text)) => text,
        _ => return Err(Error::internal(format!("{} without a text", value.data_type()))),
    };
    let zone = |zone: bool| if zone { TimezoneInfo::WithTimeZone } else { TimezoneInfo::None };
    let sql_type = match value.data_type() {
        kind if kind.is_string() => return Ok(Expr::value(Value::SingleQuotedString(text))),
        kind if kind.is_integer() => {
            return Ok(match text.strip_prefix('-') {
                Some(digits) => Expr::Nested(Box::new(Expr::UnaryOp {
                    op: UnaryOperator::Minus,
                    expr: Box::new(Expr::value(Value::Number(digits.to_owned(), false))),
                })),
                None => Expr::value(Value::Number(text, false)),
            });
        }
        DataType::Float32 | DataType::Float64 => SqlType::Double(ExactNumberInfo::None),
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            SqlType::Decimal(ExactNumberInfo::PrecisionAndScale(precision.into(), scale.into()))
        }
        DataType::Date32 => SqlType::Date,
        DataType::Time64(_) => SqlType::Time(None, TimezoneInfo::None),
        DataType::Timestamp(TimeUnit::Microsecond, tz) => SqlType::Timestamp(Some(6), zone(tz.is_some())),
        DataType::Timestamp(TimeUnit::Nanosecond, tz) => SqlType::Timestamp(None, zone(tz.is_some())),
        other => return Err(Error::unsupported(format!("a parameter cannot be of the type {other}"))),
    };
    Ok(Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::value(Value::SingleQuotedString(text))),
        data_type: sql_type,
        array: false,
        format: None,
    })
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::*;

    fn bound(sql: &str, parameters: &Parameters) -> Result<String> {
        let mut tree = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
        bind(&mut tree, parameters)?;
        Ok(tree.to_string())
    }

    #[test]
    fn values_become_literals() {
        let text = |text: &str| ScalarValue::Utf8(Some(text.to_owned()));
        let named = [
            ("t", text("x' OR 1=1 --")),
            ("n", ScalarValue::Int64(Some(i64::MIN))),
            ("u", ScalarValue::UInt64(Some(u64::MAX))),
            ("f", ScalarValue::Float64(Some(0.1))),
            ("d", ScalarValue::Decimal128(Some(-1205), 4, 2)),
            ("b", ScalarValue::Binary(Some(vec![0, 255]))),
            ("z", ScalarValue::Null),
            ("when", ScalarValue::TimestampMicrosecond(Some(1), Some("UTC".into()))),
        ];
        let named = Parameters::Named(named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
        for (sql, expected) in [
            ("SELECT :t", "SELECT 'x'' OR 1=1 --'"),
            ("SELECT a - :n", "SELECT a - (-9223372036854775808)"),
            ("SELECT :u, $f", "SELECT 18446744073709551615, CAST('0.1' AS DOUBLE)"),
            (
                "SELECT a FROM t WHERE b = :d LIMIT :u",
                "SELECT a FROM t WHERE b = CAST('-12.05' AS DECIMAL(4,2)) LIMIT 18446744073709551615",
            ),
            ("SELECT f(:b, :z)", "SELECT f(X'00FF', NULL)"),
            ("SELECT :when", "SELECT CAST('1970-01-01T00:00:00.000001Z' AS TIMESTAMP(6) WITH TIME ZONE)"),
            (
                "EXPLAIN SELECT a FROM (SELECT 1 AS a WHERE :z) AS s",
                "EXPLAIN SELECT a FROM (SELECT 1 AS a WHERE NULL) AS s",
            ),
        ] {
            assert_eq!(bound(sql, &named).unwrap(), expected, "{sql}");
        }
        let error = bound("SELECT :missing", &named).unwrap_err().to_string();
        assert!(error.contains("the parameter :missing has no value"), "{error}");
    }
}

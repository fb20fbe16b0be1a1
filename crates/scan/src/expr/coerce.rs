//! Type coercion of operands by DataFusion's rules.
//!
//! There is one addition: a numeric constant that is exact in the other operand's type is converted
//! to that type. So a DECIMAL(15,2) column is not cast row by row because of a `24` in a
//! comparison. The meaning of the comparison does not change.

use std::sync::Arc;

use arrow::compute::{CastOptions, can_cast_types};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use arrow::util::display::FormatOptions;
use datafusion_common::ScalarValue;
use datafusion_common::config::ConfigOptions;
use datafusion_expr::type_coercion::binary::{BinaryTypeCoercer, comparison_coercion, like_coercion};
use datafusion_expr::type_coercion::functions::fields_with_udf;
use datafusion_expr::{Operator, ScalarUDF};
use datafusion_physical_expr::ScalarFunctionExpr;
use datafusion_physical_expr::expressions::{CastExpr, Literal, lit};
use pushdowndb_contract::{Error, Result};

use crate::error::from_datafusion;
use crate::expr::cast::decimal::DecimalToFloat;
use crate::expr::cast::text::TextCast;
use crate::expr::physical::Physical;
use crate::types::{is_exact_number, sql_type};

/// A value that does not fit becomes an error, never NULL.
const STRICT: CastOptions<'static> = CastOptions { safe: false, format_options: FormatOptions::new() };

/// Casts an expression strictly. Returns it unchanged if it has the type already, and a constant as
/// a folded constant.
pub(crate) fn cast(expr: Physical, to: &DataType, schema: &Schema) -> Result<Physical> {
    let from = expr.data_type(schema).map_err(from_datafusion)?;
    if from == *to {
        return Ok(expr);
    }
    if let Some(literal) = expr.downcast_ref::<Literal>()
        && (!from.is_string() || to.is_string() || literal.value().is_null())
    {
        return literal.value().cast_to(to).map(lit).map_err(from_datafusion);
    }
    let function = if from.is_string() && casts_from_text(to) {
        ScalarUDF::from(TextCast::new(to.clone()))
    } else if let Some(cast) = DecimalToFloat::new(&from, to) {
        ScalarUDF::from(cast)
    } else {
        return Ok(Arc::new(CastExpr::new(expr, to.clone(), Some(STRICT))));
    };
    let config = Arc::new(ConfigOptions::default());
    let call = ScalarFunctionExpr::try_new(Arc::new(function), vec![expr], schema, config);
    call.map(|call| Arc::new(call) as Physical).map_err(from_datafusion)
}

/// Returns whether casts from text to this type follow this project's rules instead of Arrow's.
pub(crate) fn casts_from_text(to: &DataType) -> bool {
    use DataType::{Boolean, Date32, Decimal128, Float32, Float64, Timestamp};
    to.is_integer() || matches!(to, Float32 | Float64 | Decimal128(..) | Boolean | Date32 | Timestamp(..))
}

/// Returns the type in which these operands are compared with each other.
pub(crate) fn comparison_type(operands: &[(&Physical, &DataType)]) -> Result<DataType> {
    let literal = |expr: &Physical| expr.downcast_ref::<Literal>().map(|l| l.value().clone());
    // It is the type of the first operand that is not a constant, if every constant is exact in it.
    if let Some((_, data_type)) = operands.iter().find(|(expr, _)| literal(expr).is_none())
        && operands
            .iter()
            .all(|(expr, own)| own == data_type || literal(expr).is_some_and(|value| holds_exactly(data_type, &value)))
    {
        return Ok((*data_type).clone());
    }
    let mut types = operands.iter().map(|(_, data_type)| *data_type);
    let first = types.next().cloned().unwrap_or(DataType::Null);
    types.try_fold(first, |common, next| {
        comparison_coercion(&common, next)
            .ok_or_else(|| Error::invalid(format!("{} cannot be compared with {}", sql_type(&common), sql_type(next))))
    })
}

/// Returns whether the constant is exact in this type: a cast to it and back does not change it.
fn holds_exactly(data_type: &DataType, value: &ScalarValue) -> bool {
    let from = value.data_type();
    let times = |t: &DataType| match t {
        DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, zone) => Some(zone.clone()),
        _ => None,
    };
    let text = data_type.is_string() && from.is_string();
    let same_clock = times(data_type).is_some() && times(data_type) == times(&from);
    if !(is_exact_number(data_type) && is_exact_number(&from) || text || same_clock) {
        return false;
    }
    let there = value.cast_to(data_type);
    there.and_then(|there| there.cast_to(&from)).is_ok_and(|back| back == *value)
}

pub(crate) fn operand_types(left: &DataType, op: Operator, right: &DataType) -> Result<(DataType, DataType)> {
    BinaryTypeCoercer::new(left, &op, right)
        .get_input_types()
        .map_err(|_| Error::invalid(format!("{op} does not go between {} and {}", sql_type(left), sql_type(right))))
}

/// Returns the type to which both operands of LIKE are cast.
pub(crate) fn like_type(value: &DataType, pattern: &DataType) -> Result<DataType> {
    like_coercion(value, pattern)
        .filter(DataType::is_string)
        .ok_or_else(|| Error::invalid(format!("LIKE needs text, not {}", sql_type(value))))
}

/// Casts the arguments to the types of the function.
pub(crate) fn arguments(function: &ScalarUDF, args: Vec<Physical>, schema: &Schema) -> Result<Vec<Physical>> {
    let fields = args
        .iter()
        .map(|arg| Ok(Arc::new(Field::new("", arg.data_type(schema)?, true))))
        .collect::<datafusion_common::Result<Vec<_>>>()
        .map_err(from_datafusion)?;
    let wanted = fields_with_udf(&fields, function).map_err(from_datafusion)?;
    args.into_iter()
        .zip(wanted)
        .map(|(arg, field)| {
            let from = arg.data_type(schema).map_err(from_datafusion)?;
            if !can_cast_types(&from, field.data_type()) {
                let name = function.name().to_uppercase();
                return Err(Error::invalid(format!("{name} does not take {}", sql_type(&from))));
            }
            cast(arg, field.data_type(), schema)
        })
        .collect()
}

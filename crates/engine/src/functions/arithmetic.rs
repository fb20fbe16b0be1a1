//! Arithmetic that fails if its result is out of the type's range. DataFusion 55.2 wraps around
//! instead.
//!
//! | operation | types | computed by |
//! | --- | --- | --- |
//! | `+`, `-`, `*` | integers | arrow's checked kernels |
//! | `+`, `-`, `*`, `/` | decimals whose result has the maximum precision | [`decimal_arithmetic`], as scans do |
//! | `-x` | signed integers | arrow's checked kernel |
//! | `<<`, `>>` | integers | [`shift`] |
//! | `+`, `-`, `*`, `/`, `%`, `-x` | floating-point numbers | [`float_arithmetic`], as scans do: no overflow, but one NaN |
//!
//! For dates, timestamps and intervals arrow checks the range itself. A scan evaluates the same
//! operations with the same errors, so [`crate::plan::lower`] can push them.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Datum, Int64Array};
use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type, Field, FieldRef,
    Int64Type,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;
use pushdowndb_scan::{decimal_arithmetic, float_arithmetic, float_negation};

/// An operator whose result is checked.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Checked {
    Binary(Operator),
    Negate,
}

impl Checked {
    /// Returns the checked form of `left op right`; `None` if DataFusion's own operator is checked
    /// or cannot overflow.
    pub(crate) fn of(left: &DataType, op: Operator, right: &DataType) -> Option<Self> {
        use Operator::{BitwiseShiftLeft, BitwiseShiftRight, Divide, Minus, Modulo, Multiply, Plus};
        let integers = left.is_integer() && right.is_integer();
        let checked = match op {
            Plus | Minus | Multiply if integers => true,
            BitwiseShiftLeft | BitwiseShiftRight => integers,
            Plus | Minus | Multiply | Divide | Modulo if is_float(left) => left == right,
            Plus | Minus | Multiply | Divide if left.is_decimal() && right.is_decimal() => {
                BinaryTypeCoercer::new(left, &op, right).get_result_type().is_ok_and(|result| is_widest(&result))
            }
            _ => false,
        };
        checked.then_some(Self::Binary(op))
    }

    /// The checked form of `-value`.
    pub(crate) fn negation(value: &DataType) -> Option<Self> {
        (value.is_signed_integer() || is_float(value)).then_some(Self::Negate)
    }

    /// The function that computes the operator.
    pub(crate) fn function(self) -> Arc<ScalarUDF> {
        let count = if self == Self::Negate { 1 } else { 2 };
        let signature = Signature::any(count, Volatility::Immutable);
        Arc::new(ScalarUDF::from(CheckedArithmetic { operation: self, signature }))
    }

    /// The operator of the function of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        use Operator::{BitwiseShiftLeft, BitwiseShiftRight, Divide, Minus, Modulo, Multiply, Plus};
        let binary = [Plus, Minus, Multiply, Divide, Modulo, BitwiseShiftLeft, BitwiseShiftRight].map(Self::Binary);
        binary.into_iter().chain([Self::Negate]).find(|checked| checked.function().name() == name)
    }

    /// The operator of a function that [`Self::function`] made.
    pub(crate) fn of_function(function: &ScalarUDF) -> Option<Self> {
        function.inner().downcast_ref::<CheckedArithmetic>().map(|function| function.operation)
    }
}

fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64)
}

/// Returns whether a decimal has the maximum precision. A result of lower precision has room for
/// every sum and product.
fn is_widest(data_type: &DataType) -> bool {
    match data_type {
        DataType::Decimal128(precision, _) => *precision == DECIMAL128_MAX_PRECISION,
        DataType::Decimal256(precision, _) => *precision == DECIMAL256_MAX_PRECISION,
        _ => false,
    }
}

#[derive(Debug, Eq, Hash, PartialEq)]
struct CheckedArithmetic {
    operation: Checked,
    signature: Signature,
}

impl CheckedArithmetic {
    fn result_type(&self, types: &[DataType]) -> Result<DataType> {
        match (self.operation, types) {
            (Checked::Binary(op), [left, right]) => BinaryTypeCoercer::new(left, &op, right).get_result_type(),
            (Checked::Negate, [value]) => Ok(value.clone()),
            _ => internal_err!("{} of {} values", self.name(), types.len()),
        }
    }
}

impl ScalarUDFImpl for CheckedArithmetic {
    fn name(&self) -> &str {
        match self.operation {
            Checked::Binary(Operator::Plus) => "checked_add",
            Checked::Binary(Operator::Minus) => "checked_subtract",
            Checked::Binary(Operator::Multiply) => "checked_multiply",
            Checked::Binary(Operator::Divide) => "checked_divide",
            Checked::Binary(Operator::Modulo) => "checked_modulo",
            Checked::Binary(Operator::BitwiseShiftLeft) => "checked_shift_left",
            Checked::Binary(_) => "checked_shift_right",
            Checked::Negate => "checked_negate",
        }
    }

    /// The column name without the check, as the statement spells the expression.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let mut name = String::new();
        write_name(self, args, &mut name)?;
        Ok(name)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.result_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.result_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match (self.operation, args.args.as_slice()) {
            (Checked::Negate, [value]) => {
                let array = value.to_array(args.number_rows)?;
                let negated = if is_float(array.data_type()) { float_negation(&array)? } else { numeric::neg(&array)? };
                Ok(ColumnarValue::Array(negated))
            }
            (Checked::Binary(op), [left, right]) => {
                if let Some(decimals) = decimal_arithmetic(op, &args.args, args.number_rows) {
                    return Ok(ColumnarValue::Array(decimals?));
                }
                let result = args.return_field.data_type();
                apply(left, right, |left, right| binary(op, left, right, result))
            }
            (_, args) => internal_err!("{} of {} values", self.name(), args.len()),
        }
    }
}

/// Appends the column name of `function` to `name`. Operands that are checked functions themselves
/// are appended recursively: as separate names, each level of a long sum would copy all levels
/// below it.
fn write_name(function: &CheckedArithmetic, args: &[Expr], name: &mut String) -> std::fmt::Result {
    let operand = |expr: &Expr, name: &mut String| {
        if let Expr::ScalarFunction(call) = expr
            && let Some(inner) = call.func.inner().downcast_ref::<CheckedArithmetic>()
        {
            return write_name(inner, &call.args, name);
        }
        write!(name, "{}", expr.schema_name())
    };
    match (function.operation, args) {
        (Checked::Binary(op), [left, right]) => {
            operand(left, name)?;
            write!(name, " {op} ")?;
            operand(right, name)
        }
        (_, [value]) => {
            name.push_str("(- ");
            operand(value, name)?;
            name.push(')');
            Ok(())
        }
        _ => name.write_str(function.name()),
    }
}

fn binary(op: Operator, left: &dyn Datum, right: &dyn Datum, result: &DataType) -> Result<ArrayRef, ArrowError> {
    if let Some(floats) = float_arithmetic(op, left, right) {
        return floats;
    }
    let computed = match op {
        Operator::Plus => numeric::add(left, right)?,
        Operator::Minus => numeric::sub(left, right)?,
        Operator::Multiply => numeric::mul(left, right)?,
        Operator::Divide => numeric::div(left, right)?,
        _ => return shift(op, left, right, result),
    };
    let fits = match computed.data_type() {
        DataType::Decimal128(digits, _) => {
            computed.as_primitive::<Decimal128Type>().validate_decimal_precision(*digits)
        }
        DataType::Decimal256(digits, _) => {
            computed.as_primitive::<Decimal256Type>().validate_decimal_precision(*digits)
        }
        _ => Ok(()),
    };
    let overflow = |error| ArrowError::ArithmeticOverflow(format!("Overflow happened on: {op} of decimals: {error}"));
    fits.map(|()| computed).map_err(overflow)
}

/// Shifts `left` by `right` bits. Bits lost to the left and a negative `right` are errors; a shift
/// to the right may lose all bits, as in DuckDB.
fn shift(op: Operator, left: &dyn Datum, right: &dyn Datum, result: &DataType) -> Result<ArrayRef, ArrowError> {
    let checked = CastOptions { safe: false, ..CastOptions::default() };
    let wide = |side: &dyn Datum| {
        let (array, is_scalar) = side.get();
        cast_with_options(array, &DataType::Int64, &checked).map(|array| (array, is_scalar))
    };
    let ((left, left_is_one), (right, right_is_one)) = (wide(left)?, wide(right)?);
    let (left, right) = (left.as_primitive::<Int64Type>(), right.as_primitive::<Int64Type>());
    let rows = match (left_is_one, right_is_one) {
        (true, false) => right.len(),
        _ => left.len(),
    };
    let value = |side: &Int64Array, is_one: bool, row: usize| {
        let row = if is_one { 0 } else { row };
        side.is_valid(row).then(|| side.value(row))
    };
    let shifted = (0..rows).map(|row| {
        let Some((value, by)) = value(left, left_is_one, row).zip(value(right, right_is_one, row)) else {
            return Ok(None);
        };
        let overflow = || ArrowError::ArithmeticOverflow(format!("Overflow happened on: {value} {op} {by}"));
        match (op, u32::try_from(by).map_err(|_| overflow())?) {
            (Operator::BitwiseShiftLeft, _) if value == 0 => Ok(Some(0)),
            (Operator::BitwiseShiftLeft, by) => {
                let shifted = 2_i64.checked_pow(by).and_then(|factor| value.checked_mul(factor));
                shifted.map(Some).ok_or_else(overflow)
            }
            (_, by) => Ok(Some(value >> by.min(i64::BITS - 1))),
        }
    });
    let shifted: Int64Array = shifted.collect::<Result<_, _>>()?;
    cast_with_options(&shifted, result, &checked)
        .map_err(|error| ArrowError::ArithmeticOverflow(format!("Overflow happened on: {op}: {error}")))
}

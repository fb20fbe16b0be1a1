//! Arithmetic of floating-point numbers with a single NaN.
//!
//! On some machines, the result of `0 * Infinity` is a NaN with the sign bit set. In the total
//! order by which values are compared, sorted and grouped, that NaN is less than all numbers and
//! different from `'NaN'`. Here, every NaN is converted to the positive one, which is greater than
//! all numbers and equal to itself.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Datum, PrimitiveArray};
use arrow::compute::kernels::numeric::{add, div, mul, neg, rem, sub};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::error::ArrowError;
use datafusion_common::{Result as DfResult, ScalarValue, internal_err};
use datafusion_expr::{ColumnarValue, Operator, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// Returns `left op right` of two floating-point arrays of the same type, row by row, with the
/// values of a scan. Returns `None` if `op` is not arithmetic or the types are different.
pub fn float_arithmetic(op: Operator, left: &dyn Datum, right: &dyn Datum) -> Option<Result<ArrayRef, ArrowError>> {
    let types = [left, right].map(|side| side.get().0.data_type());
    if types[0] != types[1] || !is_float(types[0]) {
        return None;
    }
    let kernel = kernel(op)?;
    Some(kernel(left, right).map(with_one_nan))
}

/// Returns `-value` of floating-point numbers, where `-NaN` is NaN.
pub fn float_negation(value: &dyn Array) -> Result<ArrayRef, ArrowError> {
    neg(value).map(with_one_nan)
}

/// Returns the values with every NaN replaced by the positive one.
pub fn with_one_nan(values: ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float32 => one_nan::<Float32Type>(values, f32::NAN, |value| value.is_nan()),
        DataType::Float64 => one_nan::<Float64Type>(values, f64::NAN, |value| value.is_nan()),
        _ => values,
    }
}

fn one_nan<T: ArrowPrimitiveType>(values: ArrayRef, nan: T::Native, is_nan: impl Fn(T::Native) -> bool) -> ArrayRef {
    let numbers = values.as_primitive::<T>();
    // NaNs are rare, so this has no early exit and can be vectorized.
    if !numbers.values().iter().fold(false, |found, value| found | is_nan(*value)) {
        return values;
    }
    let positive: PrimitiveArray<T> = numbers.unary(|value| if is_nan(value) { nan } else { value });
    Arc::new(positive)
}

fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64)
}

type Kernel = fn(&dyn Datum, &dyn Datum) -> Result<ArrayRef, ArrowError>;

fn kernel(op: Operator) -> Option<Kernel> {
    match op {
        Operator::Plus => Some(add),
        Operator::Minus => Some(sub),
        Operator::Multiply => Some(mul),
        Operator::Divide => Some(div),
        Operator::Modulo => Some(rem),
        _ => None,
    }
}

/// An operator on floating-point numbers: a binary one, or negation.
#[derive(Debug, Eq, Hash, PartialEq)]
pub(crate) struct FloatArithmetic {
    op: Option<Operator>,
    result: DataType,
    signature: Signature,
}

impl FloatArithmetic {
    /// Returns `None` for other types, or if there is no such operator.
    pub(crate) fn new(op: Operator, left: &DataType, right: &DataType) -> Option<Self> {
        (left == right && is_float(left) && kernel(op).is_some()).then(|| Self {
            op: Some(op),
            result: left.clone(),
            signature: Signature::any(2, Volatility::Immutable),
        })
    }

    /// Creates the negation of this type; `None` if it is not a floating-point type.
    pub(crate) fn negation(value: &DataType) -> Option<Self> {
        let signature = Signature::any(1, Volatility::Immutable);
        is_float(value).then(|| Self { op: None, result: value.clone(), signature })
    }
}

impl ScalarUDFImpl for FloatArithmetic {
    fn name(&self) -> &str {
        "float_arithmetic"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.result.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        match (self.op, args.args.as_slice()) {
            (None, [value]) => Ok(ColumnarValue::Array(float_negation(&value.to_array(args.number_rows)?)?)),
            (Some(op), [left, right]) => {
                let Some(computed) = float_arithmetic(op, &*datum(left)?, &*datum(right)?) else {
                    return internal_err!("{op} of {} and {}", left.data_type(), right.data_type());
                };
                Ok(match (left, right) {
                    (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)) => {
                        ColumnarValue::Scalar(ScalarValue::try_from_array(&computed?, 0)?)
                    }
                    _ => ColumnarValue::Array(computed?),
                })
            }
            (_, args) => internal_err!("{} of {} values", self.name(), args.len()),
        }
    }
}

fn datum(value: &ColumnarValue) -> DfResult<Box<dyn Datum>> {
    Ok(match value {
        ColumnarValue::Array(array) => Box::new(Arc::clone(array)),
        ColumnarValue::Scalar(scalar) => Box::new(scalar.to_scalar()?),
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::Float64Array;

    use super::*;

    #[test]
    fn what_is_not_a_number_is_positive() {
        let left = Float64Array::from(vec![f64::INFINITY, -f64::NAN, 1.0, 0.0, f64::INFINITY]);
        let right = Float64Array::from(vec![0.0, 1.0, 2.0, 0.0, f64::INFINITY]);
        for op in [Operator::Plus, Operator::Minus, Operator::Multiply, Operator::Divide, Operator::Modulo] {
            let computed = float_arithmetic(op, &left, &right).unwrap().unwrap();
            for value in computed.as_primitive::<Float64Type>().values() {
                assert!(!value.is_nan() || value.to_bits() == f64::NAN.to_bits(), "{op}: {value}");
            }
        }
        let product = float_arithmetic(Operator::Multiply, &left, &right).unwrap().unwrap();
        assert!(product.as_primitive::<Float64Type>().value(0).is_nan());
        assert_eq!(product.as_primitive::<Float64Type>().value(2), 2.0);
        let negated = float_negation(&Float64Array::from(vec![f64::NAN, 0.0, 1.0])).unwrap();
        let bits: Vec<u64> =
            negated.as_primitive::<Float64Type>().values().iter().map(|value| value.to_bits()).collect();
        assert_eq!(bits, [f64::NAN, -0.0, -1.0].map(f64::to_bits));
    }

    #[test]
    fn other_types_are_left_to_others() {
        let (wide, narrow) = (&DataType::Float64, &DataType::Float32);
        assert!(FloatArithmetic::new(Operator::Plus, wide, wide).is_some());
        assert!(FloatArithmetic::new(Operator::Plus, wide, narrow).is_none());
        assert!(FloatArithmetic::new(Operator::Eq, wide, wide).is_none());
        assert!(FloatArithmetic::negation(&DataType::Int64).is_none());
    }
}

//! Sums, differences and products of decimals with a fast path.
//!
//! Arrow's kernels check every row for an overflow of 128 bits. If the values of both operands fit
//! into 64 bits, there can be no overflow. A batch is computed on that assumption, and only if it
//! has larger values is Arrow's kernel used. Types, values and errors are those of Arrow.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, new_empty_array};
use arrow::buffer::NullBuffer;
use arrow::compute::kernels::numeric::{add, mul, sub};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef};
use arrow::error::ArrowError;
use datafusion_common::{Result as DfResult, ScalarValue};
use datafusion_expr::{
    ColumnarValue, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

/// The function `+`, `-` or `*` of two decimals.
#[derive(Debug, Eq, Hash, PartialEq)]
pub(crate) struct DecimalArithmetic {
    op: Operator,
    result: DataType,
    /// The factors that scale both operands to the scale of a sum.
    factors: [i64; 2],
    signature: Signature,
}

impl DecimalArithmetic {
    /// Returns `None` if there is no fast path for the types.
    pub(crate) fn new(op: Operator, left: &DataType, right: &DataType) -> Option<Self> {
        let (DataType::Decimal128(_, left_scale), DataType::Decimal128(_, right_scale)) = (left, right) else {
            return None;
        };
        let kernel = kernel(op)?;
        let result = kernel(&new_empty_array(left), &new_empty_array(right)).ok()?.data_type().clone();
        let factors = match (op, &result) {
            (Operator::Multiply, _) => [Some(1), Some(1)],
            (_, DataType::Decimal128(_, scale)) => {
                [left_scale, right_scale].map(|own| 10_i64.checked_pow(u32::try_from(scale.checked_sub(*own)?).ok()?))
            }
            _ => return None,
        };
        let [Some(left), Some(right)] = factors else { return None };
        Some(Self { op, result, factors: [left, right], signature: Signature::any(2, Volatility::Immutable) })
    }

    /// Returns the result; `None` unless all values fit into 64 bits.
    fn short(&self, left: &Side, right: &Side, rows: usize) -> Option<Vec<i128>> {
        let [left_factor, right_factor] = self.factors.map(i128::from);
        match self.op {
            Operator::Plus => each(left, right, rows, |a, b| a * left_factor + b * right_factor),
            Operator::Minus => each(left, right, rows, |a, b| a * left_factor - b * right_factor),
            _ => each(left, right, rows, |a, b| a * b),
        }
    }

    fn compute(&self, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef, ArrowError> {
        let [left, right] = args else {
            return Err(ArrowError::ComputeError(format!("{} of {} values", self.op, args.len())));
        };
        if let (Some(a), Some(b)) = (Side::of(left), Side::of(right))
            && let Some(values) = self.short(&a, &b, rows)
        {
            let nulls = NullBuffer::union(a.nulls(), b.nulls());
            let array = Decimal128Array::try_new(values.into(), nulls)?.with_data_type(self.result.clone());
            return Ok(Arc::new(array));
        }
        let kernel = kernel(self.op).ok_or_else(|| ArrowError::ComputeError(format!("no {} of decimals", self.op)))?;
        let [left, right] = [left, right].map(|side| match side {
            ColumnarValue::Array(array) => Ok(Arc::clone(array)),
            ColumnarValue::Scalar(value) => value.to_array_of_size(rows),
        });
        let computed = kernel(&left?, &right?)?;
        // Arrow checks for an overflow of 128 bits, which can hold some numbers of 39 digits.
        // Narrower result types have enough digits.
        if let DataType::Decimal128(digits @ DECIMAL128_MAX_PRECISION, _) = computed.data_type() {
            let fits = computed.as_primitive::<Decimal128Type>().validate_decimal_precision(*digits);
            fits.map_err(|error| {
                ArrowError::ArithmeticOverflow(format!("Overflow happened on: {} of decimals: {error}", self.op))
            })?;
        }
        Ok(computed)
    }
}

/// Returns `op` of two decimals row by row, with the values and errors of a scan. Returns `None`
/// for other types, and if Arrow's kernel has to compute it.
pub fn decimal_arithmetic(op: Operator, args: &[ColumnarValue], rows: usize) -> Option<Result<ArrayRef, ArrowError>> {
    let [left, right] = args else { return None };
    Some(DecimalArithmetic::new(op, &left.data_type(), &right.data_type())?.compute(args, rows))
}

type Kernel = fn(&ArrayRef, &ArrayRef) -> Result<ArrayRef, ArrowError>;

fn kernel(op: Operator) -> Option<Kernel> {
    match op {
        Operator::Plus => Some(|a, b| add(a, b)),
        Operator::Minus => Some(|a, b| sub(a, b)),
        Operator::Multiply => Some(|a, b| mul(a, b)),
        _ => None,
    }
}

enum Side<'a> {
    Rows(&'a Decimal128Array),
    /// One value for all rows.
    One(i128),
}

impl<'a> Side<'a> {
    fn of(value: &'a ColumnarValue) -> Option<Self> {
        match value {
            ColumnarValue::Array(array) => array.as_primitive_opt::<Decimal128Type>().map(Self::Rows),
            ColumnarValue::Scalar(ScalarValue::Decimal128(Some(value), ..)) => Some(Self::One(*value)),
            ColumnarValue::Scalar(_) => None,
        }
    }

    fn nulls(&self) -> Option<&NullBuffer> {
        match self {
            Self::Rows(array) => array.nulls(),
            Self::One(_) => None,
        }
    }
}

/// Applies `f` to each row. Returns `None` unless all values fit into 64 bits.
#[inline(always)]
fn each(left: &Side, right: &Side, rows: usize, f: impl Fn(i128, i128) -> i128) -> Option<Vec<i128>> {
    match (left, right) {
        (Side::Rows(a), Side::Rows(b)) => fitting(a.values().iter().zip(b.values()).map(|(a, b)| (*a, *b)), rows, f),
        (Side::Rows(a), Side::One(b)) => fitting(a.values().iter().map(|a| (*a, *b)), rows, f),
        (Side::One(a), Side::Rows(b)) => fitting(b.values().iter().map(|b| (*a, *b)), rows, f),
        (Side::One(_), Side::One(_)) => None,
    }
}

#[inline(always)]
fn fitting(
    pairs: impl ExactSizeIterator<Item = (i128, i128)>,
    rows: usize,
    f: impl Fn(i128, i128) -> i128,
) -> Option<Vec<i128>> {
    if pairs.len() != rows {
        return None;
    }
    // Has a bit set if any value exceeds its low 64 bits.
    let mut more = 0;
    let low = |value: i128| i128::from(value as i64);
    let values = pairs.map(|(a, b)| {
        more |= (a ^ low(a)) | (b ^ low(b));
        f(low(a), low(b))
    });
    let values = values.collect();
    (more == 0).then_some(values)
}

impl ScalarUDFImpl for DecimalArithmetic {
    fn name(&self) -> &str {
        match self.op {
            Operator::Plus => "decimal_add",
            Operator::Minus => "decimal_subtract",
            _ => "decimal_multiply",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.result.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> DfResult<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.result.clone(), nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        Ok(ColumnarValue::Array(self.compute(&args.args, args.number_rows)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: DataType = DataType::Decimal128(15, 2);
    const RATE: DataType = DataType::Decimal128(10, 4);
    const OPS: [Operator; 3] = [Operator::Plus, Operator::Minus, Operator::Multiply];

    fn decimals(values: &[Option<i128>], data_type: &DataType) -> ArrayRef {
        Arc::new(Decimal128Array::from(values.to_vec()).with_data_type(data_type.clone()))
    }

    #[test]
    fn results_are_those_of_arrow() {
        let a = decimals(&[Some(0), Some(-1), None, Some(i64::MAX.into()), Some(i64::MIN.into()), Some(7)], &PRICE);
        let b = decimals(&[Some(5), Some(i64::MIN.into()), Some(1), Some(i64::MAX.into()), None, Some(-7)], &RATE);
        let large = decimals(&[Some(1 << 64), Some(-(1 << 63) - 1), None, Some(0), Some(1), Some(2)], &PRICE);
        for op in OPS {
            let function = DecimalArithmetic::new(op, &PRICE, &RATE).unwrap();
            let sides = [&a, &b].map(|side| ColumnarValue::Array(Arc::clone(side)));
            let short = Side::of(&sides[0]).zip(Side::of(&sides[1])).and_then(|(a, b)| function.short(&a, &b, 6));
            assert!(short.is_some(), "{op}");
            for left in [&a, &large] {
                let expected = kernel(op).unwrap()(left, &b).unwrap();
                let args = [left, &b].map(|side| ColumnarValue::Array(Arc::clone(side)));
                assert_eq!(&function.compute(&args, 6).unwrap(), &expected, "{op}");
            }
            let one = ScalarValue::Decimal128(Some(100), 15, 2);
            let expected = kernel(op).unwrap()(&one.to_array_of_size(6).unwrap(), &b).unwrap();
            let args = [ColumnarValue::Scalar(one), ColumnarValue::Array(Arc::clone(&b))];
            assert_eq!(&function.compute(&args, 6).unwrap(), &expected, "{op}");
            let nothing = ScalarValue::Decimal128(None, 15, 2);
            let args = [ColumnarValue::Scalar(nothing), ColumnarValue::Array(Arc::clone(&b))];
            assert_eq!(function.compute(&args, 6).unwrap().null_count(), 6, "{op}");
        }
    }

    #[test]
    fn what_overflows_is_an_error() {
        let widest = DataType::Decimal128(38, 0);
        let six = ColumnarValue::Array(decimals(&[Some(6 * 10_i128.pow(37))], &widest));
        let sum = decimal_arithmetic(Operator::Plus, &[six.clone(), six], 1).unwrap();
        assert!(sum.unwrap_err().to_string().contains("overflow"), "12 and 37 zeros has 39 digits, and fits 128 bits");
        let most = ColumnarValue::Array(decimals(&[Some(i128::MAX), Some(1)], &widest));
        for op in [Operator::Plus, Operator::Multiply] {
            let function = DecimalArithmetic::new(op, &widest, &widest).unwrap();
            assert!(function.compute(&[most.clone(), most.clone()], 2).is_err(), "{op}");
        }
        assert!(DecimalArithmetic::new(Operator::Divide, &widest, &widest).is_none());
        assert!(DecimalArithmetic::new(Operator::Plus, &DataType::Int64, &widest).is_none());
        let scales = (DataType::Decimal128(38, 0), DataType::Decimal128(38, 30));
        assert!(DecimalArithmetic::new(Operator::Plus, &scales.0, &scales.1).is_none(), "a factor of 10^30");
    }
}

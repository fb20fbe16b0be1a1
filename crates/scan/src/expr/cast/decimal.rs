//! Casts from decimals to floating-point numbers with a fast path.
//!
//! To convert a 128-bit integer takes a routine, to convert a 64-bit integer one instruction. If
//! all values of a batch fit into 64 bits, which is checked while they are converted, the
//! instruction is used. Values and rounding are those of Arrow.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef};
use datafusion_common::Result as DfResult;
use datafusion_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use crate::expr::physical::on_array;

/// The function `CAST(decimal AS DOUBLE)`.
#[derive(Debug, Eq, Hash, PartialEq)]
pub(crate) struct DecimalToFloat {
    signature: Signature,
}

impl DecimalToFloat {
    /// Returns `None` if there is no fast path between the types.
    pub(crate) fn new(from: &DataType, to: &DataType) -> Option<Self> {
        let casts = matches!((from, to), (DataType::Decimal128(..), DataType::Float64));
        casts.then(|| Self { signature: Signature::any(1, Volatility::Immutable) })
    }
}

/// Converts the values to floating-point numbers.
fn to_float(array: &ArrayRef) -> DfResult<ArrayRef> {
    if let (Some(decimals), DataType::Decimal128(_, scale)) =
        (array.as_primitive_opt::<Decimal128Type>(), array.data_type())
        && let Some(values) = short(decimals.values(), 10_f64.powi(i32::from(*scale)))
    {
        return Ok(Arc::new(Float64Array::try_new(values.into(), decimals.nulls().cloned())?));
    }
    Ok(cast(array, &DataType::Float64)?)
}

/// Divides each value by `divisor`. Returns `None` unless all values fit into 64 bits.
fn short(values: &[i128], divisor: f64) -> Option<Vec<f64>> {
    // Has a bit set if any value exceeds its low 64 bits.
    let mut more = 0;
    let floats = values.iter().map(|value| {
        let low = *value as i64;
        more |= *value ^ i128::from(low);
        low as f64 / divisor
    });
    let floats = floats.collect();
    (more == 0).then_some(floats)
}

impl ScalarUDFImpl for DecimalToFloat {
    fn name(&self) -> &str {
        "decimal_to_float"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Float64)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> DfResult<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), DataType::Float64, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        on_array(args, to_float)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Decimal128Array;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn values_are_those_of_arrow_to_the_last_bit() {
        let mut values: Vec<Option<i128>> = vec![None, Some(0), Some(-1), Some(i64::MAX.into()), Some(i64::MIN.into())];
        let mut random = StdRng::seed_from_u64(7);
        values.extend((0..2000).map(|row| Some(i128::from(random.random::<i64>() >> (row % 60)))));
        let large = [1 << 63, -(1 << 63) - 1, i128::MAX / 10, i128::MIN / 10].map(Some);
        for scale in [0, 2, 4, 17, 30, -3] {
            let array = |values: &[Option<i128>]| -> ArrayRef {
                let data_type = DataType::Decimal128(38, scale);
                Arc::new(Decimal128Array::from(values.to_vec()).with_data_type(data_type))
            };
            let ordinary = array(&values);
            assert!(short(ordinary.as_primitive::<Decimal128Type>().values(), 1.0).is_some());
            assert!(large.iter().all(|value| short(&[value.unwrap()], 1.0).is_none()));
            for array in [ordinary, array(&large), array(&[&values[..], &large].concat()), array(&[])] {
                let expected = cast(&array, &DataType::Float64).unwrap();
                assert_eq!(&to_float(&array).unwrap(), &expected, "scale {scale}");
            }
        }
        assert!(DecimalToFloat::new(&DataType::Decimal128(15, 2), &DataType::Float32).is_none());
    }
}

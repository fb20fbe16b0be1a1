//! Probing a Bloom filter for each row.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, TimeUnit};
use datafusion_common::Result as DfResult;
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use pushdown::{BloomFilter, Error, Key, Result};

use crate::dynamic::{Value, constant_or_rows};
use crate::errors::{from_arrow, from_datafusion};
use crate::number::Number;
use crate::types::{is_text, sql_type};

/// `BLOOM_CONTAINS(value)` of one filter.
#[derive(Debug)]
pub(crate) struct Probe {
    filter: Arc<BloomFilter>,
    /// The values are tokens of JSON.
    tokens: bool,
    signature: Signature,
}

impl Probe {
    pub(crate) fn new(filter: Arc<BloomFilter>, tokens: bool) -> Self {
        Self { filter, tokens, signature: Signature::any(1, Volatility::Immutable) }
    }

    fn probe(&self, values: &ArrayRef) -> Result<BooleanArray> {
        let filter = &self.filter;
        let data_type = values.data_type();
        if self.tokens {
            return self.probe_tokens(values);
        }
        let as_type = |to: &DataType| cast(values, to).map_err(from_arrow);
        Ok(match data_type {
            DataType::Null => BooleanArray::new_null(values.len()),
            DataType::Boolean => {
                values.as_boolean().iter().map(|v| v.map(|v| filter.contains(Key::Boolean(v)))).collect()
            }
            t if t.is_integer() || *t == DataType::Date32 => {
                // A date is its days since 1970, which Arrow casts to by way of 32 bits.
                let whole = if *t == DataType::Date32 { as_type(&DataType::Int32)? } else { Arc::clone(values) };
                let whole = cast(&whole, &DataType::Int64).map_err(from_arrow)?;
                whole.as_primitive::<Int64Type>().iter().map(|v| v.map(|v| filter.contains(Key::Int(v)))).collect()
            }
            DataType::Timestamp(_, zone) => {
                let micros = as_type(&DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))?;
                let micros = cast(&micros, &DataType::Int64).map_err(from_arrow)?;
                micros.as_primitive::<Int64Type>().iter().map(|v| v.map(|v| filter.contains(Key::Int(v)))).collect()
            }
            DataType::Decimal128(_, scale) => {
                let contains = |v| filter.contains(Key::Decimal(v, *scale));
                values.as_primitive::<Decimal128Type>().iter().map(|v| v.map(contains)).collect()
            }
            DataType::Float64 | DataType::Float32 | DataType::Float16 => {
                let floats = as_type(&DataType::Float64)?;
                floats.as_primitive::<Float64Type>().iter().map(|v| v.map(|v| filter.contains(Key::Float(v)))).collect()
            }
            t if is_text(t) => {
                let text = as_type(&DataType::Utf8)?;
                text.as_string::<i32>().iter().map(|v| v.map(|v| filter.contains(Key::Text(v)))).collect()
            }
            other => return Err(Error::invalid(format!("BLOOM_CONTAINS does not take {}", sql_type(other)))),
        })
    }

    fn probe_tokens(&self, tokens: &ArrayRef) -> Result<BooleanArray> {
        let tokens = cast(tokens, &DataType::Utf8).map_err(from_arrow)?;
        let mut results = BooleanBuilder::new();
        for token in tokens.as_string::<i32>() {
            let value = token.map_or(Value::Null, Value::of);
            let key = match &value {
                Value::Null => None,
                Value::Boolean(value) => Some(Key::Boolean(*value)),
                Value::Number(Number::Int(value)) => Some(Key::Int(*value)),
                Value::Number(Number::Decimal(value, scale)) => {
                    Some(Key::Decimal(*value, i8::try_from(*scale).unwrap_or(i8::MAX)))
                }
                Value::Number(Number::Float(value)) => Some(Key::Float(*value)),
                Value::Text(text) => Some(Key::Text(text)),
                Value::Nested(text) => Some(Key::Text(text)),
            };
            results.append_option(key.map(|key| self.filter.contains(key)));
        }
        Ok(results.finish())
    }
}

impl PartialEq for Probe {
    fn eq(&self, other: &Self) -> bool {
        self.tokens == other.tokens && self.filter == other.filter
    }
}

impl Eq for Probe {}

impl Hash for Probe {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.tokens, self.filter.size_bytes()).hash(state);
    }
}

impl ScalarUDFImpl for Probe {
    fn name(&self) -> &str {
        "bloom_contains"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        constant_or_rows(&args, |rows| {
            let values = args.args.first().cloned().ok_or_else(|| Error::internal("nothing to look for"))?;
            Ok(Arc::new(self.probe(&values.into_array(rows).map_err(from_datafusion)?)?))
        })
    }
}

//! Bloom filters and long lists: the keys of rows, and probing with them.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBuilder, Int64Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, TimeUnit, UInt64Type};
use datafusion_common::Result as DfResult;
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use foldhash::fast::RandomState;
use pushdowndb_contract::{BloomFilter, Error, Key, Result, and_key};

use crate::error::{from_arrow, from_datafusion};
use crate::expr::bloom_answers::Answers;
use crate::expr::functions::json::{Value, constant_or_rows};
use crate::expr::number::Number;
use crate::types::sql_type;

/// A set that is probed with keys.
#[derive(Debug)]
pub(crate) enum Asked {
    /// A Bloom filter, with its cached answers for integers.
    Filter(Arc<BloomFilter>, Box<Answers>),
    Numbers(HashSet<i64, RandomState>),
}

impl Asked {
    /// Returns whether the set may contain the integer.
    #[inline]
    pub(crate) fn may_hold_number(&self, number: i64) -> bool {
        match self {
            Self::Filter(filter, _) if filter.is_of_numbers() => filter.contains(Key::Int(number)),
            Self::Filter(filter, answers) => answers.of(number, || filter.contains(Key::Int(number))),
            Self::Numbers(numbers) => numbers.contains(&number),
        }
    }

    fn may_hold(&self, key: Key<'_>) -> bool {
        match (self, key) {
            (_, Key::Int(number)) => self.may_hold_number(number),
            (Self::Filter(filter, _), key) => filter.contains(key),
            // Lists are probed with integers only.
            (Self::Numbers(_), _) => false,
        }
    }

    fn may_hold_hash(&self, hash: u64) -> bool {
        match self {
            Self::Filter(filter, _) => filter.contains_hash(hash),
            Self::Numbers(_) => true,
        }
    }
}

impl PartialEq for Asked {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Filter(one, _), Self::Filter(other, _)) => one == other,
            (Self::Numbers(one), Self::Numbers(other)) => one == other,
            _ => false,
        }
    }
}

/// The function `BLOOM_CONTAINS(value, …)` of one filter, or `value IN (…)` for many integers.
#[derive(Debug)]
pub(crate) struct Probe {
    asked: Arc<Asked>,
    /// For each value, whether it is a JSON token.
    tokens: Vec<bool>,
    signature: Signature,
}

impl Probe {
    pub(crate) fn new(filter: Arc<BloomFilter>, tokens: Vec<bool>) -> Self {
        let signature = Signature::any(tokens.len(), Volatility::Immutable);
        Self { asked: Arc::new(Asked::Filter(filter, Box::new(Answers::new()))), tokens, signature }
    }

    /// Creates the probe of a list of integers.
    pub(crate) fn one_of(numbers: impl Iterator<Item = i64>) -> Self {
        let signature = Signature::any(1, Volatility::Immutable);
        Self { asked: Arc::new(Asked::Numbers(numbers.collect())), tokens: vec![false], signature }
    }

    /// Returns the set if it is probed with the plain values of a single column, and otherwise
    /// `None`.
    pub(crate) fn of_one_value(&self) -> Option<&Arc<Asked>> {
        (self.tokens == [false]).then_some(&self.asked)
    }

    fn probe(&self, values: &[ArrayRef]) -> Result<BooleanArray> {
        let missing = || Error::internal("nothing to look for");
        let columns: Vec<(&ArrayRef, bool)> = values.iter().zip(self.tokens.iter().copied()).collect();
        let ((first, is_token), others) = columns.split_first().ok_or_else(missing)?;
        if others.is_empty() {
            if let Some(numbers) = whole(first)?.filter(|_| !is_token) {
                let (values, nulls) = (numbers.values(), numbers.nulls().cloned());
                let found = BooleanBuffer::from_iter(values.iter().map(|number| self.asked.may_hold_number(*number)));
                return Ok(BooleanArray::new(found, nulls));
            }
            let mut results = BooleanBuilder::with_capacity(first.len());
            each_key(first, *is_token, &mut |key| results.append_option(key.map(|key| self.asked.may_hold(key))))?;
            return Ok(results.finish());
        }
        let mut hashes: Vec<Option<u64>> = Vec::with_capacity(first.len());
        each_key(first, *is_token, &mut |key| hashes.push(key.map(Key::hash)))?;
        for (values, is_token) in others {
            let mut before = hashes.iter_mut();
            each_key(values, *is_token, &mut |key| {
                if let Some(before) = before.next() {
                    *before = before.zip(key).map(|(before, key)| and_key(before, key.hash()));
                }
            })?;
        }
        Ok(hashes.into_iter().map(|hash| hash.map(|hash| self.asked.may_hold_hash(hash))).collect())
    }
}

/// Calls `f` with the key of each value, or `None` for NULL.
fn each_key(values: &ArrayRef, is_token: bool, f: &mut dyn FnMut(Option<Key<'_>>)) -> Result<()> {
    if !is_token {
        return for_each_key(values, f);
    }
    let tokens = cast(values, &DataType::Utf8).map_err(from_arrow)?;
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
        f(key);
    }
    Ok(())
}

/// Returns the values as 64-bit integers; `None` unless all values of the type are such integers.
fn whole(values: &ArrayRef) -> Result<Option<Int64Array>> {
    let as_type = |values: &ArrayRef, to: &DataType| cast(values, to).map_err(from_arrow);
    let values = match values.data_type() {
        // Half of its values do not fit into 64-bit signed integers.
        DataType::UInt64 => return Ok(None),
        t if t.is_integer() => Arc::clone(values),
        // A date is its number of days since 1970, a 32-bit integer in Arrow.
        DataType::Date32 => as_type(values, &DataType::Int32)?,
        DataType::Timestamp(_, zone) => as_type(values, &DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))?,
        _ => return Ok(None),
    };
    Ok(Some(as_type(&values, &DataType::Int64)?.as_primitive::<Int64Type>().clone()))
}

/// Calls `f` with the key of each value, or `None` for NULL. With the same keys, a
/// [`pushdowndb_contract::Expr::Bloom`] probes its filter.
pub fn for_each_key(values: &ArrayRef, f: &mut dyn FnMut(Option<Key<'_>>)) -> Result<()> {
    if let Some(numbers) = whole(values)? {
        numbers.iter().for_each(|v| f(v.map(Key::Int)));
        return Ok(());
    }
    let as_type = |to: &DataType| cast(values, to).map_err(from_arrow);
    match values.data_type() {
        DataType::Null => (0..values.len()).for_each(|_| f(None)),
        DataType::Boolean => values.as_boolean().iter().for_each(|v| f(v.map(Key::Boolean))),
        DataType::UInt64 => {
            values.as_primitive::<UInt64Type>().iter().for_each(|v| f(v.map(|v| Key::Decimal(i128::from(v), 0))));
        }
        DataType::Decimal128(_, scale) => {
            values.as_primitive::<Decimal128Type>().iter().for_each(|v| f(v.map(|v| Key::Decimal(v, *scale))));
        }
        DataType::Float64 | DataType::Float32 | DataType::Float16 => {
            let floats = as_type(&DataType::Float64)?;
            floats.as_primitive::<Float64Type>().iter().for_each(|v| f(v.map(Key::Float)));
        }
        t if t.is_string() => {
            let text = as_type(&DataType::Utf8)?;
            text.as_string::<i32>().iter().for_each(|v| f(v.map(Key::Text)));
        }
        other => return Err(Error::invalid(format!("BLOOM_CONTAINS does not take {}", sql_type(other)))),
    }
    Ok(())
}

impl PartialEq for Probe {
    fn eq(&self, other: &Self) -> bool {
        self.tokens == other.tokens && self.asked == other.asked
    }
}

impl Eq for Probe {}

impl Hash for Probe {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let size = match &*self.asked {
            Asked::Filter(filter, _) => filter.size_bytes(),
            Asked::Numbers(numbers) => numbers.len(),
        };
        (&self.tokens, size).hash(state);
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
            let values = args.args.iter().map(|value| value.clone().into_array(rows).map_err(from_datafusion));
            Ok(Arc::new(self.probe(&values.collect::<Result<Vec<_>>>()?)?))
        })
    }
}

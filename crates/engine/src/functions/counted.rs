//! Aggregates that count how often each value occurs, `mode` and `histogram`, and `product`.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, MapArray, StructArray, UInt64Array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Float64Type, UInt64Type};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

/// Returns the functions of this module.
pub(crate) fn functions() -> [Arc<AggregateUDF>; 3] {
    [Asked::Mode, Asked::Histogram, Asked::Product].map(|asked| {
        let signature = match asked {
            Asked::Product => Signature::exact(vec![DataType::Float64], Volatility::Immutable),
            _ => Signature::any(1, Volatility::Immutable),
        };
        Arc::new(AggregateUDF::from(Counted { asked, signature }))
    })
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Asked {
    /// The most frequent value; of several, the least.
    Mode,
    /// A map of the values and how often they occur.
    Histogram,
    Product,
}

#[derive(Debug, Eq, Hash, PartialEq)]
struct Counted {
    asked: Asked,
    signature: Signature,
}

/// Returns the fields of a map from values of this type to counts.
fn entries(value: &DataType) -> Fields {
    vec![Field::new("key", value.clone(), false), Field::new("value", DataType::UInt64, true)].into()
}

fn map_type(value: &DataType) -> DataType {
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries(value)), false)), false)
}

impl AggregateUDFImpl for Counted {
    fn name(&self) -> &str {
        match self.asked {
            Asked::Mode => "mode",
            Asked::Histogram => "histogram",
            Asked::Product => "product",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match (self.asked, types) {
            (Asked::Mode, [value]) => value.clone(),
            (Asked::Histogram, [value]) => map_type(value),
            _ => DataType::Float64,
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let list = |name: &str, of: DataType| Arc::new(Field::new(name, DataType::new_list(of, true), true));
        Ok(match (self.asked, args.input_fields) {
            (Asked::Product, _) => vec![Arc::new(Field::new("product", DataType::Float64, true))],
            (_, [value]) => vec![list("values", value.data_type().clone()), list("counts", DataType::UInt64)],
            (_, fields) => return exec_err!("{} of {} values", self.name(), fields.len()),
        })
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let [field] = args.expr_fields else { return exec_err!("{} takes one value", self.name()) };
        let value = field.data_type().clone();
        Ok(match self.asked {
            Asked::Product => Box::new(Product { product: None }),
            asked => Box::new(Counts { asked, value, counts: HashMap::new(), bytes: 0 }),
        })
    }
}

/// How often each value occurs.
#[derive(Debug)]
struct Counts {
    asked: Asked,
    value: DataType,
    counts: HashMap<ScalarValue, u64>,
    /// The memory of the values in bytes.
    bytes: usize,
}

impl Counts {
    fn add(&mut self, values: &ArrayRef, row: usize, count: u64) -> Result<()> {
        if values.is_null(row) {
            return Ok(());
        }
        let value = ScalarValue::try_from_array(values, row)?.compacted();
        let bytes = value.size();
        *self.counts.entry(value).or_insert_with(|| {
            self.bytes += bytes;
            0
        }) += count;
        Ok(())
    }

    /// The values in their order, with their counts.
    fn sorted(&self) -> Vec<(&ScalarValue, u64)> {
        let mut all: Vec<_> = self.counts.iter().map(|(value, count)| (value, *count)).collect();
        all.sort_by(|(one, _), (other, _)| one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal));
        all
    }

    fn arrays(&self) -> Result<(ArrayRef, ArrayRef)> {
        let all = self.sorted();
        let counts: UInt64Array = all.iter().map(|(_, count)| Some(*count)).collect();
        let values = match all.is_empty() {
            true => datafusion::arrow::array::new_empty_array(&self.value),
            false => ScalarValue::iter_to_array(all.into_iter().map(|(value, _)| value.clone()))?,
        };
        Ok((values, Arc::new(counts)))
    }
}

impl Accumulator for Counts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values] = values else { return exec_err!("one value is expected") };
        (0..values.len()).try_for_each(|row| self.add(values, row, 1))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [values, counts] = states else { return exec_err!("two states are expected") };
        for (values, counts) in values.as_list::<i32>().iter().zip(counts.as_list::<i32>().iter()) {
            let (Some(values), Some(counts)) = (values, counts) else { continue };
            let counts = counts.as_primitive::<UInt64Type>();
            for (row, count) in counts.iter().enumerate() {
                self.add(&values, row, count.unwrap_or(0))?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let (values, counts) = self.arrays()?;
        let list = |array| SingleRowListArrayBuilder::new(array).build_list_scalar();
        Ok(vec![list(values), list(counts)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.asked == Asked::Mode {
            let most = self.sorted().into_iter().rev().max_by_key(|(_, count)| *count);
            return most.map_or_else(|| ScalarValue::try_from(&self.value), |(value, _)| Ok(value.clone()));
        }
        if self.counts.is_empty() {
            return ScalarValue::try_from(&map_type(&self.value));
        }
        let (values, counts) = self.arrays()?;
        let length = values.len();
        let pairs = StructArray::try_new(entries(&self.value), vec![values, counts], None)?;
        let field = Arc::new(Field::new("entries", pairs.data_type().clone(), false));
        let map = MapArray::try_new(field, OffsetBuffer::from_lengths([length]), pairs, None, false)?;
        Ok(ScalarValue::Map(Arc::new(map)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes + self.counts.capacity() * size_of::<(ScalarValue, u64)>()
    }
}

/// The product of all values that are not NULL.
#[derive(Debug)]
struct Product {
    product: Option<f64>,
}

impl Accumulator for Product {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values] = values else { return exec_err!("one value is expected") };
        let values = cast(values, &DataType::Float64)?;
        for value in values.as_primitive::<Float64Type>().iter().flatten() {
            self.product = Some(self.product.unwrap_or(1.0) * value);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Float64(self.product)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.product))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

//! SUM of integers that says when it leaves 64 bits, as the sums of scans do; DataFusion's comes round and says nothing.
//!
//! Sums are kept in 128 bits. A partial sum that leaves 64 is an error too: its state has no more.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, UInt64Array};
use datafusion::arrow::datatypes::{DataType, FieldRef, Int64Type, UInt64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature,
};
use pushdown::Error;

use crate::error::to_datafusion;

/// The function.
pub(crate) fn function() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(CheckedSum(sum_udaf())))
}

#[derive(Debug, Eq, Hash, PartialEq)]
struct CheckedSum(Arc<AggregateUDF>);

/// The integers of 64 bits that are added.
#[derive(Clone, Copy, Debug)]
enum Whole {
    Signed,
    Unsigned,
}

impl Whole {
    fn of(args: &AccumulatorArgs<'_>) -> Option<Self> {
        match args.return_field.data_type() {
            DataType::Int64 if !args.is_distinct => Some(Self::Signed),
            DataType::UInt64 if !args.is_distinct => Some(Self::Unsigned),
            _ => None,
        }
    }

    /// Gives the values of an array that are not NULL, with their places.
    fn each(self, values: &ArrayRef, mut take: impl FnMut(usize, i128)) {
        match self {
            Self::Signed => {
                let values = values.as_primitive::<Int64Type>();
                values.iter().enumerate().for_each(|(at, value)| value.into_iter().for_each(|v| take(at, v.into())));
            }
            Self::Unsigned => {
                let values = values.as_primitive::<UInt64Type>();
                values.iter().enumerate().for_each(|(at, value)| value.into_iter().for_each(|v| take(at, v.into())));
            }
        }
    }

    fn array(self, sums: &[Option<i128>]) -> Result<ArrayRef> {
        let overflow = || {
            let message = format!("SUM is out of the range of {}; cast its argument to DECIMAL", self.name());
            to_datafusion(Error::invalid(message))
        };
        Ok(match self {
            Self::Signed => {
                let sums = sums.iter().map(|sum| sum.map(i64::try_from).transpose());
                Arc::new(sums.collect::<std::result::Result<Int64Array, _>>().map_err(|_| overflow())?)
            }
            Self::Unsigned => {
                let sums = sums.iter().map(|sum| sum.map(u64::try_from).transpose());
                Arc::new(sums.collect::<std::result::Result<UInt64Array, _>>().map_err(|_| overflow())?)
            }
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Signed => "BIGINT",
            Self::Unsigned => "BIGINT UNSIGNED",
        }
    }
}

impl AggregateUDFImpl for CheckedSum {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.inner().return_type(types)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.inner().coerce_types(types)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.0.inner().state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match Whole::of(&args) {
            Some(of) => Ok(Box::new(Sum { of, sum: None })),
            None => self.0.inner().accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.0.inner().create_sliding_accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.0.inner().groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        match Whole::of(&args) {
            Some(of) => Ok(Box::new(Sums { of, sums: Vec::new() })),
            None => self.0.inner().create_groups_accumulator(args),
        }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.0.inner().order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.0.inner().reverse_expr()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.0.inner().set_monotonicity(data_type)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.inner().documentation()
    }
}

/// The sum of all rows.
#[derive(Debug)]
struct Sum {
    of: Whole,
    sum: Option<i128>,
}

impl Sum {
    fn value(&self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.of.array(&[self.sum])?, 0)
    }
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for values in values {
            // 2^64 rows of 64 bits fit.
            self.of.each(values, |_, value| self.sum = Some(self.sum.unwrap_or(0).wrapping_add(value)));
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.value()
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The sums of groups.
#[derive(Debug)]
struct Sums {
    of: Whole,
    sums: Vec<Option<i128>>,
}

impl GroupsAccumulator for Sums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.sums.resize(count, None);
        let counts = |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        for values in values {
            self.of.each(values, |row, value| {
                if counts(row)
                    && let Some(sum) = groups.get(row).and_then(|group| self.sums.get_mut(*group))
                {
                    *sum = Some(sum.unwrap_or(0).wrapping_add(value));
                }
            });
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.update_batch(states, groups, None, count)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let state = |values: &ArrayRef| {
            let mut each = Self { of: self.of, sums: Vec::new() };
            let groups: Vec<usize> = (0..values.len()).collect();
            each.update_batch(std::slice::from_ref(values), &groups, filter, values.len())?;
            each.of.array(&each.sums)
        };
        values.iter().map(state).collect()
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        self.of.array(&emit.take_needed(&mut self.sums))
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<Option<i128>>()
    }
}

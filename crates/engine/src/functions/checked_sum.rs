//! SUM of integers and of decimals that fails on overflow, as the sums of scans do. DataFusion's
//! wraps around.
//!
//! Sums are kept in 128 bits. A partial sum that overflows its type is an error too, since its
//! state has that type.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Int64Array, UInt64Array};
use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Int64Type, UInt64Type};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator};
use pushdowndb_contract::Error;

use crate::error::to_datafusion;

/// Returns the function `sum`.
pub(crate) fn function() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(CheckedSum(sum_udaf())))
}

#[derive(Debug, Eq, Hash, PartialEq)]
struct CheckedSum(Arc<AggregateUDF>);

/// The kind of the numbers and of their sum.
#[derive(Clone, Copy, Debug)]
enum Whole {
    Signed,
    Unsigned,
    /// Decimals of 38 digits with this scale. Sums of narrower decimals are left to DataFusion:
    /// they have ten more digits than the numbers, and overflow only after 10^10 rows.
    Decimal(i8),
}

impl Whole {
    fn of(args: &AccumulatorArgs<'_>) -> Option<Self> {
        match args.return_field.data_type() {
            DataType::Int64 => Some(Self::Signed),
            DataType::UInt64 => Some(Self::Unsigned),
            DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale) => Some(Self::Decimal(*scale)),
            _ => None,
        }
    }

    /// Passes each value that is not NULL to `take`, with its row.
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
            Self::Decimal(_) => {
                let values = values.as_primitive::<Decimal128Type>();
                values.iter().enumerate().for_each(|(at, value)| value.into_iter().for_each(|v| take(at, v)));
            }
        }
    }

    fn overflow(self) -> DataFusionError {
        let advice = if let Self::Decimal(_) = self { "DOUBLE" } else { "DECIMAL" };
        to_datafusion(Error::invalid(format!(
            "SUM is out of the range of {}; cast its argument to {advice}",
            self.name()
        )))
    }

    fn array(self, sums: &[Option<i128>]) -> Result<ArrayRef> {
        let overflow = || self.overflow();
        Ok(match self {
            Self::Signed => {
                let sums = sums.iter().map(|sum| sum.map(i64::try_from).transpose());
                Arc::new(sums.collect::<std::result::Result<Int64Array, _>>().map_err(|_| overflow())?)
            }
            Self::Unsigned => {
                let sums = sums.iter().map(|sum| sum.map(u64::try_from).transpose());
                Arc::new(sums.collect::<std::result::Result<UInt64Array, _>>().map_err(|_| overflow())?)
            }
            Self::Decimal(scale) => {
                let sums: Decimal128Array = sums.iter().copied().collect();
                sums.validate_decimal_precision(DECIMAL128_MAX_PRECISION).map_err(|_| overflow())?;
                Arc::new(sums.with_precision_and_scale(DECIMAL128_MAX_PRECISION, scale)?)
            }
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Signed => "BIGINT",
            Self::Unsigned => "BIGINT UNSIGNED",
            Self::Decimal(_) => "DECIMAL of 38 digits",
        }
    }
}

impl AggregateUDFImpl for CheckedSum {
    pushdowndb_scan::delegate_aggregate!();

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match Whole::of(&args) {
            Some(of) if args.is_distinct => Ok(Box::new(DistinctSum { of, values: HashSet::new() })),
            Some(of) => Ok(Box::new(Sum::new(of))),
            None => self.0.inner().accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match Whole::of(&args).filter(|_| !args.is_distinct) {
            Some(of) => Ok(Box::new(Sum::new(of))),
            None => self.0.inner().create_sliding_accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.0.inner().groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        match Whole::of(&args).filter(|_| !args.is_distinct) {
            Some(of) => Ok(Box::new(Sums { of, sums: Vec::new(), is_over: false })),
            None => self.0.inner().create_groups_accumulator(args),
        }
    }
}

/// The sum of all rows, or of those in the frame of a window.
#[derive(Debug)]
struct Sum {
    of: Whole,
    sum: i128,
    /// Number of rows that are not NULL; without any, the sum is NULL.
    rows: u64,
    /// Whether 128 bits overflowed: the sum of 2^64 integers fits, but not that of two of the
    /// largest decimals.
    is_over: bool,
}

impl Sum {
    fn new(of: Whole) -> Self {
        Self { of, sum: 0, rows: 0, is_over: false }
    }

    fn add(&mut self, value: i128) {
        let (sum, is_over) = self.sum.overflowing_add(value);
        (self.sum, self.rows, self.is_over) = (sum, self.rows + 1, self.is_over || is_over);
    }

    fn value(&self) -> Result<ScalarValue> {
        if self.is_over {
            return Err(self.of.overflow());
        }
        ScalarValue::try_from_array(&self.of.array(&[(self.rows > 0).then_some(self.sum)])?, 0)
    }
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for values in values {
            self.of.each(values, |_, value| self.add(value));
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for values in values {
            self.of.each(values, |_, value| {
                let (sum, is_over) = self.sum.overflowing_sub(value);
                (self.sum, self.rows, self.is_over) = (sum, self.rows.saturating_sub(1), self.is_over || is_over);
            });
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
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

/// The sum of distinct values; its state is a list of them.
#[derive(Debug)]
struct DistinctSum {
    of: Whole,
    values: HashSet<i128>,
}

impl Accumulator for DistinctSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for values in values {
            self.of.each(values, |_, value| _ = self.values.insert(value));
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for state in states {
            for values in state.as_list::<i32>().iter().flatten() {
                self.of.each(&values, |_, value| _ = self.values.insert(value));
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values: Vec<Option<i128>> = self.values.iter().copied().map(Some).collect();
        let array = self.of.array(&values)?;
        Ok(vec![ScalarValue::List(Arc::new(SingleRowListArrayBuilder::new(array).build_list_array()))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut sum = Sum::new(self.of);
        self.values.iter().for_each(|value| sum.add(*value));
        sum.value()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<i128>()
    }
}

/// The sums of all groups.
#[derive(Debug)]
struct Sums {
    of: Whole,
    sums: Vec<Option<i128>>,
    /// Whether 128 bits overflowed for a group.
    is_over: bool,
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
                    let (added, is_over) = sum.unwrap_or(0).overflowing_add(value);
                    *sum = Some(added);
                    self.is_over |= is_over;
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
            let mut each = Self { of: self.of, sums: Vec::new(), is_over: false };
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
        if self.is_over {
            return Err(self.of.overflow());
        }
        self.of.array(&emit.take_needed(&mut self.sums))
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<Option<i128>>()
    }
}

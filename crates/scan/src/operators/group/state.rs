//! The states of one aggregate for all groups.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Int64Array, PrimitiveArray, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Decimal128Type, Field, Int64Type, SchemaRef, UInt64Type};
use datafusion_expr::{AggregateUDF, EmitTo, GroupsAccumulator};
use datafusion_functions_aggregate::average::avg_udaf;
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_functions_aggregate::variance::var_pop_udaf;
use datafusion_physical_expr::GroupsAccumulatorAdapter;
use pushdowndb_contract::{AggregateCall, AggregateFunction, Error, Result};

use crate::error::{from_arrow, from_datafusion};
use crate::expr::coerce;
use crate::expr::lower::lower;
use crate::expr::physical::Physical;
use crate::operators::aggregate::accumulator::{aggregate_expr, numeric, sum_overflow, sums, variance_state};
use crate::operators::aggregate::extremes;
use crate::operators::aggregate::tokens::TokenTotal;

/// The estimated bytes of the state of a new group.
pub(crate) const STATE_BYTES: usize = size_of::<Option<i128>>();

/// One aggregate of all groups.
pub(crate) enum State {
    CountRows(Vec<i64>),
    Count(Physical, Vec<i64>),
    /// The sum of Int64, UInt64 or Decimal128 values.
    Sum(Physical, DataType, Vec<Option<i128>>),
    Tokens(Physical, AggregateFunction, Vec<TokenTotal>),
    Other(Physical, DataType, Box<dyn GroupsAccumulator>),
    /// One of the states of a variance, computed by DataFusion's accumulator.
    Variance(Physical, usize, Box<dyn GroupsAccumulator>),
}

impl State {
    pub(crate) fn new(call: &AggregateCall, schema: &SchemaRef) -> Result<Self> {
        let function = call.function;
        let Some(argument) = &call.argument else {
            return match function {
                AggregateFunction::Count => Ok(Self::CountRows(vec![])),
                _ => Err(Error::invalid(format!("{} needs an argument", function.sql()))),
            };
        };
        let lowered = lower(argument, schema)?;
        if call.yields_token() {
            return Ok(Self::Tokens(lowered, function, vec![]));
        }
        match function {
            AggregateFunction::Count => Ok(Self::Count(lowered, vec![])),
            AggregateFunction::Min => Self::other(extremes::min(), lowered, schema),
            AggregateFunction::Max => Self::other(extremes::max(), lowered, schema),
            AggregateFunction::Avg => Self::other(avg_udaf(), numeric(lowered, function, schema)?, schema),
            AggregateFunction::Mean | AggregateFunction::SquaredDeviations => {
                match Self::other(var_pop_udaf(), numeric(lowered, function, schema)?, schema)? {
                    Self::Other(argument, _, accumulator) => {
                        Ok(Self::Variance(argument, variance_state(function), accumulator))
                    }
                    _ => Err(Error::internal("a variance without an accumulator")),
                }
            }
            AggregateFunction::Sum => {
                let argument = numeric(lowered, function, schema)?;
                let (to, result) = match argument.data_type(schema).map_err(from_datafusion)? {
                    t if t.is_signed_integer() => (DataType::Int64, DataType::Int64),
                    t if t.is_unsigned_integer() => (DataType::UInt64, DataType::UInt64),
                    t @ DataType::Decimal128(precision, scale) => {
                        (t, DataType::Decimal128((precision + 10).min(38), scale))
                    }
                    _ => return Self::other(sum_udaf(), argument, schema),
                };
                Ok(Self::Sum(coerce::cast(argument, &to, schema)?, result, vec![]))
            }
        }
    }

    fn other(function: Arc<AggregateUDF>, argument: Physical, schema: &SchemaRef) -> Result<Self> {
        let (aggregate, argument) = aggregate_expr(&function, argument, schema).map_err(from_datafusion)?;
        let data_type = aggregate.field().data_type().clone();
        let accumulator: Box<dyn GroupsAccumulator> = if aggregate.groups_accumulator_supported() {
            aggregate.create_groups_accumulator().map_err(from_datafusion)?
        } else {
            // One accumulator per group is slower, but correct for every type.
            Box::new(GroupsAccumulatorAdapter::new(move || aggregate.create_accumulator()))
        };
        Ok(Self::Other(argument, data_type, accumulator))
    }

    /// Returns the field of the result.
    pub(crate) fn field(&self, name: &str) -> Field {
        let (data_type, nullable) = match self {
            Self::CountRows(_) | Self::Count(..) => (DataType::Int64, false),
            Self::Tokens(..) => (DataType::Utf8, true),
            Self::Variance(..) => (DataType::Float64, false),
            Self::Sum(_, data_type, _) | Self::Other(_, data_type, _) => (data_type.clone(), true),
        };
        Field::new(name, data_type, nullable)
    }

    /// Adds the rows of a batch to their `groups`. There are `count` groups in total now.
    pub(crate) fn update(&mut self, batch: &RecordBatch, groups: &[usize], count: usize) -> Result<()> {
        let rows = batch.num_rows();
        let values = |expr: &Physical| expr.evaluate(batch).and_then(|v| v.into_array(rows)).map_err(from_datafusion);
        match self {
            Self::CountRows(counts) => {
                counts.resize(count, 0);
                add_counts(groups.iter().map(|group| (*group, 1)), counts);
            }
            Self::Count(expr, counts) => {
                counts.resize(count, 0);
                match values(expr)?.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
                    None => add_counts(groups.iter().map(|group| (*group, 1)), counts),
                    Some(nulls) => {
                        add_counts(groups.iter().zip(&nulls).map(|(group, valid)| (*group, i64::from(valid))), counts);
                    }
                }
            }
            Self::Sum(expr, data_type, totals) => {
                totals.resize(count, None);
                let values = values(expr)?;
                match values.data_type() {
                    DataType::UInt64 => add_each(values.as_primitive::<UInt64Type>(), groups, totals),
                    DataType::Decimal128(..) => add_each(values.as_primitive::<Decimal128Type>(), groups, totals),
                    _ => add_each(values.as_primitive::<Int64Type>(), groups, totals),
                }
                .ok_or_else(|| sum_overflow(data_type))?;
            }
            Self::Tokens(expr, function, totals) => {
                totals.resize(count, TokenTotal::new(*function));
                let values = values(expr)?;
                for (token, group) in values.as_string::<i32>().iter().zip(groups) {
                    if let (Some(token), Some(total)) = (token, totals.get_mut(*group)) {
                        total.add(token)?;
                    }
                }
            }
            Self::Other(expr, _, accumulator) | Self::Variance(expr, _, accumulator) => {
                accumulator.update_batch(&[values(expr)?], groups, None, count).map_err(from_datafusion)?;
            }
        }
        Ok(())
    }

    /// Merges another state of the same aggregate. Its group `i` is merged into the group
    /// `groups[i]`. There are `count` groups in total now.
    pub(crate) fn merge(&mut self, later: Self, groups: &[usize], count: usize) -> Result<()> {
        match (self, later) {
            (Self::CountRows(counts), Self::CountRows(later)) | (Self::Count(_, counts), Self::Count(_, later)) => {
                counts.resize(count, 0);
                add_counts(groups.iter().copied().zip(later), counts);
            }
            (Self::Sum(_, data_type, totals), Self::Sum(_, _, later)) => {
                totals.resize(count, None);
                for (group, more) in groups.iter().zip(later) {
                    if let (Some(total), Some(more)) = (totals.get_mut(*group), more) {
                        let sum = total.unwrap_or(0).checked_add(more);
                        *total = Some(sum.ok_or_else(|| sum_overflow(data_type))?);
                    }
                }
            }
            (Self::Tokens(_, function, totals), Self::Tokens(_, _, later)) => {
                totals.resize(count, TokenTotal::new(*function));
                for (group, more) in groups.iter().zip(later) {
                    if let Some(total) = totals.get_mut(*group) {
                        total.merge(more)?;
                    }
                }
            }
            (Self::Other(_, _, accumulator), Self::Other(_, _, mut later))
            | (Self::Variance(_, _, accumulator), Self::Variance(_, _, mut later)) => {
                let states = later.state(EmitTo::All).map_err(from_datafusion)?;
                accumulator.merge_batch(&states, groups, count).map_err(from_datafusion)?;
            }
            _ => return Err(Error::internal("a state of another aggregate")),
        }
        Ok(())
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::CountRows(counts) | Self::Count(_, counts) => counts.len() * 8,
            Self::Sum(_, _, totals) => totals.len() * size_of::<Option<i128>>(),
            Self::Tokens(_, _, totals) => {
                totals.len() * size_of::<TokenTotal>() + totals.iter().map(TokenTotal::bytes).sum::<usize>()
            }
            Self::Other(_, _, accumulator) | Self::Variance(_, _, accumulator) => accumulator.size(),
        }
    }

    pub(crate) fn finish(self, count: usize) -> Result<ArrayRef> {
        Ok(match self {
            Self::CountRows(counts) | Self::Count(_, counts) => Arc::new(Int64Array::from(counts)),
            Self::Sum(_, data_type, totals) => sums(totals, &data_type)?,
            Self::Tokens(_, _, totals) => {
                Arc::new(totals.into_iter().map(TokenTotal::finish).collect::<Result<StringArray>>()?)
            }
            Self::Variance(_, place, mut accumulator) => {
                let states = accumulator.state(EmitTo::All).map_err(from_datafusion)?;
                let state = states.into_iter().nth(place);
                state.ok_or_else(|| Error::internal("a variance with too few states"))?
            }
            Self::Other(_, data_type, mut accumulator) => {
                if count == 0 {
                    return Ok(arrow::array::new_empty_array(&data_type));
                }
                let values = accumulator.evaluate(EmitTo::All).map_err(from_datafusion)?;
                arrow::compute::cast(&values, &data_type).map_err(from_arrow)?
            }
        })
    }
}

/// Sums of a batch in 64 bits, in several lanes per group. Consecutive rows often belong to the
/// same group; with lanes, their additions do not have to wait for each other.
struct Lanes(Vec<[i64; LANES]>);

const LANES: usize = 4;

impl Lanes {
    /// Returns whether there are few enough groups, relative to the rows of a batch, for lanes to
    /// pay.
    fn are_worth_it(groups: usize, rows: usize) -> bool {
        groups.saturating_mul(LANES) <= rows && rows <= MAX_LANE_ROWS
    }

    /// Sums these values for `count` groups. The result is undefined if values do not fit.
    fn of(rows: impl Iterator<Item = (usize, i64)>, count: usize) -> Self {
        let mut sums = vec![[0_i64; LANES]; count];
        for (row, (group, value)) in rows.enumerate() {
            if let Some(sum) = sums.get_mut(group).and_then(|lanes| lanes.get_mut(row % LANES)) {
                *sum = sum.wrapping_add(value);
            }
        }
        Self(sums)
    }

    fn each(self) -> impl Iterator<Item = i64> {
        self.0.into_iter().map(|lanes| lanes.into_iter().fold(0, i64::wrapping_add))
    }
}

/// Adds the count of each row to that of its group.
fn add_counts(rows: impl ExactSizeIterator<Item = (usize, i64)>, counts: &mut [i64]) {
    if Lanes::are_worth_it(counts.len(), rows.len()) {
        let sums = Lanes::of(rows, counts.len());
        return counts.iter_mut().zip(sums.each()).for_each(|(count, sum)| *count += sum);
    }
    for (group, more) in rows {
        if let Some(count) = counts.get_mut(group) {
            *count += more;
        }
    }
}

/// The maximum number of rows of a batch that are added in lanes, and the maximum value for which
/// the sum of that many rows fits into 64 bits.
const MAX_LANE_ROWS: usize = 1 << 20;
const MAX_LANE_VALUE: i128 = 1 << 42;

/// Adds values to the totals of their groups in lanes. Does nothing and returns false if there are
/// too many groups or the values are too large.
fn add_in_lanes<T: ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    groups: &[usize],
    totals: &mut [Option<i128>],
) -> bool
where
    i128: From<T::Native>,
{
    // A group without a total is new, or has had only NULLs and may not occur in this batch.
    if !Lanes::are_worth_it(totals.len(), values.len()) || values.null_count() > 0 || totals.contains(&None) {
        return false;
    }
    let mut large = false;
    let values = values.values().iter().map(|value| {
        let value = i128::from(*value);
        large |= !(-MAX_LANE_VALUE..MAX_LANE_VALUE).contains(&value);
        value as i64
    });
    let sums = Lanes::of(groups.iter().copied().zip(values), totals.len());
    // A total that is far from the limits of its type does not overflow.
    large |= totals.iter().flatten().any(|total| total.unsigned_abs() >= 1 << 126);
    if !large {
        totals.iter_mut().flatten().zip(sums.each()).for_each(|(total, sum)| *total += <i128 as From<i64>>::from(sum));
    }
    !large
}

/// Adds each value to the total of its group. Returns `None` if a total overflows 128 bits.
fn add_each<T: ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    groups: &[usize],
    totals: &mut [Option<i128>],
) -> Option<()>
where
    i128: From<T::Native>,
{
    if add_in_lanes(values, groups, totals) {
        return Some(());
    }
    let mut fits = true;
    let mut add = |group: usize, value: T::Native| {
        if let Some(total) = totals.get_mut(group) {
            let (sum, overflows) = total.unwrap_or(0).overflowing_add(i128::from(value));
            *total = Some(sum);
            fits &= !overflows;
        }
    };
    if values.null_count() == 0 {
        values.values().iter().zip(groups).for_each(|(value, group)| add(*group, *value));
    } else {
        values.iter().zip(groups).filter_map(|(value, group)| Some((value?, group))).for_each(|(v, g)| add(*g, v));
    }
    fits.then_some(())
}

#[cfg(test)]
mod tests {
    use arrow::array::Decimal128Array;

    use super::*;

    #[test]
    fn sums_in_lanes_are_the_same_sums() {
        let rows = 1000;
        let groups: Vec<usize> = (0..rows).map(|row| row * row % 7).collect();
        let sums = |values: &[i128], start: &[Option<i128>]| {
            let mut totals = start.to_vec();
            let mut one_by_one = vec![0; start.len()];
            for (value, group) in values.iter().zip(&groups) {
                one_by_one[*group] += value;
            }
            let array = Decimal128Array::from(values.to_vec());
            let in_lanes = add_in_lanes(&array, &groups, &mut totals);
            if !in_lanes {
                assert_eq!(totals, start, "nothing is added twice");
            }
            add_each(&array, &groups, &mut totals).unwrap();
            let times = if in_lanes { 2 } else { 1 };
            let expected = start.iter().zip(one_by_one).map(|(start, sum)| match (start, sum) {
                (None, 0) => None,
                (start, sum) => Some(start.unwrap_or(0) + sum * times),
            });
            assert_eq!(totals, expected.collect::<Vec<_>>());
            in_lanes
        };
        let small: Vec<i128> = (0..rows as i128).map(|row| (row - 500) * (MAX_LANE_VALUE / 501)).collect();
        let large: Vec<i128> = small.iter().map(|value| value * 2).collect();
        let start: Vec<Option<i128>> = (0..7).map(|group| Some(group * 1_000_000 - 5)).collect();
        assert!(sums(&small, &start));
        assert!(!sums(&large, &start), "64 bits are too few");
        assert!(!sums(&small, &[None; 7]), "which groups have a value is not known");
        assert!(!sums(&small, &[Some(i128::MAX / 2 + 1); 7]), "128 bits may be too few");
    }

    #[test]
    fn counts_are_the_same_for_few_groups_and_many() {
        let groups = [0, 1, 1, 4, 0, 1, 4, 1, 1, 0, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0];
        for of in [5, 6, 1000] {
            let mut counts = vec![10; of];
            add_counts(groups.iter().map(|group| (*group, 1)), &mut counts);
            assert_eq!(counts[..5], [17, 19, 12, 10, 12], "{of}");
        }
    }
}

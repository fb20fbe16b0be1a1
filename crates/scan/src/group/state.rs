//! What is kept for each group and aggregate.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Int64Array, PrimitiveArray, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Decimal128Type, Field, Int64Type, SchemaRef, UInt64Type};
use datafusion_expr::{AggregateUDF, EmitTo, GroupsAccumulator};
use datafusion_functions_aggregate::average::avg_udaf;
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_functions_aggregate::variance::var_pop_udaf;
use datafusion_physical_expr::GroupsAccumulatorAdapter;
use pushdown::{AggregateCall, AggregateFunction, Error, Result};

use crate::aggregate::{aggregate_expr, numeric, sum_overflow, sums, variance_state};
use crate::coerce;
use crate::errors::{from_arrow, from_datafusion};
use crate::lower::{Physical, lower};
use crate::token_aggregate::TokenTotal;

/// What a state of a new group probably costs.
pub(super) const STATE_BYTES: usize = size_of::<Option<i128>>();

/// One aggregate of all groups.
pub(super) enum State {
    CountRows(Vec<i64>),
    Count(Physical, Vec<i64>),
    /// Over Int64, UInt64 or Decimal128.
    Sum(Physical, DataType, Vec<Option<i128>>),
    Tokens(Physical, AggregateFunction, Vec<TokenTotal>),
    Other(Physical, DataType, Box<dyn GroupsAccumulator>),
    /// One of the states that DataFusion keeps for a variance.
    Variance(Physical, usize, Box<dyn GroupsAccumulator>),
}

impl State {
    pub(super) fn new(call: &AggregateCall, schema: &SchemaRef) -> Result<Self> {
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
            AggregateFunction::Min => Self::other(min_udaf(), lowered, schema),
            AggregateFunction::Max => Self::other(max_udaf(), lowered, schema),
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
            // One accumulator for each group: slower, and right for every type.
            Box::new(GroupsAccumulatorAdapter::new(move || aggregate.create_accumulator()))
        };
        Ok(Self::Other(argument, data_type, accumulator))
    }

    /// The column of the result.
    pub(super) fn field(&self, name: &str) -> Field {
        let (data_type, nullable) = match self {
            Self::CountRows(_) | Self::Count(..) => (DataType::Int64, false),
            Self::Tokens(..) => (DataType::Utf8, true),
            Self::Variance(..) => (DataType::Float64, false),
            Self::Sum(_, data_type, _) | Self::Other(_, data_type, _) => (data_type.clone(), true),
        };
        Field::new(name, data_type, nullable)
    }

    /// Adds the rows of a batch to their groups, of which there are `count` by now.
    pub(super) fn update(&mut self, batch: &RecordBatch, groups: &[usize], count: usize) -> Result<()> {
        let rows = batch.num_rows();
        let values = |expr: &Physical| expr.evaluate(batch).and_then(|v| v.into_array(rows)).map_err(from_datafusion);
        match self {
            Self::CountRows(counts) => {
                counts.resize(count, 0);
                for group in groups {
                    if let Some(count) = counts.get_mut(*group) {
                        *count += 1;
                    }
                }
            }
            Self::Count(expr, counts) => {
                counts.resize(count, 0);
                let values = values(expr)?;
                let nulls = values.logical_nulls().filter(|nulls| nulls.null_count() > 0);
                for (row, group) in groups.iter().enumerate() {
                    if let Some(count) = counts.get_mut(*group) {
                        *count += i64::from(nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)));
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

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::CountRows(counts) | Self::Count(_, counts) => counts.len() * 8,
            Self::Sum(_, _, totals) => totals.len() * size_of::<Option<i128>>(),
            Self::Tokens(_, _, totals) => {
                totals.len() * size_of::<TokenTotal>() + totals.iter().map(TokenTotal::bytes).sum::<usize>()
            }
            Self::Other(_, _, accumulator) | Self::Variance(_, _, accumulator) => accumulator.size(),
        }
    }

    pub(super) fn finish(self, count: usize) -> Result<ArrayRef> {
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

/// Adds each value to the total of its group; `None` if one does not fit 128 bits.
fn add_each<T: ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    groups: &[usize],
    totals: &mut [Option<i128>],
) -> Option<()>
where
    i128: From<T::Native>,
{
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
